/** Bulk answer: an approval shows every call in full; calls that differ are excluded until they were opened. */

import { showNotice } from "./announce.js";
import { handleRejection } from "./answering.js";
import { openDialog } from "./dialogs.js";
import { button, fill, h, visibleNodes } from "./dom.js";
import * as hub from "./api.js";
import { SeenTracker } from "./seen_tracking.js";
import { renderArguments, renderPresentation } from "./arguments.js";
import { visible } from "./sanitize.js";
import * as phrases from "./phrases.js";

const MOST = 20; // nobody reads more at once

/** Show the selected requests in full, and allow those that are included. */
export async function askToAllowAll(inbox, ids) {
  const requests = ids.map((id) => inbox.get(id)).filter((each) => each?.status === "open");
  if (requests.length > MOST) {
    showNotice(`A yes to more than ${MOST} at once is not offered: nobody reads that many. Select fewer.`, "bad");
    return;
  }
  const chosen = await openDialog(
    `Allow ${requests.length} requests, once each`,
    (close, foot) => new BulkDialog(inbox, requests, { close, foot }).element,
    { wide: true },
  );
  if (chosen) await answerAll(inbox, chosen, { approved: true }, "allowed");
}

/** Deny the selected requests after a confirmation. */
export async function askToDenyAll(inbox, ids) {
  const count = ids.length;
  const note = await openDialog(`Deny ${count} ${count === 1 ? "request" : "requests"}?`, (close) => {
    const field = h("textarea", { id: "note", rows: "3", maxlength: "4000" });
    return [
      h("p", {}, "None of them will run."),
      h("label", { for: "note" }, "A note for the agents (may be empty)"),
      field,
      h(
        "div",
        { class: "buttons" },
        button(`Deny all ${count}`, () => close({ text: field.value.trim() }), { class: "no-button" }),
        button("Back", () => close()),
      ),
    ];
  });
  if (note)
    await answerAll(inbox, ids, note.text ? { approved: false, note: note.text } : { approved: false }, "denied");
}

async function answerAll(inbox, ids, decision, outcome) {
  const problems = [];
  let done = 0;
  for (const id of ids) {
    const problem = await retryWhenThrottled(
      () => hub.postAnswer(id, decision).then((request) => inbox.update(request)),
      `${done} of ${ids.length} ${outcome}`,
    );
    inbox.mark(id, false);
    if (!problem) done += 1;
    else problems.push(handleRejection(problem, inbox));
    if (problem?.status === 0 || problem?.status === 401) break;
  }
  const rest = problems.length ? ` ${problems.length} not: ${[...new Set(problems)].slice(0, 3).join(" ")}` : "";
  showNotice(`${done} of ${ids.length} ${outcome}.${rest}`, problems.length ? "bad" : "good");
}

/** Run `work`, and retry while the rate limit is reached; returns the problem, or null. */
async function retryWhenThrottled(work, progress) {
  for (;;) {
    try {
      await work();
      return null;
    } catch (problem) {
      if (!(problem instanceof hub.Problem)) throw problem;
      if (problem.status !== 429) return problem;
      const seconds = Number(problem.facts.retry_after ?? 5);
      showNotice(`${progress} so far. The hub takes more in ${seconds} s; keep this page open.`, "plain");
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }
}

/** Content of the dialog: every request in full, one below the other. */
class BulkDialog {
  constructor(inbox, requests, { close, foot }) {
    this.inbox = inbox;
    this.first = requests[0];
    this.close = close;
    this.tracker = new SeenTracker(() => this.#update());
    this.included = new Set();
    this.yes = button("", () => this.close([...this.included]), { class: "yes-button" });
    this.hint = h("p", { class: "left" });
    this.element = h(
      "ol",
      { class: "together" },
      requests.map((each) => this.#renderItem(each)),
    );
    foot.append(
      this.hint,
      h(
        "div",
        { class: "buttons" },
        this.yes,
        button("Back", () => close()),
      ),
    );
    this.#update();
  }

  #renderItem(request) {
    const differs = findDifferences(request, this.first);
    const place = h("li", { data: { id: request.id } });
    const isIncluded = !differs.length || this.inbox.opened.has(request.id);
    const head = h(
      "h3",
      { tabindex: "-1" },
      phrases.asker(request),
      " wants to run ",
      h("span", { class: "tool" }, visibleNodes(request.tool)),
    );
    const mark = differs.length
      ? h("p", { class: "mark odd" }, `differs from the first: ${differs.join(" and ")}`)
      : null;
    const include = () => {
      this.included.add(request.id);
      this.inbox.opened.add(request.id);
      fill(place, head, mark, this.#renderContent(request));
      this.#update();
    };
    const includeAndFocus = () => {
      include();
      head.focus();
    };
    if (isIncluded) include();
    else
      fill(
        place,
        head,
        mark,
        h("p", { class: "quiet" }, "Left out, because it is not like the first and was not opened."),
        button("Open it, and include it", includeAndFocus, { class: "plain-button" }),
      );
    return place;
  }

  #renderContent(request) {
    return [
      h("p", { class: "quiet" }, visibleNodes(request.description), " · ", visibleNodes(request.reason)),
      renderArguments(request.args, this.tracker),
      renderPresentation(request.presentation, this.tracker) ?? [],
    ];
  }

  #update() {
    if (!this.hint) return;
    this.hint.textContent = this.tracker.isComplete
      ? "All of it was on your screen."
      : `To allow them, see all of it first: ${this.tracker.remaining}.`;
    this.hint.classList.toggle("done", this.tracker.isComplete);
    this.yes.textContent = `Allow ${this.included.size}`;
    this.yes.disabled = !this.tracker.isComplete || !this.tracker.isSettled || !this.included.size;
  }
}

/** Return how a request differs from the first one. */
function findDifferences(request, first) {
  const rule = (each) => (each.rule ? `${each.rule.source}\n${each.rule.line}\n${each.rule.key}` : "");
  return [
    request.tool !== first.tool && `another tool (${visible(request.tool)})`,
    rule(request) !== rule(first) && "another rule",
  ].filter(Boolean);
}
