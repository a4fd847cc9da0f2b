/** Bulk answer: an approval shows every call in full; calls that differ are excluded until they are opened here. */

import { showNotice } from "./announce.js";
import { alsoAnsweredText, handleRejection } from "./answering.js";
import { openDialog } from "./dialogs.js";
import { button, fill, h, visibleNodes } from "./dom.js";
import { findBarrier, missingAfterMine, missingYesText } from "./entitlement.js";
import * as hub from "./api.js";
import { SeenTracker } from "./seen_tracking.js";
import { renderArguments, renderPresentation } from "./arguments.js";
import { visible } from "./sanitize.js";
import * as phrases from "./phrases.js";

const MOST = 20; // nobody reads more at once

/** Show the selected requests in full, and allow those that are included. */
export async function askToAllowAll(inbox, me, ids) {
  const requests = ids.map((id) => inbox.get(id)).filter((each) => each?.status === "open");
  if (requests.length > MOST) {
    showNotice(`A yes to more than ${MOST} at once is not offered: nobody reads that many. Select fewer.`, "bad");
    return;
  }
  const chosen = await openDialog(
    "",
    (close, foot, heading) => new BulkDialog(me, requests, { close, foot, heading }).element,
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
  const answered = [];
  for (const id of ids) {
    const problem = await retryWhenThrottled(
      async () => {
        const request = await hub.postAnswer(id, decision);
        inbox.update(request);
        answered.push(request);
      },
      () => resultText(answered, outcome),
    );
    inbox.mark(id, false);
    if (problem) problems.push(handleRejection(problem, inbox));
    if (problem?.status === 0 || problem?.status === 401) break;
  }
  const rest = problems.length ? ` ${problems.length} not: ${[...new Set(problems)].slice(0, 3).join(" ")}` : "";
  const others = new Set(answered.flatMap((each) => each.also_answered)).difference(new Set(ids)).size;
  showNotice(`${resultText(answered, outcome)}.${alsoAnsweredText(others)}${rest}`, problems.length ? "bad" : "good");
}

/** Return what came of the answers: a request that is still open needs the yes of somebody else. */
function resultText(answered, outcome) {
  const stillOpen = answered.filter((each) => each.status === "open");
  return [`${answered.length - stillOpen.length} ${outcome}`, ...missingYesText(stillOpen)].join("; ");
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
      showNotice(`${progress()} so far. The hub takes more in ${seconds} s; keep this page open.`, "plain");
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }
}

/** Content of the dialog: every request in full, one below the other. */
class BulkDialog {
  constructor(me, requests, { close, foot, heading }) {
    this.me = me;
    this.heading = heading;
    this.total = requests.length;
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
    const barrier = findBarrier(request, this.me);
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
    const people = renderPeople(request);
    const include = () => {
      this.included.add(request.id);
      fill(place, head, mark, people, this.#renderContent(request));
      this.#update();
    };
    const includeAndFocus = () => {
      include();
      head.focus();
    };
    if (barrier) fill(place, head, mark, people, h("p", { class: "quiet" }, `Left out. ${barrier.text}`));
    else if (!differs.length) include();
    else
      fill(
        place,
        head,
        mark,
        people,
        h("p", { class: "quiet" }, "Left out until you open it, because it is not like the first."),
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
    const count = this.included.size;
    const requests = this.total === 1 ? "request" : "requests";
    this.heading.textContent = `Allow ${count === this.total ? count : `${count} of ${this.total}`} ${requests}, once each`;
    this.yes.textContent = `Allow ${count}`;
    this.yes.disabled = !this.tracker.isComplete || !this.tracker.isSettled || !count;
  }
}

/** Say before the yes that it will not be enough. */
function renderPeople(request) {
  const missing = missingAfterMine(request);
  if (!missing) return null;
  const more = missing === 1 ? "one more yes" : `${missing} more`;
  return h("p", { class: "needs" }, `${phrases.votesText(request)}. After yours it needs ${more}, and runs only then.`);
}

/** Return how a request differs from the first one. */
function findDifferences(request, first) {
  const rule = (each) => (each.rule ? `${each.rule.source}\n${each.rule.line}\n${each.rule.key}` : "");
  return [
    request.tool !== first.tool && `another tool (${visible(request.tool)})`,
    rule(request) !== rule(first) && "another rule",
  ].filter(Boolean);
}
