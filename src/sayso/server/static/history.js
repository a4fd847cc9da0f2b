/** History view: past requests with search and filter, newest first. */

import { Detail } from "./detail.js";
import { button, fill, h } from "./dom.js";
import * as hub from "./api.js";
import { HistoryFilters } from "./history_filters.js";
import { formatMoment } from "./times.js";
import { summarizeArguments } from "./arguments.js";
import { visible } from "./sanitize.js";
import * as phrases from "./phrases.js";

const MOST_PAGES = 20; // of a search that finds nothing, before it waits for a click

export class HistoryView {
  constructor(place, me) {
    this.rows = h("ul", { class: "entries" });
    this.more = button("Show older ones", () => this.#load(true), { class: "plain-button", hidden: true });
    this.message = h("p", { class: "quiet", role: "status" }, "Loading…");
    this.filters = new HistoryFilters(() => this.#onFilter());
    this.pane = h("div", { class: "pane detail-pane" });
    this.detail = new Detail(this.pane, { me, back: "#/history" });
    fill(
      place,
      h(
        "div",
        { class: "pane list-pane" },
        h("div", { class: "list-head" }, h("h2", {}, "History"), this.filters.element, this.message),
        h("div", { class: "entries-scroll" }, this.rows, this.more),
      ),
      this.pane,
    );
  }

  get search() {
    return this.filters.search;
  }

  /** Show the list, loaded if necessary, and one request next to it; the address holds the filters. */
  async show(id, params) {
    this.id = id;
    if (this.filters.read(params) || !this.loaded) await this.#load();
    this.detail.back = this.#address();
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

  #address(id = "") {
    const query = String(this.filters);
    return `#/history${id && `/${id}`}${query && `?${query}`}`;
  }

  /** Put the filters into the address, without a step in the browser's history, and load the list. */
  #onFilter() {
    history.replaceState(null, "", this.#address(this.id ?? ""));
    this.detail.back = this.#address();
    return this.#load();
  }

  async #load(older = false) {
    const loadNumber = (this.loadNumber = (this.loadNumber ?? 0) + 1);
    const query = { ...this.filters.asQuery(), limit: 50, before: older ? this.next : null };
    if (!older) this.searched = 0;
    try {
      let found;
      for (let pages = 0; pages < MOST_PAGES && !found?.items.length && query.before !== undefined; pages += 1) {
        found = await hub.listRequests(query);
        if (loadNumber !== this.loadNumber) return; // a later query is under way
        this.searched += Number(found.searched);
        query.before = found.next ?? undefined;
        if (!found.items.length && found.next) this.message.textContent = `${this.#searchedText()} so far…`;
      }
      this.#show(found, older);
    } catch (problem) {
      this.message.textContent = visible(problem.message);
    }
  }

  #show(found, older) {
    this.loaded = true;
    this.next = found.next;
    const rows = found.items.map((each) => renderEntry(each, this.#address(each.id)));
    if (older) this.rows.append(...rows);
    else fill(this.rows, rows);
    this.more.hidden = !found.next;
    this.more.textContent = this.rows.children.length ? "Show older ones" : "Search older ones";
    this.message.textContent = this.rows.children.length ? "" : this.#emptyText(found.next);
    this.#markSelected();
  }

  #searchedText() {
    return `${this.searched.toLocaleString("en-US")} requests searched`;
  }

  #emptyText(isCut) {
    if (isCut) return `Nothing was found among the newest: ${this.#searchedText()}.`;
    return this.filters.isSet ? "Nothing was found: try other words, or fewer filters." : "Nothing was asked yet.";
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

function renderEntry(request, address) {
  const by = request.decision?.who ? ` · by ${visible(request.decision.who)}` : "";
  return h(
    "li",
    { class: "entry", data: { id: request.id } },
    h(
      "a",
      { href: address, class: "row-link" },
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
