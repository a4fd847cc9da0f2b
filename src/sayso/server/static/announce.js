/** Live regions for screen readers: new requests are announced politely, results at once. */

import { find } from "./dom.js";

const GATHER_MS = 1500; // ms: many requests at once are told as a number

let arrivals = [];
let timer = null;

/** Tell of a new request. */
export function announceArrival(sentence) {
  arrivals.push(sentence);
  timer ??= setTimeout(() => {
    find("#polite").textContent = arrivals.length === 1 ? arrivals[0] : `${arrivals.length} new requests.`;
    arrivals = [];
    timer = null;
  }, GATHER_MS);
}

/** Tell how many a search has found, when the typing has stopped. */
export function announceMatches(count) {
  clearTimeout(announceMatches.timer);
  announceMatches.timer = setTimeout(() => (find("#polite").textContent = `${count} found.`), GATHER_MS / 2);
}

/** Tell what came of something that the person did; it is also shown. */
export function showNotice(sentence, kind = "good") {
  const place = find("#notice");
  find("#assertive").textContent = "";
  requestAnimationFrame(() => (find("#assertive").textContent = sentence));
  place.textContent = sentence;
  place.dataset.kind = kind;
  place.hidden = false;
  clearTimeout(showNotice.timer);
  showNotice.timer = setTimeout(() => (place.hidden = true), kind === "bad" ? 20_000 : 8000);
}
