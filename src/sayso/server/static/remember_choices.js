/** Form for a remembered approval: scope, sessions, duration and number of uses, and the other requests it answers. */

import * as hub from "./api.js";
import { summarizeArguments } from "./arguments.js";
import { openDialog } from "./dialogs.js";
import { button, fill, h, visibleNodes } from "./dom.js";
import { asker } from "./phrases.js";
import { visible } from "./sanitize.js";
import { formatSpan } from "./times.js";

const SPANS = [900, 3600, 8 * 3600, 86400, 7 * 86400, 30 * 86400];
const WIDTHS = { call: "Only this", prefix: "Commands like this", folder: "This folder", tool: "The whole tool" };

const MOST_NAMED = 5;
const WHOLE_NUMBER = /^[1-9][0-9]{0,8}$/;

/** Ask for scope and duration of a remembered approval; resolves with the decision, or null. */
export function askHowLong(inbox, request) {
  const closed = new AbortController();
  const answer = openDialog("Allow, and remember it", (close) => makeForm(inbox, request, { close, closed }));
  return answer.finally(() => closed.abort());
}

function makeForm(inbox, request, { close, closed }) {
  const scopes = request.scopes.map((scope, at) => makeScopeRadio(scope, at));
  const sessions = [
    makeRadio("remember", "session", "In this session of the agent", true),
    makeRadio("remember", "always", "In every session of this project", false),
  ];
  const most = request.remember_max === null ? Infinity : Number(request.remember_max);
  const spans = SPANS.filter((seconds) => seconds <= most);
  const longest =
    most === Infinity
      ? h("option", { value: "" }, "no end")
      : h("option", { value: String(most) }, `${formatSpan(most)}, the longest that the policy allows`);
  const duration = h(
    "select",
    { id: "lasting-span" },
    spans.map((each) => h("option", { value: each, selected: each === 3600 }, formatSpan(each))),
    spans.includes(most) ? null : longest,
  );
  const uses = h("input", {
    id: "lasting-uses",
    inputmode: "numeric",
    autocomplete: "off",
    "aria-describedby": "lasting-uses-problem",
  });
  const problem = h("p", { class: "field-problem", id: "lasting-uses-problem" });
  const element = h("form", { class: "lasting", novalidate: true });
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    const useCount = uses.value.trim();
    if (useCount && !WHOLE_NUMBER.test(useCount)) {
      problem.textContent = "This must be a whole number from 1 up, or empty.";
      uses.setAttribute("aria-invalid", "true");
      uses.focus();
      return;
    }
    close(readDecision(new FormData(element), { seconds: duration.value, uses: useCount }));
  });
  const yes = h("button", { class: "yes-button" }, "Allow and remember");
  const others = new CoveredRequests(inbox, request, { form: element, uses, yes });
  element.append(
    h("fieldset", {}, h("legend", {}, "For which calls"), scopes),
    h("fieldset", {}, h("legend", {}, "Where"), sessions),
    h("div", { class: "field" }, h("label", { for: "lasting-span" }, "For how long"), duration),
    h(
      "div",
      { class: "field" },
      h("label", { for: "lasting-uses" }, "How many calls after this one (empty: any number)"),
      uses,
      problem,
    ),
    h("p", { class: "quiet" }, "It can be revoked at any time under Remembered."),
    others.element,
    h(
      "div",
      { class: "buttons" },
      yes,
      button("Back", () => close()),
    ),
  );
  others.follow(closed.signal);
  return element;
}

/** The other open requests that the choice would answer too, as the hub says; until it has, the yes is off. */
class CoveredRequests {
  #checking = false;
  #again = false;

  constructor(inbox, request, { form, uses, yes }) {
    Object.assign(this, { inbox, request, form, uses, yes });
    this.element = h("div", { class: "covered", "aria-live": "polite" });
  }

  /** Ask now, after every change of the choice, and when a request of this tool changes. */
  follow(signal) {
    // Not `change`: for a text field it fires when a click on the yes takes the focus, and that click would be lost.
    this.form.addEventListener("input", () => this.#start());
    const onChange = ({ detail }) => detail.request?.tool === this.request.tool && this.#check();
    this.inbox.addEventListener("change", onChange, { signal });
    this.#start();
  }

  #start() {
    this.yes.disabled = true;
    this.#check();
  }

  async #check() {
    this.#again = true;
    if (this.#checking) return;
    this.#checking = true;
    while (this.#again) {
      this.#again = false;
      const content = await this.#ask();
      if (this.#again) continue;
      fill(this.element, content.nodes);
      this.yes.disabled = content.failed;
    }
    this.#checking = false;
  }

  async #ask() {
    const chosen = new FormData(this.form);
    const uses = this.uses.value.trim();
    if (uses && !WHOLE_NUMBER.test(uses)) return { nodes: [], failed: false }; // the form refuses it
    try {
      const terms = { remember: chosen.get("remember"), scope: chosen.get("scope"), uses };
      return { nodes: this.#render(await hub.getCovered(this.request.id, terms)), failed: false };
    } catch (problem) {
      if (!(problem instanceof hub.Problem)) throw problem;
      const sentence = `Which other requests this answers is not known. ${visible(problem.message)}`;
      return { nodes: [h("p", { class: "needs" }, sentence), button("Ask again", () => this.#start())], failed: true };
    }
  }

  #render({ count, items }) {
    const total = Number(count);
    if (!total) return [h("p", { class: "quiet" }, "It answers no other open request.")];
    const named = items.slice(0, MOST_NAMED);
    const more = total - named.length;
    return [
      h("p", { class: "needs" }, `This also allows ${total} other open ${total === 1 ? "request" : "requests"}:`),
      h(
        "ul",
        {},
        named.map((each) => h("li", {}, this.#describe(each))),
        more > 0 && h("li", {}, `and ${more} more`),
      ),
    ];
  }

  #describe(item) {
    const known = this.inbox.get(item.id);
    const what = known ? h("span", { class: "also" }, summarizeArguments(known.args, 80)) : null;
    return [h("strong", {}, visibleNodes(item.tool)), ` for ${asker(item)}`, what].filter(Boolean);
  }
}

function readDecision(chosen, { seconds, uses }) {
  const found = { approved: true, remember: chosen.get("remember"), scope: chosen.get("scope") };
  if (seconds) found.seconds = Number(seconds);
  if (uses) found.uses = Number(uses);
  return found;
}

function makeScopeRadio(scope, at) {
  return makeRadio(
    "scope",
    scope.kind,
    [h("strong", {}, WIDTHS[scope.kind] ?? scope.kind), h("span", { class: "also" }, visibleNodes(scope.label))],
    at === 0,
  );
}

function makeRadio(name, value, content, checked) {
  return h(
    "label",
    { class: "choice" },
    h("input", { type: "radio", name, value, checked, required: true }),
    h("span", {}, content),
  );
}
