/** Inbox view: the list, the selected request, and its answer buttons. */

import { announceArrival, announceMatches, showNotice } from "./announce.js";
import { handleRejection, sendDecision } from "./answering.js";
import { Detail } from "./detail.js";
import { askForNote } from "./dialogs.js";
import { askForArguments } from "./editing.js";
import { button, fill, h } from "./dom.js";
import { findBarrier } from "./entitlement.js";
import * as hub from "./api.js";
import { actionOf, isFilterKey } from "./keys.js";
import { askHowLong } from "./remember_choices.js";
import { List } from "./list.js";
import { askToAllowAll, askToDenyAll } from "./bulk_answer.js";
import { visible } from "./sanitize.js";
import * as phrases from "./phrases.js";

const TIDY_MS = 6000; // how long an answered request stays listed; longer while the list is in use
const PAGE = 500; // requests per page while loading
const SAME_ARGUMENTS = "Several people have to say yes to the same arguments, so they cannot be edited.";

export class InboxView {
  #busy = false; // an answer is being sent

  constructor(place, inbox, me) {
    this.inbox = inbox;
    this.me = me;
    this.build(place);
    inbox.addEventListener("change", ({ detail }) => this.#onChange(detail));
    this.list.draw();
  }

  build(place) {
    this.count = h("p", { class: "count" });
    this.search = h("input", {
      type: "search",
      id: "search",
      autocomplete: "off",
      placeholder: "words, tool:name, agent:name",
      on: { input: () => this.#filter() },
    });
    this.removeButton = button("", () => this.inbox.removeClosed(), { class: "link-button", hidden: true });
    this.bulkBar = h("div", {
      class: "together-bar",
      role: "group",
      "aria-label": "Answer those that are selected",
      hidden: true,
    });
    const scroll = h("div", { class: "scroll" });
    const list = h("ul", { class: "list", "aria-label": "Requests that wait, oldest first" });
    this.empty = h(
      "div",
      { class: "nothing", hidden: true },
      h("p", { class: "big" }, "Nothing waits for you."),
      h("p", {}, "When an agent needs an answer, it appears here by itself."),
    );
    this.noMatch = h("div", { class: "nothing", hidden: true }, h("p", {}, "Nothing that waits fits this search."));
    scroll.append(list, this.empty, this.noMatch);
    this.listPane = h(
      "div",
      { class: "pane list-pane" },
      h(
        "div",
        { class: "list-head" },
        h("div", { class: "list-title" }, h("h2", {}, "Inbox"), this.count),
        h("div", { class: "filters" }, h("label", { for: "search" }, "Search"), this.search),
      ),
      scroll,
      h("div", { class: "list-foot" }, this.removeButton, this.bulkBar),
    );
    this.detailPane = h("div", { class: "pane detail-pane" });
    fill(place, this.listPane, this.detailPane);
    this.list = new List(this.inbox, { scroll, list, onSelect: (id, how) => this.select(id, how) });
    this.detail = new Detail(this.detailPane, { me: this.me, act: (name, id) => this.act(name, id), back: "#/inbox" });
    this.detail.clear();
  }

  /** Load all open requests, page by page; `follow` is called with the point from which to follow the events. */
  async load(follow) {
    let after = null;
    for (;;) {
      try {
        const page = await hub.listRequests({ status: "pending", limit: PAGE, after });
        if (after === null) follow(page.point);
        this.inbox.addPage(page.items);
        after = page.next;
        if (after === null) break;
      } catch (problem) {
        if (problem.status === 401) return dispatchEvent(new CustomEvent("signed-out"));
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
    this.inbox.finishLoading();
    if (!this.inbox.selected) this.show(null);
  }

  /** Show a request; without an id, the first one if there is room beside the list. */
  async show(wanted) {
    const before = this.inbox.selected;
    const id = wanted ?? this.#firstBesideTheList();
    this.inbox.selected = id;
    this.list.draw();
    if (before && before !== id && !this.inbox.isOpen(before)) this.#removeClosedLater();
    if (!id) return this.detail.clear(h("p", {}, "Choose a request to see all of it."));
    const known = this.inbox.get(id);
    if (known) this.#open(known, { moveFocus: wanted !== null });
    else await this.#fetchRequest(id);
  }

  #firstBesideTheList() {
    const hasRoom = this.listPane.checkVisibility() && this.detailPane.checkVisibility();
    return hasRoom ? this.inbox.neighbour(null, 1) : null;
  }

  async #fetchRequest(id) {
    try {
      const request = await hub.getRequest(id);
      this.inbox.update(request);
      if (this.inbox.selected === id) this.#open(request);
    } catch (problem) {
      this.detail.clear(h("p", {}, visible(problem.message)));
    }
  }

  #open(request, { moveFocus = true } = {}) {
    const isNew = this.detail.id !== request.id;
    this.detail.show(request);
    if (!isNew) return;
    const isListInUse = this.listPane.contains(document.activeElement) && this.listPane.checkVisibility();
    if (moveFocus && !isListInUse) this.detail.heading.focus();
    if (request.status === "open") hub.markSeen(request.id).catch(() => null);
  }

  /** Select a request, and put it into the address, so that Back works. */
  select(id, { focus = false } = {}) {
    location.hash = `#/inbox/${id}`;
    this.show(id);
    this.list.scrollTo(id, { focus: focus || this.list.list.contains(document.activeElement) });
  }

  /** Update what changes with the time. */
  tick() {
    this.list.updateTimes();
    this.detail.tick();
  }

  #filter() {
    this.list.scroll.scrollTop = 0;
    this.inbox.filter = this.search.value;
    announceMatches(this.inbox.ids.length);
  }

