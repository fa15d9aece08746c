// Filters: chips for categories, and ranges for numbers and dates.

import { byId, h } from "./dom.js";
import { count, label, value } from "./format.js";
import { settled } from "./latest.js";
import { ask, on, state } from "./state.js";

const MOST_VALUES = 200; // a column with more holds names rather than categories
const counts = new Map(); // column and value -> the element that shows how many items have it

export function startFilters() {
  let made = "";
  on("stats", () => {
    forget();
    const columns = state.stats.attributes.filter(usable);
    const now = JSON.stringify(columns.map((one) => [one.name, one.top.map((of) => of.value).sort()]));
    if (now !== made) byId("filters").replaceChildren(...columns.map((one) => (one.top.length ? chips(one) : range(one))));
    else recount(columns);
    made = now;
  });
  on("stats question", summarize);
}

const usable = (one) => one.name !== "title" && (one.top.length ? one.n_values <= MOST_VALUES : one.min !== null && one.min !== one.max);

/** Drop conditions on columns that no longer exist. */
function forget() {
  const names = new Set(state.stats.attributes.map((one) => one.name));
  const kept = Object.entries(state.where).filter(([name]) => names.has(name));
  if (kept.length < Object.keys(state.where).length) state.where = Object.fromEntries(kept);
}

/** Update the counts on the chips; the chips stay where they are. */
function recount(columns) {
  for (const column of columns) {
    for (const one of column.top) counts.get(JSON.stringify([column.name, one.value])).textContent = count(one.count);
  }
}

function condition(name, wanted) {
  const where = { ...state.where };
  if (wanted === null) delete where[name];
  else where[name] = wanted;
  ask({ where });
}

function chips(column) {
  const chosen = new Set(state.where[column.name] ?? []);
  const buttons = column.top.map((one) => {
    const shown = h("span", {}, count(one.count));
    counts.set(JSON.stringify([column.name, one.value]), shown);
    const pressed = () => String(chosen.has(one.value));
    const button = h("button", { type: "button", class: "chip", "aria-pressed": pressed() }, value(one.value), shown);
    button.addEventListener("click", () => {
      if (!chosen.delete(one.value)) chosen.add(one.value);
      button.setAttribute("aria-pressed", pressed());
      condition(column.name, chosen.size ? [...chosen] : null);
    });
    return button;
  });
  const rest = column.n_values - column.top.length;
  const note = rest > 0 ? h("span", { class: "quiet" }, `${count(rest)} more values`) : null;
  return group(column.name, h("div", { class: "chips" }, ...buttons, note));
}

function range(column) {
  const kind = typeof column.min === "number" ? "number" : "text";
  const now = state.where[column.name] ?? {};
  const input = (side, edge) => h("input", {
    type: kind, step: kind === "number" ? "any" : null, "aria-label": `${label(column.name)} ${side}`,
    placeholder: value(edge).slice(0, 10), value: now[side] ?? "",
  });
  const from = input("from", column.min);
  const to = input("to", column.max);
  const read = (one) => (one.value.trim() === "" ? null : kind === "number" ? Number(one.value) : one.value.trim());
  const change = settled(() => {
    const wanted = Object.fromEntries([["from", read(from)], ["to", read(to)]].filter(([, edge]) => edge !== null));
    condition(column.name, Object.keys(wanted).length ? wanted : null);
  }, 250);
  from.addEventListener("input", change);
  to.addEventListener("input", change);
  return group(column.name, h("div", { class: "range" }, from, h("span", { class: "quiet" }, "to"), to));
}

function group(name, ...content) {
  return h("div", { class: "group", role: "group", "aria-label": label(name) }, h("h3", {}, label(name)), ...content);
}

function summarize() {
  const filters = Object.keys(state.where).length;
  const boosts = Object.values(state.boosts).filter(Boolean).length;
  byId("tune-summary").textContent = filters + boosts ? `${filters + boosts} in use` : "none in use";
}
