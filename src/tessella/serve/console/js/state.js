// State: the question and the statistics, in one place. Parts of the page change it and listen for changes.

const listeners = new Map();

export const state = {
  stats: null, // the answer of /v1/stats for the generation shown
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

/** Listen for changes: "stats", "generation", "question" (the user and the options), "items" (of the store), "answer", "reach". */
export function on(names, listener) {
  for (const name of names.split(" ")) {
    if (!listeners.has(name)) listeners.set(name, []);
    listeners.get(name).push(listener);
  }
}

export function tell(name) {
  for (const listener of listeners.get(name) ?? []) listener();
}

/** Change the question. */
export function ask(changes) {
  Object.assign(state, changes);
  tell("question");
}

export const somebody = () => state.user !== null || state.liked.length > 0;

/** Compare two ids; a number equals the string of its digits. */
export const same = (one, other) => String(one) === String(other);

/** The question as a body for /v1/recommend. */
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
