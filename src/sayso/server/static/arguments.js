/** Rendering of a call: arguments with their types, diffs by line, the parts of a shell command. */

import { colouredLines, languageOf, named, ofPath, titleOf } from "./highlight.js";
import { h, shown } from "./dom.js";
import { kindOf, write } from "./exact_json.js";
import { runsBackwards, visible } from "./sanitize.js";

const MOST_LINES = 24; // longer ones are folded
const HEAD = 12;
const CHUNK = 10; // lines that count as one part of what has to be seen
const LONGEST = 800; // characters of a line; the rest of it stands on lines of its own
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const TYPES = {
  null: "nothing (null)",
  boolean: "yes or no",
  number: "number",
  text: "text",
  list: "list",
  object: "object",
};
const PARTS = "bash"; // the language of a shell line whose parts the rules have judged
const SAID = { ask: ["asks", "asks"], "no ": ["blocked", "blocked"], "   ": ["runs", "may run"] };

/** The arguments, one block to each. `sight` is told of every part that has to be seen. */
export function argumentsOf(args, sight) {
  const names = Object.keys(args);
  if (!names.length) return sight.part(h("p", { class: "quiet" }, "It has no arguments."));
  return h(
    "dl",
    { class: "arguments" },
    names.map((name) => argument(name, args, sight)),
  );
}

function argument(name, args, sight) {
  const value = args[name];
  const kind = kindOf(value);
  const text = kind === "text" ? value : write(value, 2);
  const language = kind === "text" ? languageOf(name, value, args) : null;
  const lines = kind === "text" ? textLines(value, language) : tokenLines(value);
  const notes = [
    language && ` · coloured as ${titleOf(language)}`,
    text.length > 80 && ` · ${text.length.toLocaleString("en-US")} characters`,
    runsBackwards(text) &&
      " · has right-to-left letters: on the screen, parts may stand in another order than they have",
  ];
  return h(
    "div",
    { class: "argument", data: { name } },
    h("dt", {}, h("span", { class: "name" }, shown(name)), h("span", { class: "type" }, TYPES[kind], notes)),
    h("dd", {}, block(lines, sight, { class: `value ${kind}` })),
  );
}

/** A text between quotes if it is short or seems something else; a longer one line by line. */
function textLines(text, language) {
  const lines = colouredLines(text, language);
  if (lines.length > 1) return lines.map((each, at) => [each, at < lines.length - 1 && lineEnd()]);
  return [[quote(), lines[0], quote()]];
}

const quote = () => h("span", { class: "quote" }, '"');
const lineEnd = () => h("span", { class: "line-end", "aria-hidden": "true" }, "↵");

/** A value as JSON, with every kind of token marked; texts are in quotes, numbers are not. */
function tokenLines(value) {
  const lines = [[]];
  put(value, 0, lines);
  return lines;
}

function put(value, depth, lines) {
  const add = (...nodes) => lines.at(-1).push(...nodes);
  const kind = kindOf(value);
  if (kind !== "list" && kind !== "object") {
    const written = kind === "text" ? ['"', ...cut(shown(value)), '"'] : [String(value)];
    add(...written.map((each) => h("span", { class: `token ${kind}` }, each)));
    return;
  }
  const [open, close] = kind === "list" ? "[]" : "{}";
  const items =
    kind === "list" ? value.map((each) => [null, each]) : Object.keys(value).map((name) => [name, value[name]]);
  add(open);
  items.forEach(([name, each], at) => {
    lines.push(["  ".repeat(depth + 1)]);
    if (name !== null) add(h("span", { class: "token key" }, '"', shown(name), '"'), ": ");
    put(each, depth + 1, lines);
    if (at < items.length - 1) add(",");
  });
  if (items.length) lines.push(["  ".repeat(depth)]);
  add(close);
}

/** What the tool itself shows: a diff, or text; for a shell line, what the rules say about each part. */
export function presented(presentation, sight) {
  if (!presentation) return null;
  const given = presentation.diff ?? presentation.content;
  if (given === null || given === undefined) return null;
  const title = presentation.title ? h("p", { class: "title" }, shown(presentation.title)) : null;
  const text = given.replace(/\n$/, "");
  const body = presentation.diff
    ? block(diffLines(text.split("\n")), sight, { class: "diff", counted: true })
    : block(contentLines(text, presentation.language), sight, { class: "shown-text" });
  return [title, body];
}

/** How many lines a diff adds and removes. */
export function diffSize(diff) {
  const body = diff.split("\n").filter((line) => !/^(\+\+\+|---)( |$)/.test(line));
  return {
    added: body.filter((line) => line.startsWith("+")).length,
    removed: body.filter((line) => line.startsWith("-")).length,
  };
}

