// Combobox: a text field with suggestions, after the ARIA Authoring Practices.

import { h, newId } from "./dom.js";
import { settled } from "./latest.js";

/**
 * @param {{label: string, placeholder: string, id?: string, suggest: (text: string) => Promise<{value: any, text: string, note?: string}[]>,
 *   pick: (value: any, text: string) => void, typed?: (text: string) => void}} options
 *   `typed` is called when Enter is pressed with nothing selected.
 */
export function combobox({ label, placeholder, suggest, pick, typed = null, id = newId("field") }) {
  const list = h("ul", { class: "options", role: "listbox", id: newId("options"), "aria-label": label, hidden: true });
  const input = h("input", {
    id, type: "text", role: "combobox", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder,
    "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list",
  });
  let shown = [];
  let at = -1;
  let asked = 0;
  const later = settled(open, 120);

  function close() {
    later.cancel();
    asked += 1;
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function mark(next) {
    at = next;
    [...list.children].forEach((one, i) => one.setAttribute("aria-selected", String(i === at)));
    const chosen = list.children[at];
    if (!chosen) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView({ block: "nearest" });
  }

  function take(one) {
    input.value = "";
    close();
    pick(one.value, one.text);
  }

  function option(one) {
    const parts = [h("span", {}, one.text), one.note ? h("span", {}, one.note) : null];
    const down = (event) => { event.preventDefault(); take(one); };
    return h("li", { role: "option", id: newId("option"), "aria-selected": "false", onpointerdown: down }, ...parts);
  }

  async function open() {
    const mine = ++asked;
    let found;
    try {
      found = await suggest(input.value.trim());
    } catch (error) {
      found = [];
      if (mine === asked) show([], error.message);
      return;
    }
    if (mine === asked && document.activeElement === input) show(found, "Nothing found");
  }

  function show(found, otherwise) {
    shown = found;
    at = -1;
    const note = h("li", { class: "note", role: "option", "aria-disabled": "true", "aria-selected": "false" }, otherwise);
    list.replaceChildren(...(found.length ? found.map(option) : [note]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }

  input.addEventListener("input", later);
  input.addEventListener("focus", open);
  input.addEventListener("blur", () => close());
  input.addEventListener("keydown", (event) => {
    const n = shown.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open();
      else if (n) mark((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + n) % n);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const text = input.value.trim();
      if (at >= 0 && !list.hidden) take(shown[at]);
      else if (typed && text) { input.value = ""; close(); typed(text); }
      else if (!typed && shown.length && !list.hidden) take(shown[0]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      event.preventDefault();
      close();
    }
  });
  const field = h("div", { class: "field" }, h("label", { for: id }, label), h("div", { class: "box" }, input, list));
  return { field, input };
}
