/** Lossless JSON parser and serialiser: 1.0 stays 1.0, and a long number keeps its digits. */

/** A number that keeps its source text, because JavaScript would write it differently. */
export class Numeral {
  constructor(text) {
    this.text = text;
  }

  valueOf() {
    return Number(this.text);
  }

  toString() {
    return this.text;
  }
}

const BLANKS = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
];

/** Parse JSON; throws a SyntaxError with reason and position. */
export function parseJson(text) {
  const reader = new Reader(text);
  const value = reader.value();
  reader.skipBlanks();
  if (reader.at < text.length) reader.fail("nothing may follow");
  return value;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail(what) {
    const before = this.text.slice(0, this.at).split("\n");
    throw new SyntaxError(`${what} at line ${before.length}, character ${before.at(-1).length + 1}`);
  }

  skipBlanks() {
    BLANKS.lastIndex = this.at;
    BLANKS.test(this.text);
    this.at = BLANKS.lastIndex;
  }

  /** Skip a sign if it comes next. */
  skipSign(sign) {
    this.skipBlanks();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  value() {
    this.skipBlanks();
    const next = this.text[this.at];
    if (next === "{") return this.object();
    if (next === "[") return this.list();
    if (next === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  object() {
    const found = Object.create(null); // so that "__proto__" is a name like any other
    this.at += 1;
    if (this.skipSign("}")) return found;
    do {
      this.skipBlanks();
      if (this.text[this.at] !== '"') this.fail("a name in quotes is missing");
      const name = this.string();
      if (name in found) this.fail(`the name ${JSON.stringify(name)} stands here twice; it must not`);
      if (!this.skipSign(":")) this.fail("a colon is missing");
      found[name] = this.value();
    } while (this.skipSign(","));
    if (!this.skipSign("}")) this.fail("a comma or a closing brace is missing");
    return found;
  }

  list() {
    const found = [];
    this.at += 1;
    if (this.skipSign("]")) return found;
    do found.push(this.value());
    while (this.skipSign(","));
    if (!this.skipSign("]")) this.fail("a comma or a closing bracket is missing");
    return found;
  }

  string() {
    let end = this.at;
    do {
      end = this.text.indexOf('"', end + 1);
      if (end < 0) this.fail("a quote is not closed");
    } while (this.isEscaped(end));
    const written = this.text.slice(this.at, end + 1);
    try {
      const value = JSON.parse(written);
      this.at = end + 1;
      return value;
    } catch {
      return this.fail("a text has a line break or an escape that JSON does not know");
    }
  }

  isEscaped(at) {
    let before = at - 1;
    while (this.text[before] === "\\") before -= 1;
    return (at - before) % 2 === 0;
  }

  number() {
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.text);
    if (!found) this.fail("a value is missing");
    this.at = NUMBER.lastIndex;
    const value = Number(found[0]);
    return String(value) === found[0] ? value : new Numeral(found[0]);
  }
}

/** Write a value as JSON; with `indent`, one name or item per line. */
export function writeJson(value, indent = 0, depth = 0) {
  if (value instanceof Numeral) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((each) => writeJson(each, indent, depth + 1))
    : Object.keys(value).map(
        (name) => `${JSON.stringify(name)}:${indent ? " " : ""}${writeJson(value[name], indent, depth + 1)}`,
      );
  const [open, close] = isList ? "[]" : "{}";
  if (!items.length || !indent) return open + items.join(",") + close;
  const margin = " ".repeat(indent * (depth + 1));
  return `${open}\n${items.map((each) => margin + each).join(",\n")}\n${" ".repeat(indent * depth)}${close}`;
}

/** Return the JSON type of a value. */
export function kindOf(value) {
  if (value === null) return "null";
  if (value instanceof Numeral) return "number";
  if (Array.isArray(value)) return "list";
  return typeof value === "string" ? "text" : typeof value;
}
