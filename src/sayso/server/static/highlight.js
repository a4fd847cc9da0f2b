/** Syntax highlighting: colours only; the characters stay those of `visibleNodes`. */

import { h } from "./dom.js";
import { parseJson } from "./exact_json.js";
import { sanitizedPieces } from "./sanitize.js";

const MOST = 100_000; // characters; a longer text has no colours
const LONGEST_PIECE = 800; // so that a long token can be split into rows

const TITLES = { shell: "shell", python: "Python", json: "JSON", javascript: "JavaScript", sql: "SQL" };
const LANGUAGES = new Map(
  Object.entries({
    shell: ["sh", "bash", "shell", "zsh"],
    python: ["py", "pyi", "python"],
    json: ["json"],
    javascript: ["js", "mjs", "ts", "javascript", "typescript"],
    sql: ["sql"],
  }).flatMap(([language, names]) => names.map((each) => [each, language])),
);
const BY_NAME = [
  [/^(command|cmd|shell|bash|command_line)$/i, "shell"],
  [/(^|_)python($|_)/i, "python"],
  [/(^|_)sql($|_)/i, "sql"],
];
const CODE_NAME = /^(code|source|script|program|snippet|contents?|text|data|body|patch|(new|old)(_.+)?)$/i;
const PATH_NAME = /^(path|file|filename|file_path|target|destination)$/i;
const PYTHON_LINE = /^\s*(def \w+\(|class \w+[(:]|import \w|from [\w.]+ import |(if|for|while|with|try)\b.*:\s*$|print\()/m;

const anyWord = (text) => `\\b(?:${text.trim().split(/\s+/).join("|")})\\b(?!-)`;
const STRINGS = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
const NUMBER = String.raw`(?<![\p{L}\p{N}_])\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\p{L}\p{N}_])`;

/** Token patterns of each language, tried in this order; none of them is slow on any text. */
const GRAMMARS = {
  python: {
    comment: String.raw`#[^\n]*`,
    string: String.raw`(?<![\p{L}\p{N}_])[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$(?![^]))|'''[^]*?(?:'''|$(?![^]))|${STRINGS})`,
    number: NUMBER,
    keyword: anyWord(`and as assert async await break class continue def del elif else except finally for from global if
      import in is lambda match nonlocal not or pass raise return try while with yield True False None`),
    defined: String.raw`@[\w.]+|(?<=\b(?:def|class) )\w+`,
  },
  shell: {
    comment: String.raw`(?<![^\s;&|()])#[^\n]*`,
    string: String.raw`"(?:[^"\\]|\\[^])*"?|'[^']*'?`,
    defined: String.raw`\$(?:\{[^}\n]*\}?|\w+|[@*#?$!-])`,
    keyword: String.raw`&&|\|\|?|;|&|[<>]+&?|\$\(|` + anyWord("if then else elif fi for in do done while until case esac function sudo"),
    option: String.raw`(?<=^|\s)--?[\w-]+`,
  },
  json: {
    defined: String.raw`"(?:[^"\\\n]|\\.)*"(?=\s*:)`,
    string: String.raw`"(?:[^"\\\n]|\\.)*"?`,
    number: String.raw`-?` + NUMBER,
    keyword: anyWord("true false null"),
  },
  javascript: {
    comment: String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$(?![^]))`,
    string: STRINGS + "|`(?:[^`\\\\]|\\\\[^])*`?",
    number: NUMBER,
    keyword: anyWord(`async await break case catch class const continue default delete do else export extends finally for
      from function if import in instanceof let new null of return static super switch this throw true false try typeof
      undefined var void while with yield`),
  },
  sql: {
    comment: String.raw`--[^\n]*|\/\*[^]*?(?:\*\/|$(?![^]))`,
    string: String.raw`'[^']*'?|"[^"]*"?`,
    number: NUMBER,
    keyword: anyWord(`add alter and as asc begin between by case check column commit create cross default delete desc
      distinct drop else end exists foreign from full grant group having in index inner insert into is join key left like
      limit not null offset on or order outer primary references revoke right rollback select set table then to truncate
      union unique update using values view when where with`),
  },
};

const compiled = new Map();

function grammarOf(language) {
  if (!compiled.has(language)) {
    const kinds = Object.entries(GRAMMARS[language]).map(([kind, pattern]) => `(?<${kind}>${pattern})`);
    compiled.set(language, new RegExp(kinds.join("|"), language === "sql" ? "gimu" : "gmu"));
  }
  return compiled.get(language);
}

/** Return the display name of a language. */
export const languageTitle = (language) => TITLES[language];

/** Return the language of a name or file extension; null if there is no grammar for it. */
export const languageByName = (name) => LANGUAGES.get(name?.toLowerCase()) ?? null;

/** Return the language of a file, by its path. */
export const languageByPath = (path) => languageByName(/\.([a-z]+)\s*$/i.exec(path)?.[1]);

/** Guess the language of an argument; null if it is not code. */
export function guessLanguage(name, text, args) {
  if (text.length > MOST) return null;
  const byName = BY_NAME.find(([pattern]) => pattern.test(name));
  if (byName) return byName[1];
  if (isJson(text)) return "json";
  if (!CODE_NAME.test(name)) return null;
  const script = /^#!.*\b(python|bash|sh)\b/.exec(text)?.[1];
  if (script) return languageByName(script);
  const path = Object.keys(args).find((each) => PATH_NAME.test(each) && typeof args[each] === "string");
  return (path && languageByPath(args[path])) || (PYTHON_LINE.test(text) ? "python" : null);
}

function isJson(text) {
  if (!/^\s*[{[][^]*[}\]]\s*$/.test(text)) return false;
  try {
    return typeof parseJson(text) === "object";
  } catch {
    return false;
  }
}

/** Render a text line by line: odd characters are marked, tokens are coloured. */
export function colouredLines(text, language) {
  const isPlain = language === null || text.length > MOST;
  const tokens = isPlain ? [] : Array.from(text.matchAll(grammarOf(language)), tokenOf);
  let from = 0;
  let first = 0;
  return text.split("\n").map((line) => {
    while (first < tokens.length && tokens[first].to <= from) first += 1;
    const nodes = paintLine(line, from, tokens, first);
    from += line.length + 1;
    return nodes;
  });
}

function tokenOf(match) {
  const kind = Object.keys(match.groups).find((each) => match.groups[each] !== undefined);
  return { kind, from: match.index, to: match.index + match[0].length };
}

/** Split a line at token boundaries; odd characters are found in the line as a whole, as everywhere. */
function paintLine(line, start, tokens, first) {
  const nodes = [];
  let next = first;
  for (const piece of sanitizedPieces(line)) {
    if (piece.odd) {
      nodes.push(h("mark", { class: "odd" }, piece.text));
      continue;
    }
    let at = start + piece.at;
    const end = at + piece.text.length;
    while (at < end) {
      while (next < tokens.length && tokens[next].to <= at) next += 1;
      const token = tokens[next];
      const inside = token && token.from <= at;
      const to = Math.min(end, inside ? token.to : (token?.from ?? end));
      nodes.push(...paintToken(line.slice(at - start, to - start), inside ? token.kind : null));
      at = to;
    }
  }
  return nodes;
}

function paintToken(text, kind) {
  if (kind === null) return [text];
  const parts = text.length > LONGEST_PIECE ? text.match(/[^]{1,800}/gu) : [text];
  return parts.map((each) => h("span", { class: `token ${kind}` }, each));
}
