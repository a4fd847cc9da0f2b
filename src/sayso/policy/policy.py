"""Policy evaluation: rules by tool name and by effect, the rules of the tool itself, and the default.

Precedence: a block from any rule is final. Else the owner's configuration decides, the most specific name first and,
between equals, the strictest; it can only tighten the verdict of the shell rules or the zones. Else the toolset's
judge; else the policy's own function; else the tool's mark; else the default. A blocking default yields only to the
owner's configuration: a tool cannot except itself.
"""

from __future__ import annotations

import copy
import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from sayso.core import realpath
from sayso.core.model import Rule, ToolCall, Verdict
from sayso.errors import ConfigurationError
from sayso.policy import judges
from sayso.policy.combining import (
    applicable_entries,
    stricter_verdict,
    strictest_first,
    trace_entry,
    why_default,
    with_agreed_deeds,
    with_details,
)
from sayso.policy.conditions import fill
from sayso.policy.deeds import Deeds, RuleTrace
from sayso.policy.entries import FILE_TOOLS, AskOptions, EffectSpec, Entry, apply_ask_options, parse_entry
from sayso.policy.index import Index
from sayso.policy.vocabulary import (
    STRICTNESS,
    as_mapping,
    parse_approval,
    parse_bool,
    parse_conversation,
    parse_seconds,
    reject,
)

if TYPE_CHECKING:
    from sayso.core.conversation import ConversationLimit
    from sayso.policy.compile import CompiledPolicy, Places
    from sayso.policy.index import Ranked
    from sayso.policy.judges import Judge
    from sayso.policy.shell.judge import ShellRules
    from sayso.policy.zones import Resolve, Zones

_CACHE_LIMIT = 10_000
_LOG = logging.getLogger("sayso")
_NO_DEFAULT = "the policy sets no default (default='none' would let it run)"

T = TypeVar("T")


class ToolRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that a tool brings along.

    `judge` is the toolset's; `marked` is the mark of `@requires_approval` or of its framework, which can only ask;
    `details` gives a verdict of which only description, payload and the like are used, unless it blocks; `misfit` says
    why edited arguments do not fit the tool, and `parameters` gives the JSON Schema of them all; `tightening` are the
    policies of nested agents, which only add to this.
    """

    judge: Judge | None = None
    marked: bool = False
    details: Judge | None = None
    misfit: Callable[[Mapping[str, Any]], str | None] | None = None
    parameters: Callable[[], str] | None = None
    tightening: tuple[Policy, ...] = ()


class Policy:
    """Decides for every call whether it runs, is asked about or is blocked; immutable once built."""

    def __init__(
        self,
        tools: Mapping[str, Mapping[str, Any] | str] | None = None,
        *,
        default: str | None = None,
        tool_configs: Mapping[str, Mapping[str, Any] | str] | None = None,
        pre_approved: Iterable[str] | None = None,
        needs_approval: Callable[..., Any] | None = None,
        remember: bool = True,
        remember_max: float | str | None = None,
        conversation: Mapping[str, int] | str | None = None,
    ) -> None:
        """Compile the rules; an unknown word or key is an error here, not at the first call.

        Args:
            tools: per tool name or glob, an approval word or a mapping such as `{"approval": "required"}`.
            default: the approval for tools that no entry names; left out, they ask.
            tool_configs: alias of `tools`.
            pre_approved: deprecated; use `{"approval": "none"}`.
            needs_approval: called for every call; it decides if `tools` has no entry, and may always block.
            remember: if false, no decision is remembered.
            remember_max: the longest time for which a decision may be remembered.
            conversation: how much of what was said before a call its request shows, such as `{"messages": 4,
                "characters": 2000}`, which is the default; `none` for nothing.
        """
        if tools is not None and tool_configs is not None:
            reject("`tools` and `tool_configs` are two names for one thing; pass one of them")
        given = as_mapping(tools or tool_configs or {}, "tools")
        entries = [parse_entry(pattern, entry) for pattern, entry in given.items()]
        for entry in entries:
            if entry.effect is not None:
                reject(f"{entry.rule.key} has a `kind`, which needs shell rules or zones; use `Policy.from_dict`")
        if pre_approved is not None:
            entries = _with_pre_approved(entries, _read_pre_approved(pre_approved))
        self._index = Index(entries)
        self._states_default = default is not None
        self.default = _default_verdict(default, Rule(source="policy", key="default"))  # for tools that no rule names
        self._below: Policy | None = None
        self._deeds = Deeds()
        self.custom_tools: tuple[str, ...] | None = None
        self.audit: str = "queued"
        self.warnings: tuple[str, ...] = ()
        rule = Rule(source="policy", key="needs_approval")
        self._needs_approval = None if needs_approval is None else judges.wrap_needs_approval(needs_approval, rule)
        self._remember = parse_bool(remember, "remember")
        self.remember_max = None if remember_max is None else parse_seconds(remember_max, "remember_max")
        self.conversation = None if conversation is None else parse_conversation(conversation, "conversation")
        self._name_cache: dict[str, Verdict] = {}
        self._entries_cache: dict[tuple[int, ...], Verdict] = {}

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        base: str | os.PathLike[str] | None = None,
        resolve: Resolve = realpath.resolve,
        source: str = "policy",
        places: Places = lambda _: None,
        protected: Iterable[str] = (),
    ) -> Policy:
        """Read a policy in the form of the policy file.

        Args:
            data: the parsed file; see `docs/policy-file.md`.
            base: the folder that relative folders are relative to, and where shell lines run.
            resolve: returns the real path of a path.
            source: the name of the file in verdicts and errors.
            places: line and column of a key.
            protected: real paths of sayso's own files, which no tool may touch.

        Raises:
            PolicyError: lists every mistake, with its place.
        """
        from sayso.policy.compile import compile_policy  # noqa: PLC0415 - loaded only for policies in this form

        folder = None if base is None else realpath.absolute(base)
        compiled = compile_policy(data, base=folder, resolve=resolve, source=source, places=places, protected=protected)
        policy = cls(default=compiled.default, remember=compiled.remember, remember_max=compiled.remember_max)
        policy.conversation = compiled.conversation
        entries = list(compiled.entries)
        if compiled.pre_approved is not None:
            entries = _with_pre_approved(entries, compiled.pre_approved)
        policy._index = Index(_with_builtin_effects(entries, compiled))
        policy.default = _default_verdict(compiled.default, compiled.default_rule)
        policy._deeds = Deeds(shell=compiled.shell, zones=compiled.zones)
        policy.custom_tools, policy.audit, policy.warnings = compiled.custom_tools, compiled.audit, compiled.warnings
        for warning in compiled.warnings:
            _LOG.warning("%s", warning)
        return policy

    def over(self, below: Policy) -> Policy:
        """Return this policy layered over another one.

        A block from either is final. Else this policy decides about the tools that it names, then the other about the
        tools that that names; this default is for the rest, unless it is left out or the other's default blocks. A
        verdict of the other's shell rules or zones is loosened only by rules or zones of this one; a path in no zone of
        either stays blocked.
        """
        under = below if self._deeds.shell is None else below.running_in(self._deeds.shell.folder)
        keeps_default = self._states_default and below.default.approval != "blocked"
        return self._copy(
            _below=under if self._below is None else self._below.over(under),
            default=self.default if keeps_default else below.default,
            _states_default=self._states_default or below._states_default,
            custom_tools=below.custom_tools if self.custom_tools is None else self.custom_tools,
            _remember=self._remember and below._remember,
            remember_max=min((each for each in (self.remember_max, below.remember_max) if each), default=None),
            conversation=_stricter_conversation(self.conversation, below.conversation),
            audit="strict" if "strict" in {self.audit, below.audit} else "queued",
            warnings=(*below.warnings, *self.warnings),
        )

    def running_in(self, folder: str) -> Policy:
        """Return a copy for shell lines that run in this folder, unless it names one itself."""
        below = None if self._below is None else self._below.running_in(folder)
        return self._copy(_deeds=self._deeds.running_in(folder), _below=below)

    def judging(self, effects: Mapping[str, EffectSpec], *, folder: str) -> Policy:
        """Return a copy for the tools of another program, judged by these effects unless an entry declares its own.

        That program runs lines in this folder, whatever folder the policy names.
        """
        below = None if self._below is None else self._below.judging(effects, folder=folder)
        deeds = self._deeds.running_in(folder, moved=True)
        known = {name: each for name, each in effects.items() if deeds.can_judge(each.kind)}
        return self._copy(_index=Index(_with_effects(self._index.entries, known)), _deeds=deeds, _below=below)

    def protecting(self, paths: Iterable[str]) -> Policy:
        """Return a copy with further files, by their real paths, that no tool may touch."""
        paths = tuple(paths)
        deeds = self._deeds.protecting(paths)
        below = None if self._below is None else self._below.protecting(paths)
        if deeds is self._deeds and below is self._below:
            return self
        return self._copy(_deeds=deeds, _below=below)

    def _copy(self, **changes: object) -> Policy:
        other = copy.copy(self)
        vars(other).update(changes, _name_cache={}, _entries_cache={})
        return other

    def judge(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Verdict:
        """Return the verdict about a call, without an event loop; asynchronous rules cannot be used."""
        verdict = self.judge_by_name(call, tool_rules)
        if verdict is not None:
            return verdict
        deliberation = self.judge_async(call, tool_rules)
        try:
            deliberation.send(None)
        except StopIteration as done:
            return done.value
        deliberation.close()
        raise ConfigurationError(f"a rule for {call.tool!r} is async; use `await policy.judge_async(call)`")

    def judge_by_name(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Verdict | None:
        """Fast path: return the verdict if it depends on the name alone, from a cache for known names; else None."""
        verdict = self._name_cache.get(call.tool) or self._compute_by_name(call.tool)
        if tool_rules is None or verdict is None or verdict.approval == "blocked":
            return verdict
        # A mark cannot change what the owner allows or blocks; a call that is asked about needs the tool's details.
        marks = tool_rules.marked and verdict.rule == self.default.rule
        silent = tool_rules.judge is None and not tool_rules.tightening and not marks
        return verdict if silent and not verdict.asks else None

    async def judge_async(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Verdict:
        """Return the verdict after calling every function that applies."""
        rules = tool_rules or ToolRules()
        owner, matching = await self._by_owner(call)
        policy = await self.judge_by_functions(call)
        if self.default.approval == "blocked" and not owner and not policy:
            return self._by_default(call, matching)  # the default blocks, and the owner has named nothing here
        toolset = _by_tool(await _evaluate(rules.judge, call, Rule(source="toolset", key="needs_approval")))
        mark = Rule(source="@requires_approval", key=call.tool)
        marked = Verdict(approval="required", reason=f"{call.tool} is marked", rule=mark) if rules.marked else None
        said = [each for each in (*owner, toolset, *policy, marked) if each is not None]
        verdict = self._finish(said, None, matching, call)
        if verdict.asks and rules.details is not None:
            # Details are only displayed, so only a question needs them; and only the tool knows why it is marked.
            details = _by_tool(await _evaluate(rules.details, call, mark))
            said = [details if each is marked and details is not None else each for each in said]
            verdict = self._finish(said, details, matching, call)
        verdict = with_agreed_deeds(verdict, owner)
        for policy_below in rules.tightening:
            other = await policy_below.judge_async(call, replace(rules, tightening=()))
            verdict = with_agreed_deeds(stricter_verdict(verdict, other), (verdict, other))
        return verdict

    async def judge_by_functions(self, call: ToolCall) -> list[Verdict]:
        """Return the verdicts of this policy's function and of those of the policies below."""
        said = await _evaluate(self._needs_approval, call, Rule(source="policy", key="needs_approval"))
        further = [] if self._below is None else await self._below.judge_by_functions(call)
        return further if said is None else [said, *further]

    def explain(self, call: ToolCall) -> tuple[Verdict, list[RuleTrace]]:
        """Return the verdict about a call, and the trace of every rule that was evaluated for it."""
        return self.judge(call), list(self.trace_rules(call))

    def trace_rules(self, call: ToolCall) -> Iterator[RuleTrace]:
        """Yield the trace of every rule that is evaluated for a call."""
        for rank, entry in self._index.matching(call.tool):
            yield from trace_entry(rank, entry, call)
            if entry.effect is not None:
                yield from self._deeds.trace_rules(entry.effect, call, entry.rule)
        if self._below is not None:
            yield from self._below.trace_rules(call)
        if self._below is None or self.default is not self._below.default:
            rule = cast("Rule", self.default.rule)
            yield RuleTrace(rule=rule, approval=self.default.approval, reason="the default")

    def blocks(self, tool: str) -> bool:
        """Whether every call of a tool is blocked, with any arguments."""
        matching = self._index.matching(tool)
        said = [
            self.judge_by_name(ToolCall(tool=tool, call_id="")),
            *(each.says for _, each in matching if each.when is None),
        ]
        if any(isinstance(each, Verdict) and each.approval == "blocked" for each in said):
            return True
        return self._below is not None and self._below.blocks(tool)

    @property
    def zone_layers(self) -> tuple[Zones, ...]:
        """The zones for file tools of every layer, the nearest policy's first."""
        own = () if self._deeds.zones is None else (self._deeds.zones,)
        return own if self._below is None else (*own, *self._below.zone_layers)

    @property
    def zones(self) -> Zones | None:
        """The zones for file tools, of the nearest policy that has some."""
        return next(iter(self.zone_layers), None)

    @property
    def shells(self) -> tuple[ShellRules, ...]:
        """The rules for shell lines of every layer, the nearest policy's first."""
        own = () if self._deeds.shell is None else (self._deeds.shell,)
        return own if self._below is None else (*own, *self._below.shells)

    def names(self, tool: str) -> bool:
        """Whether a rule of this policy, or of the policies below, is about this tool, by its name or by a glob."""
        return any(not entry.is_empty for _, entry in self.matching_entries(tool))

    @property
    def patterns(self) -> dict[str, Rule]:
        """The names and globs of tools that the owner's entries are about, each with its nearest rule."""
        found = (entry for entry in self._index.entries if entry.rule.source != "sayso" and not entry.is_empty)
        own = {entry.pattern: entry.rule for entry in found}
        return own if self._below is None else {**self._below.patterns, **own}

    @property
    def tool_configs(self) -> dict[str, dict[str, Any]]:
        """The owner's entries, by name or glob, as they were written; a word alone is their `approval`."""
        own = {entry.pattern: dict(entry.config) for entry in self._index.entries if entry.rule.source != "sayso"}
        return own if self._below is None else {**self._below.tool_configs, **own}

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule of this policy and of the policies below, as verdicts name them."""
        own = [entry.rule for entry in self._index.entries if entry.rule.source != "sayso"]
        below = () if self._below is None else self._below.rules
        return tuple(dict.fromkeys([*own, *self._deeds.rules, cast("Rule", self.default.rule), *below]))

    async def _by_owner(self, call: ToolCall) -> tuple[list[Verdict], list[Ranked]]:
        """Return the owner's verdicts, the deciding one first, and the entries that apply to this call."""
        acts, said, matching = await self.collect_verdicts(call)
        # A verdict by name can only tighten that of the shell rules or zones of the nearest file that has some.
        first = sorted([*acts[:1], *said[:1]], key=lambda each: -STRICTNESS[each.approval])
        verdicts = [*first, *acts[1:], *said[1:]]
        if first and first[0].scopes:
            # An approval of a prefix or a folder answers only the rule that offered it, not another rule that asks too.
            common = [scope for scope in first[0].scopes if all(scope in each.scopes for each in verdicts if each.asks)]
            verdicts[0] = replace(first[0], scopes=tuple(common))
        return verdicts, matching

    async def collect_verdicts(self, call: ToolCall) -> tuple[list[Verdict], list[Verdict], list[Ranked]]:
        """Return the verdicts about the effect and the name, the deciding one first, and the applicable entries."""
        matching, unsure = applicable_entries(self._index.matching(call.tool), call)
        verdicts = [(rank, await _evaluate(entry.says, call, entry.rule)) for rank, entry in matching]
        said = strictest_first([(rank, each) for rank, each in verdicts if each is not None] + unsure)
        acts = [self._deeds.judge(entry.effect, call, entry.rule) for _, entry in matching if entry.effect is not None]
        if len(acts) > 1:
            deeds = tuple(deed for each in acts for deed in each.deeds)  # each entry may judge another argument
            acts = sorted((replace(each, deeds=deeds) for each in acts), key=lambda each: -STRICTNESS[each.approval])
        if self._below is None:
            return acts, said, matching
        more_acts, more_said, more = await self._below.collect_verdicts(call)
        return [*acts, *more_acts], [*said, *more_said], [*matching, *more]

    def _compute_by_name(self, tool: str) -> Verdict | None:
        """Compute and cache the verdict, if it depends on the name alone."""
        if self._needs_approval is not None or self._below is not None:
            return None
        matching = self._index.matching(tool)
        # Many names share one glob. The index keeps the tuples that it returns, so their ids are stable.
        entry_ids = tuple(map(id, matching))
        verdict = self._entries_cache.get(entry_ids) or self._compute_by_entries(matching)
        if verdict is None:
            return None
        if len(self._name_cache) >= _CACHE_LIMIT:
            self._name_cache.clear()  # an agent can invent any number of names
            self._entries_cache.clear()
        self._name_cache[tool] = self._entries_cache[entry_ids] = verdict
        return verdict

    def _compute_by_entries(self, matching: list[Ranked]) -> Verdict | None:
        ranked: list[tuple[int, Verdict]] = []
        for rank, entry in matching:
            if not entry.is_plain:
                return None
            if isinstance(entry.says, Verdict):
                ranked.append((rank, entry.says))
        if any(entry.ask_options.description and "{" in entry.ask_options.description for _, entry in matching):
            return None  # the description depends on the arguments
        return self._finish(strictest_first(ranked), None, matching)

    def _by_default(self, call: ToolCall | None, matching: list[Ranked]) -> Verdict:
        """Return the default, with the reason why no entry for this name has decided."""
        found = matching if call is None else self.matching_entries(call.tool)
        if not found:
            return self.default
        words = f"the default is {self.default.approval!r}" if self._states_default else _NO_DEFAULT
        return replace(self.default, reason=f"{why_default(found, call)}, and {words}")

    def matching_entries(self, tool: str) -> list[Ranked]:
        """Return the entries for this name, whether or not their conditions hold, the nearest policy's first."""
        own = self._index.matching(tool)
        return own if self._below is None else [*own, *self._below.matching_entries(tool)]

    def _finish(
        self, said: list[Verdict], details: Verdict | None, matching: list[Ranked], call: ToolCall | None = None
    ) -> Verdict:
        """Return the final verdict: a block from any rule, else the first, else the default; details if it asks."""
        first = said[0] if said else self._by_default(call, matching)
        known = said if details is None else [*said, details]
        verdict = next((each for each in known if each.approval == "blocked"), first)
        if not verdict.asks:
            return verdict
        verdict = with_details(apply_ask_options(verdict, [entry.ask_options for _, entry in matching]), known)
        if any(entry.effect is not None for _, entry in matching):
            verdict = replace(verdict, scope="call")  # an approval of one command or file does not cover all
        template = verdict.description if verdict.described_by == "policy" else None
        if call is not None and template and "{" in template:
            verdict = replace(verdict, description=fill(template, call.args))
        return verdict if self._remember else replace(verdict, remember=False)


