/** Detail view of one request: agent, tool, arguments, reason and answers. */

import { button, fill, h, toSentence, visibleNodes } from "./dom.js";
import { findBarrier } from "./entitlement.js";
import { renderConversation } from "./conversation.js";
import { keyOf } from "./keys.js";
import { SeenTracker } from "./seen_tracking.js";
import { formatMoment } from "./times.js";
import { renderArguments, renderPresentation } from "./arguments.js";
import * as phrases from "./phrases.js";

export class Detail {
  #drawn = null; // id of the displayed request

  /** `act(name, id)` handles an answer; without it, the view is read-only. */
  constructor(place, { me, act = null, back }) {
    this.place = place;
    this.me = me;
    this.act = act;
    this.back = back;
  }

  get id() {
    return this.#drawn;
  }

  /** Replace the request by other content. */
  clear(...content) {
    this.tracker?.stop();
    this.tracker = null;
    this.#drawn = null;
    this.request = null;
    fill(this.place, h("div", { class: "nothing" }, content));
  }

  /** Show a request; if it is displayed already, update it in place, so that nothing moves. */
  show(request) {
    this.request = request;
    if (this.#drawn !== request.id) this.#draw(request);
    this.updateTimes();
    this.#drawPeople(request);
    this.#drawResult(request);
    this.#drawActions();
  }

  #draw(request) {
    this.tracker?.stop();
    this.tracker = new SeenTracker(() => this.#drawActions());
    this.#drawn = request.id;
    this.times = h("p", { class: "times" });
    this.people = h("div", { class: "people" });
    this.result = h("div", { class: "result" });
    this.actions = this.act
      ? h("div", { class: "actions", role: "group", "aria-label": "Answer", tabindex: "-1" })
      : null;
    this.heading = h(
      "h2",
      { tabindex: "-1", id: "detail-title" },
      h("span", { class: "who" }, phrases.asker(request)),
      " wants to run ",
      h("span", { class: "tool" }, visibleNodes(request.tool)),
    );
    this.reading = h("div", { class: "reading" });
    fill(this.place, this.reading, this.actions);
    this.reading.append(
      h(
        "article",
        { "aria-labelledby": "detail-title", data: { id: request.id } },
        h("a", { class: "back", href: this.back }, "‹ Back to the list"),
        this.heading,
        this.times,
        this.result,
        this.people,
        this.#renderReasons(request),
        renderSection("Arguments", renderArguments(request.args, this.tracker)),
        this.#renderPresentation(request),
        renderConversation(request.conversation, this.act && keyOf("conversation")),
        renderIds(request),
      ),
    );
  }

  #renderReasons(request) {
    const rule = phrases.ruleNodes(request);
    return h(
      "dl",
      { class: "why" },
      request.described_by === "default"
        ? null
        : renderFact(`The ${request.described_by} says`, visibleNodes(request.description)),
      renderFact("Because", visibleNodes(request.reason)),
      rule ? renderFact("Rule", h("code", {}, rule)) : null,
    );
  }

