"""Rules by the name of a tool: exact names and globs, what the tool says itself, and the default.

A block from anyone stands. Else the owner's configuration decides, the most specific name first; else what the
toolset says; else the tool's own marker; else the default.
"""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from sayso.errors import ConfigurationError
from sayso.model import Rule, ScopeKind, ToolCall, Verdict
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

_KEYS = (
    "approval", "pre_approved", "preApproved", "blocked", "block_reason", "blockReason", "needs_approval",
    "needsApproval", "description", "reason", "expires", "remember", "scope",
)  # fmt: skip
_ALIASES = {"preApproved": "pre_approved", "blockReason": "block_reason", "needsApproval": "needs_approval"}
_STRICTNESS: dict[Approval | None, int] = {
    "blocked": 3,
    "required": 2,
    "once_per_session": 1,
    "none": 0,
    None: -1,
}
_WILD = re.compile(r"[*?\[]")
_CACHE_LIMIT = 10_000

T = TypeVar("T")


class ToolRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool brings along.

    `judge` is its toolset's say, `mark` that of `@requires_approval` or its framework; `details` gives a verdict of
    which only description, payload and the like are used; `misfit` says why edited arguments do not fit the tool.
    """

    judge: Judge | None = None
    mark: Judge | None = None
    details: Callable[[ToolCall], Verdict] | None = None
    misfit: Callable[[Mapping[str, Any]], str | None] | None = None


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the owner's configuration."""

    pattern: str
    verdict: Verdict | None
    judge: Judge | None
    rule: Rule

    @property
    def strictness(self) -> int:
        return _STRICTNESS[self.verdict.approval if self.verdict else None]


class Policy:
    """Decides for every call whether it runs, is asked about or is blocked; immutable once built."""

    def __init__(
        self,
        tools: Mapping[str, Mapping[str, Any] | str] | None = None,
        *,
        default: str = "none",
        tool_configs: Mapping[str, Mapping[str, Any] | str] | None = None,
        pre_approved: Iterable[str] | None = None,
        needs_approval: Callable[..., Any] | None = None,
        remember: bool = True,
        remember_max: float | str | None = None,
    ) -> None:
        """Compile the rules; a word or key that sayso does not know is an error here, not at the first call.

        Args:
            tools: per tool name or glob, an approval word or a mapping such as `{"approval": "required"}`.
            default: what happens to tools that nothing names.
            tool_configs: the name that seed 003 gives to `tools`.
            pre_approved: deprecated; use `{"approval": "none"}`.
            needs_approval: a function asked about every call; it decides where `tools` is silent, and may always block.
            remember: False lets no decision be remembered.
            remember_max: the longest time that a decision may be remembered.
        """
        if tools is not None and tool_configs is not None:
            reject("`tools` and `tool_configs` are two names for one thing; pass one of them")
        entries = _with_pre_approved(tools or tool_configs or {}, pre_approved)
        self._index = _Index(_entry(pattern, entry, remember=remember) for pattern, entry in entries.items())
        self._default = _default(default, remember=remember)
        self._needs_approval = _policy_judge(needs_approval)
        self._settled: dict[str, Verdict] = {}
        self.remember_max = None if remember_max is None else parse_seconds(remember_max, "remember_max")

    def judge(self, call: ToolCall, own: ToolRules | None = None) -> Verdict:
        """Return the verdict about a call, for rules that need no event loop."""
        verdict = self.glance(call, own)
        if verdict is not None:
            return verdict
        deliberation = self.deliberate(call, own)
        try:
            deliberation.send(None)
        except StopIteration as done:
            return done.value
        deliberation.close()
        raise ConfigurationError(f"a rule for {call.tool!r} is async; use `await policy.deliberate(call)`")

    def glance(self, call: ToolCall, own: ToolRules | None = None) -> Verdict | None:
        """Return the verdict if no function has to be asked for it: one dictionary read, once the name is known."""
        verdict = self._settled.get(call.tool) or self._settle(call.tool)
        if own is None or verdict is None:
            return verdict
        # A mark alone changes nothing about what the owner lets run or blocks.
        said = verdict is not self._default or own.mark is None
        decided = own.judge is None and said and not verdict.asks
        return verdict if decided else None

    async def deliberate(self, call: ToolCall, own: ToolRules | None = None) -> Verdict:
        """Return the verdict, asking every function that has a say."""
        brought = own or ToolRules()
        asked: list[tuple[Judge | Verdict | None, Rule]] = [
            *self._said_by_owner(call.tool),
            (brought.judge, Rule(source="toolset", key=call.tool)),
            (self._needs_approval, Rule(source="policy", key="needs_approval")),
            (brought.mark, Rule(source="@requires_approval", key=call.tool)),
        ]
        said: list[Verdict] = []
        for judge, rule in asked:
            verdict = judge if isinstance(judge, Verdict | None) else await judges.consult(judge, call, rule)
            if verdict is not None:
                said.append(verdict)
        verdict = self._combine(said)
        if not verdict.asks:
            return verdict
        return _with_details(verdict, [*said, *([brought.details(call)] if brought.details else [])])

    def _combine(self, said: list[Verdict]) -> Verdict:
        """A block from anyone stands; else whoever comes first decides; else the default."""
        first = said[0] if said else self._default
        return next((each for each in said if each.approval == "blocked"), first)

    def _said_by_owner(self, tool: str) -> list[tuple[Judge | Verdict, Rule]]:
        found = self._index.matching(tool)
        said = [(entry.verdict or entry.judge, entry.rule) for entry in found]
        return [(each, rule) for each, rule in said if each is not None]

    def _settle(self, tool: str) -> Verdict | None:
        """Work out the verdict that depends on the name alone, if it does, and keep it."""
        if self._needs_approval is not None or any(entry.judge for entry in self._index.matching(tool)):
            return None
        said = [verdict for verdict, _ in self._said_by_owner(tool) if isinstance(verdict, Verdict)]
        verdict = self._combine(said)
        if len(self._settled) >= _CACHE_LIMIT:
            self._settled.clear()  # an agent can make up names without end
        self._settled[tool] = verdict
        return verdict