const contentLines = (text, language) =>
  language === PARTS ? text.split("\n").map(shellPart) : colouredLines(text, named(language));

function shellPart(line) {
  const said = SAID[line.slice(0, 3)];
  if (!said || !line.trim()) return [shown(line)];
  const [, part, because] = /^(.*?)( {2}\(.*\))?$/s.exec(line.slice(4));
  const verdict = h("span", { class: `verdict ${said[0]}` }, said[1]);
  return [verdict, " ", colouredLines(part, "shell"), shown(because ?? "")];
}

function* diffLines(lines) {
  let old = 0;
  let fresh = 0;
  const language = ofPath(lines.find((line) => line.startsWith("+++ ") && !line.startsWith("+++ /dev/")) ?? "");
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (hunk) [old, fresh] = [Number(hunk[1]), Number(hunk[2])];
    if (hunk || (!old && !fresh)) {
      yield { class: "hunk", nodes: [shown(line)], numbers: ["", ""] };
      continue;
    }
    const mark = line[0] ?? " ";
    const word = { "+": "added", "-": "removed", "\\": "note" }[mark] ?? "same";
    yield {
      class: word,
      nodes: diffText(line, mark, language),
      numbers: [mark === "+" || mark === "\\" ? "" : old, mark === "-" || mark === "\\" ? "" : fresh],
    };
    if (mark !== "+" && mark !== "\\") old += 1;
    if (mark !== "-" && mark !== "\\") fresh += 1;
  }
}

function diffText(line, mark, language) {
  const said = { "+": "added: ", "-": "removed: " }[mark];
  const sign = h("span", { class: "sign", "aria-hidden": "true" }, mark === "\\" ? "" : mark);
  const text = mark === "\\" ? shown(line) : colouredLines(line.slice(1), language);
  return [said && h("span", { class: "unseen" }, said), sign, text];
}

/** Lines in a frame; what is long is folded behind a button. */
function block(lines, sight, { class: name, counted = false }) {
  const rows = [...lines].flatMap((line) => rowsOf(line, counted));
  const frame = h("div", { class: `block ${name}`, dir: "ltr" });
  if (rows.length <= MOST_LINES) {
    frame.append(...chunks(rows, sight));
    return frame;
  }
  const rest = rows.splice(HEAD);
  const hidden = sight.folded(() => {
    more.remove();
    const parts = chunks(rest, sight);
    frame.append(...parts);
    return parts[0];
  });
  const unfold = () => {
    const first = hidden.open();
    first.tabIndex = -1;
    first.focus({ preventScroll: true }); // the button that had the focus is gone
  };
  const label = `Show ${rest.length.toLocaleString("en-US")} more lines`;
  const more = h("button", { type: "button", class: "unfold", on: { click: unfold } }, label);
  frame.append(...chunks(rows, sight), more);
  hidden.element = more;
  return frame;
}

function chunks(rows, sight) {
  const found = [];
  for (let at = 0; at < rows.length; at += CHUNK)
    found.push(sight.part(h("div", { class: "chunk" }, rows.slice(at, at + CHUNK))));
  return found;
}

/** A line as rows: what is too long goes on in the next one, with a mark. */
function rowsOf(line, counted) {
  const nodes = counted ? line.nodes : line;
  const pieces = [[]];
  let length = 0;
  for (const each of cut(nodes.flat(Infinity).filter(Boolean))) {
    const size = typeof each === "string" ? each.length : each.textContent.length;
    if (length && length + size > LONGEST) {
      pieces.push([h("span", { class: "continued", "aria-hidden": "true" }, "↪")]);
      length = 0;
    }
    pieces.at(-1).push(each);
    length += size;
  }
  return pieces.map((piece, at) => (counted ? numbered(line, piece, at) : h("div", { class: "line" }, piece)));
}

function numbered(line, nodes, at) {
  const number = (value) => h("span", { class: "number", "aria-hidden": "true" }, at ? "" : String(value));
  return h("div", { class: `line ${line.class}` }, line.numbers.map(number), h("span", { class: "text" }, nodes));
}

/** The same nodes, with long texts in pieces; a pair of surrogates stays together. */
function cut(nodes) {
  return nodes.flatMap((each) =>
    typeof each === "string" && each.length > LONGEST ? each.match(/[^]{1,800}/gu) : [each],
  );
}

/** All arguments in one short line, for a list. */
export function brief(args, most = 160) {
  const names = Object.keys(args);
  const text =
    names.length === 1 && typeof args[names[0]] === "string"
      ? args[names[0]]
      : names.map((name) => `${name}: ${typeof args[name] === "string" ? args[name] : write(args[name])}`).join(" · ");
  return text.length > most ? `${visible(text.slice(0, most))}…` : visible(text);
}