  #renderPresentation(request) {
    const content = renderPresentation(request.presentation, this.tracker);
    if (!content) return null;
    return renderSection(request.presentation.diff ? "What would change" : "What the tool shows", content);
  }

  /** Update age and expiry, and the answers: an escalation may let this person answer from now on. */
  tick() {
    this.updateTimes();
    this.#drawActions();
  }

  /** Open or close the messages before the call. */
  toggleConversation() {
    const messages = this.reading.querySelector("details.conversation");
    if (!messages) return;
    messages.open = !messages.open;
    messages.scrollIntoView({ block: "nearest" });
  }

  /** Update age and expiry. */
  updateTimes() {
    if (!this.request) return;
    const { request } = this;
    const isOpen = request.status === "open";
    const age = isOpen ? ` · ${phrases.ageText(request)}` : "";
    const expiry = isOpen ? phrases.expiryText(request) : null;
    const urgency = phrases.isUrgent(request) ? "urgent" : null;
    fill(
      this.times,
      `asked ${formatMoment(request.asked_at)}${age}`,
      expiry && [" · ", h("span", { class: urgency }, expiry)],
    );
  }

  #drawPeople(request) {
    const isOpen = request.status === "open";
    const lines = [
      phrases.votesText(request),
      isOpen && phrases.rolesText(request),
      isOpen && phrases.sessionText(request),
      isOpen && phrases.viewersText(request, this.me.name),
    ];
    const text = lines.filter(Boolean).join("\n");
    if (this.people.dataset.text === text) return;
    this.people.dataset.text = text;
    fill(this.people, text ? text.split("\n").map((each) => h("p", {}, each)) : []);
  }

  #drawResult(request) {
    this.result.hidden = request.status === "open";
    if (request.status === "open") return;
    const decision = request.decision;
    const edited = decision?.args
      ? [
          h("p", {}, "with edited arguments:"),
          renderArguments(decision.args, { track: (each) => each, trackFold: (open) => ({ open }) }),
        ]
      : null;
    fill(
      this.result,
      h("p", { class: `mark outcome ${phrases.outcomeWord(request)}` }, phrases.outcomeWord(request)),
      h("p", {}, phrases.answerText(request) ?? toSentence(phrases.stateText(request))),
      decision ? h("p", { class: "quiet" }, toSentence(phrases.stateText(request))) : null,
      decision?.note ? h("blockquote", {}, visibleNodes(decision.note)) : null,
      phrases.rememberedText(decision) ? h("p", {}, phrases.rememberedText(decision)) : null,
      edited,
    );
  }

  #drawActions() {
    if (!this.actions || !this.request) return;
    const { request, tracker } = this;
    const { id } = request;
    this.actions.dataset.settled = tracker.isSettled;
    const barrier = findBarrier(request, this.me);
    const key = `${id} ${request.status} ${tracker.isComplete} ${tracker.remaining} ${barrier?.text}`;
    if (this.actions.dataset.key === key) return;
    const focused = this.actions.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    this.actions.dataset.key = key;
    const makeButton = (label, act, given = {}) =>
      button(label, () => this.act(act, id), { ...given, data: { act, id } });
    if (request.status !== "open")
      fill(this.actions, makeButton("Next request", "next", { key: "j", class: "plain-button" }));
    else
      fill(
        this.actions,
        this.#renderHint(barrier),
        h("div", { class: "action-row" }, this.#renderButtons(request, makeButton, barrier)),
      );
    // Never on to an answer: a second Enter was meant for the button that was here, and is no approval.
    if (focused) (this.actions.querySelector(`[data-act="${focused}"]`) ?? this.actions).focus();
  }

  #renderHint(barrier) {
    if (barrier) return h("p", { class: "left", id: "left" }, barrier.text);
    if (this.tracker.isComplete) return h("p", { class: "left done", id: "left" }, "All of it was on your screen.");
    return h(
      "p",
      { class: "left", id: "left" },
      `To allow it, see all of it first: ${this.tracker.remaining}. `,
      button("Show more", () => this.tracker.showNext(), { class: "link-button", data: { act: "more" } }),
    );
  }

  #renderButtons(request, makeButton, barrier) {
    const off = (isOff) => (isOff ? { "aria-disabled": "true", "aria-describedby": "left" } : {});
    const yes = off(!this.tracker.isComplete || barrier);
    const edit = off(barrier || request.approvers?.count > 1); // several people say yes to the same arguments
    const no = off(barrier?.alsoNo);
    return [
      makeButton("Allow once", "allow", { key: keyOf("allow"), class: "yes-button", ...yes }),
      request.scopes.length
        ? makeButton("Allow for…", "lasting", { key: keyOf("lasting"), class: "plain-button", ...yes })
        : null,
      makeButton("Edit…", "edit", { key: keyOf("edit"), class: "plain-button", ...edit }),
      h("span", { class: "gap" }),
      makeButton("Deny", "deny", { key: keyOf("deny"), class: "no-button", ...no }),
      makeButton(
        h("span", {}, h("span", { class: "long" }, "Deny with a "), h("span", { class: "note-word" }, "note…")),
        "note",
        { key: keyOf("note"), class: "plain-button", ...no },
      ),
    ];
  }
}

function renderSection(title, content) {
  return h("section", {}, h("h3", {}, title), content);
}

function renderFact(name, ...content) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, content));
}

function renderIds(request) {
  const rows = [
    ["Request", request.id],
    ["Call", request.call_id],
    ["Session", request.session],
    ["Run", request.run],
    ["Asked by", request.asked_by],
    ["Project", request.project],
  ];
  return h(
    "details",
    { class: "facts" },
    h("summary", {}, "Ids"),
    h(
      "dl",
      { class: "why" },
      rows.filter(([, value]) => value).map(([name, value]) => renderFact(name, h("code", {}, visibleNodes(value)))),
    ),
  );
}
