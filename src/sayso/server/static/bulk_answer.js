/** Bulk answer: an approval shows every call in full; calls that differ are excluded until they were opened. */

import { say } from "./announce.js";
import { refused } from "./answering.js";
import { open } from "./dialogs.js";
import { button, fill, h, shown } from "./dom.js";
import * as hub from "./api.js";
import { Sight } from "./seen_tracking.js";
import { argumentsOf, presented } from "./arguments.js";
import { visible } from "./sanitize.js";
import * as words from "./phrases.js";

const MOST = 20; // nobody reads more at once

/** Ask about a yes to all that is selected. */
export async function allowSeveral(inbox, ids) {
  const requests = ids.map((id) => inbox.get(id)).filter((each) => each?.status === "open");
  if (requests.length > MOST) {
    say(`A yes to more than ${MOST} at once is not offered: nobody reads that many. Select fewer.`, "bad");
    return;
  }
  const chosen = await open(
    `Allow ${requests.length} requests, once each`,
    (close, foot) => new Together(inbox, requests, { close, foot }).element,
    { wide: true },
  );
  if (chosen) await answerAll(inbox, chosen, { approved: true }, "allowed");
}

/** Deny all that is selected, after one more question. */
export async function denySeveral(inbox, ids) {
  const count = ids.length;
  const note = await open(`Deny ${count} ${count === 1 ? "request" : "requests"}?`, (close) => {
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

async function answerAll(inbox, ids, decision, word) {
  const problems = [];
  let done = 0;
  for (const id of ids) {
    const problem = await patiently(
      () => hub.answer(id, decision).then((request) => inbox.take(request)),
      `${done} of ${ids.length} ${word}`,
    );
    inbox.mark(id, false);
    if (!problem) done += 1;
    else problems.push(refused(problem, inbox));
    if (problem?.status === 0 || problem?.status === 401) break;
  }
  const rest = problems.length ? ` ${problems.length} not: ${[...new Set(problems)].slice(0, 3).join(" ")}` : "";
  say(`${done} of ${ids.length} ${word}.${rest}`, problems.length ? "bad" : "good");
}

/** Do something, again after a while if the hub asks for that; returns what was wrong, if it was. */
async function patiently(work, sofar) {
  for (;;) {
    try {
      await work();
      return null;
    } catch (problem) {
      if (!(problem instanceof hub.Problem)) throw problem;
      if (problem.status !== 429) return problem;
      const seconds = Number(problem.facts.retry_after ?? 5);
      say(`${sofar} so far. The hub takes more in ${seconds} s; keep this page open.`, "plain");
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }
}

/** All of them in full, under each other. */
class Together {
  constructor(inbox, requests, { close, foot }) {
    this.inbox = inbox;
    this.first = requests[0];
    this.close = close;
    this.sight = new Sight(() => this.#follow());
    this.included = new Set();
    this.yes = button("", () => this.close([...this.included]), { class: "yes-button" });
    this.left = h("p", { class: "left" });
    this.element = h(
      "ol",
      { class: "together" },
      requests.map((each) => this.#item(each)),
    );
    foot.append(
      this.left,
      h(
        "div",
        { class: "buttons" },
        this.yes,
        button("Back", () => close()),
      ),
    );
    this.#follow();
  }

  #item(request) {
    const differs = differences(request, this.first);
    const place = h("li", { data: { id: request.id } });
    const opened = !differs.length || this.inbox.opened.has(request.id);
    const head = h(
      "h3",
      { tabindex: "-1" },
      words.asker(request),
      " wants to run ",
      h("span", { class: "tool" }, shown(request.tool)),
    );
    const mark = differs.length
      ? h("p", { class: "mark odd" }, `differs from the first: ${differs.join(" and ")}`)
      : null;
    const openNow = () => {
      this.included.add(request.id);
      this.inbox.opened.add(request.id);
      fill(place, head, mark, this.#content(request));
      this.#follow();
    };
    const openByHand = () => {
      openNow();
      head.focus();
    };
    if (opened) openNow();
    else
      fill(
        place,
        head,
        mark,
        h("p", { class: "quiet" }, "Left out, because it is not like the first and was not opened."),
        button("Open it, and include it", openByHand, { class: "plain-button" }),
      );
    return place;
  }

  #content(request) {
    return [
      h("p", { class: "quiet" }, shown(request.description), " · ", shown(request.reason)),
      argumentsOf(request.args, this.sight),
      presented(request.presentation, this.sight) ?? [],
    ];
  }

  #follow() {
    if (!this.left) return;
    this.left.textContent = this.sight.isComplete
      ? "All of it was on your screen."
      : `To allow them, see all of it first: ${this.sight.left}.`;
    this.left.classList.toggle("done", this.sight.isComplete);
    this.yes.textContent = `Allow ${this.included.size}`;
    this.yes.disabled = !this.sight.isComplete || !this.sight.isSettled || !this.included.size;
  }
}

/** In what a request is not like another one. */
function differences(request, first) {
  const rule = (each) => (each.rule ? `${each.rule.source}\n${each.rule.line}\n${each.rule.key}` : "");
  return [
    request.tool !== first.tool && `another tool (${visible(request.tool)})`,
    rule(request) !== rule(first) && "another rule",
  ].filter(Boolean);
}
