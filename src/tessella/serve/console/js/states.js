// States: what is shown in place of a list that is empty, loading or failed.

import { h } from "./dom.js";

export function empty(title, sentence, ...more) {
  return h("div", { class: "state" }, h("h3", {}, title), h("p", {}, sentence), ...more);
}

export function loading(rows = 6) {
  const bones = Array.from({ length: rows }, () => h("div", { class: "bone" }));
  return h("div", { "aria-busy": "true" }, h("p", { class: "unseen" }, "Loading"), ...bones);
}

export function failed(error, retry = null, title = "Request failed") {
  const button = retry && h("button", { type: "button", onclick: retry }, "Try again");
  return h("div", { class: "state failed", role: "alert" }, h("h3", {}, title), h("p", {}, error.message), button);
}
