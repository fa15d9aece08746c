// Token: asked for once, kept for this tab.

import { field, openDialog } from "./dialogs.js";
import { h } from "./dom.js";

export function askForToken(sentence) {
  return new Promise((resolve) => {
    let given = null;
    const input = h("input", { type: "password", autocomplete: "off" });
    openDialog({
      title: "This service asks for a token", submit: "Go on",
      content: [h("p", { class: "quiet" }, `${sentence} It is kept until this tab is closed.`), field("Token", input)],
      done: async () => {
        given = input.value.trim();
        if (!given) throw new Error("The token is empty.");
      },
      closed: () => resolve(given),
    });
  });
}
