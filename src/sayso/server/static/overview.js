/** Statistics view: requests per hour, answer times, outcomes, and the state of the audit. */

import { fill, h, visibleNodes, svg } from "./dom.js";
import * as hub from "./api.js";
import { formatMoment, formatSpan } from "./times.js";
import { visible } from "./sanitize.js";

const PERIODS = [
  [24, "the last day"],
  [168, "the last week"],
  [720, "the last 30 days"],
];
const ANSWERS = [
  ["approved", "allowed"],
  ["denied", "denied"],
  ["expired", "expired"],
  ["withdrawn", "withdrawn"],
];
const MOST_TOOLS = 12;
const MOST_ROWS = 100;
const CASES = [["asked", "asked"], ...ANSWERS];
const BY_PERSON = [
  ["answered", "answered"],
  ["approved", "allowed"],
  ["denied", "denied"],
];

export class StatisticsView {
  constructor(place) {
    this.heading = h("h2", { tabindex: "-1" }, "Overview");
    this.period = h(
      "select",
      { id: "period", on: { change: () => this.show() } },
      PERIODS.map(([hours, text]) => h("option", { value: hours }, text)),
    );
    this.content = h("div", { class: "charts" }, h("p", { class: "quiet", role: "status" }, "Counting…"));
    this.audit = h("div", { class: "audit" }, h("p", { class: "quiet", role: "status" }, "Checking the chain…"));
    fill(
      place,
      h(
        "div",
        { class: "pane page-pane" },
        this.heading,
        h("div", { class: "filters" }, h("label", { for: "period" }, "Over"), this.period),
        this.content,
        h("section", { class: "chart" }, h("h3", {}, "Audit"), this.audit),
      ),
    );
  }

  async show() {
    await Promise.all([this.#loadCharts(), this.#loadAuditState()]);
  }

  /** Reload after a lost connection. */
  refresh() {
    return this.show();
  }

  async #loadCharts() {
    const period = this.period.value;
    try {
      const stats = await hub.getStats(period);
      if (period !== this.period.value) return; // another period was chosen meanwhile
      fill(
        this.content,
        stats.complete ? null : h("p", {}, "Only the newest requests were counted: there are too many."),
        renderVolume(stats, Number(period)),
        renderAnswerTimes(stats.waiting),
        renderByTool(stats.by_tool),
        renderByName("By agent", "Agent", "agent", stats.by_agent, CASES),
        renderByName("By person", "Person", "who", stats.by_person, BY_PERSON),
      );
    } catch (problem) {
      fill(this.content, h("p", {}, visible(problem.message)));
    }
  }

  async #loadAuditState() {
    try {
      const state = await hub.getAuditState();
      const count = Number(state.entries).toLocaleString("en-US");
      const word = state.verified
        ? `The chain of ${count} entries is whole.`
        : `The chain of ${count} entries is broken: ${visible(state.problem ?? "it was not verified")}`;
      fill(
        this.audit,
        h(
          "p",
          { class: state.verified ? "chain whole" : "chain broken" },
          h("span", { "aria-hidden": "true" }, state.verified ? "✓ " : "✗ "),
          word,
        ),
        h("p", { class: "quiet" }, "Its last hash: ", h("code", { class: "hash" }, visibleNodes(state.hash ?? ""))),
      );
    } catch (problem) {
      fill(this.audit, h("p", {}, visible(problem.message)));
    }
  }
}

