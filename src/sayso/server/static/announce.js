/** Live regions for screen readers: new requests are announced politely, results at once. */

import { find } from "./dom.js";

const GATHERING = 1500; // ms: many requests at once are told as a number

let waiting = [];
let timer = null;

/** Tell of a new request. */
export function arrived(sentence) {
  waiting.push(sentence);
  timer ??= setTimeout(() => {
    find("#polite").textContent = waiting.length === 1 ? waiting[0] : `${waiting.length} new requests.`;
    waiting = [];
    timer = null;
  }, GATHERING);
}

/** Tell how many a search has found, when the typing has stopped. */
export function found(count) {
  clearTimeout(found.timer);
  found.timer = setTimeout(() => (find("#polite").textContent = `${count} found.`), GATHERING / 2);
}

/** Tell what came of something that the person did; it is also shown. */
export function say(sentence, kind = "good") {
  const place = find("#notice");
  find("#assertive").textContent = "";
  requestAnimationFrame(() => (find("#assertive").textContent = sentence));
  place.textContent = sentence;
  place.dataset.kind = kind;
  place.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (place.hidden = true), kind === "bad" ? 20_000 : 8000);
}
