"""Shell judge: matches every command of a bash line with token-prefix rules; the strictest decides.

A line is allowed only with proof, by the strict lexer; suspicion is enough to block it; any other line is asked about.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from sayso.core.model import Approval, Rule, Verdict
from sayso.core.redaction import shorten
from sayso.policy.shell.block_scan import scan_commands
from sayso.policy.shell.inner_commands import with_inner_commands
from sayso.policy.shell.lexer import NotProvable, Part, Redirect, lex
from sayso.policy.shell.nesting import TooComplex
from sayso.policy.shell.proof.doubts import Coverage, find_doubt, is_closed
from sayso.policy.shell.proof.leading_flags import without_leading_flags
from sayso.policy.shell.rules import CODE_LOADING_VARIABLES, Confinement, ShellRule
from sayso.policy.shell.stricter_rules import StricterRules
from sayso.policy.shell.wrappers import (
    Argv,
    InnerCommand,
    UnknownOption,
    hides_script,
    name_of,
    rememberable,
    runs_others,
    script_of,
    wrapped_commands,
)
from sayso.policy.vocabulary import STRICTNESS

if TYPE_CHECKING:
    from sayso.policy.zones import Zones

_DEEPEST = 8
_SHOWN = 60
_MOST_REMEMBERED = 4
_LONGEST_SCANNED = 100_000
_NOWHERE = "/dev/null"
_PIPES = frozenset({"|", "|&"})
_FOUND = "found"  # the expansion of `{}` by find


class Finding(NamedTuple):
    """Finding: the approval of one rule or check for one part of a line."""

    part: str
    approval: Approval
    reason: str
    rule: Rule
    expires: float | None = None


class _Setting(NamedTuple):
    """What a command stands in: the text that is shown for it, what bash expands, and whether it is given input."""

    shown: str
    expands: frozenset[str] = frozenset()
    fed: bool = False


RuleReach = tuple[ShellRule, int]  # a rule, and how many of its words apply to the current command


class _Node(msgspec.Struct):
    """Node of the trie of all rules' words."""

    rules: list[ShellRule] = []
    next: dict[str, _Node] = {}


