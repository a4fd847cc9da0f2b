"""Rendering of a request as text for the command line: on one line, or in full.

Tests: tests/cli/test_approve_deny.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from sayso.channels.display.conversation_lines import GAP, HEADING
from sayso.channels.display.durations import format_exact_duration, format_rough_duration
from sayso.channels.display.request_lines import asker, conversation_label, format_name, format_value
from sayso.cli.screen import bold, exact_lines, rule_location, truncate_visible, width, wrap_text
from sayso.cli.times import moment
from sayso.core.canonical import thaw
from sayso.core.json_codec import state_text
from sayso.core.model import ApprovalDecision, ApprovalPresentation, ApprovalRequest

_HEAD = 14
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def asking_agent(request: ApprovalRequest) -> str:
    """Return the path of the requesting agent."""
    return asker(request) or "an agent"


def answered_by(decision: ApprovalDecision) -> str:
    """Return approver, channel and time of a decision."""
    channel = f" ({decision.channel})" if decision.channel else ""
    when = "" if decision.decided_at is None else f" at {moment(decision.decided_at)}"
    return f"{decision.who or 'somebody'}{channel}{when}"


def closed_text(request: ApprovalRequest) -> str:
    """Return the predicate of a sentence about a closed request: how it was closed."""
    decision = request.decision
    if request.status in {"expired", "withdrawn"} or decision is None:
        return f"is {state_text(request)}"
    return f"was already {'approved' if decision.approved else 'denied'} by {answered_by(decision)}"


# --- On two lines ------------------------------------------------------------------------------------


def brief_lines(request: ApprovalRequest, name: str, now: float) -> Iterator[str]:
    """Yield two truncated lines: id, age and agent; and the call."""
    age = f"{format_rough_duration(now - request.asked_at)} old"
    state = request.state if request.status != "open" else _time_left(request, now)
    yield bold(name) + "  " + truncate_visible(f"{age}, {state}: {asking_agent(request)}", width() - len(name) - 2)
    yield f"{' ' * len(name)}  {one_line(request, width() - len(name) - 2)}"


def one_line(request: ApprovalRequest, room: int) -> str:
    """Return the call on one line, with its arguments rather than the tool's description."""
    return truncate_visible(call_text(request), room)


def call_text(request: ApprovalRequest) -> str:
    """Format the call, even with an integer that Python refuses to write."""
    try:
        return str(request)
    except ValueError:
        return f"{request.tool_name}(…), with a very long number; `sayso show` has it"


def _time_left(request: ApprovalRequest, now: float) -> str:
    return "no end" if request.expires_at is None else f"{format_rough_duration(request.expires_at - now)} left"


# --- In full -----------------------------------------------------------------------------------------


def full_lines(request: ApprovalRequest, now: float, *, conversation: bool) -> Iterator[str]:
    """Yield the whole request, sanitised; the messages before the call are folded unless `conversation`."""
    yield from _title(f"{asking_agent(request)} wants to run {request.tool_name}")
    yield from _fact_lines(request, now)
    yield from argument_lines("Arguments", request.args)
    if request.payload is not None:
        yield from argument_lines("Payload", request.payload)
    if request.presentation is not None:
        yield from _presentation_lines(request.presentation)
    yield from _scopes(request)
    if request.status == "withdrawn" and request.decision is not None:
        yield from _withdrawal_lines(request.decision)
    elif request.decision is not None:
        yield from _answer_lines(request.decision)
    if conversation:
        yield from _conversation(request)


def _conversation(request: ApprovalRequest) -> Iterator[str]:
    yield ""
    yield from _title(HEADING[0].upper() + HEADING[1:] if request.conversation else "No messages before this call")
    for each in request.conversation:
        if each.gap:
            yield f"  {GAP}"
        yield f"  {each.role}"
        yield from exact_lines(each.text, indent=4)


def _title(text: str) -> Iterator[str]:
    return map(bold, wrap_text(text))