/** Bar chart of questions over time. */
function renderVolume({ by_hour: hours, busiest }, period) {
  const bars = groupHours(hours, period);
  const total = bars.reduce((sum, each) => sum + each.asked, 0);
  const most = Math.max(1, ...bars.map((each) => each.asked));
  const label = `${total} questions in ${bars.length} periods; at most ${most} in one`;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${bars.length} 100`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    [0, 50, 100].map((y) => svg("line", { x1: 0, x2: bars.length, y1: y, y2: y, class: "grid" })),
    bars.map((each, at) => {
      const height = (each.asked / most) * 100;
      return svg("rect", { x: at + 0.12, width: 0.76, y: 100 - height, height, class: "bar" });
    }),
  );
  const every = Math.ceil(bars.length / 6);
  const axis = h(
    "div",
    { class: "axis", "aria-hidden": "true" },
    bars.map((each, at) => h("span", { class: at % (every * 2) ? "minor" : null }, at % every ? "" : each.label)),
  );
  const rows = bars
    .filter((each) => each.asked)
    .map((each) => [each.label, each.asked, ...ANSWERS.map(([name]) => each[name])]);
  const top = h("p", { class: "axis-top", "aria-hidden": "true" }, String(most));
  return renderChart(
    "Questions",
    `${total} asked${busiest ? `; in the busiest hour, from ${formatMoment(busiest.at)}, ${busiest.asked}` : ""}`,
    [top, drawing, axis],
    foldTable(renderTable("Questions over time", ["When", "asked", ...ANSWERS.map(([, word]) => word)], rows)),
  );
}

/** Group the counts: by hour for a day, by day for a longer period. */
function groupHours(hours, period) {
  const byDay = period > 48;
  const label = (at) =>
    byDay
      ? new Date(at * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" })
      : new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  const found = new Map();
  for (const hour of hours) {
    const name = label(Number(hour.at));
    const sum = found.get(name) ?? { label: name, asked: 0, approved: 0, denied: 0, expired: 0, withdrawn: 0 };
    for (const key of ["asked", ...ANSWERS.map(([each]) => each)]) sum[key] += Number(hour[key] ?? 0);
    found.set(name, sum);
  }
  return [...found.values()];
}

/** Answer times: three percentiles, and a histogram. */
function renderAnswerTimes(facts) {
  const names = [
    ["p50", "half took at most"],
    ["p90", "9 of 10 took at most"],
    ["max", "the longest took"],
  ];
  const numbers = h(
    "dl",
    { class: "figures" },
    names.map(([key, words]) => h("div", {}, h("dt", {}, words), h("dd", {}, formatAnswerTime(facts[key])))),
  );
  const total = facts.within.reduce((sum, each) => sum + Number(each.answers), 0);
  if (!total) return renderChart("Waiting for an answer", "Nothing was answered in this time.", null, null);
  const most = Math.max(...facts.within.map((each) => Number(each.answers)));
  const rows = facts.within.map((each, at) => [rangeText(facts.within, at), Number(each.answers)]);
  const drawing = h(
    "ul",
    { class: "tools", "aria-hidden": "true" },
    rows.map(([name, count]) => h("li", {}, h("span", {}, name), renderBar([["bar", count]], most))),
  );
  return renderChart(
    "Waiting for an answer",
    `${total} ${total === 1 ? "answer" : "answers"}`,
    [numbers, drawing],
    foldTable(renderTable("Waiting for an answer", ["It took", "answers"], rows)),
  );
}

const formatAnswerTime = (value) => (Number(value) < 10 ? `${Number(value).toFixed(1)} s` : formatSpan(Number(value)));

function rangeText(within, at) {
  const upTo = within[at].up_to;
  return upTo === null ? `more than ${formatSpan(Number(within[at - 1].up_to))}` : `up to ${formatSpan(Number(upTo))}`;
}

function renderByTool(tools) {
  const sum = (each) => ANSWERS.reduce((total, [name]) => total + Number(each[name] ?? 0), 0);
  const sorted = tools.filter((each) => sum(each)).sort((a, b) => sum(b) - sum(a));
  const top = sorted.slice(0, MOST_TOOLS);
  const most = Math.max(1, ...top.map(sum));
  const drawing = h(
    "ul",
    { class: "tools", "aria-hidden": "true" },
    top.map((each) => {
      const parts = ANSWERS.map(([name]) => [`part ${name}`, Number(each[name] ?? 0)]);
      const name = visible(each.tool);
      return h("li", {}, h("span", { class: "tool", title: name }, name), renderBar(parts, most));
    }),
  );
  const legend = h(
    "p",
    { class: "legend", "aria-hidden": "true" },
    ANSWERS.map(([name, word]) =>
      h(
        "span",
        {},
        svg(
          "svg",
          { viewBox: "0 0 12 12", width: 12, height: 12 },
          svg("rect", { width: 12, height: 12, rx: 3, class: `part ${name}` }),
        ),
        word,
      ),
    ),
  );
  if (!tools.length) return renderChart("Answers by tool", "Nothing was answered in this time.", null, null);
  const title = sorted.length > MOST_TOOLS ? `the ${MOST_TOOLS} of ${sorted.length} tools with the most` : "";
  return renderChart(
    "Answers by tool",
    title,
    sorted.length ? [drawing, legend] : null,
    foldTable(renderNameTable("Answers by tool", "Tool", "tool", tools, CASES)),
  );
}

/** Table with a row for each agent or person. */
function renderByName(title, head, key, rows, counts) {
  if (!rows.length) return renderChart(title, "Nobody in this time.", null, null);
  const words = rows.length > MOST_ROWS ? `the ${MOST_ROWS} of ${rows.length} with the most` : "";
  return renderChart(title, words, renderNameTable(title, head, key, rows.slice(0, MOST_ROWS), counts), null);
}

function renderNameTable(title, head, key, rows, counts) {
  const heads = [head, ...counts.map(([, word]) => word), "median", "9 of 10 within"];
  const cells = rows.map((each) => [
    each[key] ? visibleNodes(each[key]) : "(no name)",
    ...counts.map(([name]) => Number(each[name])),
    each.p50 === null ? "–" : formatAnswerTime(each.p50),
    each.p90 === null ? "–" : formatAnswerTime(each.p90),
  ]);
  return renderTable(title, heads, cells);
}

/** Stacked bar of parts, each a class and a number; `most` is the total of the longest bar. */
function renderBar(parts, most) {
  let at = 0;
  const drawn = parts.map(([name, number]) => {
    const width = (number / most) * 400;
    const part = svg("rect", { x: at, width: Math.max(0, width - 1), height: 16, class: name });
    at += width;
    return width ? part : null;
  });
  const total = parts.reduce((sum, [, number]) => sum + number, 0);
  return [
    svg("svg", { viewBox: "0 0 400 16", preserveAspectRatio: "none", class: "tool-bar" }, drawn),
    h("span", { class: "count" }, String(total)),
  ];
}

function renderChart(title, words, drawing, alternative) {
  return h(
    "section",
    { class: "chart" },
    h("h3", {}, title),
    words ? h("p", { class: "quiet" }, words) : null,
    drawing,
    alternative,
  );
}

const foldTable = (table) => h("details", {}, h("summary", {}, "As a table"), table);

function renderTable(caption, heads, rows) {
  const body = rows.map((row) =>
    h(
      "tr",
      {},
      row.map((cell, at) => (at ? h("td", {}, String(cell)) : h("th", { scope: "row" }, cell))),
    ),
  );
  return h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((each) => h("th", { scope: "col" }, each)),
        ),
      ),
      h("tbody", {}, body),
    ),
  );
}
