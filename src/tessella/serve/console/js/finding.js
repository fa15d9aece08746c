// Finding: suggests users by the beginning of an id, and items by title or id.

import { api, withQuery } from "./api.js";
import { count } from "./format.js";
import { state } from "./state.js";

const LIMIT = 8;

export async function findUsers(text) {
  const path = withQuery("/v1/users", { limit: LIMIT, query: text, generation: state.generation });
  const { users } = await api("GET", path, undefined, { quiet: true });
  return users.map((user) => ({ value: user.id, text: String(user.id), note: `${count(user.n_seen)} seen` }));
}

export async function findItems(text) {
  const path = withQuery("/v1/items", { limit: LIMIT, query: text, generation: state.generation });
  const { items } = await api("GET", path, undefined, { quiet: true });
  return items.map((item) => {
    const title = item.attributes.title;
    return { value: item.id, text: title ?? String(item.id), note: title ? String(item.id) : undefined };
  });
}
