// Rows: a list of items with bars. Rows are reused when the list changes, so that their moves can be animated.

import { h, newId, signButton } from "./dom.js";
import { score, told } from "./format.js";

const MOVE = 260; // milliseconds
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The entries of a list: id, title, other attributes, score, and length of the bar. */
export function entries(list) {
  const low = Math.min(0, ...list.scores);
  const span = Math.max(...list.scores) - low || 1;
  return list.ids.map((id, i) => {
    const { title, ...rest } = list.fields?.[i] ?? {};
    const meta = Object.entries(rest).map(([name, one]) => told(name, one)).filter(Boolean).join(" \u00b7 ");
    return { id, key: String(id), title: title ?? String(id), meta, score: list.scores[i], share: (list.scores[i] - low) / span };
  });
}

/** A list that can be updated. `acts` are the buttons {sign, label, run, pressed?} of each row; `open` fills an unfolded row. */
export class Rows {
  constructor({ label, acts = [], open = null }) {
    this.element = h("ol", { class: "rows", "aria-label": label });
    this.acts = acts;
    this.open = open;
    this.rows = new Map();
    this.element.addEventListener("keydown", (event) => this.walk(event));
  }

  /** Show entries; `before` maps keys to earlier ranks, counted from 0, to mark rank changes. */
  show(shown, before = null) {
    const tops = new Map([...this.rows].map(([key, row]) => [key, row.element.getBoundingClientRect().top]));
    const focused = document.activeElement;
    const next = new Map();
    shown.forEach((entry, place) => {
      const row = this.rows.get(entry.key) ?? this.make(entry);
      this.fill(row, entry, place, before);
      row.element.classList.toggle("new", tops.size > 0 && !this.rows.has(entry.key));
      next.set(entry.key, row);
    });
    this.rows = next;
    this.element.replaceChildren(...[...next.values()].map((row) => row.element));
    if (focused !== document.activeElement && this.element.contains(focused)) focused.focus({ preventScroll: true });
    if (calm()) return;
    for (const [key, row] of next) {
      const from = tops.get(key);
      const by = from === undefined ? 0 : from - row.element.getBoundingClientRect().top;
      if (by) row.element.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], { duration: MOVE, easing: "ease-out" });
    }
  }

  make(entry) {
    const why = h("div", { class: "why", id: newId("why"), hidden: true });
    const row = { rank: h("span", {}), moved: h("span", { class: "moved" }), meta: h("p", {}), score: h("span", { class: "score" }), why };
    row.title = this.open
      ? h("button", { type: "button", "aria-expanded": "false", "aria-controls": why.id, onclick: () => this.toggle(row) })
      : h("span", {});
    row.fill = h("span", { class: "fill" });
    row.acts = this.acts.map((act) => signButton(act.sign, act.label(entry), () => act.run(row.entry)));
    row.line = h("div", { class: "line" },
      h("span", { class: "rank" }, row.rank, row.moved), h("div", { class: "name" }, row.title, row.meta),
      h("span", { class: "bar", "aria-hidden": "true" }, row.fill), row.score,
      row.acts.length ? h("span", { class: "acts" }, ...row.acts) : null);
    row.element = h("li", { class: "row", "data-id": entry.key }, row.line, this.open ? why : null);
    return row;
  }

  fill(row, entry, place, before) {
    row.entry = entry;
    row.rank.textContent = String(place + 1);
    row.title.textContent = entry.title;
    row.meta.textContent = entry.meta;
    row.score.textContent = score(entry.score);
    row.fill.style.setProperty("--share", entry.share.toFixed(4));
    mark(row.moved, place, before?.get(entry.key), before !== null);
    this.acts.forEach((act, i) => {
      row.acts[i].setAttribute("aria-label", act.label(entry));
      row.acts[i].title = act.label(entry);
      if (act.pressed) row.acts[i].setAttribute("aria-pressed", String(act.pressed(entry)));
    });
    if (!row.why.hidden) this.open(row.entry, row.why);
  }

  toggle(row) {
    row.why.hidden = !row.why.hidden;
    row.title.setAttribute("aria-expanded", String(!row.why.hidden));
    if (row.why.hidden) row.why.replaceChildren();
    else this.open(row.entry, row.why);
  }

  /** Move focus from title to title with the arrow keys. */
  walk(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const titles = [...this.rows.values()].map((row) => row.title);
    const next = titles[titles.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (!titles.includes(document.activeElement) || !next) return;
    event.preventDefault();
    next.focus();
  }
}

function mark(place, now, before, compared) {
  const by = before === undefined ? 0 : before - now;
  const text = !compared ? "" : before === undefined ? "new" : by > 0 ? `\u25b2 ${by}` : by < 0 ? `\u25bc ${-by}` : "";
  const said = by > 0 ? `up ${by}` : by < 0 ? `down ${-by}` : text;
  place.replaceChildren(h("span", { "aria-hidden": "true" }, text), h("span", { class: "unseen" }, said));
}
