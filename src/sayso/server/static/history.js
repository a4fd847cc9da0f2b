/** History view: past requests with search and filter, newest first. */

import { Detail } from "./detail.js";
import { button, fill, h } from "./dom.js";
import * as hub from "./api.js";
import { formatMoment } from "./times.js";
import { summarizeArguments } from "./arguments.js";
import { visible } from "./sanitize.js";
import * as phrases from "./phrases.js";

const STATES = [
  ["all", "all"],
  ["open", "waiting"],
  ["approved", "allowed, not run yet"],
  ["used", "allowed and run"],
  ["denied", "denied"],
  ["expired", "expired"],
  ["withdrawn", "withdrawn"],
];
const TYPING_MS = 250; // pause after the last key

export class HistoryView {
  constructor(place, me) {
    this.rows = h("ul", { class: "entries" });
    this.more = button("Show older ones", () => this.#load(true), { class: "plain-button", hidden: true });
    this.message = h("p", { class: "quiet", role: "status" }, "Loading…");
    this.search = h("input", {
      type: "search",
      id: "history-search",
      autocomplete: "off",
      placeholder: "tool, agent, argument",
      on: { input: () => this.#loadSoon() },
    });
    this.status = h(
      "select",
      { id: "history-status", on: { change: () => this.#load() } },
      STATES.map(([value, text]) => h("option", { value }, text)),
    );
    this.pane = h("div", { class: "pane detail-pane" });
    this.detail = new Detail(this.pane, { me, back: "#/history" });
    fill(
      place,
      h(
        "div",
        { class: "pane list-pane" },
        h(
          "div",
          { class: "list-head" },
          h("h2", {}, "History"),
          h(
            "div",
            { class: "filters two" },
            h("label", { for: "history-search" }, "Search"),
            this.search,
            h("label", { for: "history-status" }, "State"),
            this.status,
          ),
          this.message,
        ),
        h("div", { class: "entries-scroll" }, this.rows, this.more),
      ),
      this.pane,
    );
  }

  /** Show the list, loaded if necessary, and one request next to it. */
  async show(id) {
    this.id = id;
    if (!this.loaded) await this.#load();
    this.#markSelected();
    if (!id) return this.detail.clear(h("p", {}, "Choose a request to see all of it."));
    try {
      this.detail.show(await hub.getRequest(id));
      this.detail.heading.focus();
    } catch (problem) {
      this.detail.clear(h("p", {}, visible(problem.message)));
    }
  }

  /** Have the list loaded again the next time: it may be out of date. */
  invalidate() {
    this.loaded = false;
  }

  #loadSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#load(), TYPING_MS);
  }

  async #load(older = false) {
    const loadNumber = (this.loadNumber = (this.loadNumber ?? 0) + 1);
    const query = {
      status: this.status.value,
      q: this.search.value.trim(),
      limit: 50,
      before: older ? this.next : null,
    };
    try {
      const found = await hub.listRequests(query);
      if (loadNumber !== this.loadNumber) return; // a later query is under way
      this.loaded = true;
      this.next = found.next;
      const rows = found.items.map(renderEntry);
      if (older) this.rows.append(...rows);
      else fill(this.rows, rows);
      this.more.hidden = !found.next;
      this.message.textContent = this.rows.children.length ? "" : this.#emptyText();
      this.#markSelected();
    } catch (problem) {
      this.message.textContent = visible(problem.message);
    }
  }

  #emptyText() {
    const isAll = this.status.value === "all" && !this.search.value.trim();
    return isAll ? "Nothing was asked yet." : "Nothing was found: try other words, or another state.";
  }

  /** Reload the list after a lost connection. */
  refresh() {
    return this.#load();
  }

  #markSelected() {
    for (const each of this.rows.children) {
      const isChosen = each.dataset.id === this.id;
      each.classList.toggle("selected", isChosen);
      const link = each.querySelector("a");
      if (isChosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}

function renderEntry(request) {
  const by = request.decision?.who ? ` · by ${visible(request.decision.who)}` : "";
  return h(
    "li",
    { class: "entry", data: { id: request.id } },
    h(
      "a",
      { href: `#/history/${request.id}`, class: "row-link" },
      h(
        "span",
        { class: "row-head" },
        h("span", { class: "tool" }, visible(request.tool)),
        h("span", { class: "time" }, formatMoment(request.asked_at)),
      ),
      h("span", { class: "row-brief" }, summarizeArguments(request.args) || visible(request.description)),
      h(
        "span",
        { class: "row-foot" },
        h("span", { class: `mark outcome ${phrases.outcomeWord(request)}` }, phrases.outcomeWord(request)),
        h("span", { class: "who" }, `${phrases.asker(request)}${by}`),
      ),
    ),
  );
}
