// Token: prompts for a token once and keeps it for this tab.

import { field, openDialog } from "./dialogs.js";
import { h } from "./dom.js";

export function askForToken(sentence) {
  return new Promise((resolve) => {
    let given = null;
    const input = h("input", { type: "password", autocomplete: "off" });
    openDialog({
      title: "This service needs a token", submit: "Continue",
      content: [h("p", { class: "quiet" }, `${sentence} The token is kept until you close this tab.`), field("Token", input)],
      done: async () => {
        given = input.value.trim();
        if (!given) throw new Error("The token is empty.");
      },
      closed: () => resolve(given),
    });
  });
}