def _stricter_conversation(left: ConversationLimit | None, right: ConversationLimit | None) -> ConversationLimit | None:
    return right if left is None else left.tightened_by(right)


def _default_verdict(word: str | None, rule: Rule) -> Verdict:
    if word is None:
        return Verdict(approval="required", reason=f"no rule names this tool, and {_NO_DEFAULT}", rule=rule)
    approval = parse_approval(word, "default")
    reason = f"no rule names this tool, and the default is {approval!r}"
    return Verdict(approval=approval, reason=reason, rule=rule)


def _with_builtin_effects(entries: Iterable[Entry], compiled: CompiledPolicy) -> list[Entry]:
    """Add the built-in tools that are judged by their effect without being declared; an entry for one adds to that."""
    kinds: dict[str, EffectSpec] = {}
    if compiled.shell is not None:
        kinds["shell"] = EffectSpec(kind="shell", arguments=("command",))
    if compiled.zones is not None:
        kinds |= {
            name: EffectSpec(kind="path", arguments=("path",), operation=word) for name, word in FILE_TOOLS.items()
        }
    return _with_effects(entries, kinds)


def _with_effects(entries: Iterable[Entry], effects: Mapping[str, EffectSpec]) -> list[Entry]:
    """Add effects by the names of tools; an entry that declares a `kind` keeps its own."""
    named = {entry.pattern: entry for entry in entries}
    for name, effect in effects.items():
        silent = Entry(pattern=name, says=None, rule=Rule(source="sayso", key=name), ask_options=AskOptions())
        entry = named.get(name, silent)
        declared = entry.effect is not None and "kind" in entry.config
        named[name] = entry if declared else replace(entry, effect=effect)
    return list(named.values())


