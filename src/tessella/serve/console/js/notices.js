// Notices: short messages at the edge of the page.

import { byId, h } from "./dom.js";

const SHOWN = 5000;

export function notice(text, { bad = false } = {}) {
  const made = h("p", { class: bad ? "notice bad" : "notice" }, text);
  byId("notices").append(made);
  setTimeout(() => made.remove(), bad ? 2 * SHOWN : SHOWN);
}
