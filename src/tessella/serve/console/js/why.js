// Why: explains the score and rank of one item.

import { api } from "./api.js";
import { h } from "./dom.js";
import { count, label, plural, score } from "./format.js";
import { failed } from "./states.js";
import { question } from "./state.js";

const MOST_SLOTS = 8;
const newest = new WeakMap(); // place -> the newest request, which alone may fill it

/** Fill a place with the explanation of an item. */
export async function explain(id, place) {
  const mine = {};
  newest.set(place, mine);
  if (!place.hasChildNodes()) place.replaceChildren(h("p", { class: "quiet", role: "status" }, "Loading"));
  try {
    const told = await api("POST", "/v1/explain", { ...question(), item: id }, { quiet: true });
    if (newest.get(place) === mine) place.replaceChildren(...reasons(told));
  } catch (error) {
    if (newest.get(place) === mine) place.replaceChildren(failed(error));
  }
}

function reasons(told) {
  const left = told.left_out_by.map((name) => h("span", { class: "tag" }, `left out by ${name}`));
  return [
    h("div", { class: "said" }, ...told.sentences.map((text) => h("p", {}, text))),
    left.length ? h("p", {}, ...left) : null,
    h("div", { class: "why-grid" }, h("div", {}, parts(told), tile(told)), slots(told)),
    near(told.near),
  ].filter(Boolean);
}

/** The parts of the score. */
function parts({ parts: own, score: all, last_score: last }) {
  const names = Object.keys(own);
  const most = Math.max(...names.map((name) => Math.abs(own[name])), Math.abs(all), Math.abs(last ?? 0)) || 1;
  const rows = names.map((name) => measure(name === "factors" ? "Factors" : `Boost ${name}`, own[name], most, name !== "factors"));
  if (names.length > 1) rows.push(measure("Total", all, most));
  if (last !== null) rows.push(measure("Last on the list", last, most, true));
  return h("div", {}, h("h3", {}, "Score"), ...rows);
}

/** The bound that tile search puts on the item's tile. */
function tile({ tile: own, parts: { factors: exact } }) {
  if (!own) return null;
  const most = Math.max(...[own.centre_score, own.believed, exact ?? 0].map(Math.abs)) || 1;
  return h("div", { class: "group" }, h("h3", {}, "Its tile"),
    measure("Centre score", own.centre_score, most, true), measure("Estimated maximum", own.believed, most),
    h("p", { class: "quiet" }, `spread ${score(own.spread)}, reach ${score(own.reach)}`));
}

/** How the item would fare by slots alone. */
function slots({ slots: own, parts: { factors: exact } }) {
  const shared = [...own.shared].sort((a, b) => b.product - a.product);
  const shown = shared.slice(0, MOST_SLOTS);
  const most = Math.max(Math.abs(own.partial_score), Math.abs(exact ?? 0)) || 1;
  const largest = Math.max(...shown.map((one) => Math.abs(one.product))) || 1;
  const rest = shared.length - shown.length;
  const head = `Shared slots: ${shared.length} (of ${own.query} in the query and ${own.item} in the item)`;
  const rank = own.candidate_rank === null
    ? "By shared slots alone, it is not a candidate."
    : `By shared slots alone, it is candidate ${count(own.candidate_rank)}; slots search would score ${plural(own.budget, "candidate")}.`;
  return h("div", {}, h("h3", {}, head),
    measure("Partial score", own.partial_score, most, true), exact === undefined ? null : measure("Exact score", exact, most),
    ...shown.map((one) => measure(`Slot ${count(one.slot)}`, one.product, largest, true)),
    rest > 0 ? h("p", { class: "quiet" }, `and ${plural(rest, "smaller one", "smaller ones")}`) : null,
    h("p", { class: "quiet" }, rank));
}

function near(found) {
  if (!found.length) return null;
  const items = found.map((one) => h("li", {}, `${one.title ?? one.item} `, h("span", { class: "quiet number" }, `cosine ${score(one.cosine)}`)));
  return h("div", {}, h("h3", {}, "Most similar seen or liked items"), h("ul", {}, ...items));
}

function measure(name, value, most, second = false) {
  const fill = h("span", { class: second ? "fill second" : "fill", "--share": Math.min(1, Math.abs(value) / most).toFixed(4) });
  return h("div", { class: "measure" }, h("span", {}, label(name)), h("span", { class: "bar", "aria-hidden": "true" }, fill), h("span", { class: "score" }, score(value)));
}
