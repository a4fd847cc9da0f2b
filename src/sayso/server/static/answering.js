/** Giving an answer to the hub, and telling the person what came of it. */

import { say } from "./announce.js";
import * as hub from "./api.js";
import { visible } from "./sanitize.js";
import * as words from "./phrases.js";

/** Send a decision; returns the request as it stands, or null if the hub did not take it. */
export async function send(inbox, id, decision) {
  try {
    const request = await hub.answer(id, decision);
    inbox.take(request);
    say(taken(request));
    return request;
  } catch (problem) {
    if (!(problem instanceof hub.Problem)) throw problem;
    say(refused(problem, inbox), "bad");
    return null;
  }
}

/** What an answer that was taken has led to. */
export function taken(request) {
  const tool = visible(request.tool);
  if (request.status === "open") return `Your yes to ${tool} counts. ${words.votes(request)}.`;
  if (request.status === "denied") return `Denied: ${tool} does not run.`;
  const lasting = request.remembered?.length ? " It is remembered." : "";
  return `Allowed: ${tool} may run.${lasting}`;
}

/** Why an answer was not taken. */
export function refused(problem, inbox) {
  const row = problem.status === 409 ? problem.facts.request : null;
  if (row) {
    inbox.take(row);
    return `Somebody was faster. ${words.answeredBy(row) ?? `The request is ${words.state(row)}`}. Your answer changed nothing.`;
  }
  if (problem.status === 401) dispatchEvent(new CustomEvent("signed-out"));
  return visible(problem.message);
}
