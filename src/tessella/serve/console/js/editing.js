// Editing: adds, edits and removes items.

import { api, withQuery } from "./api.js";
import { combobox } from "./combobox.js";
import { field, openDialog } from "./dialogs.js";
import { byId, h, newId, sign } from "./dom.js";
import { findItems } from "./finding.js";
import { count, label } from "./format.js";
import { loadStats } from "./catalogue.js";
import { notice } from "./notices.js";
import { same, state, tell } from "./state.js";
import { moment, number, read, written } from "./values.js";

export function addItem() { form(null); }

export async function editItem(id) {
  try {
    const path = withQuery(`/v1/items/${encodeURIComponent(id)}`, { generation: state.generation });
    form(await api("GET", path));
  } catch (error) {
    notice(error.message, { bad: true });
  }
}

export function removeItem(id, title) {
  openDialog({
    title: `Remove ${title}?`, submit: "Remove",
    content: [h("p", { class: "quiet" }, `Item ${id} will be removed from the store and from every list. This cannot be undone here.`)],
    done: async () => {
      const told = await api("DELETE", "/v1/items", { ids: [id], ...named() });
      await changed(`Removed ${title}. Version ${count(told.version)}.`);
    },
    closed: () => byId("list-heading").focus({ preventScroll: true }),
  });
}

const named = () => (state.generation === null ? {} : { generation: state.generation });

async function changed(text) {
  notice(text);
  await loadStats();
  tell("items");
}

function form(item) {
  const columns = attributeFields(item);
  const signals = signalFields(item);
  const factors = factorFields(item);
  const id = h("input", { type: "text", autocomplete: "off", required: true });
  const payload = h("textarea", { rows: "3", spellcheck: "false" });
  const before = item?.payload === null || item?.payload === undefined ? "" : JSON.stringify(item.payload, null, 1);
  payload.value = before;
  const title = item ? `Edit ${item.attributes.title ?? item.id}` : "Add an item";
  openDialog({
    title, submit: item ? "Save" : "Add",
    content: [
      h("div", { class: "fields" }, item ? null : field("Id", id), ...columns.map((one) => one.field), ...signals.map((one) => one.field)),
      factors.element, field("Payload (JSON)", payload),
    ],
    done: async () => {
      const made = { id: item ? item.id : id.value.trim(), ...factors.read() };
      if (made.id === "") throw new Error("The item needs an id.");
      const attributes = gathered(columns);
      const values = gathered(signals);
      if (attributes) made.attributes = attributes;
      if (values) made.signals = values;
      if (payload.value !== before) made.payload = parsed(payload.value);
      if (!item) await refuseKnown(made.id);
      const told = await api("PUT", "/v1/items", { items: [made], ...named() });
      const name = attributes?.title ?? item?.attributes.title ?? made.id;
      await changed(`${told.added ? "Added" : "Updated"} ${name}. Version ${count(told.version)}.`);
    },
  });
}

/** Refuse an id that is taken, so that adding does not overwrite an item. */
async function refuseKnown(id) {
  try {
    await api("GET", withQuery(`/v1/items/${encodeURIComponent(id)}`, { generation: state.generation }));
  } catch (error) {
    if (error.status === 404) return;
    throw error;
  }
  throw new Error(`There is already an item with id ${id}. Edit that item, or choose another id.`);
}

/** The fields that were changed; only these are sent, so that nothing else can change. */
function gathered(fields) {
  const told = fields.filter((one) => one.input.value !== one.before).map((one) => [one.name, one.read(one.input.value)]);
  return told.length ? Object.fromEntries(told) : null;
}

function parsed(text) {
  if (text.trim() === "") return null;
  try { return JSON.parse(text); } catch { throw new Error("The payload is not valid JSON."); }
}

function attributeFields(item) {
  const columns = [...state.stats.attributes].sort((a, b) => (b.name === "title") - (a.name === "title"));
  return columns.map((column) => {
    const input = column.kind === "boolean" ? yesNo() : h("input", { type: "text", autocomplete: "off", inputmode: column.kind === "number" ? "decimal" : null });
    const before = written(item?.attributes[column.name]);
    input.value = before;
    const hint = column.kind.startsWith("several") ? " (comma-separated)" : column.kind === "date" ? " (such as 2026-12-31)" : "";
    const element = field(label(column.name) + hint, input);
    const known = suggestions(column, input);
    if (known) element.append(known);
    return { name: column.name, input, before, field: element, read: (text) => read(text, column.kind, label(column.name)) };
  });
}

function yesNo() {
  return h("select", {}, h("option", { value: "" }, "unknown"), h("option", { value: "true" }, "yes"), h("option", { value: "false" }, "no"));
}

function suggestions(column, input) {
  if (column.kind !== "category" || column.name === "title") return null;
  const list = h("datalist", { id: newId("values") }, ...column.top.map((one) => h("option", { value: one.value })));
  input.setAttribute("list", list.id);
  return list;
}

/** Fields for signals; a new item starts at the mean, or at the present time for a decaying signal. */
function signalFields(item) {
  return state.stats.signals.map((signal) => {
    const fading = signal.half_life !== null;
    const input = h("input", { type: "text", autocomplete: "off", inputmode: fading ? null : "decimal" });
    const now = item?.signals[signal.name];
    const before = item ? (fading && typeof now === "number" ? moment(now) : null) ?? written(now) : null;
    input.value = before ?? (fading ? moment(Date.now() / 1000) : String(Number(signal.mean.toPrecision(3))));
    const value = (text) => (fading && !/^[\d.+-]+(e\d+)?$/i.test(text.trim()) ? text.trim() : number(text.trim(), label(signal.name)));
    return { name: signal.name, input, before, field: field(fading ? `${label(signal.name)} (date and time)` : label(signal.name), input), read: value };
  });
}

/** Where the factors come from: the item itself, the mean of similar items, or a user who likes it. */
function factorFields(item) {
  let alike = item ? [] : state.liked.map((one) => ({ ...one }));
  const name = newId("factors");
  const chips = h("div", { class: "chips" });
  const draw = () => chips.replaceChildren(...alike.map((one) =>
    h("button", { type: "button", class: "chip", "aria-label": `Remove ${one.title}`, onclick: () => { alike = alike.filter((other) => other !== one); draw(); } }, one.title, sign("cross"))));
  draw();
  const find = combobox({
    label: "Similar items", placeholder: "Find an item", suggest: findItems,
    pick: (id, title) => { if (!alike.some((one) => same(one.id, id))) alike.push({ id, title }); draw(); },
  });
  const like = h("div", {}, find.field, chips);
  const choices = [
    item && ["keep", "Keep as they are"], ["like", "From similar items"],
    state.user !== null && ["user", `As if user ${state.user} liked it`],
  ].filter(Boolean);
  let chosen = choices[0][0];
  const show = () => { like.hidden = chosen !== "like"; };
  const radios = choices.map(([value, text], i) =>
    h("label", { class: "check" }, h("input", { type: "radio", name, value, checked: i === 0, onchange: () => { chosen = value; show(); } }), text));
  show();
  const element = h("fieldset", {}, h("legend", {}, "Factors"), h("div", { class: "choices" }, ...radios), like);
  return {
    element,
    read: () => {
      if (chosen === "user") return { liked_by: [state.user] };
      if (chosen !== "like") return {};
      if (!alike.length) throw new Error("Choose at least one similar item to take factors from.");
      return { like: alike.map((one) => one.id) };
    },
  };
}
