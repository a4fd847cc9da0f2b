/** Rendering of a call: arguments with their types, diffs by line, the parts of a shell command. */

import { colouredLines, guessLanguage, languageByName, languageByPath, languageTitle } from "./highlight.js";
import { h, visibleNodes } from "./dom.js";
import { kindOf, writeJson } from "./exact_json.js";
import { hasRightToLeft, visible } from "./sanitize.js";

const MOST_LINES = 24; // longer blocks are folded
const HEAD_LINES = 12;
const CHUNK_LINES = 10; // lines that are tracked as one part
const LONGEST = 800; // characters of a row; a longer line continues in the next row
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const TYPES = {
  null: "nothing (null)",
  boolean: "yes or no",
  number: "number",
  text: "text",
  list: "list",
  object: "object",
};
const SHELL_PARTS = "bash"; // the language of a shell line that was judged part by part
const VERDICTS = { ask: ["asks", "asks"], "no ": ["blocked", "blocked"], "   ": ["runs", "may run"] };

/** Render the arguments, one block each; every part is registered with the tracker. */
export function renderArguments(args, tracker) {
  const names = Object.keys(args);
  if (!names.length) return tracker.track(h("p", { class: "quiet" }, "It has no arguments."));
  return h(
    "dl",
    { class: "arguments" },
    names.map((name) => renderArgument(name, args, tracker)),
  );
}

function renderArgument(name, args, tracker) {
  const value = args[name];
  const kind = kindOf(value);
  const text = kind === "text" ? value : writeJson(value, 2);
  const language = kind === "text" ? guessLanguage(name, value, args) : null;
  const lines = kind === "text" ? textLines(value, language) : tokenLines(value);
  const notes = [
    language && ` · coloured as ${languageTitle(language)}`,
    text.length > 80 && ` · ${text.length.toLocaleString("en-US")} characters`,
    hasRightToLeft(text) &&
      " · has right-to-left letters: on the screen, parts may stand in another order than they have",
  ];
  return h(
    "div",
    { class: "argument", data: { name } },
    h("dt", {}, h("span", { class: "name" }, visibleNodes(name)), h("span", { class: "type" }, TYPES[kind], notes)),
    h("dd", {}, renderBlock(lines, tracker, { class: `value ${kind}` })),
  );
}

/** Render a text: in quotes if it is one line, else line by line. */
function textLines(text, language) {
  const lines = colouredLines(text, language);
  if (lines.length > 1) return lines.map((each, at) => [each, at < lines.length - 1 && makeLineEnd()]);
  return [[makeQuote(), lines[0], makeQuote()]];
}

const makeQuote = () => h("span", { class: "quote" }, '"');
const makeLineEnd = () => h("span", { class: "line-end", "aria-hidden": "true" }, "↵");

/** Render a value as JSON with marked tokens; texts are in quotes, numbers are not. */
function tokenLines(value) {
  const lines = [[]];
  appendTokens(value, 0, lines);
  return lines;
}

function appendTokens(value, depth, lines) {
  const add = (...nodes) => lines.at(-1).push(...nodes);
  const kind = kindOf(value);
  if (kind !== "list" && kind !== "object") {
    const written = kind === "text" ? ['"', ...splitLongTexts(visibleNodes(value)), '"'] : [String(value)];
    add(...written.map((each) => h("span", { class: `token ${kind}` }, each)));
    return;
  }
  const [open, close] = kind === "list" ? "[]" : "{}";
  const items =
    kind === "list" ? value.map((each) => [null, each]) : Object.keys(value).map((name) => [name, value[name]]);
  add(open);
  items.forEach(([name, each], at) => {
    lines.push(["  ".repeat(depth + 1)]);
    if (name !== null) add(h("span", { class: "token key" }, '"', visibleNodes(name), '"'), ": ");
    appendTokens(each, depth + 1, lines);
    if (at < items.length - 1) add(",");
  });
  if (items.length) lines.push(["  ".repeat(depth)]);
  add(close);
}

/** Render the tool's presentation: a diff, a text, or a shell line with the verdict on each part. */
export function renderPresentation(presentation, tracker) {
  if (!presentation) return null;
  const given = presentation.diff ?? presentation.content;
  if (given === null || given === undefined) return null;
  const title = presentation.title ? h("p", { class: "title" }, visibleNodes(presentation.title)) : null;
  const text = given.replace(/\n$/, "");
  const body = presentation.diff
    ? renderBlock(diffLines(text.split("\n")), tracker, { class: "diff", isNumbered: true })
    : renderBlock(contentLines(text, presentation.language), tracker, { class: "shown-text" });
  return [title, body];
}

/** Count the lines that a diff adds and removes. */
export function countDiffLines(diff) {
  const body = diff.split("\n").filter((line) => !/^(\+\+\+|---)( |$)/.test(line));
  return {
    added: body.filter((line) => line.startsWith("+")).length,
    removed: body.filter((line) => line.startsWith("-")).length,
  };
}

