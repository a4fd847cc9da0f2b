"""The policy: rules by the name of a tool, what the tool says itself, and the default.

A block from anyone stands. Else the owner's configuration decides, the most specific name first and, between equals,
the strictest; else what the toolset says; else the policy's own function; else the tool's mark; else the default. A
default that blocks yields only to the owner: a tool cannot name itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from sayso.errors import ConfigurationError
from sayso.model import Rule, ToolCall, Verdict
from sayso.policy import judges
from sayso.policy.entries import apply_terms, read
from sayso.policy.index import Index
from sayso.policy.words import as_mapping, parse_approval, parse_bool, parse_seconds, reject

if TYPE_CHECKING:
    from sayso.model import Approval
    from sayso.policy.entries import Entry
    from sayso.policy.index import Ranked
    from sayso.policy.judges import Judge

_STRICTNESS: dict[Approval, int] = {"blocked": 3, "required": 2, "once_per_session": 1, "none": 0}
_CACHE_LIMIT = 10_000

T = TypeVar("T")


class ToolRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool brings along.

    `judge` is its toolset's say; `marked` is the mark of `@requires_approval` or of its framework, which can only ask;
    `details` gives a verdict of which only description, payload and the like are used, unless it blocks; `misfit` says
    why edited arguments do not fit the tool.
    """

    judge: Judge | None = None
    marked: bool = False
    details: Callable[[ToolCall], Verdict] | None = None
    misfit: Callable[[Mapping[str, Any]], str | None] | None = None


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
        given = as_mapping(tools or tool_configs or {}, "tools")
        entries = [read(pattern, entry) for pattern, entry in given.items()]
        self._index = Index(_with_pre_approved(entries, pre_approved))
        self._default = _default(default)
        rule = Rule(source="policy", key="needs_approval")
        self._needs_approval = None if needs_approval is None else judges.needs_approval(needs_approval, rule)
        self._remember = parse_bool(remember, "remember")
        self.remember_max = None if remember_max is None else parse_seconds(remember_max, "remember_max")
        self._settled: dict[str, Verdict] = {}
        self._by_entries: dict[tuple[int, ...], Verdict] = {}

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
        verdict = self._settled.get(call.tool) or self._by_name(call.tool)
        if own is None or verdict is None or verdict.approval == "blocked":
            return verdict
        # What the owner lets run, or blocks, a mark cannot change; what is asked about needs the tool's details.
        silent = own.judge is None and not (own.marked and verdict.rule == _DEFAULT)
        return verdict if silent and not verdict.asks else None

    async def deliberate(self, call: ToolCall, own: ToolRules | None = None) -> Verdict:
        """Return the verdict, asking every function that has a say."""
        brought = own or ToolRules()
        matching = self._index.matching(call.tool)
        heard = [(rank, await _hear(entry.says, call, entry.rule)) for rank, entry in matching]
        owner = _strictest_first([(rank, each) for rank, each in heard if each is not None])
        policy = await _hear(self._needs_approval, call, Rule(source="policy", key="needs_approval"))
        if self._default.approval == "blocked" and not owner and policy is None:
            return self._default  # an owner who lets nothing run but what is named has named nothing here
        toolset = await _hear(brought.judge, call, Rule(source="toolset", key="needs_approval"))
        mark = Rule(source="@requires_approval", key=call.tool)
        details = await _hear(brought.details, call, mark)
        marked = Verdict(approval="required", reason=f"{call.tool} is marked", rule=mark) if brought.marked else None
        said = [*owner, toolset, policy, marked and (details or marked)]
        return self._finish([each for each in said if each is not None], details, matching)

    def _by_name(self, tool: str) -> Verdict | None:
        """Work out the verdict that depends on the name alone, if it does, and keep it."""
        if self._needs_approval is not None:
            return None
        matching = self._index.matching(tool)
        alike = tuple(map(id, matching))  # many names, one glob; the index keeps what it returns, so ids stay
        verdict = self._by_entries.get(alike) or self._of_entries(matching)
        if verdict is None:
            return None
        if len(self._settled) >= _CACHE_LIMIT:
            self._settled.clear()  # an agent can make up names without end
            self._by_entries.clear()
        self._settled[tool] = self._by_entries[alike] = verdict
        return verdict

    def _of_entries(self, matching: list[Ranked]) -> Verdict | None:
        ranked: list[tuple[int, Verdict]] = []
        for rank, entry in matching:
            if isinstance(entry.says, Verdict):
                ranked.append((rank, entry.says))
            elif entry.says is not None:
                return None
        return self._finish(_strictest_first(ranked), None, matching)

    def _finish(self, said: list[Verdict], details: Verdict | None, matching: list[Ranked]) -> Verdict:
        """A block from anyone stands; else whoever comes first decides; else the default."""
        first = said[0] if said else self._default
        known = said if details is None else [*said, details]
        verdict = next((each for each in known if each.approval == "blocked"), first)
        if not verdict.asks:
            return verdict
        verdict = _with_details(apply_terms(verdict, [entry.terms for _, entry in matching]), known)
        return verdict if self._remember else replace(verdict, remember=False)


_DEFAULT = Rule(source="policy", key="default")


def _default(word: str) -> Verdict:
    approval = parse_approval(word, "default")
    reason = f"no rule names this tool, and the default is {approval!r}"
    return Verdict(approval=approval, reason=reason, rule=_DEFAULT)


def _with_pre_approved(entries: list[Entry], pre_approved: Iterable[str] | None) -> list[Entry]:
    if pre_approved is None:
        return entries
    if isinstance(pre_approved, str):
        reject(f"pre_approved is the text {pre_approved!r}; use a list of tool names")
    # The third level up is the caller of `Policy(…)`.
    warnings.warn(
        "pre_approved is deprecated; use tools={name: {'approval': 'none'}}", DeprecationWarning, stacklevel=3
    )
    known = {entry.pattern: entry for entry in entries}
    for name in pre_approved:
        entry = read(name, "none")
        mine = known.setdefault(name, entry)
        if mine.says is None:
            known[name] = replace(mine, says=entry.says)
    return list(known.values())


async def _hear(says: Verdict | Judge | None, call: ToolCall, rule: Rule) -> Verdict | None:
    return says if isinstance(says, Verdict | None) else await judges.consult(says, call, rule)


def _strictest_first(ranked: list[tuple[int, Verdict]]) -> list[Verdict]:
    """Order what the owner says: the most specific first and, between equals, the strictest."""
    if len(ranked) > 1:
        ranked.sort(key=lambda each: (-each[0], -_STRICTNESS[each[1].approval]))
    return [verdict for _, verdict in ranked]


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
