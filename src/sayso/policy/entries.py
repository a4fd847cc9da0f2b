"""Policy entries: one line of the configuration, parsed into a name or glob, a verdict and options for asking.

Tests: tests/policy/test_compile.py
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from sayso.core.approvers import Approvers, Escalation
from sayso.core.model import Rule, ScopeKind, Verdict
from sayso.errors import ConfigurationError
from sayso.policy import judges
from sayso.policy.conditions import Condition, check_template, read_condition
from sayso.policy.vocabulary import (
    Operation,
    as_mapping,
    check_keys,
    parse_approval,
    parse_bool,
    parse_seconds,
    parse_text,
    reject,
    suggest,
)

if TYPE_CHECKING:
    from sayso.core.model import Approval
    from sayso.policy.judges import Judge

KEYS = (
    "approval", "pre_approved", "preApproved", "blocked", "block_reason", "blockReason", "needs_approval",
    "needsApproval", "description", "reason", "expires", "remember", "scope", "when", "approvers", "kind", "argument",
    "operation", "paths",
)  # fmt: skip
T = TypeVar("T")
_SET = re.compile(r"\[!?+\]?+[^\]]*\]")  # of characters, in a glob; as `fnmatch` reads it
_ALIASES = {"preApproved": "pre_approved", "blockReason": "block_reason", "needsApproval": "needs_approval"}


# The tools that zones judge by default, and their operations.
FILE_TOOLS: dict[str, Operation] = {
    "read_file": "read", "attach_file": "read", "write_file": "write", "edit_file": "write", "delete_file": "delete",
    "list_files": "list",
}  # fmt: skip
_JUDGED = frozenset(
    {"shell", *FILE_TOOLS}
)  # tools that shell rules or zones may judge besides, perhaps of another file


class EffectSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of a tool's calls: the arguments that the shell rules or the zones judge."""

    kind: Literal["shell", "path"]
    arguments: tuple[str, ...]
    operation: Operation = "write"
    real: bool = False  # real paths of this machine, not virtual paths of a zone


class AskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for asking about a call, whichever rule asks; None leaves an option to the next entry."""

    description: str | None = None
    expires: float | None = None
    scope: ScopeKind | None = None
    remember: bool = True
    approvers: Approvers | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the owner: name or glob, verdict (fixed, from a function, or none), and options for asking."""

    pattern: str
    says: Verdict | Judge | None
    rule: Rule
    ask_options: AskOptions
    when: Condition | None = None
    effect: EffectSpec | None = None
    config: Mapping[str, Any] = {}  # as it was written

    @property
    def is_empty(self) -> bool:
        """Whether it only names a tool, as a list of tools does, and changes nothing about its calls."""
        return self.says is None and self.effect is None and self.ask_options == AskOptions()

    @property
    def is_plain(self) -> bool:
        """Whether the verdict depends on the name of the tool alone."""
        return self.when is None and self.effect is None and (self.says is None or isinstance(self.says, Verdict))


