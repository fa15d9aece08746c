// Chart: columns and lines as SVG, with a sentence for screen readers.

import { h, s } from "./dom.js";

export const WIDTH = 320;
export const HEIGHT = 96;
const FOOT = 18;

export function chart(caption, sentence, marks, [left, right], top = "") {
  const texts = [
    s("text", { x: 0, y: HEIGHT + 14 }, left),
    s("text", { x: WIDTH, y: HEIGHT + 14, "text-anchor": "end" }, right),
    s("text", { x: WIDTH, y: 9, "text-anchor": "end" }, top),
  ];
  const axis = s("path", { class: "axis", d: `M0 ${HEIGHT + 0.5}H${WIDTH}` });
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + FOOT}`, role: "img", "aria-label": sentence }, axis, ...marks, ...texts);
  return h("figure", { class: "chart" }, h("figcaption", {}, caption), picture);
}

/** Columns from {x, width, share}, as one path. */
export function columns(bars, kind = "") {
  const d = bars.filter((bar) => bar.share > 0).map(({ x, width, share }) => {
    const height = Math.max(1, share * (HEIGHT - 14));
    return `M${x.toFixed(1)} ${HEIGHT}v${(-height).toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}z`;
  });
  return s("path", { class: `column ${kind}`, d: d.join("") || "M0 0" });
}

/** A line through points {x, share}, broken where they are more than `gap` apart, with dots for isolated points. */
export function trace(points, gap, kind = "") {
  const at = ({ x, share }) => `${x.toFixed(1)} ${(HEIGHT - share * (HEIGHT - 14)).toFixed(1)}`;
  const joined = (i) => i >= 0 && i + 1 < points.length && points[i + 1].x - points[i].x <= gap;
  const d = points.map((point, i) => `${joined(i - 1) ? "L" : "M"}${at(point)}`).join("");
  const alone = points.filter((_, i) => !joined(i - 1) && !joined(i));
  const dots = alone.map((point) => s("circle", { class: `dot ${kind}`, cx: point.x.toFixed(1), cy: at(point).split(" ")[1], r: 2 }));
  return [s("path", { class: `trace ${kind}`, d: d || "M0 0" }), ...dots];
}