class ShellRules:
    """Judge of shell lines, compiled from token-prefix rules; immutable once built."""

    def __init__(
        self,
        rules: Iterable[ShellRule],
        *,
        default: Literal["required", "blocked"],
        rule: Rule,
        zones: Zones | None = None,
        folder: str = "/",
        trusted: Iterable[str] = (),
        inert: Iterable[str] = (),
        confinement: Confinement | None = None,
        has_own_folder: bool = False,
    ) -> None:
        """Compile the rules.

        Args:
            rules: in any order; the strictest of those that match decides.
            default: for commands that no rule names.
            rule: the place of the default in the policy.
            zones: judge the targets of redirections.
            folder: the working directory of lines, for redirections to relative paths.
            trusted: folders whose programs rules name without the folder.
            inert: variables that may be set for a command.
            confinement: the sandbox in which the line has to run.
            has_own_folder: `folder` is configured, and not just the folder of the policy.
        """
        self._default: Approval = default
        self.rule = rule
        self._zones = zones
        self.folder = folder
        self.has_own_folder = has_own_folder
        self.confinement = confinement
        self._trusted = frozenset(folder.rstrip("/") for folder in trusted)
        self._inert = tuple(inert)
        self._root = _Node()
        self._expand: frozenset[str] = frozenset()
        self.rules = tuple(rules)
        for each in self.rules:
            self._add_rule(each)
        self._stricter = StricterRules(self.rules)

    def _add_rule(self, each: ShellRule) -> None:
        node = self._root
        for word in each.words:
            node = node.next.setdefault(word, _Node())
        node.rules.append(each)
        self._expand |= each.expands

    def running_in(self, folder: str, *, moved: bool = False) -> ShellRules:
        """Return a copy for lines that run in this folder, unless a folder is configured and they are not `moved`."""
        if (self.has_own_folder and not moved) or folder == self.folder:
            return self
        other = copy.copy(self)
        vars(other).update(folder=folder)
        return other

    def with_zones(self, zones: Zones) -> ShellRules:
        """Return a copy with other zones for the targets of redirections."""
        other = copy.copy(self)
        vars(other).update(_zones=zones)
        return other

    @property
    def declared_rules(self) -> list[Rule]:
        """Every rule that the policy declares, with the default if it is declared."""
        default = [self.rule] if self.rule.key.endswith("default") else []
        return [*(each.rule for each in self.rules), *default]

    def judge(self, line: object) -> Verdict:
        """Return the verdict about a line, with the findings about each part."""
        if not isinstance(line, str):
            return Verdict(approval="blocked", reason="the command is not a text", rule=self.rule)
        found = self.findings(line)
        worst = max(found, key=lambda each: STRICTNESS[each.approval])
        spans = [each.expires for each in found if each.expires is not None and each.approval != "none"]
        return Verdict(
            approval=worst.approval,
            reason=_verdict_reason(found, worst),
            rule=worst.rule,
            expires=min(spans, default=None),
            metadata={"parts": [_finding_as_dict(each) for each in found]},
        )

    def findings(self, line: str) -> list[Finding]:
        """Return all findings about a line, at least one."""
        found, parts = self._judge_proven(line, 0)
        found += self._scan_for_stricter(line, parts, found)
        return found or [Finding(_short(line), "required", "there is no command in it", self.rule)]

    def prefixes(self, line: str) -> tuple[Argv, ...]:
        """Return the prefixes for which a yes to this line may be remembered: one for each command that asks.

        Empty unless all of them are ordinary commands, and few enough to be read.
        """
        try:
            parts = lex(line, expand=self._expand)
        except NotProvable:
            return ()
        if _changes_folder(parts):
            return ()
        asking = [part for part in parts if any(each.approval != "none" for each in self._judge_part(part, 0))]
        found = dict.fromkeys(self._rememberable(part) for part in asking)
        words = tuple(each for each in found if each is not None)
        few = None not in found and len(found) <= _MOST_REMEMBERED
        return words if few and not self._asks_beyond(words, line, parts) else ()

    def _asks_beyond(self, prefixes: Sequence[Argv], line: str, parts: Sequence[Part]) -> bool:
        """Whether a rule may ask that is longer than the prefix, or is about another command."""
        try:
            return any(
                not any(argv[: len(words)] == words and len(rule.words) <= len(words) for words in prefixes)
                for argv, rule in self._stricter.suspect(line, parts)
            )
        except TooComplex:
            return True

    def _rememberable(self, part: Part) -> Argv | None:
        plain = not part.expands and all(each.approval == "none" for each in self._judge_setup(part, ""))
        words = rememberable(part.argv) if plain and part.argv else None
        if (
            words is None
            or with_inner_commands(part.argv) != [part.argv]
            or find_doubt(part.argv, Coverage(len(words)))
        ):
            return None
        # A rule with a longer prefix has to ask separately.
        narrower = words and any(len(each.words) > len(words) for each in self._matching(part.argv))
        return None if narrower else words

    # Proof: commands that may run.

    def _judge_proven(self, line: str, depth: int, *, fed: bool = False) -> tuple[list[Finding], Sequence[Part]]:
        """Judge the commands of a line, and return them too if they can be proven."""
        try:
            parts = lex(line, expand=self._expand)
        except NotProvable as problem:
            return [self._unproven_finding(line, problem)], ()
        given = zip(parts, _fed_parts(parts, fed=fed), strict=True)
        found = [finding for part, each in given for finding in self._judge_part(part, depth, fed=each)]
        moving = _changes_folder(parts)
        if moving is not None:
            reason = "it changes the folder for what follows, and programs obey files that lie there"
            found.append(Finding(_short(moving.text), "required", reason, self.rule))
        return found, parts

    def _unproven_finding(self, line: str, problem: NotProvable) -> Finding:
        reason = f"what it runs cannot be proven: {problem.reason} (at character {problem.offset + 1})"
        approval: Approval = "required"
        if self._default == "blocked" and not self._all_named(line):
            approval, reason = "blocked", f"{reason}, and not every command in it is named by a rule"
        return Finding(_short(line), approval, reason, self.rule)

    def _all_named(self, line: str) -> bool:
        if len(line) > _LONGEST_SCANNED:
            return False
        try:
            return all(any(rule.approval != "blocked" for rule in self._matching(argv)) for argv in scan_commands(line))
        except TooComplex:
            return False

    def _judge_part(self, part: Part, depth: int, *, fed: bool = False) -> list[Finding]:
        shown = _short(part.text)
        found = self._judge_setup(part, shown)
        if part.argv:
            found += self._judge_command(part.argv, _Setting(shown, part.expands, fed), depth)
        elif part.redirects and not part.assignments:
            found.append(Finding(shown, "required", "a redirection without a command", self.rule))
        return found

    def _judge_setup(self, part: Part, shown: str) -> list[Finding]:
        """Judge the assignments and redirections of a command."""
        found = [self._judge_assignment(each, shown) for each in part.assignments]
        return found + [each for redirect in part.redirects for each in self._judge_redirection(redirect, shown)]

    def _judge_command(
        self, argv: Argv, setting: _Setting, depth: int, above: Sequence[RuleReach] = ()
    ) -> list[Finding]:
        argv, shown, expands = self._normalise_name(argv), setting.shown, setting.expands
        if argv[0] in self._root.next and not self._matching(argv):
            plain = without_leading_flags(argv)
            argv = plain if self._matching(plain) else argv
        rules = [*((each, len(each.words)) for each in self._matching(argv)), *above]
        if not rules:
            # If rules name the program, its sub-command is what no rule names.
            named = argv[:2] if argv[0] in self._root.next else argv[:1]
            return [Finding(shown, self._default, f"no rule names {_short(' '.join(named))!r}", self.rule)]
        strictest, _ = max(rules, key=lambda each: (STRICTNESS[each[0].approval], len(each[0].words)))
        reason = f"`{' '.join(strictest.words)}` is {strictest.approval!r}{_note(strictest)}"
        found = [Finding(shown, strictest.approval, reason, strictest.rule, strictest.expires)]
        equal = [each for each, _ in rules if (each.words, each.approval) == (strictest.words, strictest.approval)]
        if not all(expands - {_FOUND} <= each.expands for each in equal):
            found.append(Finding(shown, "required", "its operands are expanded to something else", strictest.rule))
        if strictest.approval == "none":
            found += self._judge_tail(argv, setting, rules)
        return [*found, *self._judge_inner_commands(argv, setting, depth, rules)]

    def _judge_tail(self, argv: Argv, setting: _Setting, rules: Sequence[RuleReach]) -> list[Finding]:
        """Judge the words behind those of the rules: one rule has to cover all of them."""
        shown, expands, fed = setting
        if expands and runs_others(argv):
            return [Finding(shown, "required", "its operands may become options, or what it runs", self.rule)]
        found: list[Finding] = []
        for rule, reach in sorted(rules, key=lambda each: -each[1]):
            coverage = Coverage(reach, rule.options, rule.every_option)
            doubt = find_doubt(argv, coverage, expands=bool(expands), fed=fed)
            if doubt is None:
                return []
            found.append(Finding(shown, "required", str(doubt), rule.rule))
        return found[:1]

    def _judge_inner_commands(
        self, argv: Argv, setting: _Setting, depth: int, rules: Sequence[RuleReach]
    ) -> list[Finding]:
        """Judge the inner commands of this one."""
        shown = setting.shown
        if depth >= _DEEPEST:
            return [Finding(shown, "required", "commands inside commands, too deep to follow", self.rule)]
        script = script_of(argv)
        if script is not None:
            return self._judge_proven(script, depth + 1, fed=setting.fed)[0]
        if hides_script(argv):
            return [Finding(shown, "required", "a shell is given a script that cannot be read here", self.rule)]
        try:
            inside = wrapped_commands(argv)
        except UnknownOption as problem:
            return [Finding(shown, "required", str(problem), self.rule)]
        return [finding for each in inside for finding in self._judge_inner_command(each, setting, depth, rules)]

    def _judge_inner_command(
        self, each: InnerCommand, setting: _Setting, depth: int, rules: Sequence[RuleReach]
    ) -> list[Finding]:
        shown = setting.shown
        found = [self._judge_assignment(word, shown) for word in each.assignments]
        if each.adds and (runs_others(each.argv) or not is_closed(each.argv)):
            reason = f"{_short(each.argv[0])!r} is given arguments that nobody knows yet"
            found.append(Finding(shown, "required", reason, self.rule))
        argv = each.argv
        if each.finds:  # paths that begin where it looks, so never with a dash
            argv = tuple(word.replace("{}", "./*") for word in argv)
            setting = setting._replace(expands=setting.expands | {_FOUND})
        # A rule such as `sudo systemctl status` names both programs: it reaches beyond the wrapper.
        above = [(rule, reach - each.start) for rule, reach in rules if reach > each.start]
        return [*found, *self._judge_command(argv, setting, depth + 1, above)]

    def _normalise_name(self, argv: Argv) -> Argv:
        """Normalise the name: strip a trusted folder from the program, and the pager option from git."""
        folder, slash, name = argv[0].rpartition("/")
        if slash and name and folder in self._trusted:
            argv = (name, *argv[1:])
        return (argv[0], *argv[2:]) if argv[:2] == ("git", "--no-pager") else argv

    def _matching(self, argv: Argv) -> list[ShellRule]:
        found: list[ShellRule] = []
        node: _Node | None = self._root
        for word in argv:
            node = node.next.get(word) if node else None
            if node is None:
                break
            found += node.rules
        return found

    def _judge_assignment(self, assignment: str, shown: str) -> Finding:
        name = assignment.partition("=")[0].rstrip("+")
        steers = any(fnmatch.fnmatchcase(name, each) for each in CODE_LOADING_VARIABLES)
        if not steers and any(fnmatch.fnmatchcase(name, each) for each in self._inert):
            return Finding(shown, "none", f"{name} may be set", self.rule)
        return Finding(shown, "required", f"it sets {_short(name)}, which can change what runs", self.rule)

    def _judge_redirection(self, redirect: Redirect, shown: str) -> list[Finding]:
        if redirect.target == _NOWHERE or redirect.operator == ">&":
            return []
        if not redirect.writes:
            if redirect.target.startswith(("/dev/tcp/", "/dev/udp/")):
                return [Finding(shown, "required", "it opens a network connection", self.rule)]
            return []
        found = [Finding(shown, "required", f"it writes to {_short(redirect.target)!r}", self.rule)]
        if self._zones is not None:
            target = redirect.target if redirect.target.startswith("/") else f"{self.folder}/{redirect.target}"
            verdict = self._zones.judge_real(target, "write")
            found.append(Finding(shown, verdict.approval, verdict.reason, verdict.rule or self.rule))
        return found

    # Suspicion: commands that must not run, or not unasked.

    def _scan_for_stricter(self, line: str, parts: Sequence[Part], found: Sequence[Finding]) -> list[Finding]:
        """Look for rules that are stricter than what was found; a line that cannot be proven asks anyway."""
        if not self._stricter.blocks and not parts:
            return []
        doubted: Approval = "blocked" if self._stricter.blocks else "required"
        if len(line) > _LONGEST_SCANNED:
            reason = f"it is longer than {_LONGEST_SCANNED} characters, too long to look through for what is blocked"
            return [Finding(_short(line), doubted, reason, self.rule)]
        asks: dict[str, Finding] = {}
        try:
            for argv, rule in self._stricter.suspect(line, parts):
                if rule.approval == "blocked":
                    return [_blocking(line, argv, rule)]
                each = _asking(line, parts, argv, rule)
                if _is_stricter(each, [*asks.values(), *found]):
                    asks[each.part] = each
        except TooComplex as problem:
            return [Finding(_short(line), doubted, str(problem), self.rule)]
        return list(asks.values())


