/** Client-side store of the open requests: in order of arrival, indexed by id. */

import { matchesRequest, parseFilter, requestText } from "./filters.js";

export class OpenRequests extends EventTarget {
  #requests = new Map();
  #texts = new Map();
  #filter = "";
  #wanted = parseFilter("");
  #shown = null;
  #openCount = 0;
  #closedWhileLoading = new Set(); // ids closed before their page was loaded

  selected = null; // id of the displayed request
  marked = new Set();
  loading = true;

  /** Apply the current state of a request; a closed one stays listed until `removeClosed`. */
  update(request) {
    const before = this.#requests.get(request.id);
    if (!before && request.status !== "open") {
      if (this.loading) this.#closedWhileLoading.add(request.id);
      return;
    }
    // The response to an answer can arrive after newer events: never go back to an older state.
    if (before && progress(request) < progress(before)) return;
    this.#store(request);
    if (request.status !== "open") this.marked.delete(request.id);
    if (!before) this.#shown = null;
    this.#notify(before ? "changed" : "arrived", request);
  }

  /** Add a page of the initial load. */
  addPage(requests) {
    for (const each of requests) {
      if (!this.#requests.has(each.id) && !this.#closedWhileLoading.has(each.id)) this.#store(each);
    }
    this.#shown = null;
    this.#notify("loaded", null);
  }

  /** End the initial load: sort by time, as events arrived in between. */
  finishLoading() {
    const rows = [...this.#requests].sort(([, a], [, b]) => a.asked_at - b.asked_at || (a.id < b.id ? -1 : 1));
    this.#requests = new Map(rows);
    this.#closedWhileLoading.clear();
    this.loading = false;
    this.#shown = null;
    this.#notify("loaded", null);
  }

  #store(request) {
    this.#openCount += (request.status === "open") - this.isOpen(request.id);
    this.#requests.set(request.id, request);
  }

  get(id) {
    return this.#requests.get(id);
  }

  /** The listed ids, in order of arrival. */
  get ids() {
    this.#shown ??= [...this.#requests.keys()].filter((id) => this.#matches(id));
    return this.#shown;
  }

  get openCount() {
    return this.#openCount;
  }

  get closedCount() {
    return this.#requests.size - this.openCount;
  }

  set filter(text) {
    this.#filter = text.trim();
    this.#wanted = parseFilter(text);
    this.#shown = null;
    this.#notify("loaded", null);
  }

  get filter() {
    return this.#filter;
  }

  /** Remove closed requests, except the displayed one. */
  removeClosed() {
    for (const [id, each] of this.#requests) {
      if (each.status === "open" || id === this.selected) continue;
      this.#requests.delete(id);
      this.#texts.delete(id);
    }
    this.#shown = null;
    this.#notify("loaded", null);
  }

  /** Return the open request `step` places after this one, or the last one in that direction. */
  neighbour(id, step) {
    const ids = this.ids;
    const from = ids.indexOf(id);
    if (from < 0) return ids.find((each) => this.isOpen(each)) ?? null;
    const direction = Math.sign(step);
    let found = null;
    for (let at = from + direction, left = Math.abs(step); left > 0 && at >= 0 && at < ids.length; at += direction) {
      if (!this.isOpen(ids[at])) continue;
      found = ids[at];
      left -= 1;
    }
    return found;
  }

  isOpen(id) {
    return this.#requests.get(id)?.status === "open";
  }

  mark(id, on) {
    if (on && this.isOpen(id)) this.marked.add(id);
    else this.marked.delete(id);
    this.#notify("marked", this.get(id));
  }

  #matches(id) {
    if (!this.#filter) return true;
    const request = this.#requests.get(id);
    if (!this.#texts.has(id)) this.#texts.set(id, requestText(request));
    return matchesRequest(this.#wanted, request, this.#texts.get(id));
  }

  #notify(kind, request) {
    this.dispatchEvent(new CustomEvent("change", { detail: { kind, request } }));
  }
}

/** Return a number that grows with the state: votes, closed, used, result. */
function progress(request) {
  if (request.status === "open") return request.votes.length;
  return 1e6 + (request.used_at !== null) + (request.result !== null);
}
