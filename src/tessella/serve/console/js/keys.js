// Keys: single-key shortcuts. They do nothing while typing in a field, and can be switched off.

import { openDialog } from "./dialogs.js";
import { byId, h, sign } from "./dom.js";

const TYPING = "input:not([type=range], [type=checkbox], [type=radio]), select, textarea";
const OFF = "tessella-keys-off";
const isOff = () => localStorage.getItem(OFF) === "1";

/** `actions` maps each key to a description and a function. */
export function startKeys(actions) {
  const all = { ...actions, "?": ["Show this help", () => help(all)] };
  const button = byId("keys-button");
  button.append(sign("keys"));
  button.addEventListener("click", () => help(all));
  document.addEventListener("keydown", (event) => {
    if (isOff() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]") || event.target.closest(TYPING)) return;
    const action = all[event.key];
    if (!action) return;
    event.preventDefault();
    action[1]();
  });
}

function help(actions) {
  const rows = Object.entries(actions).flatMap(([key, [text]]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)]);
  const box = h("input", { type: "checkbox", checked: !isOff(), onchange: () => localStorage.setItem(OFF, box.checked ? "0" : "1") });
  openDialog({
    title: "Keyboard shortcuts", cancel: "Close",
    content: [
      h("dl", { class: "keys" }, ...rows, h("dt", {}, h("kbd", {}, "\u2191"), " ", h("kbd", {}, "\u2193")), h("dd", {}, "Move through the list or suggestions")),
      h("label", { class: "check" }, box, "Enable single-key shortcuts"),
    ],
  });
}
