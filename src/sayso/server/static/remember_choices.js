/** Form for a remembered approval: scope, sessions, duration and number of uses. */

import { openDialog } from "./dialogs.js";
import { button, h, visibleNodes } from "./dom.js";
import { formatSpan } from "./times.js";

const SPANS = [900, 3600, 8 * 3600, 86400, 7 * 86400, 30 * 86400];
const WIDTHS = { call: "Only this", prefix: "Commands like this", folder: "This folder", tool: "The whole tool" };

/** Ask for scope and duration of a remembered approval; resolves with the decision, or null. */
export function askHowLong(request) {
  return openDialog("Allow, and remember it", (close) => makeForm(request, close));
}

function makeForm(request, close) {
  const scopes = request.scopes.map((scope, at) => makeScopeRadio(scope, at));
  const sessions = [
    makeRadio("remember", "session", "In this session of the agent", true),
    makeRadio("remember", "always", "In every session of this project", false),
  ];
  const most = request.remember_max === null ? Infinity : Number(request.remember_max);
  const spans = SPANS.filter((seconds) => seconds <= most);
  const longest =
    most === Infinity
      ? h("option", { value: "" }, "no end")
      : h("option", { value: String(most) }, `${formatSpan(most)}, the longest that the policy allows`);
  const duration = h(
    "select",
    { id: "lasting-span" },
    spans.map((each) => h("option", { value: each, selected: each === 3600 }, formatSpan(each))),
    spans.includes(most) ? null : longest,
  );
  const uses = h("input", {
    id: "lasting-uses",
    inputmode: "numeric",
    autocomplete: "off",
    "aria-describedby": "lasting-uses-problem",
  });
  const problem = h("p", { class: "field-problem", id: "lasting-uses-problem" });
  const element = h("form", { class: "lasting", novalidate: true });
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    const useCount = uses.value.trim();
    if (useCount && !/^[1-9][0-9]{0,8}$/.test(useCount)) {
      problem.textContent = "This must be a whole number from 1 up, or empty.";
      uses.setAttribute("aria-invalid", "true");
      uses.focus();
      return;
    }
    close(readDecision(new FormData(element), { seconds: duration.value, uses: useCount }));
  });
  element.append(
    h("fieldset", {}, h("legend", {}, "For which calls"), scopes),
    h("fieldset", {}, h("legend", {}, "Where"), sessions),
    h("div", { class: "field" }, h("label", { for: "lasting-span" }, "For how long"), duration),
    h(
      "div",
      { class: "field" },
      h("label", { for: "lasting-uses" }, "How many calls after this one (empty: any number)"),
      uses,
      problem,
    ),
    h("p", { class: "quiet" }, "It can be revoked at any time under Remembered."),
    h(
      "div",
      { class: "buttons" },
      h("button", { class: "yes-button" }, "Allow and remember"),
      button("Back", () => close()),
    ),
  );
  return element;
}

function readDecision(chosen, { seconds, uses }) {
  const found = { approved: true, remember: chosen.get("remember"), scope: chosen.get("scope") };
  if (seconds) found.seconds = Number(seconds);
  if (uses) found.uses = Number(uses);
  return found;
}

function makeScopeRadio(scope, at) {
  return makeRadio(
    "scope",
    scope.kind,
    [h("strong", {}, WIDTHS[scope.kind] ?? scope.kind), h("span", { class: "also" }, visibleNodes(scope.label))],
    at === 0,
  );
}

function makeRadio(name, value, content, checked) {
  return h(
    "label",
    { class: "choice" },
    h("input", { type: "radio", name, value, checked, required: true }),
    h("span", {}, content),
  );
}
