/** Form fields generated from a JSON Schema; an argument without a fitting field is edited as JSON. */

import { h, visibleNodes } from "./dom.js";
import { kindOf, parseJson, writeJson } from "./exact_json.js";
import { visible } from "./sanitize.js";

const NAMES = { text: "string", boolean: "boolean", list: "array", object: "object", null: "null" };
let count = 0;

/** Field for one argument; `given` says whether the call has a value for it. */
export class Field {
  constructor(name, { schema, root, given, value, required }) {
    count += 1;
    this.name = name;
    this.id = `field-${count}`;
    this.given = given;
    this.before = value;
    const plain = resolveRef(schema, root);
    const choices = alternatives(plain, root);
    this.nullable = choices.some((each) => each.type === "null") || value === null;
    const others = choices.filter((each) => each.type !== "null");
    this.schema = others.length === 1 ? others[0] : {};
    this.control = makeControl(this.schema, given && value !== null ? value : undefined, this.id);
    this.problem = h("p", { class: "field-problem", id: `${this.id}-problem` });
    this.state = makeStateSelect(this, { required, isNull: given && value === null });
    this.element = this.#build(plain);
  }

  #build(schema) {
    const hint = [this.control.hint, rangeText(this.schema), schema.description && String(schema.description)]
      .filter(Boolean)
      .join(" · ");
    const label = h("label", { for: this.id }, h("span", { class: "name" }, visibleNodes(this.name)));
    const about = hint ? h("span", { class: "type", id: `${this.id}-hint` }, visibleNodes(hint)) : null;
    this.control.element.setAttribute("aria-describedby", `${about ? `${this.id}-hint ` : ""}${this.id}-problem`);
    const head = h("div", { class: "field-head" }, label, about, this.state);
    return h("div", { class: "field", data: { name: this.name } }, head, this.control.element, this.problem);
  }

  /** Read the field: `{given, value}`, or null and an error message next to it. */
  read() {
    this.showProblem("");
    const state = this.state?.value ?? "value";
    if (state !== "value") return { given: state === "null", value: null };
    if (!this.control.touched() && this.given && this.before !== null) return { given: true, value: this.before };
    try {
      const value = this.control.read();
      const problem = findProblem(value, this.schema);
      if (!problem) return { given: true, value };
      this.showProblem(problem);
    } catch (error) {
      this.showProblem(error.message);
    }
    return null;
  }

  /** Show an error message next to the field. */
  showProblem(message) {
    this.problem.textContent = message;
    if (message) this.control.element.setAttribute("aria-invalid", "true");
    else this.control.element.removeAttribute("aria-invalid");
  }
}

function rangeText({ minimum, maximum }) {
  if (minimum !== undefined && maximum !== undefined) return `from ${minimum} to ${maximum}`;
  if (minimum !== undefined) return `at least ${minimum}`;
  return maximum === undefined ? null : `at most ${maximum}`;
}

/** Make the choice between a value, null and absence, if the schema allows more than one. */
function makeStateSelect(field, { required, isNull }) {
  const options = [
    ["value", "this value"],
    ...(field.nullable ? [["null", "nothing (null)"]] : []),
    ...(required ? [] : [["out", "left out"]]),
  ];
  if (options.length === 1) return null;
  const now = !field.given ? "out" : isNull ? "null" : "value";
  const select = h(
    "select",
    { "aria-label": `${visible(field.name)} is` },
    options.map(([value, text]) => h("option", { value, selected: value === now }, text)),
  );
  const updateControl = () => (field.control.element.hidden = select.value !== "value");
  select.addEventListener("change", updateControl);
  updateControl();
  return select;
}

function makeControl(schema, value, id) {
  const options = schema.enum ?? ("const" in schema ? [schema.const] : null);
  if (options) return makeSelect(options, value, id);
  const kind = value === undefined ? undefined : kindOf(value);
  const type = schema.type ?? NAMES[kind] ?? (kind === "number" ? "number" : undefined);
  if (type === "boolean" && (kind === undefined || kind === "boolean"))
    return makeSelect([true, false], value, id, "yes or no");
  if ((type === "integer" || type === "number") && (kind === undefined || kind === "number"))
    return makeNumberInput(type, value, id);
  if (type === "string" && (kind === undefined || (kind === "text" && isPlain(value)))) return makeTextArea(value, id);
  return makeJsonArea(value, id);
}

/** Whether a text field keeps a text unchanged: no invisible characters, and none that browsers normalise. */
function isPlain(value) {
  return value.split("\n").every((line) => visible(line.replaceAll("\t", " ")).length === line.length);
}

