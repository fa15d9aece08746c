// Boosts: a slider for each signal. The list follows as a slider moves.

import { byId, h, newId } from "./dom.js";
import { label, seconds } from "./format.js";
import { ask, on, state } from "./state.js";

const STEPS = 50; // on each side of zero

let reach = null; // the size of scores without boosts; a slider at its end adds about that much

export function startBoosts() {
  let made = "";
  const draw = () => {
    const signals = state.stats?.signals ?? [];
    const known = new Set(signals.map((one) => one.name));
    state.boosts = Object.fromEntries(Object.entries(state.boosts).filter(([name]) => known.has(name)));
    const now = JSON.stringify([signals.map((one) => one.name), reach]);
    if (now === made) return;
    made = now;
    const sliders = signals.filter((one) => one.max > one.min).map(slider);
    byId("boosts").replaceChildren(...sliders);
  };
  on("stats", draw);
  on("generation", () => { reach = null; });
  on("reach", draw);
}

/** Note the size of scores without boosts, once per generation; returns whether it was new. */
export function noteScores(scores) {
  if (reach !== null || !scores.length || Object.values(state.boosts).some(Boolean)) return false;
  reach = Math.max(...scores.map(Math.abs)) || 1;
  return true;
}

/** Round up to one, two or five times a power of ten. */
function round(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= x * 0.999);
}

function slider(signal) {
  const most = round((reach ?? 1) / (signal.max - signal.min));
  const id = newId("boost");
  const output = h("output", { class: "number", for: id });
  const input = h("input", {
    type: "range", id, min: -most, max: most, step: most / STEPS, value: state.boosts[signal.name] ?? 0,
  });
  const clear = h("button", { type: "button", class: "plain", "aria-label": `Reset ${label(signal.name)}` }, "Reset");
  const show = () => {
    const weight = Number(input.value);
    output.textContent = weight === 0 ? "off" : `${weight > 0 ? "+" : "\u2212"}${Number(Math.abs(weight).toPrecision(3))}`;
    clear.hidden = weight === 0;
  };
  const change = () => {
    show();
    ask({ boosts: { ...state.boosts, [signal.name]: Number(input.value) } });
  };
  input.addEventListener("input", change);
  clear.addEventListener("click", () => { input.value = 0; change(); input.focus(); });
  show();
  const fading = signal.half_life === null ? null : h("span", { class: "quiet" }, `half-life ${seconds(signal.half_life)}`);
  return h("div", { class: "group" }, h("div", { class: "group-head" },
    h("label", { for: id }, `Boost ${label(signal.name).toLowerCase()}`), fading, h("span", {}, clear, " ", output)), input);
}