class _Index:
    """Entries by exact name, and globs by their literal head or tail, so that many rules cost no more than few."""

    def __init__(self, entries: Iterable[_Entry]) -> None:
        self._exact: dict[str, _Entry] = {}
        self._heads: dict[str, list[tuple[_Entry, re.Pattern[str]]]] = {}
        self._tails: dict[str, list[tuple[_Entry, re.Pattern[str]]]] = {}
        for entry in entries:
            self._add(entry)
        self._head_sizes = sorted({len(head) for head in self._heads})
        self._tail_sizes = sorted({len(tail) for tail in self._tails})

    def _add(self, entry: _Entry) -> None:
        wild = _WILD.search(entry.pattern)
        if wild is None:
            self._exact[entry.pattern] = entry
            return
        glob = (entry, re.compile(fnmatch.translate(entry.pattern)))
        head, tail = entry.pattern[: wild.start()], re.split(r"[*?\]]", entry.pattern)[-1]
        if head or not tail:
            self._heads.setdefault(head, []).append(glob)
        else:
            self._tails.setdefault(tail, []).append(glob)

    def matching(self, tool: str) -> list[_Entry]:
        """Return the entries for this name: the exact one, then globs from most to least specific."""
        found: list[_Entry] = []
        for size in self._head_sizes:
            found += [entry for entry, glob in self._heads.get(tool[:size], ()) if glob.match(tool)]
        for size in self._tail_sizes:
            found += [entry for entry, glob in self._tails.get(tool[-size:], ()) if glob.match(tool)]
        found.sort(key=lambda entry: (-_literals(entry.pattern), -entry.strictness, entry.pattern))
        exact = self._exact.get(tool)
        return found if exact is None else [exact, *found]


def _with_details(verdict: Verdict, said: list[Verdict]) -> Verdict:
    """Whoever decides, the tool knows best what to show and what to remember its calls by."""
    return replace(
        verdict,
        description=verdict.description or _first(each.description for each in said),
        payload=_first(each.payload for each in said),
        metadata=_first(each.metadata for each in said),
        presentation=_first(each.presentation for each in said),
    )


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _literals(pattern: str) -> int:
    return len(pattern) - sum(pattern.count(each) for each in "*?[]")


def _with_pre_approved(
    entries: Mapping[str, Mapping[str, Any] | str], pre_approved: Iterable[str] | None
) -> Mapping[str, Mapping[str, Any] | str]:
    if pre_approved is None:
        return entries
    if isinstance(pre_approved, str):
        reject(f"pre_approved is the text {pre_approved!r}; use a list of tool names")
    # The third level up is the caller of `Policy(…)`.
    warnings.warn(
        "pre_approved is deprecated; use tools={name: {'approval': 'none'}}", DeprecationWarning, stacklevel=3
    )
    return {**dict.fromkeys(pre_approved, "none"), **entries}


