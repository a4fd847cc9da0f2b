/** Entitlement: whether an answer of this person would count, as the hub judges it; the hub judges again by itself. */

import { formatMoment, now } from "./times.js";
import { visible } from "./sanitize.js";

/** Return why an answer of this person would not count now, and whether a no would not either; null if a yes counts. */
export function findBarrier(request, me) {
  if (request.status !== "open") return null;
  if (request.asked_by && isSamePerson(request.asked_by, me.name))
    return { text: "You asked this yourself, so somebody else has to answer.", alsoNo: true };
  if (request.votes.some((vote) => vote.approved && isSamePerson(vote.who, me.name)))
    return { text: "You have said yes; somebody else has to say yes as well.", alsoNo: false };
  const text = missingRoleText(request, me.roles ?? []);
  return text && { text, alsoNo: false };
}

/** Return the missing role, and when the escalation lets this person answer; null if they may approve. */
function missingRoleText(request, mine) {
  const { roles = [], escalate = null } = request.approvers ?? {};
  if (roles.every((role) => mine.includes(role))) return null;
  const needs = `Your yes would not count: it needs the role ${roles.map(visible).join(" and ")}`;
  if (!escalate || !mine.includes(escalate.role)) return `${needs}.`;
  const opensAt = request.asked_at + escalate.after;
  return now() >= opensAt ? null : `${needs}. If nobody answers, yours counts from ${formatMoment(opensAt)} on.`;
}

/** Return how many people have to say yes after this person; null if one yes is enough. */
export function missingAfterMine(request) {
  const wanted = request.approvers?.count ?? 1;
  return wanted > 1 ? wanted - request.votes.filter((vote) => vote.approved).length - 1 : null;
}

/** Return which open requests still need a yes, such as `deploy needs one more yes`; requests of one tool together. */
export function missingYesText(requests) {
  const groups = new Map();
  for (const each of requests) {
    const missing = each.approvers.count - each.votes.filter((vote) => vote.approved).length;
    const key = `${visible(each.tool)}\n${missing}`;
    groups.set(key, (groups.get(key) ?? 0) + 1);
  }
  return [...groups].map(([key, times]) => {
    const [tool, missing] = key.split("\n");
    const more = missing === "1" ? "one more yes" : `${missing} more`;
    return times === 1 ? `${tool} needs ${more}` : `${times} of ${tool} need ${more} each`;
  });
}

/** Names are compared without case, as the hub does. */
function isSamePerson(one, other) {
  return (one ?? "").toLowerCase() === (other ?? "").toLowerCase();
}
