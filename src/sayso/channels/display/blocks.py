"""Rendering of a request as plain text blocks with headings, for front ends with their own layout; no markup.

Tests: tests/test_streamlit.py
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sayso.channels.display import request_lines
from sayso.channels.display.durations import format_clock
from sayso.channels.display.request_lines import format_value
from sayso.channels.display.sanitize import visible
from sayso.core.canonical import thaw
from sayso.core.model import ApprovalPresentation, ApprovalRequest
from sayso.policy.shell.lexer import hidden_character

_DAY = 86_400.0
_MOST_LINES = 24  # longer texts are folded
_HEAD = 12
_LONGEST = 800  # characters of a line; longer lines are split
_LONG = 80  # characters; longer values are shown with their length
_KINDS: Mapping[type, str] = {
    bool: "yes or no",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}
_VERDICT_WORDS = {"ask": "asks", "no ": "blocked", "   ": "may run"}  # verdict marks on the parts of a shell line
_BACKWARDS = "has right-to-left letters: on the screen, parts may stand in another order than they have"


class Block(NamedTuple):
    """Sanitised text under a sanitised heading, with the number of lines that are folded away."""

    heading: str
    text: str
    language: Literal["diff"] | None = None
    hidden: int = 0


def asker(request: ApprovalRequest) -> str:
    """Name the requester."""
    return visible(request_lines.asker(request) or "An agent")


def facts(request: ApprovalRequest) -> Iterator[tuple[str, str]]:
    """Yield label and text of each statement about a request, with its source: the tool or the rule."""
    if request.described_by != "default":
        yield f"The {request.described_by} says", visible(request.description)
    yield "Because", visible(request.reason)
    if request.rule is not None:
        yield "Rule", visible(str(request.rule))
    if request.approval == "once_per_session":
        yield "A yes", "holds for the rest of the agent's session: it is asked once"


def timing_text(request: ApprovalRequest, now: float) -> str:
    """Return how long an open request has waited and when it expires; for a closed one, its state."""
    if request.status != "open":
        return request.state
    waits = f"waiting {format_clock(now - request.asked_at)}"
    left = time_left(request, now)
    if left is None:
        return waits
    return f"{waits} · expires in {format_clock(left)}" if left > 0 else f"{waits} · its time is up"


def time_left(request: ApprovalRequest, now: float) -> float | None:
    """Return the seconds until a request expires, or None if that is more than a day, and no news."""
    left = _DAY if request.expires_at is None else request.expires_at - now
    return left if left < _DAY else None


def people_lines(request: ApprovalRequest, me: str, *, is_hub: bool) -> Iterator[str]:
    """Yield the required approvers, the votes so far, and the other viewers; a hub identifies viewers by token."""
    wanted = request.approvers
    if wanted is not None and wanted.needs_identity:
        yield visible(f"A yes needs {wanted}") + ("" if is_hub else "; only a hub knows who they are")
    if text := votes_text(request):
        yield text
    others = dict.fromkeys(each.who for each in request.seen if each.who != me)
    if others and not is_hub:
        yield f"Also seen by {', '.join(map(visible, others))}"


def votes_text(request: ApprovalRequest) -> str:
    """Return how many approvals are needed (quorum) and given; empty if one is enough."""
    wanted = 1 if request.approvers is None else request.approvers.count
    yes = [visible(vote.who or "somebody") for vote in request.votes if vote.approved]
    return "" if wanted == 1 else f"{len(yes)} of {wanted} people have said yes{': ' if yes else ''}{', '.join(yes)}"


def argument_blocks(args: Mapping[str, Any], *, whole: bool) -> Iterator[Block]:
    """Yield each argument exactly; long values are folded unless `whole`."""
    for name, value in thaw(args).items():
        lines = format_value(value)
        text, hidden = _fold_lines(lines, visible, whole=whole)
        yield Block(f"{visible(name)} · {_value_summary(value, lines)}", text, hidden=hidden)


def _value_summary(value: object, lines: list[str]) -> str:
    kind = "nothing (null)" if value is None else _KINDS.get(type(value), visible(type(value).__name__))
    length = sum(map(len, lines))
    backwards = any(unicodedata.bidirectional(each) in {"R", "AL"} for line in lines for each in line)
    notes = [f"{length:,} characters" if length > _LONG else "", _BACKWARDS if backwards else ""]
    return " · ".join([kind, *filter(None, notes)])


def presentation_block(presentation: ApprovalPresentation | None, *, whole: bool) -> Block | None:
    """Return the tool's own presentation: a diff, a text, or the verdict on each part of a shell line."""
    given = None if presentation is None else presentation.diff or presentation.content
    if presentation is None or given is None:
        return None
    lines = given.removesuffix("\n").split("\n")
    by_parts = presentation.language == "bash" and not presentation.diff
    text, hidden = _fold_lines(lines, _shell_part_text if by_parts else visible, whole=whole)
    kind = "What would change" if presentation.diff else "What the tool shows"
    heading = f"{kind}: {visible(presentation.title)}" if presentation.title else kind
    return Block(heading, text, "diff" if presentation.diff else None, hidden)


def _shell_part_text(line: str) -> str:
    verdict = _VERDICT_WORDS.get(line[:3]) if line.strip() else None
    return visible(line) if verdict is None else f"{verdict:8}{visible(line[4:])}"


def conversation_blocks(request: ApprovalRequest) -> Iterator[Block]:
    """Yield each message before the call, under the role that the agent tells."""
    for each in request.conversation:
        heading = f"{each.role} (messages before it are left out)" if each.gap else each.role
        text, _ = _fold_lines(each.text.split("\n"), visible, whole=True)
        yield Block(heading, text)


def _fold_lines(lines: Sequence[str], write: Callable[[str], str], *, whole: bool) -> tuple[str, int]:
    size = sum(1 + len(line) // _LONGEST for line in lines)
    if whole or size <= _MOST_LINES:
        return "\n".join(row for line in lines for row in _split_long_line(write(line))), 0
    rows = [row for line in lines[:_HEAD] for row in _split_long_line(write(line[: _LONGEST * _HEAD]))]
    return "\n".join(rows[:_HEAD]), size - _HEAD


def _split_long_line(line: str) -> Iterator[str]:
    yield line[:_LONGEST]
    for at in range(_LONGEST, len(line), _LONGEST):
        yield f"↪ {line[at : at + _LONGEST]}"


def editable_json(args: Mapping[str, Any]) -> str:
    """Serialise arguments as JSON for an editor, with invisible characters as escape codes.

    Raises:
        ValueError: an argument is not plain data, so its JSON would not be parsed back to the same value.
    """
    try:
        text = json.dumps(thaw(args), ensure_ascii=False, indent=2)
    except (TypeError, ValueError) as error:
        raise ValueError(f"an argument is no plain data, and cannot be edited as text ({error})") from error
    shown = (each if each == "\n" or hidden_character(each) is None else json.dumps(each)[1:-1] for each in text)
    return "".join(shown) + "\n"
