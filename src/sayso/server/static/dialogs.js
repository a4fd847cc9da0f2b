/** Modal dialogs, with focus trap and return of the focus. */

import { button, h } from "./dom.js";

let count = 0;

/** Open a dialog with a title, and resolve with the argument of `close`.
 *
 * `build(close, foot, heading)` returns its content, and may fill the foot, which does not scroll, and change the title.
 */
export function openDialog(title, build, { wide = false } = {}) {
  return new Promise((resolve) => {
    count += 1;
    const heading = h("h2", { id: `dialog-${count}` }, title);
    const dialog = h("dialog", { class: wide ? "wide" : null, "aria-labelledby": heading.id });
    const close = (value = null) => {
      dialog.close();
      dialog.remove();
      resolve(value);
    };
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close();
    });
    const body = h("div", { class: "dialog-body" });
    const foot = h("div", { class: "dialog-foot" });
    dialog.append(
      h(
        "div",
        { class: "dialog-head" },
        heading,
        button("Close", () => close(), { class: "quiet-button" }),
      ),
      body,
      foot,
    );
    body.append(...[build(close, foot, heading)].flat());
    document.body.append(dialog);
    dialog.showModal();
    (dialog.querySelector("[data-first]") ?? dialog.querySelector("input, textarea, select") ?? heading).focus();
  });
}

/** Ask for a confirmation. */
export function askToConfirm(title, sentences, yes) {
  return openDialog(title, (close) => [
    ...sentences.map((each) => h("p", {}, each)),
    h(
      "div",
      { class: "buttons" },
      button(yes, () => close(true), { class: "no-button" }),
      button("Keep it", () => close(false), { data: { first: "" } }),
    ),
  ]);
}

/** Ask for the note of a denial; resolves with null if the dialog is closed. */
export function askForNote(title, { label, send }) {
  return openDialog(title, (close) => {
    const field = h("textarea", { id: "note", rows: "4", maxlength: "4000" });
    const submit = () => close(field.value.trim());
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
    });
    return [
      h("label", { for: "note" }, label),
      field,
      h(
        "div",
        { class: "buttons" },
        button(send, submit, { class: "no-button" }),
        button("Back", () => close()),
      ),
    ];
  });
}
