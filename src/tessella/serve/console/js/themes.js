// Themes: the switch between light and dark. Until it is used, the page follows the system.

import { byId, sign } from "./dom.js";

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function showTheme() {
  const text = isDark() ? "Switch to light" : "Switch to dark";
  byId("theme-button").replaceChildren(sign(isDark() ? "sun" : "moon"));
  byId("theme-button").setAttribute("aria-label", text);
  byId("theme-button").title = text;
}

export function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("tessella-theme", next);
  showTheme();
}

export function startTheme() {
  showTheme();
  byId("theme-button").addEventListener("click", switchTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
}
