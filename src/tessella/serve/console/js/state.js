// State: what is asked, in one place. Parts of the page change it, and hear of changes.

const listeners = new Map();

export const state = {
  stats: null, // what /v1/stats said of the generation shown
  generation: null, // a name; null is the live one
  other: null, // the generation to compare with
  user: null, // an id
  liked: [], // {id, title}
  k: 10,
  excludeSeen: true,
  exact: false,
  where: {}, // a condition for each attribute
  boosts: {}, // a weight for each signal
};

/** Hear of changes: "stats", "generation", "question" (who asks and for what), "items" (of the store). */
export function on(names, listener) {
  for (const name of names.split(" ")) {
    if (!listeners.has(name)) listeners.set(name, []);
    listeners.get(name).push(listener);
  }
}

export function tell(name) {
  for (const listener of listeners.get(name) ?? []) listener();
}

/** Change what is asked. */
export function ask(changes) {
  Object.assign(state, changes);
  tell("question");
}

export const somebody = () => state.user !== null || state.liked.length > 0;

/** Two ids are the same, be one a number and the other its digits. */
export const same = (one, other) => String(one) === String(other);

/** The body of /v1/recommend for what is asked. */
export function question(generation = state.generation) {
  const body = { k: state.k };
  if (state.user !== null) body.user = state.user;
  if (state.liked.length) body.liked = state.liked.map((one) => one.id);
  if (!state.excludeSeen) body.exclude_seen = false;
  if (state.exact) body.exact = true;
  if (Object.keys(state.where).length) body.where = state.where;
  const boosts = Object.fromEntries(Object.entries(state.boosts).filter(([, weight]) => weight !== 0));
  if (Object.keys(boosts).length) body.boosts = boosts;
  if (generation !== null) body.generation = generation;
  return body;
}

/** Attributes that a list shows. */
export function fields() {
  const names = (state.stats?.attributes ?? []).map((column) => column.name).slice(0, 6);
  return names.length ? { fields: names } : {};
}
