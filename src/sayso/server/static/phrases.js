/** Phrases about requests: agent, state, answers. */

import { visibleNodes } from "./dom.js";
import { Numeral } from "./exact_json.js";
import { countDiffLines } from "./arguments.js";
import { formatCountdown, formatMoment, now, formatSpan } from "./times.js";
import { visible } from "./sanitize.js";

const DAY = 86400;
const STATES = {
  open: "waits for an answer",
  approved: "allowed, has not run yet",
  denied: "denied",
  expired: "expired: nobody answered in time",
  withdrawn: "withdrawn: the agent no longer waits for an answer",
  used: "allowed and begun",
};
const RESULTS = { returned: "allowed; it ran and returned", raised: "allowed; it ran and failed" };

/** Return the agent that asks, as the path of agents. */
export function asker(request) {
  return request.agent_path.length
    ? request.agent_path.map(visible).join(" › ")
    : visible(request.asked_by || "An agent");
}

/** Return the state of a request in words. */
export function stateText(request) {
  if (request.decision?.unattended) return "withdrawn: nobody could be asked";
  return (request.status === "used" && RESULTS[request.result]) || STATES[request.status] || visible(request.status);
}

/** Return the state of a request as one word, for a mark on the list. */
export function outcomeWord(request) {
  if (request.status !== "used") return { approved: "allowed", open: "waiting" }[request.status] ?? request.status;
  return request.result === "raised" ? "failed" : request.result === "returned" ? "ran" : "begun";
}

/** Return approver, channel and time of the answer; null if there is none. */
export function answerText(request) {
  const decision = request.decision;
  if (!decision) return null;
  const how = decision.approved ? "Allowed" : request.status === "withdrawn" ? "Withdrawn" : "Denied";
  const who = decision.who ? ` by ${visible(decision.who)}` : "";
  const over = decision.channel ? ` (${visible(decision.channel)})` : "";
  return `${how}${who}${over}${decision.decided_at ? ` at ${formatMoment(decision.decided_at)}` : ""}`;
}

/** Return how an answer is remembered; null if it is not. */
export function rememberedText(decision) {
  if (!decision || decision.remember === "none") return null;
  const where = decision.remember === "always" ? "in every session" : "in the session that asked";
  const what = {
    call: "for this exact call",
    prefix: "for commands like it",
    folder: "for its folder",
    tool: "for the whole tool",
  };
  const often = decision.uses === null ? "" : `, ${decision.uses} more times`;
  const until = decision.until ? `, until ${formatMoment(decision.until)}` : "";
  return `Remembered ${what[decision.scope] ?? ""} ${where}${often}${until}`;
}

/** Return how many approvals are needed (quorum) and given; null if one is enough. */
export function votesText(request) {
  const wanted = request.approvers?.count ?? 1;
  if (wanted <= 1) return null;
  const yes = request.votes.filter((vote) => vote.approved);
  const names = yes.map((vote) => visible(vote.who ?? "somebody")).join(", ");
  return `${yes.length} of ${wanted} people have said yes${names ? `: ${names}` : ""}`;
}

/** Return the roles that may approve; null if there is no restriction. */
export function rolesText(request) {
  const roles = request.approvers?.roles ?? [];
  if (!roles.length) return null;
  const late = request.approvers.escalate;
  const also = late ? `; after ${formatSpan(late.after)} without an answer also ${visible(late.role)}` : "";
  return `A yes needs the role ${roles.map(visible).join(" and ")}${also}`;
}

/** Return what an approval covers beyond this call; null if nothing. */
export function sessionText(request) {
  return request.approval === "once_per_session"
    ? "A yes holds for the rest of the agent's session: it is asked once"
    : null;
}

/** Return who else has viewed the request; null if nobody. */
export function viewersText(request, me) {
  const others = [...new Set(request.seen.map((each) => each.who).filter((who) => who !== me))];
  return others.length ? `Also seen by ${others.map(visible).join(", ")}` : null;
}

/** Return the age of a request. */
export function ageText(request) {
  return `waiting ${formatSpan(now() - request.asked_at)}`;
}

/** Return the age of a request and, if it expires within a day, the time that is left, for the list. */
export function ageAndTimeLeft(request) {
  const age = formatSpan(now() - request.asked_at);
  const left = secondsLeft(request);
  return left === null ? age : `${age} · ${formatCountdown(left)} left`;
}

/** Return the seconds to expiry; null if these are more than a day, and no news. */
function secondsLeft(request) {
  const left = request.expires_at === null ? DAY : request.expires_at - now();
  return left < DAY ? left : null;
}

/** Return the time to expiry; null if that is more than a day. */
export function expiryText(request) {
  const left = secondsLeft(request);
  if (left === null) return null;
  return left > 0 ? `expires in ${formatCountdown(left)}` : "its time is up";
}

/** Whether the request expires within a minute. */
export function isUrgent(request) {
  return request.expires_at !== null && request.expires_at - now() < 60;
}

/** Return warnings about a request as short marks `[kind, text]`. */
export function findMarks(request) {
  const found = [];
  const { diff, language, title } = request.presentation ?? {};
  if (hasOddText(request)) found.push(["odd", "hidden or misleading characters"]);
  if (language === "bash" && !/shell/i.test(request.tool)) found.push(["plain", "shell"]);
  if (diff) {
    const { added, removed } = countDiffLines(diff);
    found.push(["plain", `+${added} −${removed}`]);
  }
  if (/^Delete /.test(title ?? "")) found.push(["odd", "deletes"]);
  if ((request.approvers?.count ?? 1) > 1)
    found.push(["plain", `${request.votes.length} of ${request.approvers.count} yes`]);
  return found;
}

function hasOddText(request) {
  return textsOf([request.tool, request.agent_path, request.args]).some((text) => {
    const flat = text.replace(/[\n\t]/g, " ").replace(/ {41,}/g, " ");
    return visible(flat) !== flat || / {41,}/.test(text);
  });
}

function textsOf(value) {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (value && typeof value === "object" && !(value instanceof Numeral)) {
    return Object.keys(value).flatMap((name) => [name, ...textsOf(value[name])]);
  }
  return [];
}

/** Render file, line and key of the rule. */
export function ruleNodes(request) {
  if (!request.rule) return null;
  const { source, line, key } = request.rule;
  return [visibleNodes(line ? `${source}:${line}` : source), " ", visibleNodes(key)];
}

/** Return the announcement of a new request for screen readers. */
export function arrivalText(request) {
  return `New request: ${asker(request)} wants to run ${visible(request.tool)}.`;
}
