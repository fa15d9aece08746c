// Editing: add, change and remove items.

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
    content: [h("p", { class: "quiet" }, `Item ${id} leaves the store and every list. This cannot be undone here.`)],
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
  const title = item ? `Change ${item.attributes.title ?? item.id}` : "Add an item";
  openDialog({
    title, submit: item ? "Save" : "Add",
    content: [
      h("div", { class: "fields" }, item ? null : field("Id", id), ...columns.map((one) => one.field), ...signals.map((one) => one.field)),
      factors.element, field("Payload, as JSON", payload),
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
      await changed(`${told.added ? "Added" : "Changed"} ${name}. Version ${count(told.version)}.`);
    },
  });
}

/** An item that is there is not overwritten by adding. */
async function refuseKnown(id) {
  try {
    await api("GET", withQuery(`/v1/items/${encodeURIComponent(id)}`, { generation: state.generation }));
  } catch (error) {
    if (error.status === 404) return;
    throw error;
  }
  throw new Error(`There is an item with id ${id} already. Find it and change it, or take another id.`);
}

/** Only what was changed travels, so that nothing else can suffer. */
function gathered(fields) {
  const told = fields.filter((one) => one.input.value !== one.before).map((one) => [one.name, one.read(one.input.value)]);
  return told.length ? Object.fromEntries(told) : null;
}

function parsed(text) {
  if (text.trim() === "") return null;
  try { return JSON.parse(text); } catch { throw new Error("The payload is no JSON."); }
}

function attributeFields(item) {
  const columns = [...state.stats.attributes].sort((a, b) => (b.name === "title") - (a.name === "title"));
  return columns.map((column) => {
    const input = column.kind === "boolean" ? yesNo() : h("input", { type: "text", autocomplete: "off", inputmode: column.kind === "number" ? "decimal" : null });
    const before = written(item?.attributes[column.name]);
    input.value = before;
    const hint = column.kind.startsWith("several") ? ", with commas" : column.kind === "date" ? ", as 2026-12-31" : "";
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

/** Signals; a new item starts at the mean, and what decays starts now. */
function signalFields(item) {
  return state.stats.signals.map((signal) => {
    const fading = signal.half_life !== null;
    const input = h("input", { type: "text", autocomplete: "off", inputmode: fading ? null : "decimal" });
    const now = item?.signals[signal.name];
    const before = item ? (fading && typeof now === "number" ? moment(now) : null) ?? written(now) : null;
    input.value = before ?? (fading ? moment(Date.now() / 1000) : String(Number(signal.mean.toPrecision(3))));
    const value = (text) => (fading && !/^[\d.+-]+(e\d+)?$/i.test(text.trim()) ? text.trim() : number(text.trim(), label(signal.name)));
    return { name: signal.name, input, before, field: field(fading ? `${label(signal.name)}, as a time` : label(signal.name), input), read: value };
  });
}

/** Where the factors come from: what they are, the mean of other items, or a user who likes it. */
function factorFields(item) {
  let alike = item ? [] : state.liked.map((one) => ({ ...one }));
  const name = newId("factors");
  const chips = h("div", { class: "chips" });
  const draw = () => chips.replaceChildren(...alike.map((one) =>
    h("button", { type: "button", class: "chip", "aria-label": `Take away ${one.title}`, onclick: () => { alike = alike.filter((other) => other !== one); draw(); } }, one.title, sign("cross"))));
  draw();
  const find = combobox({
    label: "Items that it is like", placeholder: "Find an item", suggest: findItems,
    pick: (id, title) => { if (!alike.some((one) => same(one.id, id))) alike.push({ id, title }); draw(); },
  });
  const like = h("div", {}, find.field, chips);
  const choices = [
    item && ["keep", "Leave as they are"], ["like", "Like other items"],
    state.user !== null && ["user", `As user ${state.user} would like it`],
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
      if (!alike.length) throw new Error("Name an item that it is like, so that it gets factors.");
      return { like: alike.map((one) => one.id) };
    },
  };
}
