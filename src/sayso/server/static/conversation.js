/** Conversation before a call: closed, marked as the agent's words, and no part of what has to be seen. */

import { h, visibleNodes } from "./dom.js";

/** Render the messages, or return null if there are none; `key` opens and closes them. */
export function renderConversation(messages, key) {
  if (!messages.length) return null;
  const count = messages.length === 1 ? "1 message" : `${messages.length} messages`;
  return h(
    "details",
    { class: "conversation", "aria-keyshortcuts": key },
    h(
      "summary",
      {},
      `Before this call: ${count}, in the agent's words`,
      key && h("kbd", { "aria-hidden": "true" }, key),
    ),
    h("p", { class: "quiet" }, "What you allow does not rest on them."),
    h("ol", {}, messages.map(renderMessage)),
  );
}

function renderMessage({ role, text, gap }) {
  return h(
    "li",
    {},
    gap ? h("p", { class: "quiet" }, "⋯ messages are left out ⋯") : null,
    h("p", { class: "role" }, role),
    h(
      "div",
      { class: "words", dir: "ltr" },
      text.split("\n").map((line) => h("div", { class: "line" }, visibleNodes(line))),
    ),
  );
}