def parse_entry(pattern: str, given: Mapping[str, Any] | str, rule: Rule | None = None) -> Entry:
    """Parse an entry in any accepted spelling; an ambiguous one is an error."""
    rule = rule or Rule(source="policy", key=f"tools.{parse_text(pattern, 'a name in tools')}")
    place = rule.key
    if not isinstance(given, str | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
        reject(f"{place} is {given!r}; use an approval word such as 'required', or a mapping of its keys")
    entry = {"approval": given} if isinstance(given, str) else as_mapping(given, place)
    check_keys(entry, KEYS, place)
    values = {_ALIASES.get(key, key): value for key, value in entry.items()}
    if len(values) < len(entry):
        reject(f"{place} says the same thing in two spellings; keep one of them")
    return replace(_FieldsParser(values, rule).entry(pattern), config=entry)


class EntryError(ConfigurationError):
    """The mistakes in an entry, each with its field and a sentence."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(sentence for _, sentence in self.problems))


class _FieldsParser:
    """Parser of an entry's fields, in one spelling; collects the mistakes in all of them before it raises."""

    def __init__(self, values: Mapping[str, Any], rule: Rule) -> None:
        self._values = values
        self._rule = rule
        self._problems: list[tuple[str, str]] = []

    def entry(self, pattern: str) -> Entry:
        """Return the entry, or raise `EntryError`."""
        self._attempt("", lambda: _check_glob(pattern, self._rule.key))
        options = AskOptions(
            description=self._optional("description", _parse_description),
            expires=self._given("expires", parse_seconds),
            scope=self._given("scope", _parse_scope),
            remember=self._given("remember", parse_bool) is not False,
            approvers=self._optional("approvers", _parse_approvers),
        )
        when = self._optional("when", read_condition)
        says = self._attempt("approval", lambda: _parse_verdict(self._values, self._rule, when))
        effect = self._attempt("kind", lambda: _parse_effect(self._values, self._rule.key))
        if not options.remember and self._values.get("approval") == "once_per_session":
            sentence = f"{self._rule.key} is to be asked once per session but not to be remembered; keep one of them"
            self._problems.append(("remember", sentence))
        entry = Entry(pattern=pattern, says=says, rule=self._rule, ask_options=options, when=when, effect=effect)
        if "approvers" in idle_options(entry):
            word = cast("Verdict", says).approval
            sentence = f"{self._rule.key} is {word!r}, so nobody is asked; say 'required', or leave `approvers` out"
            self._problems.append(("approvers", sentence))
        if self._problems:
            raise EntryError(self._problems)
        return entry

    def _given(self, field: str, parse: Callable[[object, str], T]) -> T | None:
        """Parse a field that may be left out, but not be empty."""
        place = f"{self._rule.key}.{field}"
        return self._attempt(field, lambda: parse(self._values[field], place)) if field in self._values else None

    def _optional(self, field: str, parse: Callable[[object, str], T]) -> T | None:
        return self._attempt(field, lambda: _parse_optional(self._values, field, self._rule.key, parse))

    def _attempt(self, field: str, parse: Callable[[], T]) -> T | None:
        try:
            return parse()
        except ConfigurationError as error:
            self._problems.append((field, str(error)))
            return None


def _check_glob(pattern: str, place: str) -> None:
    """Refuse a glob that can match no name: a set that is not closed, or a range that is backwards."""
    if "[" in _SET.sub("", pattern):
        reject(
            f"{place} has a `[` that is never closed, so it matches no tool; close it, or write `[[]` for a plain one"
        )
    empty = next((each for each in _SET.findall(pattern) if "(?!)" in fnmatch.translate(each)), None)
    if empty is not None:
        reject(f"{place} has {empty!r}, which matches no character; write a range upwards, such as [a-z]")


def idle_options(entry: Entry) -> list[str]:
    """Return the options for asking that mean nothing, because no call that the entry is about is ever asked about."""
    says = entry.says.approval if isinstance(entry.says, Verdict) else None
    # Besides an entry that lets calls run, shell rules or zones may ask, or its condition may be undecidable.
    may_ask = entry.effect is not None or entry.when is not None or entry.pattern in _JUDGED or "*" in entry.pattern
    if says != "blocked" and (says != "none" or may_ask):
        return []
    options = entry.ask_options
    given = {"expires": options.expires, "scope": options.scope, "approvers": options.approvers}
    return [*(name for name, value in given.items() if value is not None), *([] if options.remember else ["remember"])]


def _parse_description(given: object, place: str) -> str:
    return check_template(parse_text(given, place), place)


def _parse_effect(values: Mapping[str, Any], place: str) -> EffectSpec | None:
    kind = values.get("kind")
    if kind is None:
        for key in ("argument", "operation", "paths"):
            if key in values:
                reject(f"{place} has `{key}` without `kind`; say `kind: shell` or `kind: path`")
        return None
    if kind not in ("shell", "path"):
        reject(f"{place}.kind is {kind!r}; use 'shell' or 'path'{suggest(kind, ('shell', 'path'))}")
    if kind == "shell" and ("operation" in values or "paths" in values):
        reject(f"{place} has the kind 'shell', so `operation` and `paths` mean nothing; leave them out")
    given = values.get("argument", "command" if kind == "shell" else "path")
    arguments = list(cast("list[object]", given)) if isinstance(given, list | tuple) else [given]
    if not arguments or (kind == "shell" and len(arguments) > 1):
        reject(f"{place}.argument is {given!r}; name one argument or, for the kind 'path', a list of them")
    operation, paths = values.get("operation", "write"), values.get("paths", "virtual")
    if operation not in get_args(Operation):
        known = get_args(Operation)
        reject(f"{place}.operation is {operation!r}; use one of {known}{suggest(operation, known)}")
    if paths not in ("virtual", "real"):
        reject(f"{place}.paths is {paths!r}; use 'virtual' or 'real'{suggest(paths, ('virtual', 'real'))}")
    names = tuple(parse_text(name, f"{place}.argument") for name in arguments)
    return EffectSpec(kind=kind, arguments=names, operation=operation, real=paths == "real")


def _parse_approvers(given: object, place: str) -> Approvers:
    values = as_mapping(given, place)
    check_keys(values, ("count", "role", "remind", "escalate"), place)
    count = values.get("count", 1)
    if type(count) is not int or count < 1:
        reject(f"{place}.count is {count!r}; use a whole number from 1 up")
    role = _parse_optional(values, "role", place, parse_text)
    remind = _parse_optional(values, "remind", place, parse_seconds)
    escalate = _parse_optional(values, "escalate", place, _parse_escalation)
    if escalate is not None and role is None:
        reject(f"{place}.escalate names another role, but {place}.role names none; say who answers first")
    return Approvers(count=count, roles=() if role is None else (role,), remind=remind, escalate=escalate)


def _parse_escalation(given: object, place: str) -> Escalation:
    values = as_mapping(given, place)
    check_keys(values, ("role", "after"), place)
    role, after = _parse_optional(values, "role", place, parse_text), values.get("after")
    if role is None or after is None:
        reject(f"{place} needs `role` and `after`, such as {{role: lead, after: 10m}}")
    return Escalation(role=role, after=parse_seconds(after, f"{place}.after"))


def apply_ask_options(verdict: Verdict, options: Iterable[AskOptions]) -> Verdict:
    """Return the verdict with the first value given for each option; `remember: false` from any of them prevails."""
    given = list(options)
    described = None if verdict.description else next((each.description for each in given if each.description), None)
    return replace(
        verdict,
        description=described or verdict.description,
        described_by="policy" if described else verdict.described_by,
        expires=next((each.expires for each in given if each.expires is not None), verdict.expires),
        scope=next((each.scope for each in given if each.scope is not None), verdict.scope),
        remember=verdict.remember and all(each.remember for each in given),
        approvers=next((each.approvers for each in given if each.approvers is not None), verdict.approvers),
    )


def _parse_verdict(values: Mapping[str, Any], rule: Rule, when: Condition | None) -> Verdict | Judge | None:
    function = values.get("needs_approval")
    found = _parse_approvals(values, rule.key)
    if "blocked" in found.values():
        return _entry_verdict("blocked", values, rule, when)
    if len(set(found.values())) > 1:
        reject(f"{rule.key} contradicts itself: {', '.join(f'{key} means {word!r}' for key, word in found.items())}")
    if function is None or isinstance(function, bool):
        return _entry_verdict(next(iter(found.values())), values, rule, when) if found else None
    if found:
        reject(f"{rule.key} has both `{next(iter(found))}` and a `needs_approval` function; keep one")
    return judges.wrap_needs_approval(function, rule)


def _parse_approvals(values: Mapping[str, Any], place: str) -> dict[str, Approval]:
    """Return the approval that each of the equivalent keys means."""
    found: dict[str, Approval] = {}
    if values.get("approval") is not None:
        found["approval"] = parse_approval(values["approval"], f"{place}.approval")
    if parse_bool(values.get("blocked", False), f"{place}.blocked"):
        found["blocked"] = "blocked"
    if "pre_approved" in values:
        found["pre_approved"] = "none" if parse_bool(values["pre_approved"], f"{place}.pre_approved") else "required"
    if isinstance(values.get("needs_approval"), bool):
        found["needs_approval"] = "required" if values["needs_approval"] else "none"
    return found


def _entry_verdict(approval: Approval, values: Mapping[str, Any], rule: Rule, when: Condition | None) -> Verdict:
    reason = _parse_optional(values, "block_reason", rule.key, parse_text) if approval == "blocked" else None
    reason = reason or _parse_optional(values, "reason", rule.key, parse_text)
    where = "" if when is None else f" where {when}"
    return Verdict(approval=approval, reason=reason or f"{rule.key} is {approval!r}{where}", rule=rule)


def _parse_optional(values: Mapping[str, Any], key: str, place: str, parse: Callable[[object, str], T]) -> T | None:
    return None if values.get(key) is None else parse(values[key], f"{place}.{key}")


def _parse_scope(word: object, place: str) -> ScopeKind:
    if word in ("call", "tool"):
        return word
    near = suggest(word, ("call", "tool"))
    reject(f"{place} is {word!r}; use 'call' or 'tool', the broadest that may be remembered{near}")
