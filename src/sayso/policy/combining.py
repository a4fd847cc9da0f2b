"""Combining: orders the entries that match a call and merges their verdicts, the strictest first.

Tests: tests/policy/test_policy.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from sayso.core.approvers import Approvers
from sayso.core.model import Verdict
from sayso.policy.conditions import UndecidableCondition
from sayso.policy.deeds import RuleTrace
from sayso.policy.entries import AskOptions
from sayso.policy.vocabulary import STRICTNESS

if TYPE_CHECKING:
    from sayso.core.model import ToolCall
    from sayso.policy.entries import Entry
    from sayso.policy.index import Ranked

T = TypeVar("T")


def condition_holds(entry: Entry, call: ToolCall) -> bool | str:
    """Whether the entry's condition holds, or why that is undecidable."""
    try:
        return entry.when is None or entry.when.holds(call.args, call.annotations)
    except UndecidableCondition as problem:
        return f"the condition of {entry.rule.key} cannot be checked: {problem}"


def applicable_entries(matching: list[Ranked], call: ToolCall) -> tuple[list[Ranked], list[tuple[int, Verdict]]]:
    """Return the entries that apply to this call, and a `required` verdict for each whose condition is undecidable.

    A condition is about the verdict of an entry. It never removes the effect, by which the call is judged; and if it is
    undecidable, the options for asking apply.
    """
    about: list[Ranked] = []
    unsure: list[tuple[int, Verdict]] = []
    for rank, entry in matching:
        held = condition_holds(entry, call)
        if held is True:
            about.append((rank, entry))
        elif isinstance(held, str) and isinstance(entry.says, Verdict) and entry.says.approval == "blocked":
            blocks = replace(entry.says, reason=f"{held}, so it blocks ({entry.says.reason})")
            about.append((rank, replace(entry, says=blocks)))
        elif isinstance(held, str):
            about.append((rank, replace(entry, says=None)))
            unsure.append((rank, Verdict(approval="required", reason=held, rule=entry.rule)))
        elif entry.effect is not None:
            about.append((rank, replace(entry, says=None, ask_options=AskOptions())))
    return about, unsure


def trace_entry(rank: int, entry: Entry, call: ToolCall) -> Iterator[RuleTrace]:
    """Yield the trace of an entry for `explain`."""
    about, unsure = applicable_entries([(rank, entry)], call)
    if unsure:
        yield RuleTrace(rule=entry.rule, approval=unsure[0][1].approval, reason=unsure[0][1].reason)
        return
    if condition_holds(entry, call) is False:
        reason = f"its condition does not hold ({entry.when})"
        yield RuleTrace(rule=entry.rule, approval=None, reason=reason, applies=False)
        return
    says = about[0][1].says
    if isinstance(says, Verdict):
        yield RuleTrace(rule=entry.rule, approval=says.approval, reason=says.reason)
    elif says is not None:
        yield RuleTrace(rule=entry.rule, approval=None, reason="a function decides")
    elif entry.rule.source != "sayso":
        yield RuleTrace(rule=entry.rule, approval=None, reason="it matches, and leaves the word to others")


def why_default(matching: list[Ranked], call: ToolCall | None) -> str:
    """Return why the default decides: no entry names the tool, or the nearest one that does leaves it open."""
    named = [entry for _, entry in matching if entry.rule.source != "sayso"]
    if not named:
        return "no rule names this tool"
    key, condition = named[0].rule.key, named[0].when
    if condition is not None and call is not None and condition_holds(named[0], call) is False:
        return f"{key} is not about this call: its condition does not hold ({condition})"
    return f"{key} sets no approval" if named[0].says is None else f"{key} leaves this call open"


def strictest_first(ranked: list[tuple[int, Verdict]]) -> list[Verdict]:
    """Sort the owner's verdicts: the most specific first and, between equals, the strictest."""
    ordered = sorted(ranked, key=lambda each: (-each[0], -STRICTNESS[each[1].approval]))
    return [verdict for _, verdict in ordered]


def with_agreed_deeds(verdict: Verdict, judged: Iterable[Verdict]) -> Verdict:
    """Return the verdict with the deeds that are common to all verdicts that name any."""
    found = [each.deeds for each in judged if each.deeds]
    if not found:
        return verdict
    agreed = tuple(deed for deed in found[0] if all(deed in deeds for deeds in found))
    if agreed or verdict.approval == "blocked":
        return replace(verdict, deeds=agreed)
    reason = "two policies do not mean the same by it, so neither has judged what the other has"
    return Verdict(approval="blocked", reason=reason, rule=verdict.rule)


def stricter_verdict(verdict: Verdict, other: Verdict) -> Verdict:
    """Return the stricter of two verdicts, with the stricter options of both where both ask."""
    stricter = other if STRICTNESS[other.approval] > STRICTNESS[verdict.approval] else verdict
    if not (verdict.asks and other.asks):
        return stricter
    return replace(
        stricter,
        expires=min((each.expires for each in (verdict, other) if each.expires is not None), default=None),
        remember=verdict.remember and other.remember,
        scope="tool" if verdict.scope == other.scope == "tool" else "call",
        scopes=tuple(each for each in verdict.scopes if each in other.scopes),
        approvers=_merge_approvers(verdict.approvers, other.approvers),
    )


def _merge_approvers(left: Approvers | None, right: Approvers | None) -> Approvers | None:
    if left is None or right is None:
        return left or right
    return Approvers(
        count=max(left.count, right.count),
        roles=tuple(dict.fromkeys((*left.roles, *right.roles))),
        remind=min((each for each in (left.remind, right.remind) if each is not None), default=None),
        # Another role may substitute only if both rules permit it.
        escalate=left.escalate if left.escalate == right.escalate else None,
    )


def with_details(verdict: Verdict, said: list[Verdict]) -> Verdict:
    """Return the verdict with the tool's own presentation, payload and metadata, whichever rule has decided."""
    described = next((each for each in (verdict, *said) if each.description), verdict)
    return replace(
        verdict,
        description=described.description,
        described_by=described.described_by,
        payload=_first(each.payload for each in said),
        metadata=_merge_metadata(each.metadata for each in said),
        presentation=_first(each.presentation for each in said),
        basis=_first(each.basis for each in said),
    )


def _merge_metadata(found: Iterable[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """Return the union of all metadata; for a key that occurs twice, the first value."""
    given = [each for each in found if each is not None]
    return (
        {name: value for each in reversed(given) for name, value in each.items()} if len(given) > 1 else _first(given)
    )


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