def _policy_judge(function: Callable[..., Any] | None) -> Judge | None:
    if function is None:
        return None
    return judges.needs_approval(function, Rule(source="policy", key="needs_approval"))


def _default(word: str, *, remember: bool) -> Verdict:
    approval = parse_approval(word, "default")
    reason = f"no rule names this tool, and the default is {approval!r}"
    return Verdict(approval=approval, reason=reason, rule=Rule(source="policy", key="default"), remember=remember)


def _entry(pattern: str, given: Mapping[str, Any] | str, *, remember: bool) -> _Entry:
    place = f"tools.{pattern}"
    rule = Rule(source="policy", key=place)
    if isinstance(given, str):
        given = {"approval": given}
    entries = {_ALIASES.get(key, key): value for key, value in as_mapping(given, place).items()}
    check_keys(given, _KEYS, place)
    judge = _entry_judge(entries, rule)
    approval = None if judge else _entry_approval(entries, place)
    verdict = None if approval is None else _entry_verdict(approval, entries, rule, remember=remember)
    if judge is not None:
        judge = _detailed(judge, _entry_verdict("required", entries, rule, remember=remember))
    return _Entry(pattern=pattern, verdict=verdict, judge=judge, rule=rule)


def _entry_judge(entries: Mapping[str, Any], rule: Rule) -> Judge | None:
    function = entries.get("needs_approval")
    if function is None or isinstance(function, bool):
        return None
    if "approval" in entries:
        reject(f"{rule.key} has both `approval` and a `needs_approval` function; keep one")
    return judges.needs_approval(function, rule)


def _entry_approval(entries: Mapping[str, Any], place: str) -> Approval | None:
    """Combine the several ways to say it; two that contradict each other are an error."""
    said: dict[str, Approval] = {}
    if "approval" in entries and entries["approval"] is not None:
        said["approval"] = parse_approval(entries["approval"], f"{place}.approval")
    if parse_bool(entries.get("blocked", False), f"{place}.blocked"):
        said["blocked"] = "blocked"
    if "pre_approved" in entries:
        word = parse_bool(entries["pre_approved"], f"{place}.pre_approved")
        said["pre_approved"] = "none" if word else "required"
    if "needs_approval" in entries:
        word = parse_bool(entries["needs_approval"], f"{place}.needs_approval")
        said["needs_approval"] = "required" if word else "none"
    if "blocked" in said.values():
        return "blocked"
    if len(set(said.values())) > 1:
        reject(f"{place} contradicts itself: {', '.join(f'{key} means {word!r}' for key, word in said.items())}")
    return next(iter(said.values()), None)


def _entry_verdict(approval: Approval, entries: Mapping[str, Any], rule: Rule, *, remember: bool) -> Verdict:
    place = rule.key
    reason = entries.get("block_reason") if approval == "blocked" else None
    reason = reason or entries.get("reason") or f"{place} is {approval!r}"
    description = entries.get("description")
    return Verdict(
        approval=approval,
        reason=parse_text(reason, f"{place}.reason"),
        rule=rule,
        description=None if description is None else parse_text(description, f"{place}.description"),
        expires=None if "expires" not in entries else parse_seconds(entries["expires"], f"{place}.expires"),
        remember=remember and parse_bool(entries.get("remember", True), f"{place}.remember"),
        scope=_scope(entries.get("scope", "call"), f"{place}.scope"),
    )


def _scope(word: object, place: str) -> ScopeKind:
    if word == "call":
        return "call"
    if word == "tool":
        return "tool"
    reject(f"{place} is {word!r}; use 'call' or 'tool', the broadest that may be remembered")


def _detailed(judge: Judge, terms: Verdict) -> Judge:
    """Give a function's verdict the terms that stand beside it in the configuration."""

    def judged(call: ToolCall) -> Verdict | Awaitable[Verdict | None] | None:
        answer = judge(call)
        return _detail_later(answer, terms) if isinstance(answer, Awaitable) else _detail(answer, terms)

    return judged


async def _detail_later(answer: Awaitable[Verdict | None], terms: Verdict) -> Verdict | None:
    return _detail(await answer, terms)


def _detail(verdict: Verdict | None, terms: Verdict) -> Verdict | None:
    if verdict is None or not verdict.asks:
        return verdict
    return replace(
        verdict,
        description=verdict.description or terms.description,
        expires=verdict.expires or terms.expires,
        remember=verdict.remember and terms.remember,
        scope=terms.scope,
    )
