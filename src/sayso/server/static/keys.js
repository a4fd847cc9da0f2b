/** Keyboard shortcuts: single letters, which can be switched off and never act while text is typed. */

import { ANSWER_KEYS, FILTER_KEY } from "./answer_keys.js";
import { openDialog } from "./dialogs.js";
import { h } from "./dom.js";

const SETTING = "sayso.letters";
const ACTIONS = new Map(ANSWER_KEYS.map(({ key, action }) => [key, action]));
const HELP = [
  ["j", "the next request"],
  ["k", "the one before"],
  ...ANSWER_KEYS.map(({ key, label, meaning }) => [key, `${label}: ${meaning}`]),
  ["x", "select it, to answer several together"],
  [FILTER_KEY.key, `${FILTER_KEY.label}: ${FILTER_KEY.meaning}`],
  ["?", "this help"],
  ["Esc", "close, or leave a field"],
];

/** Return the action of an answer key, as in the terminal; undefined for other keys. */
export const actionOf = (key) => ACTIONS.get(key);

/** Whether a key goes to the field that filters the list. */
export const isFilterKey = (key) => key === FILTER_KEY.key;

/** Return the key of an action. */
export const keyOf = (action) => ANSWER_KEYS.find((each) => each.action === action).key;

/** Whether single-letter shortcuts are on. */
export function areLettersOn() {
  try {
    return localStorage.getItem(SETTING) !== "off";
  } catch {
    return true; // the browser blocks storage
  }
}

function setLetters(on) {
  try {
    localStorage.setItem(SETTING, on ? "on" : "off");
  } catch {
    // the setting lasts as long as this page
  }
  document.documentElement.classList.toggle("no-letters", !on);
}

/** Call `act(key)` for a key, unless it belongs to a field, a dialog or the browser. */
export function listenToKeys(act) {
  setLetters(areLettersOn());
  addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    const typing = event.target.closest?.(
      "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]",
    );
    if (event.key === "Escape" && typing && !typing.closest("dialog")) return typing.blur();
    if (typing || document.querySelector("dialog[open]") || document.documentElement.classList.contains("no-letters"))
      return;
    if (act(event.key)) event.preventDefault();
  });
}

/** Show all shortcuts, and the switch for them. */
export function showHelp() {
  return openDialog("Keys", () => {
    const box = h("input", {
      type: "checkbox",
      id: "letters",
      checked: areLettersOn(),
      on: { change: () => setLetters(box.checked) },
    });
    return [
      h(
        "dl",
        { class: "keys" },
        HELP.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what))),
      ),
      h("p", { class: "quiet" }, "In the list, the arrow keys, Home and End work as well."),
      h("label", { class: "choice" }, box, h("span", {}, "Single letters act (not while you type)")),
    ];
  });
}
