// List: the recommendations, from one generation or from two side by side.

import { api } from "./api.js";
import { noteScores } from "./boosts.js";
import { combobox } from "./combobox.js";
import { byId, h, signButton } from "./dom.js";
import { findItems, findUsers } from "./finding.js";
import { count, plural } from "./format.js";
import { latest } from "./latest.js";
import { entries, Rows } from "./rows.js";
import { ask, fields, on, question, somebody, state, tell } from "./state.js";
import { empty, failed, loading } from "./states.js";
import { isLiked, like } from "./who.js";
import { explain } from "./why.js";

let view = null; // {kind, rows, right?}: what is on the page
let base = { who: "", places: null }; // the list that rank changes are measured against
let shownPlaces = null;

export function startList(edit, remove) {
  const acts = () => [
    { sign: "heart", label: (one) => `${isLiked(one.id) ? "Unlike" : "Like"} ${one.title}`, run: (one) => like(one.id, one.title), pressed: (one) => isLiked(one.id) },
    ...(state.stats.writable ? [
      { sign: "pen", label: (one) => `Edit ${one.title}`, run: (one) => edit(one.id) },
      { sign: "bin", label: (one) => `Remove ${one.title}`, run: (one) => remove(one.id, one.title) },
    ] : []),
  ];
  const run = latest(() => answer(acts));
  on("question", run);
  on("items", () => { base = { ...base, places: shownPlaces }; run(); });
  askAbout();
}

async function answer(acts) {
  const { stats } = state;
  if (!stats) return;
  if (stats.generation === null || !stats.n_items) return put(nothing());
  if (!somebody()) return put(await nobody());
  byId("lists").setAttribute("aria-busy", "true");
  if (!view?.rows) put(loading(Math.min(state.k, 8)));
  try {
    const body = { ...question(), ...fields() };
    if (state.other === null) showOne(await api("POST", "/v1/recommend", body), acts);
    else {
      const both = await Promise.all([api("POST", "/v1/recommend", body), fromOther()]);
      showTwo(...both);
    }
  } catch (error) {
    if (error.retryAfter) setTimeout(() => tell("question"), 1000 * error.retryAfter);
    put(failed(error, error.status === 404 ? null : () => tell("question"), title(error.status)));
  } finally {
    byId("lists").removeAttribute("aria-busy");
  }
}

/** The list of the other generation; its errors name the generation. */
async function fromOther() {
  try {
    return await api("POST", "/v1/recommend", { ...question(state.other), ...fields() });
  } catch (error) {
    error.message = `In ${state.other}: ${error.message}`;
    throw error;
  }
}

const title = (status) => ({ 0: "No answer", 404: "Not found", 422: "Invalid request", 429: "Service overloaded" })[status] ?? "Request failed";

function put(element, facts = "") {
  view = null;
  shownPlaces = null;
  state.answer = null;
  byId("facts").textContent = facts;
  byId("lists").replaceChildren(element);
  byId("ask").hidden = true;
  tell("answer");
}

function showOne(told, acts) {
  const [list] = told.lists;
  state.answer = { scored: list.scored, n_items: told.n_items };
  byId("facts").textContent = facts(told, list);
  if (!list.ids.length) { put(noneLeft(), facts(told, list)); return; }
  if (noteScores(list.scores)) tell("reach");
  const shown = entries(list);
  const places = new Map(shown.map((entry, place) => [entry.key, place]));
  const who = JSON.stringify([{ ...question(), boosts: null }, told.generation]);
  if (base.who !== who || !base.places) base = { who, places };
  if (view?.kind !== "one" || view.writable !== state.stats.writable) {
    const rows = new Rows({ label: "Recommended items", acts: acts(), open: (entry, place) => explain(entry.id, place) });
    const more = h("button", { type: "button", onclick: () => ask({ k: Math.min(state.k + 10, state.stats.limits.max_k) }) }, "Show more");
    view = { kind: "one", rows, more, writable: state.stats.writable };
    byId("lists").replaceChildren(rows.element, h("div", { class: "after" }, more));
  }
  view.rows.show(shown, base.places);
  view.more.hidden = shown.length < state.k || state.k >= state.stats.limits.max_k;
  shownPlaces = places;
  byId("ask").hidden = false;
  tell("answer");
}

function showTwo(left, right) {
  const [one, other] = [left.lists[0], right.lists[0]];
  state.answer = { scored: one.scored, n_items: left.n_items };
  const [shown, others] = [entries(one), entries(other)];
  const places = (list) => new Map(list.map((entry, place) => [entry.key, place]));
  const there = places(others);
  const common = shown.filter((entry) => there.has(entry.key)).length;
  byId("facts").textContent = `${count(common)} of ${plural(shown.length, "item")} in both lists. Arrows show how ranks differ from ${left.generation}.`;
  if (view?.kind !== "two") {
    const rows = new Rows({ label: "The generation shown" });
    const second = new Rows({ label: "The other generation" });
    const [head, secondHead] = [h("h3", {}), h("h3", {})];
    view = { kind: "two", rows, second, head, secondHead };
    byId("lists").replaceChildren(h("div", { class: "two" }, h("section", {}, head, rows.element), h("section", {}, secondHead, second.element)));
  }
  view.head.textContent = left.generation;
  view.secondHead.textContent = right.generation;
  view.rows.element.setAttribute("aria-label", left.generation);
  view.second.element.setAttribute("aria-label", right.generation);
  view.rows.show(shown);
  view.second.show(others, places(shown));
  shownPlaces = null;
  byId("ask").hidden = true;
  tell("answer");
}

function facts(told, list) {
  const proven = list.certified ? "Proven exact." : "Not proven exact.";
  const left = list.ids.length < state.k ? ` ${plural(list.ids.length, "item")} left.` : "";
  return `Scored ${count(list.scored)} of ${plural(told.n_items, "item")}. ${proven}${left}`;
}

function nothing() {
  const code = "from tessella.store import Store\n\nwith Store.open(\"catalogue.db\") as store:\n    store.publish(item_factors, user_factors, name=\"first\")";
  return empty("This store is empty", "Publish a model to see it here.", h("pre", { tabindex: "0", role: "region", "aria-label": "Example" }, h("code", {}, code)));
}

async function nobody() {
  let users = [];
  try { users = await findUsers(""); } catch { /* the sentence is enough */ }
  const chips = users.slice(0, 5).map((user) =>
    h("button", { type: "button", class: "chip", onclick: () => ask({ user: user.value }) }, `User ${user.text}`, h("span", {}, user.note)));
  return empty("No user selected", "Find a user by id, or like some items, to see recommendations.", chips.length ? h("div", { class: "chips" }, ...chips) : null);
}

function noneLeft() {
  const filtered = Object.keys(state.where).length > 0;
  return empty("No items left", filtered ? "No item matches the filters. Remove one." : "Every item has been seen or excluded.");
}

/** A field that explains any item, including those not on the list. */
function askAbout() {
  const place = h("div", { class: "why", hidden: true });
  const { field } = combobox({
    label: "Why is an item missing, or not ranked higher?", placeholder: "Find an item", id: "ask-item", suggest: findItems,
    pick: (id, text) => {
      const shut = signButton("cross", "Close", () => { place.hidden = true; byId("ask-item").focus(); });
      const reasons = h("div", { class: "why-one" });
      place.replaceChildren(h("div", { class: "card-head" }, text, shut), reasons);
      place.hidden = false;
      explain(id, reasons);
    },
  });
  byId("ask").replaceChildren(field, place);
  byId("ask").hidden = true;
  on("question generation", () => { place.hidden = true; });
}
