// Looked: how many items were skipped without scoring, for the list shown and for a sample of users.

import { api, withQuery } from "./api.js";
import { chart, columns, HEIGHT, WIDTH } from "./chart.js";
import { byId, h, s } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { latest, settled } from "./latest.js";
import { on, state } from "./state.js";

const SAMPLE = 200;

export function startLooked() {
  const own = h("div", {});
  const sample = h("div", {});
  byId("looked").replaceChildren(own, sample);
  on("answer", () => showOwn(own));
  let asked = "";
  const run = settled(latest(() => showSample(sample)), 600);
  const maybe = () => {
    const now = JSON.stringify([state.generation, state.stats?.version, state.k]);
    if (state.stats?.generation && now !== asked) { asked = now; run(); }
  };
  on("stats question generation", maybe);
}

function showOwn(place) {
  const { answer } = state;
  if (!answer) return place.replaceChildren(h("p", { class: "quiet" }, "For each list, this shows how many items were never scored."));
  const never = Math.max(0, answer.n_items - answer.scored);
  const share = answer.n_items ? never / answer.n_items : 0;
  place.replaceChildren(
    h("p", { class: "big" }, percent(share)),
    h("div", { class: "share", "aria-hidden": "true" }, h("span", { class: "fill", "--share": (1 - share).toFixed(4) })),
    h("p", { class: "quiet" }, `${count(never)} of ${plural(answer.n_items, "item")} were never scored for this list.`),
  );
}

async function showSample(place) {
  try {
    const path = withQuery("/v1/scored", { sample: SAMPLE, k: state.k, generation: state.generation });
    place.replaceChildren(histogram(await api("GET", path, undefined, { quiet: true })));
  } catch (error) {
    place.replaceChildren(h("p", { class: "quiet" }, error.message));
  }
}

function histogram({ n_users: n, n_items: all, mean, median, edges, counts }) {
  const low = edges[0];
  const span = edges.at(-1) - low || 1;
  const most = Math.max(...counts, 1);
  const x = (at) => (WIDTH * (at - low)) / span;
  const bars = counts.map((one, i) => ({ x: x(edges[i]) + 1, width: Math.max(1, x(edges[i + 1]) - x(edges[i]) - 2), share: one / most }));
  const line = s("path", { class: "mark", d: `M${x(median).toFixed(1)} 12V${HEIGHT}` });
  const caption = `Items scored, for ${plural(n, "user")}: median ${count(median)}, mean ${count(mean)} of ${count(all)}`;
  return chart(caption, caption, [columns(bars), line], [count(low), count(edges.at(-1))], `peak: ${plural(most, "user")}`);
}
