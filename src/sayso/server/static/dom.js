/** DOM builder: text is always inserted as text, never as markup. */

import { sanitizedPieces } from "./sanitize.js";

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `on` holds listeners, `data` the data attributes; null, undefined and false are left out. */
export function h(tag, given = {}, ...children) {
  return buildElement(document.createElement(tag), given, children);
}

/** Make an SVG element. */
export function svg(tag, given = {}, ...children) {
  return buildElement(document.createElementNS(SVG, tag), given, children);
}

function buildElement(element, { on = {}, data = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  }
  for (const [name, value] of Object.entries(data)) element.dataset[name] = value;
  for (const [name, listener] of Object.entries(on)) element.addEventListener(name, listener);
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** Render untrusted text: an invisible character becomes its code, and is marked. */
export function visibleNodes(text) {
  return sanitizedPieces(String(text)).map((each) => (each.odd ? h("mark", { class: "odd" }, each.text) : each.text));
}

/** Return a text with the capital letter and the full stop of a sentence. */
export function toSentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?!…]$/.test(text) ? "" : "."}`;
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false),
  );
}

/** Make a button, with its keyboard shortcut if it has one. */
export function button(label, onclick, { key = null, ...given } = {}) {
  const keys = key && h("kbd", { "aria-hidden": "true" }, key);
  return h("button", { type: "button", on: { click: onclick }, "aria-keyshortcuts": key, ...given }, label, keys);
}

/** Find one element of the page. */
export function find(selector, within = document) {
  return within.querySelector(selector);
}
