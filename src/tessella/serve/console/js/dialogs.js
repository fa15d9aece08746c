// Dialogs: one at a time; Escape closes it and focus returns to where it was.

import { h, newId } from "./dom.js";

/** Show a dialog with a form. `done()` runs on submit; an error that it throws is shown in the dialog. */
export function openDialog({ title, content, submit = null, done = null, cancel = "Cancel", closed = () => {} }) {
  const heading = h("h2", { id: newId("dialog") }, title);
  const wrong = h("p", { class: "failed-line", role: "alert" });
  const ok = submit && h("button", { type: "submit", class: "main" }, submit);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, cancel);
  const form = h("form", { method: "dialog", novalidate: "" }, heading, ...content, wrong, h("div", { class: "ends" }, no, ok));
  const dialog = h("dialog", { "aria-labelledby": heading.id }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!done || ok.disabled) return;
    ok.disabled = true;
    wrong.textContent = "";
    try {
      await done();
      dialog.close();
    } catch (error) {
      wrong.textContent = error.message;
    } finally {
      ok.disabled = false;
    }
  });
  dialog.addEventListener("close", () => { dialog.remove(); closed(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export function field(label, input) {
  input.id ||= newId("field");
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input);
}
