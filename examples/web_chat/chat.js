// The page: messages, and a card for each call that waits for an answer. With React, `useChat` does what Messages does here.
import {
  AbstractChat,
  DefaultChatTransport,
  getToolName,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
} from "ai";

class Messages {
  status = "ready";
  error = undefined;
  #messages = [];
  get messages() {
    return this.#messages;
  }
  set messages(messages) {
    this.#messages = messages;
    draw();
  }
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, message));
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends AbstractChat {
  constructor(settings) {
    super({ ...settings, state: new Messages() });
  }
}

const page = (id) => document.getElementById(id);
let edits = {}; // arguments by call id, which the person has changed
let unanswered = []; // the messages before the answers that were not accepted

const chat = new Chat({
  transport: new DefaultChatTransport({ api: "/chat" }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  onError(error) {
    page("error").textContent = error.message;
    if (unanswered.length) chat.messages = unanswered; // the question is still open: show its card again
    unanswered = [];
  },
  onFinish() {
    edits = {};
    unanswered = [];
  },
});

function answer(part, approved, reason) {
  page("error").textContent = "";
  if (!unanswered.length) unanswered = structuredClone(chat.messages);
  chat.addToolApprovalResponse({ id: part.approval.id, approved, reason, options: { body: { edits } } });
}

function edit(part, args) {
  if (args === shown(part.input)) return true;
  try {
    edits[part.toolCallId] = JSON.parse(args);
    return true;
  } catch {
    page("error").textContent = "The arguments are no JSON: correct them, or deny the call.";
    return false;
  }
}

function card(part) {
  const form = document.createElement("form");
  const question = `May it ${getToolName(part)}?`;
  form.className = "card";
  form.setAttribute("aria-label", question);
  // All of the arguments are in sight: nobody can approve what they have not seen.
  const args = field("Arguments", "args", "textarea", shown(part.input));
  args.firstElementChild.rows = shown(part.input).split("\n").length;
  form.append(line(question), args, field("Reason", "reason", "input", ""), button("Approve"), button("Deny"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { args, reason } = form.elements;
    const approved = event.submitter.value === "Approve";
    if (!approved || edit(part, args.value)) answer(part, approved, reason.value || undefined);
  });
  return form;
}

function field(name, key, kind, value) {
  const label = document.createElement("label");
  label.append(`${name} `, Object.assign(document.createElement(kind), { name: key, value }));
  return label;
}

const shown = (args) => JSON.stringify(args, null, 2);

const button = (value) => Object.assign(document.createElement("button"), { value, textContent: value });
const line = (text, className = "") => Object.assign(document.createElement("p"), { textContent: text, className });

const STATES = {
  "approval-responded": "answered, and not run yet",
  "output-available": "has run",
  "output-denied": "was not run",
  "output-error": "failed",
};

function drawn(part, role) {
  if (part.type === "text") return [line(part.text, role)];
  if (!isToolUIPart(part)) return [];
  if (part.state === "approval-requested") return [card(part)];
  return [line(`${getToolName(part)} ${STATES[part.state] ?? "is being called"}`, "tool")];
}

function draw() {
  page("messages").replaceChildren(...chat.messages.flatMap(({ parts, role }) => parts.flatMap((part) => drawn(part, role))));
}

page("prompt").addEventListener("submit", (event) => {
  event.preventDefault();
  chat.sendMessage({ text: event.target.elements.text.value });
  event.target.reset();
});
page("prompt").querySelector("button").disabled = false; // before, the browser would send the form itself
