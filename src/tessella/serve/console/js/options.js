// Options: the length of the list, seen items, exact search, and the generation to compare with.

import { byId, h } from "./dom.js";
import { ask, on, state } from "./state.js";

const LENGTHS = [5, 10, 20, 50, 100];

export function startOptions(addItem) {
  const length = h("select", { id: "length", onchange: () => ask({ k: Number(length.value) }) });
  const other = h("select", { id: "other", onchange: () => ask({ other: other.value || null }) });
  const compare = h("span", { class: "pair" }, h("label", { for: "other" }, "Compare with"), other);
  const add = byId("add-item");
  add.addEventListener("click", addItem);
  byId("options").replaceChildren(
    h("span", { class: "pair" }, h("label", { for: "length" }, "Top"), length),
    check("Exclude seen", "excludeSeen"), check("Exact", "exact"), compare,
  );
  const show = () => {
    const { stats } = state;
    if (!stats) return;
    const lengths = [...new Set([...LENGTHS, state.k])].filter((k) => k <= stats.limits.max_k).sort((a, b) => a - b);
    length.replaceChildren(...lengths.map((k) => h("option", { value: k, selected: k === state.k }, String(k))));
    const shown = state.generation ?? stats.generation;
    const names = stats.generations.map((one) => one.name).filter((name) => name !== shown);
    if (!names.includes(state.other)) state.other = null;
    other.replaceChildren(h("option", { value: "" }, "nothing"),
      ...names.map((name) => h("option", { value: name, selected: name === state.other }, name)));
    compare.hidden = !names.length;
    add.hidden = !stats.writable;
  };
  on("stats generation", show);
  on("question", () => { length.value = String(state.k); if (length.selectedIndex < 0) show(); });
}

function check(text, name) {
  const box = h("input", { type: "checkbox", checked: state[name], onchange: () => ask({ [name]: box.checked }) });
  return h("label", { class: "check" }, box, text);
}