const contentLines = (text, language) =>
  language === SHELL_PARTS ? text.split("\n").map(renderShellPart) : colouredLines(text, languageByName(language));

function renderShellPart(line) {
  const verdict = VERDICTS[line.slice(0, 3)];
  if (!verdict || !line.trim()) return [visibleNodes(line)];
  const [, part, because] = /^(.*?)( {2}\(.*\))?$/s.exec(line.slice(4));
  const label = h("span", { class: `verdict ${verdict[0]}` }, verdict[1]);
  return [label, " ", colouredLines(part, "shell"), visibleNodes(because ?? "")];
}

function* diffLines(lines) {
  let old = 0;
  let current = 0;
  const language = languageByPath(lines.find((line) => line.startsWith("+++ ") && !line.startsWith("+++ /dev/")) ?? "");
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (hunk) [old, current] = [Number(hunk[1]), Number(hunk[2])];
    if (hunk || (!old && !current)) {
      yield { class: "hunk", nodes: [visibleNodes(line)], numbers: ["", ""] };
      continue;
    }
    const mark = line[0] ?? " ";
    const word = { "+": "added", "-": "removed", "\\": "note" }[mark] ?? "same";
    yield {
      class: word,
      nodes: renderDiffText(line, mark, language),
      numbers: [mark === "+" || mark === "\\" ? "" : old, mark === "-" || mark === "\\" ? "" : current],
    };
    if (mark !== "+" && mark !== "\\") old += 1;
    if (mark !== "-" && mark !== "\\") current += 1;
  }
}

function renderDiffText(line, mark, language) {
  const prefix = { "+": "added: ", "-": "removed: " }[mark];
  const sign = h("span", { class: "sign", "aria-hidden": "true" }, mark === "\\" ? "" : mark);
  const text = mark === "\\" ? visibleNodes(line) : colouredLines(line.slice(1), language);
  return [prefix && h("span", { class: "unseen" }, prefix), sign, text];
}

/** Render lines in a frame; a long block is folded behind a button. */
function renderBlock(lines, tracker, { class: name, isNumbered = false }) {
  const rows = [...lines].flatMap((line) => splitIntoRows(line, isNumbered));
  const frame = h("div", { class: `block ${name}`, dir: "ltr" });
  if (rows.length <= MOST_LINES) {
    frame.append(...renderChunks(rows, tracker));
    return frame;
  }
  const rest = rows.splice(HEAD_LINES);
  const hidden = tracker.trackFold(() => {
    more.remove();
    const parts = renderChunks(rest, tracker);
    frame.append(...parts);
    return parts[0];
  });
  const unfold = () => {
    const first = hidden.open();
    first.tabIndex = -1;
    first.focus({ preventScroll: true }); // the focused button was removed
  };
  const label = `Show ${rest.length.toLocaleString("en-US")} more lines`;
  const more = h("button", { type: "button", class: "unfold", on: { click: unfold } }, label);
  frame.append(...renderChunks(rows, tracker), more);
  hidden.element = more;
  return frame;
}

function renderChunks(rows, tracker) {
  const found = [];
  for (let at = 0; at < rows.length; at += CHUNK_LINES)
    found.push(tracker.track(h("div", { class: "chunk" }, rows.slice(at, at + CHUNK_LINES))));
  return found;
}

/** Split a line into rows; a continuation row starts with a mark. */
function splitIntoRows(line, isNumbered) {
  const nodes = isNumbered ? line.nodes : line;
  const pieces = [[]];
  let length = 0;
  for (const each of splitLongTexts(nodes.flat(Infinity).filter(Boolean))) {
    const size = typeof each === "string" ? each.length : each.textContent.length;
    if (length && length + size > LONGEST) {
      pieces.push([h("span", { class: "continued", "aria-hidden": "true" }, "↪")]);
      length = 0;
    }
    pieces.at(-1).push(each);
    length += size;
  }
  return pieces.map((piece, at) =>
    isNumbered ? renderNumberedRow(line, piece, at) : h("div", { class: "line" }, piece),
  );
}

function renderNumberedRow(line, nodes, at) {
  const number = (value) => h("span", { class: "number", "aria-hidden": "true" }, at ? "" : String(value));
  return h("div", { class: `line ${line.class}` }, line.numbers.map(number), h("span", { class: "text" }, nodes));
}

/** Split long texts among the nodes; a surrogate pair stays together. */
function splitLongTexts(nodes) {
  return nodes.flatMap((each) =>
    typeof each === "string" && each.length > LONGEST ? each.match(/[^]{1,800}/gu) : [each],
  );
}

/** Return all arguments on one short line, for a list. */
export function summarizeArguments(args, most = 160) {
  const names = Object.keys(args);
  const valueText = (name) => (typeof args[name] === "string" ? args[name] : writeJson(args[name]));
  const text =
    names.length === 1 && typeof args[names[0]] === "string"
      ? args[names[0]]
      : names.map((name) => `${name}: ${valueText(name)}`).join(" · ");
  return text.length > most ? `${visible(text.slice(0, most))}…` : visible(text);
}
