"""Effects of a call ("deeds"): judged by the shell rules for a command line, by the zones for paths.

Tests: tests/policy/test_compile.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, cast

import msgspec
from msgspec.structs import replace

from sayso.core.model import Approval, Deed, Rule, ToolCall, Verdict
from sayso.policy import scopes
from sayso.policy.vocabulary import STRICTNESS

if TYPE_CHECKING:
    from sayso.policy.entries import EffectSpec
    from sayso.policy.shell.judge import ShellRules
    from sayso.policy.zones import Zones

# Arguments besides the command that do not change what it does.
_HARMLESS = frozenset({"timeout", "timeout_ms", "description", "run_in_background"})


class RuleTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Trace of one evaluated rule: its approval for the call or a part of it; None if it has none.

    `applies` is whether its condition holds, if it has one.
    """

    rule: Rule
    approval: Approval | None
    reason: str
    part: str | None = None
    applies: bool = True


class Deeds(msgspec.Struct, frozen=True, kw_only=True):
    """Effect judge of one policy: its shell rules and its zones, where it has them."""

    shell: ShellRules | None = None
    zones: Zones | None = None

    @property
    def rules(self) -> list[Rule]:
        """Every rule that the owner declared."""
        shell = [] if self.shell is None else self.shell.declared_rules
        return shell if self.zones is None else [*shell, *(each.rule for each in self.zones.zones)]

    def protecting(self, paths: Iterable[str]) -> Deeds:
        """Return a copy with further files that no tool may touch."""
        if self.zones is None:
            return self
        zones = self.zones.protecting(paths)
        return Deeds(shell=None if self.shell is None else self.shell.with_zones(zones), zones=zones)

    def can_judge(self, kind: Literal["shell", "path"]) -> bool:
        """Whether there are rules for effects of this kind."""
        return (self.shell if kind == "shell" else self.zones) is not None

    def running_in(self, folder: str, *, moved: bool = False) -> Deeds:
        """Return a copy for shell lines that run in this folder, unless the policy names one and they are not moved."""
        shell = None if self.shell is None else self.shell.running_in(folder, moved=moved)
        return self if shell is self.shell else replace(self, shell=shell)

    def judge(self, effect: EffectSpec, call: ToolCall, rule: Rule) -> Verdict:
        """Return the verdict about the effect of a call, which `rule` has declared."""
        missing = next((name for name in effect.arguments if call.args.get(name) is None), None)
        if missing is not None:
            return Verdict(approval="blocked", reason=f"it has no argument {missing!r} to judge", rule=rule)
        if effect.kind == "path" and self.zones is not None:
            return self._by_zones(self.zones, effect, call)
        if self.shell is None:
            return Verdict(approval="blocked", reason="there are no rules to judge it by", rule=rule)
        return self._by_shell(self.shell, effect, call)

    def trace_rules(self, effect: EffectSpec, call: ToolCall, rule: Rule) -> Iterator[RuleTrace]:
        """Yield the trace of every rule about the effect of the call."""
        verdict = self.judge(effect, call, rule)
        line = call.args.get(effect.arguments[0])
        found = self.shell.findings(line) if effect.kind == "shell" and self.shell and isinstance(line, str) else []
        for each in found:
            yield RuleTrace(rule=each.rule, approval=each.approval, reason=each.reason, part=each.part)
        if all(each.approval != verdict.approval for each in found):
            yield RuleTrace(rule=verdict.rule or rule, approval=verdict.approval, reason=verdict.reason)

    def _by_shell(self, shell: ShellRules, effect: EffectSpec, call: ToolCall) -> Verdict:
        line = call.args[effect.arguments[0]]
        verdict = replace(shell.judge(line), deeds=(Deed("shell", str(line), shell.folder),))
        prefixes = shell.prefixes(line) if verdict.asks and len(call.args) == 1 else ()
        if prefixes:
            commands = [scopes.prefix_scope(call.tool, words) for words in prefixes]
            return replace(verdict, scopes=(scopes.combined_scope(commands),))
        other = next((name for name in call.args if name not in effect.arguments and name not in _HARMLESS), None)
        if other is not None and verdict.approval == "none":
            reason = f"it also sets {other!r}, which can change what the line does"
            return replace(verdict, approval="required", reason=reason)
        return verdict

    def _by_zones(self, zones: Zones, effect: EffectSpec, call: ToolCall) -> Verdict:
        judge = zones.judge_real if effect.real else zones.judge
        paths = [cast("str", call.args[name]) for name in effect.arguments]
        said = [judge(path, effect.operation) for path in paths]
        verdict = max(said, key=lambda each: STRICTNESS[each.approval])
        verdict = replace(verdict, deeds=tuple(deed for each in said for deed in each.deeds))
        # A deletion is final, and an approval of one pair of paths does not cover another.
        narrow = effect.real or effect.operation == "delete" or len(paths) > 1
        if narrow or not verdict.asks:
            return verdict
        # From the judged paths, which are not resolved again: a link may lead elsewhere by now.
        folder = zones.containing_folder(paths[0], [deed.target for deed in verdict.deeds])
        if folder is None:
            return verdict
        return replace(verdict, scopes=(scopes.folder_scope(call.tool, effect.operation, *folder),))
