/** Virtual list: only visible rows are in the document, however many requests are open. */

import { fill, h } from "./dom.js";
import { summarizeArguments } from "./arguments.js";
import { visible } from "./sanitize.js";
import * as phrases from "./phrases.js";

const OVERSCAN_ROWS = 4; // rows above and below the visible ones
const LONGEST_DESCRIPTION = 60; // characters, so that some of the arguments fit beside it

export class List {
  #inbox;
  #rows = new Map(); // id → {element, request, at}
  #height = 0;
  #drawing = false;

  constructor(inbox, { scroll, list, onSelect }) {
    this.#inbox = inbox;
    this.scroll = scroll;
    this.list = list;
    this.onSelect = onSelect;
    scroll.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => {
      this.#height = 0;
      this.draw();
    }).observe(scroll);
    list.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Redraw once per frame, however often this is called. */
  draw() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.#drawNow();
    });
  }

  #drawNow() {
    const ids = this.#inbox.ids;
    const height = this.rowHeight;
    this.list.style.height = `${ids.length * height}px`;
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / height) - OVERSCAN_ROWS);
    const bottom = this.scroll.scrollTop + this.scroll.clientHeight;
    const last = Math.min(ids.length, Math.ceil(bottom / height) + OVERSCAN_ROWS);
    const wanted = new Map();
    for (let at = first; at < last; at += 1) wanted.set(ids[at], at);
    // The selected row stays, so that the focus is never lost by scrolling.
    const selected = ids.indexOf(this.#inbox.selected);
    if (selected >= 0) wanted.set(ids[selected], selected);
    for (const [id, row] of this.#rows) {
      if (wanted.has(id)) continue;
      row.element.remove();
      this.#rows.delete(id);
    }
    const focusable = selected >= 0 ? selected : first;
    for (const [id, at] of [...wanted].sort((a, b) => a[1] - b[1])) this.#drawRow(id, at, ids.length, at === focusable);
  }

  /** The height of a row in pixels, which follows the size of the text. */
  get rowHeight() {
    if (!this.#height)
      this.#height =
        parseFloat(getComputedStyle(this.list).getPropertyValue("--row")) *
        parseFloat(getComputedStyle(document.documentElement).fontSize);
    return this.#height;
  }

  #drawRow(id, at, count, isFocusable) {
    const request = this.#inbox.get(id);
    let row = this.#rows.get(id);
    if (!row) {
      row = this.#makeRow(request);
      this.#rows.set(id, row);
    }
    if (row.request !== request) this.#fillRow(row, request);
    if (row.at !== at || !row.element.isConnected) this.#insert(row, at);
    row.element.setAttribute("aria-posinset", at + 1);
    row.element.setAttribute("aria-setsize", count);
    const isSelected = id === this.#inbox.selected;
    row.element.classList.toggle("selected", isSelected);
    row.link.toggleAttribute("aria-current", isSelected);
    if (isSelected) row.link.setAttribute("aria-current", "true");
    row.link.tabIndex = row.box.tabIndex = isFocusable ? 0 : -1;
    row.box.checked = this.#inbox.marked.has(id);
  }

  #insert(row, at) {
    row.at = at;
    row.element.style.transform = `translateY(${at * this.rowHeight}px)`;
    if (row.element.contains(document.activeElement)) return; // moving it would take the focus away
    const after = [...this.list.children].find((each) => Number(each.dataset.at) > at);
    row.element.dataset.at = at;
    this.list.insertBefore(row.element, after ?? null);
  }

  #makeRow(request) {
    const { id } = request;
    const box = h("input", {
      type: "checkbox",
      "aria-label": `Select the request to run ${visible(request.tool)}`,
      on: { change: () => this.#inbox.mark(id, box.checked) },
    });
    const link = h("a", { href: `#/inbox/${id}`, class: "row-link" });
    const element = h("li", { class: "row", data: { id } }, h("label", { class: "row-box" }, box), link);
    return { element, link, box, time: h("span", { class: "time" }), request: null, at: -1 };
  }

  #fillRow(row, request) {
    const isOpen = request.status === "open";
    row.request = request;
    row.element.classList.toggle("settled", !isOpen);
    row.box.disabled = !isOpen;
    const marks = phrases.findMarks(request).map(([kind, text]) => h("span", { class: `mark ${kind}` }, text));
    const outcome = phrases.outcomeWord(request);
    if (!isOpen) marks.unshift(h("span", { class: `mark outcome ${outcome}` }, outcome));
    fill(
      row.link,
      h("span", { class: "row-head" }, h("span", { class: "tool" }, visible(request.tool)), row.time),
      h("span", { class: "row-brief" }, summarizeRequest(request)),
      h("span", { class: "row-foot" }, h("span", { class: "who" }, phrases.asker(request)), marks),
    );
    this.#updateTime(row);
  }

  /** Update ages and expiries. */
  updateTimes() {
    for (const row of this.#rows.values()) this.#updateTime(row);
  }

  #updateTime({ request, time }) {
    if (!request) return;
    const isOpen = request.status === "open";
    const isUrgent = isOpen && phrases.isUrgent(request);
    const text = !isOpen ? "" : isUrgent ? phrases.expiryText(request) : phrases.ageAndTimeLeft(request);
    if (time.textContent !== text) time.textContent = text;
    time.classList.toggle("urgent", isUrgent);
  }

  /** Scroll a row into view. */
  scrollTo(id, { focus = false } = {}) {
    const at = this.#inbox.ids.indexOf(id);
    if (at < 0) return;
    const top = at * this.rowHeight;
    const bottom = top + this.rowHeight;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (bottom > this.scroll.scrollTop + this.scroll.clientHeight)
      this.scroll.scrollTop = bottom - this.scroll.clientHeight;
    this.#drawNow();
    if (focus) this.#rows.get(id)?.link.focus({ preventScroll: true });
  }

  #onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, End: Infinity, Home: -Infinity }[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const here = event.target.closest(".row")?.dataset.id ?? this.#inbox.selected;
    const next = this.#inbox.neighbour(here, step);
    if (next) this.onSelect(next, { focus: true });
  }
}

/** Return the description, unless it only repeats the name of the tool, and the arguments. */
function summarizeRequest({ tool, description, args }) {
  const said = description === `Run ${tool}` ? "" : description;
  const shortened = said.length > LONGEST_DESCRIPTION ? `${said.slice(0, LONGEST_DESCRIPTION)}…` : said;
  return [visible(shortened), summarizeArguments(args)].filter(Boolean).join(" · ") || visible(description);
}