def _fact_lines(request: ApprovalRequest, now: float) -> Iterator[str]:
    rows = [
        ("id", request.id),
        ("status", state_text(request)),
        ("asked", f"{moment(request.asked_at)}, {format_rough_duration(now - request.asked_at)} ago"),
        ("expires", _expiry(request, now)),
        ("agent", asking_agent(request)),
        ("tool", request.tool_name),
        ("session", request.session),
        _description_row(request),
        ("summary", request.summary if request.summary != request.description else None),
        ("because", request.reason),
        ("by", None if request.rule is None else rule_location(request.rule)),
        ("needs", None if request.approvers is None else approvals_needed(request)),
        ("seen by", ", ".join(f"{each.who} ({each.channel})" for each in request.seen)),
        ("before", f"{conversation_label(request)}; --conversation shows them" if request.conversation else None),
        ("run at", None if request.used_at is None else moment(request.used_at)),
    ]
    yield from _rows(rows)


def _description_row(request: ApprovalRequest) -> tuple[str, str | None]:
    told = request.described_by != "default"
    return f"{request.described_by} says", request.description if told else None


def _rows(rows: list[tuple[str, str | None]]) -> Iterator[str]:
    for name, text in rows:
        if text:
            yield from wrap_text(text, head=f"  {name}", indent=_HEAD)


def approvals_needed(request: ApprovalRequest) -> str:
    """Return the needed approvals (quorum), and those that are given."""
    votes = ", ".join(f"{vote.who}" for vote in request.votes)
    return f"{request.approvers}; {votes} said yes" if votes else str(request.approvers)


def _expiry(request: ApprovalRequest, now: float) -> str:
    if request.expires_at is None:
        return "never"
    left = f", in {format_rough_duration(request.expires_at - now)}" if request.expires_at > now else ""
    return f"{moment(request.expires_at)}{left}"


def argument_lines(title: str, args: Mapping[str, Any]) -> Iterator[str]:
    """Yield arguments in full."""
    yield ""
    yield from _title(title if args else f"{title}: none")
    for name, value in thaw(args).items():
        yield from wrap_text(f"{format_name(name)}:", head=" ", indent=2)
        for line in format_value(value):
            yield from exact_lines(line, indent=2)


def _presentation_lines(shown: ApprovalPresentation) -> Iterator[str]:
    text = shown.diff or shown.content
    if not text and not shown.title:
        return
    yield ""
    yield from _title(shown.title or ("Diff" if shown.diff else "Content"))
    for line in (text or "").split("\n"):
        colour = _COLOURS.get(line[:1]) if shown.diff else None
        yield from (click.style(each, fg=colour) for each in exact_lines(line, indent=2))


def _scopes(request: ApprovalRequest) -> Iterator[str]:
    yield ""
    yield from _title(
        "An answer can be remembered for"
        if request.scopes
        else "An answer is not remembered: its rule does not allow it"
    )
    yield from _rows([(scope.kind, scope.label) for scope in request.scopes])
    if request.scopes and request.remember_max is not None:
        yield from wrap_text(f"for {format_exact_duration(request.remember_max)} at most", head=" ", indent=2)


def _withdrawal_lines(decision: ApprovalDecision) -> Iterator[str]:
    yield ""
    yield from _title("Withdrawn")
    yield from _rows([
        ("at", None if decision.decided_at is None else moment(decision.decided_at)),
        ("because", decision.note),
    ])  # fmt: skip


def _answer_lines(decision: ApprovalDecision) -> Iterator[str]:
    yield ""
    yield from _title("Answer")
    limits = [
        decision.remember if decision.remember != "none" else None,
        decision.scope,
        None if decision.uses is None else f"{decision.uses} uses",
        None if decision.until is None else f"until {moment(decision.until)}",
    ]
    yield from _rows([
        ("answer", "yes" if decision.approved else "no"),
        ("by", answered_by(decision)),
        ("note", decision.note),
        ("remember", ", ".join(each for each in limits if each)),
    ])  # fmt: skip
    if decision.override_args is not None:
        yield from argument_lines("Arguments as they were edited, and run", decision.override_args)
