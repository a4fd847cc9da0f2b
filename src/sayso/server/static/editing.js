/** Editor for the arguments of a call: a form, then a preview of exactly what will be sent. */

import { openDialog } from "./dialogs.js";
import { button, fill, h, visibleNodes } from "./dom.js";
import { parseJson, writeJson } from "./exact_json.js";
import { Field, escapeInvisible } from "./fields.js";
import { SeenTracker } from "./seen_tracking.js";
import { renderArguments } from "./arguments.js";

/** Ask for edited arguments; resolves with all of them, or null. `attempt(args)` sends them and returns the problem. */
export function askForArguments(request, attempt) {
  return openDialog("Edit the arguments", (close) => new Editor(request, { close, attempt }).element, { wide: true });
}

class Editor {
  constructor(request, { close, attempt }) {
    this.request = request;
    this.close = close;
    this.attempt = attempt;
    this.fields = makeFields(request);
    this.whole = this.fields ? null : makeWholeField(request);
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
    const args = this.fields ? readFields(this.fields) : this.whole.read();
    if (!args) {
      this.problem.textContent = "Something does not fit yet; see beside the fields.";
      this.form.querySelector("[aria-invalid]")?.focus();
      return;
    }
    this.problem.textContent = "";
    this.#showPreview(args);
  }

  #showPreview(args) {
    const changed = changedNames(this.request.args, args);
    const yes = button("Allow with these arguments", () => this.#send(args), { class: "yes-button" });
    const hint = h("p", { class: "left" });
    const tracker = new SeenTracker(() => update());
    const update = () => {
      yes.disabled = !tracker.isComplete || !tracker.isSettled;
      hint.textContent = tracker.isComplete ? "" : "Scroll to the end first: a yes is to all of it.";
    };
    const heading = h("h3", { tabindex: "-1" }, changed.length ? "This will run" : "Nothing was changed");
    const shownArgs = renderArguments(args, tracker);
    for (const name of changed) markEdited(shownArgs, name, this.request.args, args);
    const removed = changed.filter((name) => !(name in args));
    fill(
      this.element,
      heading,
      shownArgs,
      removed.length
        ? h(
            "p",
            { class: "gone" },
            "Left out: ",
            removed.map((name, at) => [at ? ", " : "", h("code", {}, visibleNodes(name))]),
          )
        : null,
      hint,
      h(
        "div",
        { class: "buttons" },
        yes,
        button("Back to the form", () => this.#showForm()),
      ),
    );
    update();
    heading.focus();
  }

  #showForm() {
    fill(this.element, this.form);
    this.form.querySelector("input, textarea, select")?.focus();
  }

  async #send(args) {
    const problem = await this.attempt(args);
    if (problem === null) return this.close(args);
    this.#showForm();
    this.problem.textContent = problem;
    const place = /(?:^|the tool: )([^:. ]+)[.:]/.exec(problem)?.[1];
    const field = this.fields?.find((each) => each.name === place);
    field?.showProblem(problem);
    field?.control.element.focus();
  }
}

function markEdited(place, name, before, after) {
  const block = [...place.children].find((each) => each.dataset.name === name);
  const was = name in before ? ["was ", h("code", {}, visibleNodes(shorten(before[name])))] : ["was not given"];
  block?.classList.add("edited");
  block?.querySelector("dt").append(h("span", { class: "mark edit" }, "edited"), h("span", { class: "was" }, was));
}

const shorten = (value) => {
  const text = writeJson(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
};

function changedNames(before, after) {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter(
    (name) => !(name in before) || !(name in after) || writeJson(before[name]) !== writeJson(after[name]),
  );
}

function makeFields(request) {
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

function readFields(fields) {
  const found = Object.create(null);
  let isComplete = true;
  for (const field of fields) {
    const answer = field.read();
    if (!answer) isComplete = false;
    else if (answer.given) found[field.name] = answer.value;
  }
  return isComplete ? found : null;
}

/** Make one JSON field for all arguments, if there is no schema. */
function makeWholeField(request) {
  const area = h("textarea", {
    id: "whole",
    class: "code",
    rows: "14",
    spellcheck: "false",
    "aria-describedby": "whole-problem",
  });
  const problem = h("p", { class: "field-problem", id: "whole-problem" });
  area.value = escapeInvisible(writeJson(request.args, 2));
  const element = h("div", { class: "field" }, h("label", { for: "whole" }, "All arguments, as JSON"), area, problem);
  const showProblem = (message) => {
    problem.textContent = message;
    area.setAttribute("aria-invalid", "true");
    return null;
  };
  return {
    element,
    read: () => {
      try {
        const value = parseJson(area.value);
        const isObject = value && typeof value === "object" && !Array.isArray(value);
        return isObject ? value : showProblem("These must be arguments with names, in braces.");
      } catch (error) {
        return showProblem(`This is no JSON: ${error.message}.`);
      }
    },
  };
}