function makeSelect(options, value, id, hint = "one of these") {
  const written = options.map((each) => writeJson(each));
  const before = value === undefined ? -1 : written.indexOf(writeJson(value));
  const none =
    before < 0
      ? [
          h(
            "option",
            { value: "" },
            value === undefined ? "choose" : `${visible(writeJson(value))}, which is none of these`,
          ),
        ]
      : [];
  const element = h(
    "select",
    { id },
    none,
    options.map((each, at) =>
      h("option", { value: at, selected: at === before }, typeof each === "string" ? visible(each) : written[at]),
    ),
  );
  const start = element.value;
  return {
    element,
    hint,
    touched: () => element.value !== start,
    read: () => (element.value === "" ? fail("Choose one.") : options[Number(element.value)]),
  };
}

function makeNumberInput(type, value, id) {
  const start = value === undefined ? "" : String(value);
  const element = h("input", { id, inputmode: "decimal", autocomplete: "off", value: start });
  const word = type === "integer" ? "whole number" : "number";
  const parse = () => {
    const found = /^-?[0-9]/.test(element.value.trim()) ? tryParse(element.value) : undefined;
    if (kindOf(found) !== "number") return fail(`This must be a ${word}.`);
    return type === "integer" && !/^-?[0-9]+$/.test(element.value.trim()) ? fail(`This must be a ${word}.`) : found;
  };
  return { element, hint: word, touched: () => element.value !== start, read: parse };
}

function makeTextArea(value, id) {
  const start = value ?? "";
  const lines = start.split("\n").length;
  const element = h("textarea", {
    id,
    rows: Math.min(14, Math.max(lines, Math.ceil(start.length / 70), 1)),
    spellcheck: "false",
  });
  element.value = start;
  return { element, hint: "text", touched: () => element.value !== start, read: () => element.value };
}

function makeJsonArea(value, id) {
  const start = value === undefined ? "" : escapeInvisible(writeJson(value, 2));
  const element = h("textarea", {
    id,
    class: "code",
    rows: Math.min(16, Math.max(2, start.split("\n").length)),
    spellcheck: "false",
  });
  element.value = start;
  const parse = () => {
    if (!element.value.trim()) return fail("This must be JSON: a text stands in quotes.");
    try {
      return parseJson(element.value);
    } catch (error) {
      return fail(`This is no JSON: ${error.message}.`);
    }
  };
  return { element, hint: "JSON", touched: () => element.value !== start, read: parse };
}

/** Escape the invisible characters in JSON. */
export function escapeInvisible(written) {
  const code = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return written.replace(/[^\n -~]/gu, (each) => (visible(each) === each ? each : each.split("").map(code).join("")));
}

function tryParse(written) {
  try {
    return parseJson(written.trim());
  } catch {
    return undefined;
  }
}

function fail(message) {
  throw new Error(message);
}

function resolveRef(schema, root, depth = 0) {
  const name = /^#\/\$defs\/([^/]+)$/.exec(schema?.$ref ?? "")?.[1];
  const target = name && root?.$defs?.[name.replaceAll("~1", "/").replaceAll("~0", "~")];
  if (target && depth < 8) return resolveRef(target, root, depth + 1);
  return schema && typeof schema === "object" ? schema : {};
}

function alternatives(schema, root) {
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.map((each) => resolveRef(each, root));
  if (Array.isArray(schema.type)) return schema.type.map((type) => ({ ...schema, type }));
  return [schema];
}

/** Validate a value against the simple keywords of its schema; the hub validates it in full. */
function findProblem(value, schema) {
  const kind = kindOf(value);
  const types = schema.type ? [schema.type].flat() : null;
  const fits = (type) =>
    type === "integer"
      ? kind === "number" && /^-?[0-9]+$/.test(String(value))
      : type === "number"
        ? kind === "number"
        : type === NAMES[kind];
  if (types && !types.some(fits)) return `This must be of the type ${types.join(" or ")}.`;
  if (kind === "number" && schema.minimum !== undefined && value < schema.minimum)
    return `This must not be less than ${schema.minimum}.`;
  if (kind === "number" && schema.maximum !== undefined && value > schema.maximum)
    return `This must not be more than ${schema.maximum}.`;
  if (kind === "text" && schema.minLength > [...value].length)
    return `This must have at least ${schema.minLength} characters.`;
  if (kind === "text" && schema.maxLength < [...value].length)
    return `This must have at most ${schema.maxLength} characters.`;
  return null;
}