def _fed_parts(parts: Sequence[Part], *, fed: bool) -> Iterator[bool]:
    """Yield for each command whether it is given standard input: by the line around it, a pipe, or from a file."""
    piped = fed
    for part in parts:
        files = [
            each.target for each in part.redirects if not each.writes and each.operator == "<" and not int(each.fd or 0)
        ]
        yield files[-1] != _NOWHERE if files else piped
        piped = fed or part.operator in _PIPES


def _changes_folder(parts: Sequence[Part]) -> Part | None:
    """Return the part that changes the folder of later parts."""
    return next((part for part in parts[:-1] if _runs_cd(part.argv, 0)), None)


def _runs_cd(argv: Argv, depth: int) -> bool:
    """Whether a command changes the folder of this shell, itself or by a script of `eval`."""
    inside = with_inner_commands(argv)
    if depth >= _DEEPEST or "cd" in map(name_of, inside):
        return True
    scripts = [script_of(each) or "" for each in inside if name_of(each) == "eval"]
    try:
        return any(_runs_cd(part.argv, depth + 1) for script in scripts for part in lex(script))
    except NotProvable:
        return True


def _verdict_reason(found: Sequence[Finding], worst: Finding) -> str:
    if worst.approval == "none":
        return worst.reason if len(found) == 1 else f"every part is allowed ({len(found)} were looked at)"
    whole = len({each.part for each in found}) == 1
    return worst.reason if whole else f"{worst.part!r}: {worst.reason}"


