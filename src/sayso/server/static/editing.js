/** Editor for the arguments of a call: a form, then a preview of exactly what will be sent. */

import { open } from "./dialogs.js";
import { button, fill, h, shown } from "./dom.js";
import { read, write } from "./exact_json.js";
import { Field, unhidden } from "./fields.js";
import { Sight } from "./seen_tracking.js";
import { argumentsOf } from "./arguments.js";

/** Ask for other arguments; resolves with all of them, or null. `attempt(args)` sends them and says what is wrong. */
export function edit(request, attempt) {
  return open("Edit the arguments", (close) => new Editor(request, { close, attempt }).element, { wide: true });
}

class Editor {
  constructor(request, { close, attempt }) {
    this.request = request;
    this.close = close;
    this.attempt = attempt;
    this.fields = fieldsOf(request);
    this.whole = this.fields ? null : wholeField(request);
    this.problem = h("p", { class: "form-problem", role: "alert" });
    this.form = h("form", { novalidate: true, on: { submit: (event) => this.#review(event) } });
    this.form.append(
      h(
        "p",
        { class: "quiet" },
        "The agent asked with these. What you send is what runs, if the rules and the tool take it.",
      ),
      this.problem,
      ...(this.fields ?? [this.whole]).map((field) => field.element),
      h(
        "div",
        { class: "buttons" },
        h("button", { class: "plain-button strong" }, "Look at it once more"),
        button("Back", () => close()),
      ),
    );
    this.element = h("div", { class: "editor" }, this.form);
  }

  #review(event) {
    event.preventDefault();
    const args = this.fields ? readAll(this.fields) : this.whole.read();
    if (!args) {
      this.problem.textContent = "Something does not fit yet; see beside the fields.";
      this.form.querySelector("[aria-invalid]")?.focus();
      return;
    }
    this.problem.textContent = "";
    this.#show(args);
  }

  #show(args) {
    const changed = changes(this.request.args, args);
    const yes = button("Allow with these arguments", () => this.#send(args), { class: "yes-button" });
    const left = h("p", { class: "left" });
    const sight = new Sight(() => follow());
    const follow = () => {
      yes.disabled = !sight.isComplete || !sight.isSettled;
      left.textContent = sight.isComplete ? "" : "Scroll to the end first: a yes is to all of it.";
    };
    const heading = h("h3", { tabindex: "-1" }, changed.length ? "This will run" : "Nothing was changed");
    const shownArgs = argumentsOf(args, sight);
    for (const name of changed) tag(shownArgs, name, this.request.args, args);
    const gone = changed.filter((name) => !(name in args));
    fill(
      this.element,
      heading,
      shownArgs,
      gone.length
        ? h(
            "p",
            { class: "gone" },
            "Left out: ",
            gone.map((name, at) => [at ? ", " : "", h("code", {}, shown(name))]),
          )
        : null,
      left,
      h(
        "div",
        { class: "buttons" },
        yes,
        button("Back to the form", () => this.#back()),
      ),
    );
    follow();
    heading.focus();
  }

  #back() {
    fill(this.element, this.form);
    this.form.querySelector("input, textarea, select")?.focus();
  }

  async #send(args) {
    const problem = await this.attempt(args);
    if (problem === null) return this.close(args);
    this.#back();
    this.problem.textContent = problem;
    const place = /(?:^|the tool: )([^:. ]+)[.:]/.exec(problem)?.[1];
    const field = this.fields?.find((each) => each.name === place);
    field?.complain(problem);
    field?.control.element.focus();
  }
}

function tag(place, name, before, after) {
  const block = [...place.children].find((each) => each.dataset.name === name);
  const was = name in before ? ["was ", h("code", {}, shown(short(before[name])))] : ["was not given"];
  block?.classList.add("edited");
  block?.querySelector("dt").append(h("span", { class: "mark edit" }, "edited"), h("span", { class: "was" }, was));
}

const short = (value) => {
  const text = write(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
};

function changes(before, after) {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter(
    (name) => !(name in before) || !(name in after) || write(before[name]) !== write(after[name]),
  );
}

function fieldsOf(request) {
  const schema = request.parameters;
  if (!schema?.properties) return null;
  const names = [...new Set([...Object.keys(schema.properties), ...Object.keys(request.args)])];
  return names.map((name) => {
    const given = name in request.args;
    const required = (schema.required ?? []).includes(name);
    return new Field(name, {
      schema: schema.properties[name] ?? {},
      root: schema,
      given,
      value: request.args[name],
      required,
    });
  });
}

function readAll(fields) {
  const found = Object.create(null);
  let isWhole = true;
  for (const field of fields) {
    const answer = field.read();
    if (!answer) isWhole = false;
    else if (answer.given) found[field.name] = answer.value;
  }
  return isWhole ? found : null;
}

/** Without a schema, all arguments are one field. */
function wholeField(request) {
  const area = h("textarea", {
    id: "whole",
    class: "code",
    rows: "14",
    spellcheck: "false",
    "aria-describedby": "whole-problem",
  });
  const problem = h("p", { class: "field-problem", id: "whole-problem" });
  area.value = unhidden(write(request.args, 2));
  const element = h("div", { class: "field" }, h("label", { for: "whole" }, "All arguments, as JSON"), area, problem);
  const complain = (message) => {
    problem.textContent = message;
    area.setAttribute("aria-invalid", "true");
    return null;
  };
  return {
    element,
    read: () => {
      try {
        const value = read(area.value);
        const isObject = value && typeof value === "object" && !Array.isArray(value);
        return isObject ? value : complain("These must be arguments with names, in braces.");
      } catch (error) {
        return complain(`This is no JSON: ${error.message}.`);
      }
    },
  };
}
