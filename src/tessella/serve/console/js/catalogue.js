// Catalogue: the figures at the top of the page, and the choice of generation.

import { api, withQuery } from "./api.js";
import { byId, h } from "./dom.js";
import { bytes, count, seconds } from "./format.js";
import { on, state, tell } from "./state.js";

/** Load the statistics, then tell "stats". */
export async function loadStats() {
  const stats = await api("GET", withQuery("/v1/stats", { generation: state.generation }));
  state.stats = stats;
  tell("stats");
}

export function startCatalogue() {
  on("stats", show);
  byId("generation").addEventListener("change", (event) => {
    const live = state.stats.generations.find((one) => one.live)?.name;
    state.generation = event.target.value === live ? null : event.target.value;
    tell("generation");
  });
}

function show() {
  const { stats } = state;
  showGenerations(stats);
  byId("figures").removeAttribute("aria-busy");
  byId("figures").replaceChildren(
    figure("Items", count(stats.n_items)),
    figure("Users", count(stats.n_users)),
    figure("Factors", count(stats.n_factors)),
    figure("Seen", count(stats.n_seen)),
    figure("Memory", bytes(stats.nbytes)),
    figure("Access", stats.writable ? "writable" : "read-only"),
    h("div", { class: "plan" }, h("dt", {}, "Plan"), h("dd", {}, plan(stats), stale(stats.stale))),
  );
  const workers = stats.workers === 1 ? "one worker" : `${stats.workers} workers`;
  byId("foot").replaceChildren(
    h("p", {}, `tessella ${stats.tessella}, SQLite ${stats.sqlite}, ${workers}, up for ${seconds(stats.uptime)}.`),
    h("p", {}, memory(stats.memory)),
  );
}

function showGenerations(stats) {
  const select = byId("generation");
  const shown = state.generation ?? stats.generation;
  const options = stats.generations.map((one) =>
    h("option", { value: one.name, selected: one.name === shown }, one.live ? `${one.name} (live)` : one.name));
  select.replaceChildren(...(options.length ? options : [h("option", {}, "none")]));
  select.disabled = options.length < 2;
  byId("version").textContent = `version ${count(stats.version)}`;
}

let unfolded = false; // whether the plan is unfolded; kept when the figures are drawn again

/** The plan in one line; the settings that were tried unfold below it. */
function plan({ plan: short, plan_details: long }) {
  if (!long || long === short) return short ?? "none yet";
  const rest = long.split("\n").slice(1).join("\n");
  const tried = h("pre", { tabindex: "0", role: "region", "aria-label": "Settings tried for the plan" }, rest);
  const made = h("details", { open: unfolded, ontoggle: () => { unfolded = made.open; } }, h("summary", {}, short), tried);
  return made;
}

function figure(name, text) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, text));
}

/** What uses the memory, largest part first. */
function memory(parts) {
  const known = Object.entries(parts).filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]);
  return known.length ? `Memory: ${known.map(([name, size]) => `${name} ${bytes(size)}`).join(", ")}.` : "";
}

const stale = (is) => is && h("span", { class: "stale" }, " (stale: the items have changed a lot since it was made)");
