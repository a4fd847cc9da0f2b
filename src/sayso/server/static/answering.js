/** Submission of an answer to the hub, and the notice with its result. */

import { showNotice } from "./announce.js";
import * as hub from "./api.js";
import { visible } from "./sanitize.js";
import * as phrases from "./phrases.js";

/** Send a decision; returns the current request, or null if the hub rejected it. */
export async function sendDecision(inbox, id, decision) {
  try {
    const request = await hub.postAnswer(id, decision);
    inbox.update(request);
    showNotice(acceptedSentence(request));
    return request;
  } catch (problem) {
    if (!(problem instanceof hub.Problem)) throw problem;
    showNotice(handleRejection(problem, inbox), "bad");
    return null;
  }
}

/** Return the sentence for an accepted answer. */
export function acceptedSentence(request) {
  const tool = visible(request.tool);
  if (request.status === "open") return `Your yes to ${tool} counts. ${phrases.votesText(request)}.`;
  const others = alsoAnsweredText(request.also_answered?.length ?? 0);
  if (request.status === "denied") return `Denied: ${tool} does not run.${others}`;
  const remembered = request.remembered?.length ? " It is remembered." : "";
  return `Allowed: ${tool} may run.${remembered}${others}`;
}

/** Return the sentence about other requests that the remembered answer has answered too; empty if there are none. */
export function alsoAnsweredText(count) {
  return count ? ` The same answer went to ${count} other open ${count === 1 ? "request" : "requests"}.` : "";
}

/** Update the inbox after a rejected answer, and return the reason. */
export function handleRejection(problem, inbox) {
  const closed = problem.status === 409 ? problem.facts.request : null;
  if (closed) {
    inbox.update(closed);
    const how = phrases.answerText(closed) ?? `The request is ${phrases.stateText(closed)}`;
    return `Somebody was faster. ${how}. Your answer changed nothing.`;
  }
  if (problem.status === 401) dispatchEvent(new CustomEvent("signed-out"));
  return visible(problem.message);
}
