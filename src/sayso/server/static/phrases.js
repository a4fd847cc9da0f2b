/** Sentences about requests: who asks, where it stands, who has answered. */

import { visibleNodes } from "./dom.js";
import { Numeral } from "./exact_json.js";
import { countDiffLines } from "./arguments.js";
import { formatCountdown, formatMoment, now, formatSpan } from "./times.js";
import { visible } from "./sanitize.js";

const STATES = {
  open: "waits for an answer",
  approved: "allowed, has not run yet",
  denied: "denied",
  expired: "expired: nobody answered in time",
  withdrawn: "withdrawn: whoever asked does not wait any more",
  used: "allowed and begun",
};
const RESULTS = { returned: "allowed; it ran and returned", raised: "allowed; it ran and failed" };

/** Who asks: the path of agents. */
export function asker(request) {
  return request.agent_path.length
    ? request.agent_path.map(visible).join(" › ")
    : visible(request.asked_by || "An agent");
}

/** Where a request stands. */
export function stateText(request) {
  return (request.status === "used" && RESULTS[request.result]) || STATES[request.status] || visible(request.status);
}

/** One word for where a request stands, for a mark on the list. */
export function outcomeWord(request) {
  if (request.status !== "used") return { approved: "allowed", open: "waiting" }[request.status] ?? request.status;
  return request.result === "raised" ? "failed" : request.result === "returned" ? "ran" : "begun";
}

/** Who answered, how and when. */
export function answerText(request) {
  const decision = request.decision;
  if (!decision) return null;
  const how = decision.approved ? "Allowed" : "Denied";
  const who = decision.who ? ` by ${visible(decision.who)}` : "";
  const over = decision.channel ? ` (${visible(decision.channel)})` : "";
  return `${how}${who}${over}${decision.decided_at ? ` at ${formatMoment(decision.decided_at)}` : ""}`;
}

/** How an answer is remembered; null if it is not. */
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

/** How many people have to say yes, and how many have. */
export function votesText(request) {
  const wanted = request.approvers?.count ?? 1;
  if (wanted <= 1) return null;
  const yes = request.votes.filter((vote) => vote.approved);
  const names = yes.map((vote) => visible(vote.who ?? "somebody")).join(", ");
  return `${yes.length} of ${wanted} people have said yes${names ? `: ${names}` : ""}`;
}

/** Whom it needs, if not just anybody. */
export function rolesText(request) {
  const roles = request.approvers?.roles ?? [];
  if (!roles.length) return null;
  const late = request.approvers.escalate;
  const also = late ? `; after ${formatSpan(late.after)} without an answer also ${visible(late.role)}` : "";
  return `A yes needs the role ${roles.map(visible).join(" and ")}${also}`;
}

/** What a yes means beyond this call. */
export function sessionText(request) {
  return request.approval === "once_per_session"
    ? "A yes holds for the rest of the agent's session: it is asked once"
    : null;
}

/** Who else has it before them. */
export function viewersText(request, me) {
  const others = [...new Set(request.seen.map((each) => each.who).filter((who) => who !== me))];
  return others.length ? `Also seen by ${others.map(visible).join(", ")}` : null;
}

/** How long it waits, and when it is over. */
export function ageText(request) {
  return `waiting ${formatSpan(now() - request.asked_at)}`;
}

/** How long until nobody can answer any more; null if it has no end. */
export function expiryText(request) {
  if (request.expires_at === null) return null;
  const left = request.expires_at - now();
  return left > 0 ? `expires in ${formatCountdown(left)}` : "its time is up";
}

/** Whether little time is left. */
export function isUrgent(request) {
  return request.expires_at !== null && request.expires_at - now() < 60;
}

/** What is worth a second look, as short marks `[kind, text]`. */
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

/** A rule, and where it stands. */
export function ruleNodes(request) {
  if (!request.rule) return null;
  const { source, line, key } = request.rule;
  return [visibleNodes(line ? `${source}:${line}` : source), " ", visibleNodes(key)];
}

/** What a screen reader hears when a request comes. */
export function arrivalText(request) {
  return `New request: ${asker(request)} wants to run ${visible(request.tool)}.`;
}
