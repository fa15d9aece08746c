// Dom: creates elements in one call, and holds the page's few icons.

const SVG = "http://www.w3.org/2000/svg";

const SIGNS = {
  heart: "M12 20s-7-4.6-7-10a4 4 0 0 1 7-2.6A4 4 0 0 1 19 10c0 5.4-7 10-7 10z",
  pen: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  cross: "M6 6l12 12M18 6L6 18",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5",
  moon: "M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z",
  keys: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
};

/** Create an element. Props `on…` are listeners and `--…` custom properties; null children are left out. */
export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  set(made, props);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Create an SVG element. */
export function s(tag, props = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  set(made, props);
  made.append(...children);
  return made;
}

function set(made, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) made.style.setProperty(name, value);
    else if (typeof value === "boolean" && name in made) made[name] = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value);
  }
}

export function sign(name) {
  return s("svg", { class: "sign", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: SIGNS[name] }));
}

export const byId = (id) => document.getElementById(id);

let last = 0;
export const newId = (name) => `${name}-${++last}`;

/** Create an icon button, with a label for screen readers. */
export function signButton(name, label, onclick, props = {}) {
  return h("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...props }, sign(name));
}
