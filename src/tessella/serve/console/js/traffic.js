// Traffic: requests and latencies of the last minutes, redrawn every few seconds while the page is visible.

import { api } from "./api.js";
import { chart, columns, trace, WIDTH } from "./chart.js";
import { byId, h } from "./dom.js";
import { count, ms, plural } from "./format.js";

const MINUTES = 10;

export function startTraffic() {
  const place = byId("traffic");
  place.replaceChildren(h("p", { class: "quiet" }, "Loading"));
  const draw = async () => {
    if (document.hidden) return;
    try {
      show(place, await api("GET", `/v1/traffic?minutes=${MINUTES}`, undefined, { quiet: true }));
    } catch (error) {
      place.replaceChildren(h("p", { class: "quiet failed-line" }, error.message));
    }
  };
  draw();
  setInterval(draw, 5000);
  document.addEventListener("visibilitychange", draw);
}

function show(place, { step, now, points }) {
  if (!points.length) return place.replaceChildren(h("p", { class: "quiet" }, "No requests in the last minutes."));
  const begun = now - 60 * MINUTES;
  const x = (time) => (WIDTH * (time - begun)) / (60 * MINUTES + step);
  const inside = points.filter((point) => point.time >= begun);
  const span = [`${MINUTES} minutes ago`, "now"];
  place.replaceChildren(requests(inside, x, step, span), latency(inside, x, step, span));
}

function requests(points, x, step, span) {
  const most = Math.max(...points.map((point) => point.requests), 1);
  const width = Math.max(1, x(step) - x(0) - 0.6);
  const bars = (of) => points.map((point) => ({ x: x(point.time), width, share: of(point) / most }));
  const sum = (of) => points.reduce((all, point) => all + of(point), 0);
  const bad = (point) => point.errors + point.rejected;
  const total = sum((point) => point.requests);
  const wrong = sum(bad);
  const caption = `${plural(total, "request")}, ${wrong ? `${count(wrong)} failed or rejected` : "no errors"}`;
  const top = `peak: ${Number((most / step).toPrecision(2))} per second`;
  return chart(caption, `Requests of the last ${MINUTES} minutes: ${caption}; ${top}.`, [columns(bars((point) => point.requests)), columns(bars(bad), "bad")], span, top);
}

function latency(points, x, step, span) {
  const known = points.filter((point) => point.p50_ms !== null);
  const most = Math.max(...known.map((point) => point.p99_ms), 0.001);
  const gap = 1.5 * (x(step) - x(0));
  const line = (name, kind) => trace(known.map((point) => ({ x: x(point.time), share: point[name] / most })), gap, kind);
  const last = known.at(-1);
  const sentence = last ? `Latency now: median ${ms(last.p50_ms)}, 99th percentile ${ms(last.p99_ms)}.` : "No latency measured yet.";
  const caption = h("span", {}, h("span", { class: "key" }), `median ${last ? ms(last.p50_ms) : ""} `, h("span", { class: "key second" }), `p99 ${last ? ms(last.p99_ms) : ""}`);
  return chart(caption, sentence, [...line("p99_ms", "second"), ...line("p50_ms")], span, `peak: ${ms(most)}`);
}
