/** Detail view of one request: agent, tool, arguments, reason and answers. */

import { button, fill, h, shown } from "./dom.js";
import { Sight } from "./seen_tracking.js";
import { moment } from "./times.js";
import { argumentsOf, presented } from "./arguments.js";
import * as words from "./phrases.js";

export class Detail {
  #drawn = null; // the id that is on the screen

  /** `act(name, id)` is called for an answer; without it, the request is only shown. */
  constructor(place, { me, act = null, back }) {
    this.place = place;
    this.me = me;
    this.act = act;
    this.back = back;
  }

  get id() {
    return this.#drawn;
  }

  /** Show nothing but a sentence. */
  clear(...content) {
    this.sight?.stop();
    this.sight = null;
    this.#drawn = null;
    this.request = null;
    fill(this.place, h("div", { class: "nothing" }, content));
  }

  /** Show a request; one that is shown already is only brought up to date, nothing in it moves. */
  show(request) {
    this.request = request;
    if (this.#drawn !== request.id) this.#draw(request);
    this.tick();
    this.#drawPeople(request);
    this.#drawResult(request);
    this.#drawActions();
  }

  #draw(request) {
    this.sight?.stop();
    this.sight = new Sight(() => this.#drawActions());
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
      h("span", { class: "who" }, words.asker(request)),
      " wants to run ",
      h("span", { class: "tool" }, shown(request.tool)),
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
        this.#why(request),
        section("Arguments", argumentsOf(request.args, this.sight)),
        this.#presentation(request),
        facts(request),
      ),
    );
  }

  #why(request) {
    const rule = words.rule(request);
    return h(
      "dl",
      { class: "why" },
      fact("The tool says", shown(request.description)),
      fact("Because", shown(request.reason)),
      rule ? fact("Rule", h("code", {}, rule)) : null,
    );
  }

  #presentation(request) {
    const content = presented(request.presentation, this.sight);
    return content ? section(request.presentation.diff ? "What would change" : "What the tool shows", content) : null;
  }

  /** Bring the times up to date. */
  tick() {
    if (!this.request) return;
    const { request } = this;
    const isOpen = request.status === "open";
    const text = [`asked ${moment(request.asked_at)}`, isOpen && words.waiting(request)].filter(Boolean).join(" · ");
    const over = isOpen ? words.expiry(request) : null;
    fill(this.times, text, over && [" · ", h("span", { class: words.isUrgent(request) ? "urgent" : null }, over)]);
  }

  #drawPeople(request) {
    const isOpen = request.status === "open";
    const said = [
      words.votes(request),
      isOpen && words.needs(request),
      isOpen && words.lasts(request),
      isOpen && words.lookers(request, this.me.name),
    ];
    const text = said.filter(Boolean).join("\n");
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
          argumentsOf(decision.args, { part: (each) => each, folded: (open) => ({ open }) }),
        ]
      : null;
    fill(
      this.result,
      h("p", { class: `mark outcome ${words.outcome(request)}` }, words.outcome(request)),
      h("p", {}, words.answeredBy(request) ?? sentence(words.state(request))),
      decision ? h("p", { class: "quiet" }, sentence(words.state(request))) : null,
      decision?.note ? h("blockquote", {}, shown(decision.note)) : null,
      words.remembered(decision) ? h("p", {}, words.remembered(decision)) : null,
      edited,
    );
  }

  #drawActions() {
    if (!this.actions || !this.request) return;
    const { request, sight } = this;
    const { id } = request;
    this.actions.dataset.settled = sight.isSettled;
    const mine = request.votes.some((vote) => vote.who === this.me.name && vote.approved);
    const key = `${id} ${request.status} ${sight.isComplete} ${sight.left} ${mine}`;
    if (this.actions.dataset.key === key) return;
    const focused = this.actions.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    this.actions.dataset.key = key;
    const make = (label, act, given = {}) => button(label, () => this.act(act, id), { ...given, data: { act, id } });
    if (request.status !== "open")
      fill(this.actions, make("Next request", "next", { key: "j", class: "plain-button" }));
    else
      fill(
        this.actions,
        this.#hint(request, mine),
        h("div", { class: "action-row" }, this.#buttons(request, make, mine)),
      );
    // Never on to an answer: whoever still presses Enter on what was here means that, and not a yes.
    if (focused) (this.actions.querySelector(`[data-act="${focused}"]`) ?? this.actions).focus();
  }

  #hint(request, mine) {
    if (mine) return h("p", { class: "left", id: "left" }, "You have said yes; somebody else has to say yes as well.");
    if (this.sight.isComplete) return h("p", { class: "left done", id: "left" }, "All of it was on your screen.");
    return h(
      "p",
      { class: "left", id: "left" },
      `To allow it, see all of it first: ${this.sight.left}. `,
      button("Show more", () => this.sight.showNext(), { class: "link-button", data: { act: "more" } }),
    );
  }

  #buttons(request, make, mine) {
    const off = this.sight.isComplete && !mine ? {} : { "aria-disabled": "true", "aria-describedby": "left" };
    return [
      make("Allow once", "allow", { key: "a", class: "yes-button", ...off }),
      request.scopes.length ? make("Allow for…", "lasting", { key: "f", class: "plain-button", ...off }) : null,
      make("Edit…", "edit", { key: "e", class: "plain-button" }),
      h("span", { class: "gap" }),
      make("Deny", "deny", { key: "d", class: "no-button" }),
      make(
        h("span", {}, h("span", { class: "long" }, "Deny with a "), h("span", { class: "note-word" }, "note…")),
        "note",
        { key: "n", class: "plain-button" },
      ),
    ];
  }
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

function section(title, content) {
  return h("section", {}, h("h3", {}, title), content);
}

function fact(name, ...content) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, content));
}

function facts(request) {
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
      rows.filter(([, value]) => value).map(([name, value]) => fact(name, h("code", {}, shown(value)))),
    ),
  );
}
