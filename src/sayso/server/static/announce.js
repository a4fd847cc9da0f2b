/** Live regions for screen readers: new requests are announced politely, results at once. */

import { find } from "./dom.js";

const GATHER_MS = 1500; // requests that arrive within this time are announced as a number

let arrivals = [];
let timer = null;

/** Announce a new request. */
export function announceArrival(sentence) {
  arrivals.push(sentence);
  timer ??= setTimeout(() => {
    find("#polite").textContent = arrivals.length === 1 ? arrivals[0] : `${arrivals.length} new requests.`;
    arrivals = [];
    timer = null;
  }, GATHER_MS);
}

/** Announce the number of matches of a search once typing stops. */
export function announceMatches(count) {
  clearTimeout(announceMatches.timer);
  announceMatches.timer = setTimeout(() => (find("#polite").textContent = `${count} found.`), GATHER_MS / 2);
}

/** Show and announce the result of an action. */
export function showNotice(sentence, kind = "good") {
  const place = find("#notice");
  find("#assertive").textContent = "";
  requestAnimationFrame(() => (find("#assertive").textContent = sentence));
  place.textContent = sentence;
  place.dataset.kind = kind;
  place.hidden = false;
  clearTimeout(showNotice.timer);
  showNotice.timer = setTimeout(hideNotice, kind === "bad" ? 20_000 : 8000);
}

/** Hide the notice: it was about what was on the screen before. */
export function hideNotice() {
  clearTimeout(showNotice.timer);
  find("#notice").hidden = true;
}
