// Address: keeps the question in the page's address, so that it can be bookmarked and shared.

import { api, withQuery } from "./api.js";
import { on, state } from "./state.js";

export function startAddress() {
  on("question", () => {
    const kept = new URLSearchParams();
    if (state.user !== null) kept.set("user", state.user);
    for (const one of state.liked) kept.append("liked", one.id);
    if (state.k !== 10) kept.set("k", state.k);
    if (state.generation !== null) kept.set("generation", state.generation);
    if (state.other !== null) kept.set("compare", state.other);
    history.replaceState(null, "", kept.size ? `#${kept}` : location.pathname);
  });
}

/** Restore the question from the address; items that no longer exist are left out. */
export async function restore() {
  const kept = new URLSearchParams(location.hash.slice(1));
  const k = Number(kept.get("k"));
  state.user = kept.get("user");
  if (Number.isInteger(k) && k > 0) state.k = k;
  state.generation = kept.get("generation");
  state.other = kept.get("compare");
  state.liked = await titled(kept.getAll("liked"));
}

async function titled(ids) {
  const found = await Promise.all(ids.map(async (id) => {
    try {
      const item = await api("GET", withQuery(`/v1/items/${encodeURIComponent(id)}`, { generation: state.generation }));
      return { id: item.id, title: item.attributes.title ?? String(item.id) };
    } catch { return null; }
  }));
  return found.filter(Boolean);
}