def _blocking(line: str, argv: Argv, rule: ShellRule) -> Finding:
    reason = f"it may run `{_short(' '.join(argv))}`, and `{' '.join(rule.words)}` is blocked{_note(rule)}"
    return Finding(_short(line), "blocked", reason, rule.rule)


def _asking(line: str, parts: Sequence[Part], argv: Argv, rule: ShellRule) -> Finding:
    part = next((part.text for part in parts if part.argv == argv), line)
    asks = "asks" if rule.approval == "required" else "asks once per session"
    reason = f"it may run `{' '.join(rule.words)}`, which {asks}{_note(rule)}"
    return Finding(_short(part), rule.approval, reason, rule.rule, rule.expires)


def _is_stricter(finding: Finding, found: Sequence[Finding]) -> bool:
    """Whether the finding is stricter than all others about its part, or about the line if it is none of its parts."""
    about = [each for each in found if each.part == finding.part] or found
    return all(STRICTNESS[finding.approval] > STRICTNESS[each.approval] for each in about)


def _note(rule: ShellRule) -> str:
    return f": {rule.note}" if rule.note else ""


def _finding_as_dict(finding: Finding) -> dict[str, str]:
    return {
        "part": finding.part,
        "approval": finding.approval,
        "reason": finding.reason,
        "rule": str(finding.rule),
    }


def _short(text: str) -> str:
    return shorten(text, _SHOWN)
