"""The decision: a pure function over one call, and the state machine of a request; no I/O, no clock, no event loop.

Everything that affects a request's status lives in this file; the stores apply `close` and `claim` inside their
own transactions, so that all of them share one logic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from sayso.core.approvers import same_person
from sayso.core.model import ApprovalDecision, Approved, Ask, Denied, Pending
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sayso.core.approvers import Approvers, Seen
    from sayso.core.model import ApprovalRequest, Remembered, Result, Status, Step, ToolCall, Verdict

Mode = Literal["interactive", "approve_all", "auto_deny", "defer"]

_MODES: Mapping[str, Mode] = {
    "interactive": "interactive",
    "prompt": "interactive",
    "approve_all": "approve_all",
    "auto_approve": "approve_all",
    "auto_deny": "auto_deny",
    "strict": "auto_deny",
    "reject_all": "auto_deny",
    "defer": "defer",
}

_MOST_SEEN = 20
_SEEN_SECONDS = 30.0  # a repeated view within this time is not worth a change, which all subscribers receive

_ENDINGS: Mapping[Result | None, str] = {
    "returned": "the call has run, and returned",
    "raised": "the call has run, and failed",
    None: "the call may have run, and its result is not known",
}

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    "open": frozenset({"approved", "denied", "expired", "withdrawn"}),
    "approved": frozenset({"used"}),
    "denied": frozenset(),
    "expired": frozenset(),
    "withdrawn": frozenset(),
    "used": frozenset(),
}

_STEPS: Mapping[Status, Step] = {
    "open": "voted",
    "approved": "approved",
    "denied": "denied",
    "expired": "expired",
    "withdrawn": "withdrawn",
    "used": "claimed",
}


def parse_mode(word: str) -> Mode:
    """Return the mode for any accepted spelling of it."""
    mode = _MODES.get(word)
    if mode is None:
        known = ", ".join(repr(name) for name in _MODES)
        raise ConfigurationError(f"unknown mode {word!r}; use one of {known}")
    return mode


def close(request: ApprovalRequest, status: Status, decision: ApprovalDecision | None, now: float) -> ApprovalRequest:
    """Return the request closed with this status, or unchanged if it was closed before.

    An answer after the request's expiry finds it expired, even if no process has recorded the expiry yet.
    """
    if status not in TRANSITIONS[request.status] or status == "used":
        return request
    if is_overdue(request, now):
        return replace(request, status="expired", decision=None)
    if status == "expired":  # before its time: it ended now, and retention goes by that
        return replace(request, status=status, decision=decision, expires_at=max(now, request.asked_at))
    if status != "approved" or decision is None or request.approvers is None or request.approvers.count == 1:
        return replace(request, status=status, decision=decision)
    if not decision.who or any(same_person(vote.who, decision.who) for vote in request.votes):
        return request  # one person has one vote
    votes = (*request.votes, decision)
    if len(votes) < request.approvers.count:
        return replace(request, votes=votes)
    return replace(request, status=status, decision=decision, votes=votes)


def audit_step(request: ApprovalRequest) -> Step:
    """Return the audit step for the status of a changed request; an approval below the quorum leaves it open."""
    return _STEPS[request.status]


def claim(request: ApprovalRequest, now: float) -> ApprovalRequest | None:
    """Return the request as used, or None if it is not approved, or used already."""
    if "used" not in TRANSITIONS[request.status]:
        return None
    return replace(request, status="used", used_at=now)


def finish(request: ApprovalRequest, result: Result) -> ApprovalRequest:
    """Return the used request with its result; the first report wins."""
    if request.status != "used" or request.result is not None:
        return request
    return replace(request, result=result)


def is_final_since(request: ApprovalRequest, before: float) -> bool:
    """Whether a request is in a final state, and has not changed since that time."""
    ended = [request.asked_at, request.used_at, request.decision.decided_at if request.decision else None]
    if request.status == "expired":
        ended.append(request.expires_at)
    return not TRANSITIONS[request.status] and all(at is None or at < before for at in ended)


def mark_seen(request: ApprovalRequest, seen: Seen) -> ApprovalRequest:
    """Return an open request with this viewer added; a viewer is listed once, with the time of about the last view."""
    known = next((each for each in request.seen if (each.who, each.channel) == (seen.who, seen.channel)), None)
    if request.status != "open" or (known is not None and seen.at - known.at < _SEEN_SECONDS):
        return request
    others = [each for each in request.seen if (each.who, each.channel) != (seen.who, seen.channel)]
    return replace(request, seen=(*others[-_MOST_SEEN + 1 :], seen))


def spend(remembered: Remembered | None) -> Remembered | None:
    """Return a counted decision with one use less, or None if no use is left."""
    if remembered is None or not remembered.uses_left:
        return None
    return replace(remembered, uses_left=remembered.uses_left - 1)


def also_closes(
    remembered: Remembered, keys: Collection[str], answered: ApprovalRequest, other: ApprovalRequest, now: float
) -> bool:
    """Whether a decision that is remembered under these keys, from one request, answers another open request too."""
    return (
        other.id != answered.id
        and not is_overdue(other, now)
        and remembered.uses_left is None
        and (other.approvers, other.asked_by) == (answered.approvers, answered.asked_by)
        and any(set(keys).issuperset(scope.keys) for scope in other.scopes)
        and remembered.covers(other.session, now, other.schema_hash, other.project)
    )


def is_overdue(request: ApprovalRequest, now: float) -> bool:
    """Whether an open request is past its expiry."""
    return request.status == "open" and request.expires_at is not None and now >= request.expires_at


def decide(
    *,
    call: ToolCall,
    verdict: Verdict,
    mode: Mode = "interactive",
    request: ApprovalRequest | None = None,
    digest: str = "",
    edited: Verdict | None = None,
    remembered: Remembered | None = None,
    asked: bool = False,
) -> Approved | Denied | Pending | Ask:
    """Decide whether a call runs, is refused, waits for its answer, or has to be asked about.

    `request` is the stored request for this call, `digest` the digest of the call now, `edited` the verdict about the
    arguments that the answer substituted; `asked` means that the caller claims to resume a request.
    """
    settled = by_policy(call, verdict)
    if request is not None and not isinstance(settled, Denied):
        return _by_answer(call, verdict, request, digest, edited)
    if settled is not None:
        return settled
    if asked:
        return Denied(cause="forged", reason="nobody was ever asked about this call here, so nobody approved it")
    return by_mode_and_memory(call, verdict, mode, remembered, edited)


def by_policy(call: ToolCall, verdict: Verdict) -> Approved | Denied | None:
    """Return the outcome that the policy alone settles; None if it depends on an answer."""
    if verdict.approval == "none":
        return Approved(args=call.args, by="policy", reason=verdict.reason, deeds=verdict.deeds)
    if verdict.approval == "blocked":
        if verdict.fails:
            return Denied(cause="failed", reason=verdict.reason)
        return Denied(cause="blocked", reason=f"blocked by policy: {verdict.reason}")
    return None


def _by_answer(
    call: ToolCall, verdict: Verdict, request: ApprovalRequest, digest: str, edited: Verdict | None
) -> Approved | Denied | Pending:
    if request.digest != digest:
        # A refusal stays valid and a used approval stays used, even if the state that the call acts on has changed.
        over = request.status not in {"open", "approved"} and request.call().digest() == call.digest()
        return refusal(request) if over else _changed_call(request)
    if request.status == "open":
        return Pending(request=request)
    decision = request.decision or ApprovalDecision(approved=False)
    if request.status != "approved" or not decision.approved:
        return refusal(request)
    for wanted in (verdict.approvers, edited.approvers if edited else None):
        if not _has_enough_votes(request, wanted):
            reason = f"its rule asks for {wanted} now, who did not all say yes"
            return Denied(cause="changed", reason=reason, request_id=request.id)
    if edited is not None and edited.approval == "blocked":
        reason = f"the edited arguments cannot run: {edited.reason}"
        return Denied(cause="blocked", reason=reason, request_id=request.id)
    return Approved(
        args=call.args if decision.override_args is None else decision.override_args,
        by="answer",
        reason=f"approved by {decision.who or 'a person'}",
        request_id=request.id,
        decision=decision,
        basis=(edited or verdict).basis,
        deeds=(edited or verdict).deeds,
    )


def _has_enough_votes(request: ApprovalRequest, wanted: Approvers | None) -> bool:
    """Whether the approvals satisfy the quorum and roles of the current rule."""
    if wanted is None or not wanted.needs_identity:
        return True
    return asks_for(request, wanted) and max(len(request.votes), 1) >= wanted.count


def asks_for(request: ApprovalRequest, wanted: Approvers | None) -> bool:
    """Whether the people whom a request asks for are at least these."""
    if wanted is None or not wanted.needs_identity:
        return True
    asked = request.approvers
    return asked is not None and set(wanted.roles) <= set(asked.roles) and asked.count >= wanted.count


def resume_used(request: ApprovalRequest, digest: str) -> Approved | Denied:
    """Decide whether an approved call that began to run and was interrupted may resume."""
    if request.status != "used" or request.result is not None or request.digest != digest:
        return refusal(request) if request.digest == digest else _changed_call(request)
    decision = request.decision or ApprovalDecision(approved=False)
    args = request.args if decision.override_args is None else decision.override_args
    reason = f"approved by {decision.who or 'a person'}, and goes on"
    return Approved(args=args, by="answer", reason=reason, request_id=request.id, decision=decision)


def _changed_call(request: ApprovalRequest) -> Denied:
    reason = "its tool, its arguments or what it would act on are not what was asked about under this call id"
    return Denied(cause="changed", reason=reason, request_id=request.id)


def refusal(request: ApprovalRequest) -> Denied:
    """Return the refusal of a call whose request is closed without an approval, or whose approval is used."""
    decision = request.decision or ApprovalDecision(approved=False)
    if request.status == "used":
        reason = f"its approval was already used, and one approval runs one call once; {_ENDINGS[request.result]}"
        return Denied(cause="replayed", reason=reason, request_id=request.id)
    if request.status == "expired":
        return Denied(cause="expired", reason="nobody answered in time", request_id=request.id)
    if request.status == "withdrawn" and decision.unattended:
        return Denied(cause="unattended", reason=decision.note or "nobody could be asked", request_id=request.id)
    if request.status == "withdrawn":
        reason = f"the question was withdrawn: {decision.note or 'the run was cancelled'}"
        return Denied(cause="withdrawn", reason=reason, request_id=request.id)
    reason = f"refused by {decision.who or 'a person'}"
    return Denied(cause="refused", reason=reason, note=decision.note, request_id=request.id)


def _may_use(remembered: Remembered, verdict: Verdict) -> bool:
    """Whether the current rule, which may be stricter now, still accepts the remembered decision."""
    if not verdict.remember or remembered.scope.kind == "call":
        return verdict.remember
    if remembered.scope.kind == "tool":
        return verdict.scope == "tool"
    return any(remembered.scope.key in scope.keys for scope in verdict.scopes)


def by_mode_and_memory(
    call: ToolCall, verdict: Verdict, mode: Mode, remembered: Remembered | None, edited: Verdict | None = None
) -> Approved | Denied | Ask:
    """Return the stricter outcome of the mode and the remembered decision; without either, a person is asked."""
    decision = remembered.decision if remembered else None
    if decision is not None and not decision.approved:
        who = decision.who or "a person"
        reason = f"refused by {who}, who had it remembered"
        return Denied(cause="refused", reason=reason, note=decision.note, by="memory")
    if mode == "auto_deny":
        reason = "refused by the mode auto_deny, because somebody would have to be asked"
        return Denied(cause="refused", reason=reason, by="mode")
    if verdict.approvers is not None and verdict.approvers.needs_identity:
        if mode != "approve_all":
            return Ask()  # a remembered decision cannot replace votes of identified people
        reason = f"its rule asks for {verdict.approvers}, and the mode approve_all is nobody"
        return Denied(cause="blocked", reason=reason)
    if edited is not None and edited.approvers is not None and edited.approvers.needs_identity:
        return Ask()
    if remembered is not None and decision is not None and _may_use(remembered, verdict):
        if edited is not None and edited.approval == "blocked":
            return Denied(cause="blocked", reason=f"the edited arguments cannot run: {edited.reason}")
        return Approved(
            args=call.args if decision.override_args is None else decision.override_args,
            by="memory",
            reason=f"remembered: approved by {decision.who or 'a person'}",
            remembered=remembered,
            decision=decision,
            basis=(edited or verdict).basis,
            deeds=(edited or verdict).deeds,
        )
    if mode == "approve_all":
        reason = "approved by the mode approve_all"
        return Approved(args=call.args, by="mode", reason=reason, basis=verdict.basis, deeds=verdict.deeds)
    return Ask()