  #onChange({ kind, request }) {
    this.#drawSoon();
    if (request && request.id === this.detail.id) this.detail.show(request);
    if (kind === "arrived") announceArrival(phrases.arrivalText(request));
    if (kind === "changed" && request.status !== "open") this.#removeClosedLater();
  }

  /** Redraw once per frame, however many changes arrive. */
  #drawSoon() {
    this.list.draw();
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.#drawHead();
    });
  }

  #drawHead() {
    const { inbox } = this;
    const openCount = inbox.openCount;
    const matches = inbox.filter ? `${inbox.ids.length.toLocaleString("en-US")} found of ` : "";
    const text = `${matches}${openCount.toLocaleString("en-US")} waiting${inbox.loading ? ", loading…" : ""}`;
    if (this.count.textContent !== text) this.count.textContent = text;
    const isEmpty = !inbox.loading && inbox.ids.length === 0;
    this.empty.hidden = !isEmpty || Boolean(inbox.filter);
    this.noMatch.hidden = !isEmpty || !inbox.filter;
    this.detailPane.classList.toggle("idle", !this.empty.hidden);
    const closedCount = inbox.closedCount;
    this.removeButton.hidden = !closedCount;
    this.removeButton.textContent =
      closedCount === 1 ? "Take 1 answered request off the list" : `Take ${closedCount} answered requests off the list`;
    this.#drawBulkBar();
  }

  #drawBulkBar() {
    const ids = this.inbox.ids.filter((id) => this.inbox.marked.has(id));
    this.bulkBar.hidden = !ids.length;
    if (!ids.length) return;
    const clear = () => [...this.inbox.marked].forEach((id) => this.inbox.mark(id, false));
    const all = () => this.inbox.ids.forEach((id) => this.inbox.mark(id, true));
    fill(
      this.bulkBar,
      h("p", { role: "status" }, `${ids.length} selected`),
      button("Allow…", () => askToAllowAll(this.inbox, this.me, ids), { class: "yes-button small" }),
      button("Deny…", () => askToDenyAll(this.inbox, ids), { class: "no-button small" }),
      button("All", all, { class: "quiet-button", "aria-label": "Select all on the list" }),
      button("None", clear, { class: "quiet-button", "aria-label": "Select none" }),
    );
  }

  /** Remove closed requests from the list once neither pointer nor focus is on it. */
  #removeClosedLater() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const inUse = this.listPane.matches(":hover") || this.listPane.contains(document.activeElement);
      if (inUse) this.#removeClosedLater();
      else this.inbox.removeClosed();
    }, TIDY_MS);
  }

  /** Handle a keyboard shortcut; returns whether the key is one. */
  handleKey(key) {
    if (isFilterKey(key)) return (this.search.focus(), true);
    if (key === "j" || key === "k") return (this.#selectNeighbour(key === "j" ? 1 : -1), true);
    if (!this.detail.id) return false;
    if (key === "x") return (this.inbox.mark(this.detail.id, !this.inbox.marked.has(this.detail.id)), true);
    const action = actionOf(key);
    if (!action) return false;
    if (action === "view") this.detail.tracker?.showNext();
    else if (action === "conversation") this.detail.toggleConversation();
    else this.act(action, this.detail.id);
    return true;
  }

  #selectNeighbour(step) {
    const next = this.inbox.neighbour(this.inbox.selected, step);
    if (next) this.select(next);
    else showNotice(step > 0 ? "There is no further request." : "There is none before this one.", "plain");
  }

  /** Answer the displayed request, and no other. */
  async act(name, id) {
    if (name === "next") return this.#selectNeighbour(1);
    const { request, tracker } = this.detail;
    if (this.#busy || id !== this.detail.id || id !== this.inbox.selected || request?.status !== "open") return;
    if (!tracker.isSettled) return showNotice("This has only just appeared. Look at it, then answer.", "plain");
    const barrier = findBarrier(request, this.me);
    const isNo = name === "deny" || name === "note";
    if (barrier && (barrier.alsoNo || !isNo)) return showNotice(barrier.text, "plain");
    if ((name === "allow" || name === "lasting") && !this.#hasSeenAll(tracker)) return;
    if (name === "edit" && request.approvers?.count > 1) return showNotice(SAME_ARGUMENTS, "plain");
    this.#busy = true;
    try {
      await this[`_${name}`](id, request);
    } finally {
      this.#busy = false;
    }
    if (this.inbox.get(id)?.status !== "open" && this.detail.id === id)
      this.detail.actions.querySelector("button")?.focus();
  }

  #hasSeenAll(tracker) {
    if (tracker.isComplete) return true;
    tracker.showNext();
    showNotice(`To allow it, see all of it first: ${tracker.remaining}.`, "plain");
    return false;
  }

  _allow(id) {
    return sendDecision(this.inbox, id, { outcome: "proceed_once" });
  }

  _deny(id) {
    return sendDecision(this.inbox, id, { outcome: "cancel" });
  }

  async _note(id, request) {
    const text = await askForNote(`Deny ${visible(request.tool)}`, {
      label: "A note; the agent is told it",
      send: "Deny with this note",
    });
    if (text === null) return;
    await sendDecision(this.inbox, id, text ? { outcome: "cancel", note: text } : { outcome: "cancel" });
  }

  async _lasting(id, request) {
    const decision = await askHowLong(this.inbox, request);
    if (decision) await sendDecision(this.inbox, id, decision);
  }

  _edit(id, request) {
    return askForArguments(request, async (args) => {
      try {
        this.inbox.update(await hub.postAnswer(id, { outcome: "modify", args }));
        showNotice("Allowed with the edited arguments.");
        return null;
      } catch (problem) {
        const sentence = handleRejection(problem, this.inbox);
        if (problem.status !== 409) return sentence;
        showNotice(sentence, "bad");
        return null;
      }
    });
  }
}
