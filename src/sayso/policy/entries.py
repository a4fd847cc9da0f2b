"""One line of the owner's configuration: what it says about the calls of a tool, and on which terms they are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from sayso.model import Rule, ScopeKind, Verdict
from sayso.policy import judges
from sayso.policy.words import (
    as_mapping,
    check_keys,
    parse_approval,
    parse_bool,
    parse_seconds,
    parse_text,
    reject,
)

if TYPE_CHECKING:
    from sayso.model import Approval
    from sayso.policy.judges import Judge

KEYS = (
    "approval", "pre_approved", "preApproved", "blocked", "block_reason", "blockReason", "needs_approval",
    "needsApproval", "description", "reason", "expires", "remember", "scope",
)  # fmt: skip
_ALIASES = {"preApproved": "pre_approved", "blockReason": "block_reason", "needsApproval": "needs_approval"}


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a call is asked about, whoever says that it must be; None leaves it open."""

    description: str | None = None
    expires: float | None = None
    scope: ScopeKind | None = None
    remember: bool = True


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A name or glob, what the owner says about it (a verdict, a function, or nothing), and the terms."""

    pattern: str
    says: Verdict | Judge | None
    rule: Rule
    terms: Terms


def read(pattern: str, given: Mapping[str, Any] | str) -> Entry:
    """Read an entry in any of the seeds' spellings; what has no clear meaning is an error."""
    place = f"tools.{parse_text(pattern, 'a name in tools')}"
    rule = Rule(source="policy", key=place)
    if not isinstance(given, str | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
        reject(f"{place} is {given!r}; use an approval word such as 'required', or a mapping of its keys")
    entry = {"approval": given} if isinstance(given, str) else as_mapping(given, place)
    check_keys(entry, KEYS, place)
    values = {_ALIASES.get(key, key): value for key, value in entry.items()}
    if len(values) < len(entry):
        reject(f"{place} says the same thing in two spellings; keep one of them")
    terms = Terms(
        description=_maybe_text(values, "description", place),
        expires=None if "expires" not in values else parse_seconds(values["expires"], f"{place}.expires"),
        scope=None if "scope" not in values else _scope(values["scope"], f"{place}.scope"),
        remember=parse_bool(values.get("remember", True), f"{place}.remember"),
    )
    if not terms.remember and values.get("approval") == "once_per_session":
        reject(f"{place} is to be asked once per session but not to be remembered; keep one of them")
    return Entry(pattern=pattern, says=_says(values, rule), rule=rule, terms=terms)


def apply_terms(verdict: Verdict, terms: Iterable[Terms]) -> Verdict:
    """Return the verdict on the first terms that say something; a "do not remember" from any of them stands."""
    given = list(terms)
    return replace(
        verdict,
        description=verdict.description or next((each.description for each in given if each.description), None),
        expires=next((each.expires for each in given if each.expires is not None), verdict.expires),
        scope=next((each.scope for each in given if each.scope is not None), verdict.scope),
        remember=verdict.remember and all(each.remember for each in given),
    )


def _says(values: Mapping[str, Any], rule: Rule) -> Verdict | Judge | None:
    function = values.get("needs_approval")
    said = _approvals(values, rule.key)
    if "blocked" in said.values():
        return _verdict("blocked", values, rule)
    if len(set(said.values())) > 1:
        reject(f"{rule.key} contradicts itself: {', '.join(f'{key} means {word!r}' for key, word in said.items())}")
    if function is None or isinstance(function, bool):
        return _verdict(next(iter(said.values())), values, rule) if said else None
    if said:
        reject(f"{rule.key} has both `{next(iter(said))}` and a `needs_approval` function; keep one")
    return judges.needs_approval(function, rule)


def _approvals(values: Mapping[str, Any], place: str) -> dict[str, Approval]:
    """Return what each of the several ways to say it means."""
    said: dict[str, Approval] = {}
    if values.get("approval") is not None:
        said["approval"] = parse_approval(values["approval"], f"{place}.approval")
    if parse_bool(values.get("blocked", False), f"{place}.blocked"):
        said["blocked"] = "blocked"
    if "pre_approved" in values:
        said["pre_approved"] = "none" if parse_bool(values["pre_approved"], f"{place}.pre_approved") else "required"
    if isinstance(values.get("needs_approval"), bool):
        said["needs_approval"] = "required" if values["needs_approval"] else "none"
    return said


def _verdict(approval: Approval, values: Mapping[str, Any], rule: Rule) -> Verdict:
    reason = _maybe_text(values, "block_reason", rule.key) if approval == "blocked" else None
    reason = reason or _maybe_text(values, "reason", rule.key) or f"{rule.key} is {approval!r}"
    return Verdict(approval=approval, reason=reason, rule=rule)


def _maybe_text(values: Mapping[str, Any], key: str, place: str) -> str | None:
    return None if values.get(key) is None else parse_text(values[key], f"{place}.{key}")


def _scope(word: object, place: str) -> ScopeKind:
    if word in ("call", "tool"):
        return word
    reject(f"{place} is {word!r}; use 'call' or 'tool', the broadest that may be remembered")
