// Api: requests to the service. Errors carry the service's own sentence. Ids stay as they came, numbers or strings.

const KEY = "tessella-token";
let asking = null; // the open prompt for a token, if any
let askForToken = async () => null;
const watchers = new Set();
let active = 0;

/** A request that failed: `status` is 0 if the service did not answer at all. */
class ApiError extends Error {
  constructor(status, detail, retryAfter = null) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Set the function that prompts for a token; it resolves to null if the user gives none. */
export function onTokenNeeded(ask) { askForToken = ask; }

/** Call `watcher` with the number of requests in flight whenever it changes. */
export function onActivity(watcher) { watchers.add(watcher); }

function token() { try { return sessionStorage.getItem(KEY); } catch { return null; } }

export async function api(method, path, body, { quiet = false, signal } = {}) {
  if (!quiet) told(1);
  try {
    return await attempt(method, path, body, signal);
  } finally {
    if (!quiet) told(-1);
  }
}

async function attempt(method, path, body, signal) {
  const used = token();
  const response = await send(method, path, body, signal, used);
  if (response.ok) return response.json();
  const error = await problem(response);
  const refused = response.status === 401 || (response.status === 403 && error.message.includes("token"));
  if (!refused) throw error;
  if (token() === used) {
    asking ??= askForToken(error.message).finally(() => { asking = null; });
    const given = await asking;
    if (!given) throw error;
    sessionStorage.setItem(KEY, given);
  }
  return attempt(method, path, body, signal);
}

async function send(method, path, body, signal, used) {
  const headers = {};
  if (used) headers.Authorization = `Bearer ${used}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer.");
  }
}

async function problem(response) {
  const retry = Number(response.headers.get("Retry-After")) || null;
  try {
    const told = await response.json();
    return new ApiError(response.status, sentence(told.detail ?? told.title), retry);
  } catch {
    return new ApiError(response.status, `The service answered with status ${response.status}.`, retry);
  }
}

const sentence = (text) => text.replace(/^./, (first) => first.toUpperCase());

function told(change) {
  active += change;
  for (const watcher of watchers) watcher(active);
}

/** A path with a query string; empty and missing values are left out. */
export function withQuery(path, query) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}
