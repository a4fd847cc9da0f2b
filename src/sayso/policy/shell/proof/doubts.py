"""Doubts about the words behind a rule's own: the first option or operand that no profile proves harmless.

A rule covers its own words, plain operands, and the options that are known to be harmless. A word may be read in the
wrong way without harm, because the value of an option is never one that begins with a dash: every such word is judged
as an option, too.

Tests: tests/policy/shell/proof/test_doubts.py
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from sayso.core.redaction import shorten
from sayso.policy.shell.proof.catalogue import UNKNOWN, find_command, unknown_below
from sayso.policy.shell.proof.languages import LANGUAGES
from sayso.policy.shell.proof.named_operands import NamedOperands
from sayso.policy.shell.proof.profile import GENERIC, SHAPES, CommandProfile, Option, is_option, split_word
from sayso.policy.shell.wrappers import (
    EXECUTES,
    WRAPPERS,
    Argv,
    UnknownOption,
    name_of,
    script_of,
    wrapped_commands,
)

_DEEPEST = 6
_LONGEST_CURE = 80
_LONGEST_WHY = 160
_SHOWS_VERSION = frozenset({"-v", "-V", "-version", "--version", "--help"})
_SHOWS_ITSELF = frozenset(GENERIC.split())
_WORD = re.compile(SHAPES["word"])
# No option, no code from the input or an address; a package of npm may have a scope.
_PROGRAM = re.compile(rf"@[\w.-]+/[\w.@-]+|(?![-:])(?!\w+:){SHAPES['plain']}")
_PLAIN = re.compile(SHAPES["plain"])
_BOOLEANS = frozenset({"true", "false"})
_NEGATIONS = ("no", "not-", "disable-", "without-")
_STANDARD_INPUT = frozenset({"-", "/dev/stdin"})
_NO = frozenset({"false", "null", "undefined", "no", "off", "0"})  # npm and yargs read `--dry-run false` as one option


class Doubt(NamedTuple):
    """A word that is not known to be harmless: why, and what in the policy would allow it."""

    word: str
    why: str
    cure: str

    def __str__(self) -> str:
        return f"{self.why}; {self.cure}"


class Coverage(NamedTuple):
    """What a rule allows: the first words of the command, and options by name, or every option."""

    words: int
    options: frozenset[str] = frozenset()
    every_option: bool = False

    def behind(self, start: int) -> Coverage:
        """Return the coverage for a command that begins at this word."""
        return self._replace(words=max(0, self.words - start))


def find_doubt(argv: Argv, coverage: Coverage, *, expands: bool = False, fed: bool = False) -> Doubt | None:
    """Return the first word that is not proven harmless, if there is one.

    Args:
        argv: the command.
        coverage: of the rule.
        expands: words with `*`, `?` or `[` stand for any number of paths.
        fed: the line gives it standard input, by a pipe or from a file.
    """
    return _Reader(argv, coverage, expands=expands, fed=fed).read()


def is_closed(argv: Argv) -> bool:
    """Whether no argument can do harm, so that one that is not known yet is harmless, too."""
    command = find_command(argv[0])
    return command is not None and command.every_option and command.operands is None and command.most is None


class _Reader:
    """Reads one command as its program does, word by word."""

    def __init__(
        self,
        argv: Argv,
        coverage: Coverage,
        before: Argv = (),
        *,
        depth: int = 0,
        expands: bool = False,
        fed: bool = False,
    ) -> None:
        self._argv = argv
        self._coverage = coverage
        self._before = before  # the words of the runner in front of this command
        self._depth = depth
        self._expands = expands
        self._fed = fed
        self._runs_inner = False  # which reads what it is fed
        self._name = name_of(argv)
        self._command = find_command(argv[0]) or UNKNOWN
        self._at = 1
        self._operands = 0
        self._given: set[str] = set()
        self._said: dict[str, str] = {}  # the rule's own options, and their values
        self._loose_operand: str | None = None
        self._named = NamedOperands()
        self._changes = False  # the rule's own words do more than read

    def read(self) -> Doubt | None:
        """Return the first doubt."""
        if self._depth >= _DEEPEST:
            return self._doubt(0, "commands inside commands, too deep to follow")
        if self._name in WRAPPERS or script_of(self._argv) is not None:
            return self._read_wrapped() if self._depth else None  # else the rules judge the inner command
        if self._command.language:
            return self._read_language(self._command.language)
        while self._at < len(self._argv):
            doubt = self._read_word(self._argv[self._at])
            if doubt is not None:
                return doubt
        return self._missing()

    def _read_language(self, language: str) -> Doubt | None:
        if self._depth and not EXECUTES.isdisjoint(self._argv):
            return self._doubt(len(self._argv) - 1, "it runs commands that no rule judges there")
        if self._expands:
            return self._doubt(len(self._argv) - 1, "its operands may become options, or more than names of files")
        own = frozenset(self._argv[: self._coverage.words]) | self._coverage.options
        if self._coverage.every_option:
            own |= frozenset(filter(is_option, self._argv))
        why = LANGUAGES[language](self._argv[1:], own)
        return self._doubt(len(self._argv) - 1, why) if why else None

    def _read_wrapped(self) -> Doubt | None:
        """Judge the inner command of a wrapper behind a runner, where no rule does."""
        try:
            inside = wrapped_commands(self._argv)
        except UnknownOption as problem:
            return self._doubt(len(self._argv) - 1, str(problem))
        if script_of(self._argv) is not None or any(each.assignments or each.adds for each in inside):
            return self._doubt(len(self._argv) - 1, f"what {self._name} runs there is judged by no rule")
        doubts = (self._read_inner(each.argv, each.start) for each in inside)
        return next((each for each in doubts if each is not None), None)

    def _read_word(self, word: str) -> Doubt | None:
        if word == "--":
            return self._read_behind_dashes()
        if is_option(word) and not (self._command.ordered and self._operands):
            return self._read_option(word)
        return self._read_operand(word)

    # Options.

    def _read_option(self, word: str) -> Doubt | None:
        start = self._at
        self._at += 1
        if self._is_pattern(word) and not self._command.every_option:
            return self._doubt(start, f"{word} may become other options")
        found = split_word(self._command, word)
        if found is None:
            return self._read_unknown(word, start)
        for name, value in found:
            option = self._command.option(name)
            doubt = self._judge_option(name, value, option, start) if option else None
            if doubt is not None:
                return doubt
        return None

    def _read_unknown(self, word: str, start: int) -> Doubt | None:
        name, _, value = word.partition("=")
        doubt = self._taken_back((name,), name, value or None, start)
        self._said.update({name: value} if self._is_own(start) else {})
        self._given.add(name)
        if doubt is not None or self._is_own(start) or self._command.every_option or self._is_listed((name,)):
            return doubt
        attached = not word.startswith("--") and word[:2] in self._coverage.options and word[2:].isdigit()
        return None if attached else self._option_doubt(word, name, None)

    def _judge_option(self, name: str, value: str | None, option: Option, start: int) -> Doubt | None:
        value_at = start
        self._given.update(option.names)
        if value is None and self._takes_next(option):
            value, value_at = self._argv[self._at], self._at
            self._at += 1
        doubt = self._taken_back(option.names, name, value, start)
        if self._is_own(start) and (value is None or self._is_own(value_at)):
            self._said.update(dict.fromkeys((*option.names, name), value or ""))
            self._named.changes = self._named.changes or option.why is not None
        doubt = doubt or self._named_again(option, name, value, start, value_at)
        if doubt is not None:
            return doubt
        free = self._is_own(start) or self._is_listed(option.names) or self._command.every_option
        why = "says where to change something" if option.target and self._changes else option.why
        if not free and why:
            return self._option_doubt(name, name, why)
        if name in self._command.runs_option and value is not None:
            return self._read_inner((value, *self._argv[self._at :]), value_at)
        if value is None or self._is_own(value_at):
            return None
        if value_at > start and self._is_pattern(value) and not self._command.every_option:
            return self._doubt(value_at, f"{value} may become more than the value of {name}")
        if value_at > start and is_option(value) and not _is_number(value):
            return self._doubt(value_at, f"{value} may be an option, and not the value of {name}")
        harmless = free or option.values is None or option.values.fullmatch(value)
        return None if harmless else self._option_doubt(value, name, f"{name} is not known to be harmless with {value}")

    def _takes_next(self, option: Option) -> bool:
        if self._at >= len(self._argv):
            return False
        return option.arity == "=" or (option.arity == "#" and self._argv[self._at].isdigit())

    def _taken_back(self, names: Argv, name: str, value: str | None, start: int) -> Doubt | None:
        """Doubt an option that contradicts one of the rule's own."""
        if self._is_own(start) or not self._said:
            return None
        again = next((each for each in names if each in self._said), None)
        if again is not None and value is not None and value != self._said[again]:
            return self._doubt(start, f"{name} {value} takes back what the rule says ({again} {self._said[again]})")
        taken = self._command.opposites.get(name, ())
        opposite = next((own for own in self._said if own in taken or _negates(name, own) or _negates(own, name)), None)
        return self._doubt(start, f"{name} takes back what the rule says ({opposite})") if opposite else None

    def _is_own(self, at: int) -> bool:
        return at < self._coverage.words

    def _is_listed(self, names: Argv) -> bool:
        return self._coverage.every_option or not self._coverage.options.isdisjoint(names)

    # Operands and sub-commands.

    def _read_operand(self, word: str) -> Doubt | None:
        command, at = self._command, self._at
        if self._is_pattern(word) and not self._may_expand(word):
            return self._doubt(at, f"{word} may become options, or more operands than are harmless")
        if command.runs is not None and self._operands == command.runs and word not in command.commands:
            return self._read_inner(self._argv[at:], at)
        before = self._argv[at - 1]
        said = before in self._said and (before.startswith("--") or command.one_dash)
        if said and word.lower() in _NO and not self._is_own(at):
            return self._doubt(at, f"{word} may take back what the rule says ({before})")
        self._at += 1
        if word in _BOOLEANS and self._takes_boolean(before, word):
            return None
        if command.commands and not self._operands:
            sub = command.commands.get(word)
            if sub is not None or not command.starts:
                return self._enter(word, sub, at)
        self._operands += 1
        if self._is_own(at):
            self._changes = self._changes or not _fits(command.operands, word)
            self._named.add(word, self._command)
            return None
        return self._judge_operand(word, at)

    def _named_again(self, option: Option, name: str, value: str | None, start: int, value_at: int) -> Doubt | None:
        """Doubt an option that names something to change, as operands do, where the rule has named that."""
        if self._command.once.isdisjoint(option.names):
            return None
        if self._is_own(value_at):
            self._named.add(value or name, self._command)
        named = self._named.are_all(self._command) and not self._is_own(start)
        return self._doubt(start, f"{name} is not what the rule names ({self._named.last})") if named else None

    def _judge_operand(self, word: str, at: int) -> Doubt | None:
        command = self._command
        if self._named.are_all(self._command):
            return self._doubt(at, f"{word} is not what the rule names ({self._named.last})")
        self._loose_operand = self._loose_operand or word
        if not _fits(command.operands, word):
            return self._doubt(at, command.operands_why or f"{word} is not a plain operand: it may be more than a name")
        if command.most is not None and self._operands > command.most:
            return self._doubt(at, command.operands_why or f"{word} is one operand too many for {self._name}")
        return None

    def _takes_boolean(self, before: str, word: str) -> bool:
        """Whether the word is the value of the option before it, as tsc and npm read `--pretty false`."""
        option = self._command.option(before) if self._command.one_dash and is_option(before) else None
        return option is not None and option.arity == "?" and option.why is None and _fits(option.values, word)

    def _is_pattern(self, word: str) -> bool:
        return self._expands and bool(re.search(r"[*?\[]", word))

    def _may_expand(self, word: str) -> bool:
        command = self._command
        bounded = command.most is not None or command.runs is not None or (command.commands and not self._operands)
        # A path may not be the word that the shape refuses, but a name in this folder may.
        shaped = command.operands not in {None, _PLAIN} and "/" not in re.split(r"[*?\[]", word)[0]
        return not bounded and not shaped and (command.every_option or word[0] not in "*?[")

    def _enter(self, word: str, sub: CommandProfile | None, at: int) -> Doubt | None:
        """Go on with the sub-command; one that no profile describes has to be named by the rule."""
        if sub is None and not self._is_own(at):
            return self._doubt(at, f"{word} is not a sub-command of {self._name} that is known to be harmless")
        why = None if sub is None else sub.why
        self._command, self._name = sub or unknown_below(self._command), f"{self._name} {word}"
        self._changes = sub is None or why is not None
        self._named.note_verb(word, self._command)
        return self._doubt(at, f"`{self._name}` {why}") if why and not self._is_own(at) else None

    def _read_behind_dashes(self) -> Doubt | None:
        command = self._command
        rest, start = self._argv[self._at + 1 :], self._at + 1
        self._at = start
        if command.runs is not None:
            return self._read_operands_until_inner()
        if command.after is not None:
            missing = self._missing()
            if missing is not None:
                return missing
            self._command = CommandProfile(options=command.after, operands=command.operands, after_operands=True)
            return None
        for at, word in enumerate(rest, start=start):
            own = self._is_own(at) or command.after_operands or command.every_option or not is_option(word)
            own = own or word in _SHOWS_ITSELF
            if not own and not self._is_listed((word.partition("=")[0],)):
                return self._option_doubt(word, word.partition("=")[0], None)
            doubt = self._read_operand(word) if not is_option(word) or command.after_operands else None
            self._at = at + 1
            if doubt is not None:
                return doubt
        return None

    def _read_operands_until_inner(self) -> Doubt | None:
        while self._at < len(self._argv):
            doubt = self._read_operand(self._argv[self._at])
            if doubt is not None:
                return doubt
        return None

    def _read_inner(self, argv: Argv, start: int) -> Doubt | None:
        """Judge the command that this one runs by its name."""
        self._at = len(self._argv)
        self._runs_inner = argv[0] not in _STANDARD_INPUT
        option = argv[0].partition("=")[0] if is_option(argv[0]) else None
        if option and not self._is_own(start) and not self._is_listed((option,)):
            return self._option_doubt(argv[0], option, f"is an option for what `{self._name}` runs")
        if not option and not self._is_own(start) and not _PROGRAM.fullmatch(argv[0]):
            return self._doubt(start, f"{argv[0]} is not the plain name of a program")
        loose = next((at for at in range(len(argv)) if not self._is_own(start + at)), len(argv))
        odd = next((each for each in argv[loose:] if self._command.joins and not _is_joinable(each)), None)
        odd = odd or next((each for each in argv[:1] if "=" in each and loose == 0), None)  # it sets a variable
        if loose == 0 and not _SHOWS_VERSION.isdisjoint(self._said):
            return self._doubt(start, f"the rule shows a version, and {argv[0]} may be run")
        if odd is not None:
            return self._doubt(len(self._argv) - 1, f"a shell reads more in {odd} than plain words")
        inner, coverage = argv, self._coverage.behind(start)
        if self._command.joins:
            inner = tuple(" ".join(argv).split())
            coverage = coverage._replace(words=len(" ".join(argv[:loose]).split()))
        program = find_command(inner[0]) if inner and not self._is_own(start) else None
        if program is not None and program.why:
            return self._doubt(start, f"{inner[0]} {program.why}")
        if not inner:
            return None
        before = (*self._before, *self._argv[:start])
        reader = _Reader(inner, coverage, before, depth=self._depth + 1, expands=self._expands, fed=self._fed)
        return reader.read()

    def _missing(self) -> Doubt | None:
        command = self._command
        if self._is_own(len(self._argv) - 1) and (self._named.last or self._said):
            return self._fed_commands()  # the rule names this very command, and not just the program
        if command.needs and self._given.isdisjoint(command.needs) and not self._coverage.every_option:
            return self._doubt(len(self._argv) - 1, command.needs_why or f"{self._name} does more than it shows")
        if command.operands_need and self._loose_operand and self._given.isdisjoint(command.operands_need):
            return self._doubt(len(self._argv) - 1, command.operands_why or f"{self._loose_operand} changes something")
        return self._fed_commands()

    def _fed_commands(self) -> Doubt | None:
        """Doubt input that the program takes for commands, as no option or operand of the line is what it runs."""
        command = self._command
        inner_reads = self._runs_inner and command.stdin_why is None
        if not self._fed or inner_reads or command.stdin is None or self._coverage.every_option:
            return None
        enough = command.stdin_operands is not None and self._operands >= command.stdin_operands
        if enough or not self._given.isdisjoint(command.stdin):
            return None
        why = f"{self._name} {command.stdin_why or 'runs what it reads'} from standard input"
        return Doubt(self._name, shorten(why, _LONGEST_WHY), "`options: any` in the rule would allow it")

    # Sentences.

    def _option_doubt(self, word: str, name: str, why: str | None) -> Doubt:
        sentence = f"{word} {why}" if why and not why.startswith(word) and name not in why else why
        sentence = sentence or f"{word} is not known to be harmless for `{self._name}`"
        cure = f"`options: [{shorten(name, _LONGEST_CURE)}]` in the rule would allow it, or `options: any`"
        return Doubt(word, shorten(sentence, _LONGEST_WHY), cure)

    def _doubt(self, at: int, why: str) -> Doubt:
        if self._is_own(at):  # more words in the rule would not help
            return Doubt(self._argv[at], shorten(why, _LONGEST_WHY), "`options: any` in the rule would allow it")
        words = shlex.join((*self._before, *self._argv[: at + 1]))
        named = len(words) <= _LONGEST_CURE and "\n" not in words
        cure = f"a rule for `{words}` would allow it" if named else "a rule with these very words would allow it"
        return Doubt(self._argv[at] if at < len(self._argv) else "", shorten(why, _LONGEST_WHY), cure)


def _fits(shape: re.Pattern[str] | None, word: str) -> bool:
    return shape is None or shape.fullmatch(word) is not None


def _negates(name: str, own: str) -> bool:
    """Whether one option is the other with a `no`, perhaps abbreviated, or with another word for it."""
    name, own = name.replace("_", "-"), own.replace("_", "-")
    negated = name.removeprefix("--no-")
    if negated not in {"", name} and (own.startswith(f"--{negated}") or own == f"-{negated}"):
        return True
    return own.startswith("--") and name in {f"--{word}{own[2:]}" for word in _NEGATIONS}


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"-\d+(?:\.\d+)?", word))


def _is_joinable(word: str) -> bool:
    return all(_WORD.fullmatch(each) for each in word.split(" "))
