// Who: chooses a user by id, liked items, or both.

import { api, withQuery } from "./api.js";
import { combobox } from "./combobox.js";
import { byId, h, sign, signButton } from "./dom.js";
import { findItems, findUsers } from "./finding.js";
import { plural } from "./format.js";
import { ask, on, same, state } from "./state.js";

export function startWho() {
  const user = combobox({
    label: "User id", placeholder: "Find a user", id: "find-user",
    suggest: findUsers, pick: (id) => ask({ user: id }), typed: (text) => ask({ user: text }),
  });
  const item = combobox({
    label: "Liked items", placeholder: "Find an item to like", id: "find-item",
    suggest: findItems, pick: (id, title) => like(id, title),
  });
  const known = h("div", { id: "user-card" });
  const liked = h("div", { id: "liked-chips" });
  byId("who").replaceChildren(user.field, known, item.field, liked);
  on("question", () => { showUser(known); showLiked(liked); });
  on("generation items", () => showUser(known, true));
}

export const isLiked = (id) => state.liked.some((one) => same(one.id, id));

/** Add an item to the liked ones, or remove it from them. */
export function like(id, title) {
  const others = state.liked.filter((one) => !same(one.id, id));
  ask({ liked: others.length < state.liked.length ? others : [...others, { id, title }] });
}

let shown = null;

async function showUser(place, again = false) {
  const { user } = state;
  if (user === shown && !again) return;
  shown = user;
  if (user === null) return place.replaceChildren();
  const drop = signButton("cross", "Clear user", () => { ask({ user: null }); byId("find-user").focus(); });
  const card = h("div", { class: "card" }, h("div", { class: "card-head" }, h("span", {}, `User ${user}`), drop));
  if (!again) place.replaceChildren(card);
  try {
    const path = withQuery(`/v1/users/${encodeURIComponent(user)}`, { generation: state.generation });
    const about = await api("GET", path, undefined, { quiet: true });
    if (shown !== user) return;
    card.append(seen(about));
  } catch (error) {
    if (shown !== user) return;
    card.append(h("p", { class: "quiet failed-line" }, error.message));
  }
  place.replaceChildren(card);
}

function seen(about) {
  if (!about.seen?.length) return h("p", { class: "quiet" }, "Has seen nothing yet.");
  const names = about.seen.map((id, i) => about.titles?.[i] ?? String(id));
  const list = h("ul", { class: "seen", tabindex: "0", "aria-label": "Seen items" }, ...names.slice(0, 200).map((name) => h("li", {}, name)));
  const more = names.length > 200 ? h("p", { class: "quiet" }, `and ${plural(names.length - 200, "more", "more")}`) : null;
  return h("details", {}, h("summary", { class: "quiet" }, `Has seen ${plural(names.length, "item")}`), list, more);
}

function showLiked(place) {
  const chips = state.liked.map((one) =>
    h("button", { type: "button", class: "chip", "aria-label": `Unlike ${one.title}`, onclick: () => like(one.id) }, one.title, sign("cross")));
  const all = h("button", { type: "button", class: "plain", onclick: () => ask({ liked: [] }) }, "Clear all");
  place.replaceChildren(h("div", { class: "chips" }, ...chips, chips.length > 1 ? all : null));
}