def _read_pre_approved(names: Iterable[str]) -> list[Entry]:
    if isinstance(names, str):
        reject(f"pre_approved is the text {names!r}; use a list of tool names")
    return [parse_entry(name, "none", rule=Rule(source="policy", key=f"pre_approved.{name}")) for name in names]


def _with_pre_approved(entries: Iterable[Entry], pre_approved: Iterable[Entry]) -> list[Entry]:
    warnings.warn(
        "pre_approved is deprecated; use tools={name: {'approval': 'none'}}",
        DeprecationWarning,
        stacklevel=_levels_to_the_host(),
    )
    known = {entry.pattern: entry for entry in entries}
    for entry in pre_approved:
        mine = known.setdefault(entry.pattern, entry)
        if mine.says is None:
            known[entry.pattern] = replace(mine, says=entry.says)
    return list(known.values())


def _levels_to_the_host() -> int:
    """Return the `stacklevel` of the first caller outside sayso, so that a warning names the host's line."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "sayso":
        frame, level = frame.f_back, level + 1
    return level


def _by_tool(verdict: Verdict | None) -> Verdict | None:
    """Return a verdict of the tool, marked as such: its words must not pass for those of the policy."""
    return None if verdict is None else replace(verdict, described_by="tool")


async def _evaluate(says: Verdict | Judge | None, call: ToolCall, rule: Rule) -> Verdict | None:
    return says if isinstance(says, Verdict | None) else await judges.call_rule(says, call, rule)
