/** Filters of the lists, by the rules of `sayso.core.filters`: words, tool:name and agent:name. */

import { Numeral, writeJson } from "./exact_json.js";

/** Parse a line of words, in which `tool:` and `agent:` precede a name. */
export function parseFilter(line) {
  const wanted = { tool: "", agent: "", words: [] };
  for (const word of line.toLowerCase().split(/\s+/).filter(Boolean)) {
    const [, name, value] = /^(tool|agent):(.*)$/s.exec(word) ?? [];
    if (name) wanted[name] = value;
    else wanted.words.push(word);
  }
  return wanted;
}

/** Whether a request matches; `text` is its `requestText`. */
export function matchesRequest(wanted, request, text) {
  return (
    matchesName(wanted.tool, request.tool) &&
    (!wanted.agent || askingPath(request).some((name) => matchesName(wanted.agent, name))) &&
    hasWords(wanted, text)
  );
}

/** Whether a remembered decision matches, by its own facts. */
export function matchesRemembered(wanted, { tool, scope, session, decision }) {
  const text = [tool, scope.label, session ?? "", decision.note ?? "", decision.who ?? ""].join("\n").toLowerCase();
  return matchesName(wanted.tool, tool) && hasWords(wanted, text);
}

/** Whether a name matches a pattern, in which * stands for any characters. */
export function matchesName(pattern, name) {
  if (!pattern) return true;
  const [first, ...rest] = pattern.toLowerCase().split("*");
  const whole = name.toLowerCase();
  if (!rest.length || !whole.startsWith(first)) return whole === first;
  const end = rest.pop();
  let at = first.length;
  for (const part of rest) {
    const found = whole.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return whole.endsWith(end) && at <= whole.length - end.length;
}

const hasWords = (wanted, text) => wanted.words.every((word) => text.includes(word));

function askingPath({ asked_by: agent, agent_path: path }) {
  return !agent || path[0] === agent ? path : [agent, ...path];
}

/** Return the text of a request in which words are found, in lower case. */
export function requestText(request) {
  const answers = [...request.votes, ...(request.decision ? [request.decision] : [])];
  return [
    request.tool,
    ...askingPath(request),
    request.description,
    request.reason,
    ...texts(request.args),
    ...answers.flatMap((each) => [each.note ?? "", ...texts(each.args ?? {})]),
  ]
    .join("\n")
    .toLowerCase();
}

/** Return all keys and values of nested data as text. */
function texts(value) {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(texts);
  if (value === null || typeof value !== "object" || value instanceof Numeral) return [writeJson(value)];
  return Object.entries(value).flatMap(([name, each]) => [name, ...texts(each)]);
}
