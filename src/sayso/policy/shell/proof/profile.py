"""Profile of a program as data: the options that are harmless, with their arity, and the shape of its operands.

Tests: tests/policy/shell/proof/test_profile.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, cast

import msgspec

from sayso.errors import ConfigurationError

Arity = Literal["", "=", "?", "#"]  # none; a value; an attached value or none; a number, attached or behind it, or none

# Shapes of an operand or a value, by name. All but `any` refuse what programs take for more than a plain text.
_NOT_PLAIN = r"(?![@|+!;<>&])(?!.*\|\s*$)(?![^\n]*://)(?!\w+::)(?![^/\s@]+@[^/\s:]*:)"
SHAPES = {
    "any": r"[\s\S]*",
    "none": r"(?!)",
    "plain": rf"{_NOT_PLAIN}[^\n]*",
    "local": rf"{_NOT_PLAIN}(?!-)[^:/\n]*(?:/[^\n]*)?",  # no other host: no colon before the first slash
    "word": r"[\w./:,@%+=-]*",  # for a shell that reads the words joined
    "web": r"(?i:https?://)[^\s{}\[\]]*|[\w.-]+(?::\d+)?(?:/[^\s{}\[\]]*)?",
    "number": r"[+-]?\d+(?:\.\d+)?",
}
# A value that looks like an option would be one for the program that it is handed to (`--since=--output=x`, for git).
PLAIN_VALUE = re.compile(rf"(?!--[A-Za-z]){SHAPES['plain']}")
_ATTACHED_NUMBER = re.compile(r"=?[+-]?\d+%?")
_OPTION_NAME = re.compile(r"--?[A-Za-z0-9@%#?][\w.:+@-]*|-NUM")


class ProfileError(ConfigurationError):
    """Error: a profile is malformed; the sentence says what is wrong."""


class Option(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An option: all its names, its arity, the shape of its harmless values, and why it asks, if it does."""

    names: tuple[str, ...]
    arity: Arity = ""
    values: re.Pattern[str] | None = None
    why: str | None = None
    target: bool = False  # it says where to work: harmless only for what reads

    def attaches(self, word: str) -> bool:
        """Whether a word is this letter with its value (`-j4`, `-Dname`), and not another name with one dash."""
        number = re.fullmatch(r"[+-]?(?:0x)?\d+", word[2:]) is not None
        shaped = word[1].isupper() and self.values not in {None, PLAIN_VALUE}
        return self.arity != "" and (number or shaped or self.why is not None)

    def takes_rest(self, rest: str) -> bool:
        """Whether the rest of a word can only be its value; behind an optional one, it may be further letters."""
        shaped = self.values != PLAIN_VALUE and (self.values is None or bool(self.values.fullmatch(rest)))
        number = bool(self.arity) and bool(_ATTACHED_NUMBER.fullmatch(rest))
        return self.arity == "=" or number or (self.arity == "?" and shaped)


Options = Mapping[str, Option]


class CommandProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A program or one of its sub-commands, compiled."""

    options: Options = {}
    everywhere: Options = {}  # also of its sub-commands
    asked: Options = {}  # the reasons hold for its sub-commands, too
    every_option: bool = False  # no option can do harm
    operands: re.Pattern[str] | None = None
    operands_why: str | None = None
    most: int | None = None  # operands
    once: frozenset[str] = frozenset()  # `operands`, and options like them: if the rule has one, no other may follow
    once_from: int = 1  # how many operands the rule has to name for that; 0: never, for they are arguments
    needs: frozenset[str] = frozenset()
    needs_why: str | None = None
    operands_need: frozenset[str] = frozenset()
    one_dash: bool = False
    ordered: bool = False
    runs: int | None = None
    runs_option: frozenset[str] = frozenset()
    joins: bool = False
    after: Options | None = None  # the options behind `--`; None: they ask
    after_operands: bool = False
    opposites: Mapping[str, frozenset[str]] = {}  # of each option, those that it takes back
    why: str | None = None
    commands: Mapping[str, CommandProfile] = {}
    language: str | None = None
    stdin: frozenset[str] | None = None  # without one of these options, it runs what it reads from standard input
    stdin_operands: int | None = None  # with so many operands, it does not
    stdin_why: str | None = None  # else it runs that, unless it runs another command
    described: bool = True  # by a profile
    names_others: bool = False  # it, or one of its sub-commands, runs another command by its name
    starts: bool = False  # it has operands of its own besides its sub-commands

    def option(self, name: str) -> Option | None:
        """Return the option of this name, with one dash or two where the program takes both."""
        found = self.options.get(name) or self.everywhere.get(name)
        if found is None and self.one_dash and name.startswith("--"):
            found = self.options.get(name[1:])
        if found is None and re.fullmatch(r"-\d+", name):
            found = self.options.get("-NUM")
        return found


class CommandData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command as a profile file writes it; `docs/profiles.md` explains the keys."""

    harmless: str = ""
    everywhere: str = ""
    targets: str = ""
    asks: dict[str, str] = {}
    values: dict[str, str] = {}
    operands: str | None = None
    operands_why: str | None = None
    operands_need: str = ""
    most: int | None = None
    once: str = ""
    once_from: int = 1
    needs: str = ""
    needs_why: str | None = None
    style: Literal["gnu", "one-dash"] | None = None
    ordered: bool | None = None
    runs: int | None = None
    runs_option: str = ""
    joins: bool = False
    after: str | None = None
    opposites: list[str] = []
    why: str | None = None
    language: str | None = None
    stdin: str | None = None
    stdin_operands: int | None = None
    stdin_why: str | None = None
    commands: dict[str, CommandData] = {}
    samples: dict[str, str] = {}
    trial: str | None = None
    effects: list[Literal["writes", "starts", "reaches"]] = []


class ProfileData(CommandData, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A profile file: the programs that it is about, where that is known from, and which files these programs obey."""

    programs: list[str]
    source: str
    obeys: dict[str, str] = {}


# When several threads are the first to decode a type that holds itself, msgspec (0.22) can end the process: so it is
# learnt here, where one thread imports.
msgspec.json.Decoder(ProfileData)

GENERIC = "--help --version"


def parse_profile(text: str) -> ProfileData:
    """Parse the text of a profile file; raises `ProfileError`."""
    try:
        return msgspec.toml.decode(text, type=ProfileData)
    except (msgspec.DecodeError, ValueError) as error:
        raise ProfileError(str(error)) from error


def compile_obeys(data: ProfileData) -> Iterator[tuple[str, str | None, tuple[str, ...]]]:
    """Yield each file that the programs obey, with the program (None: each) and the words of its sub-command."""
    for file, commands in data.obeys.items():
        for words in map(str.split, commands.split(",")):
            if not words:
                raise ProfileError(f"the file {file!r} is obeyed by no command; use `any`, or name them")
            named = words[0] in data.programs
            path = () if words == ["any"] else tuple(words[1:] if named else words)
            yield file, words[0] if named else None, path


def compile_command(data: CommandData, above: CommandProfile | None = None) -> CommandProfile:
    """Compile a command and its sub-commands; they inherit the style, and the options that stand everywhere."""
    values = _value_shapes(data.values)
    targets = {name: msgspec.structs.replace(each, target=True) for name, each in _parse_options(data.targets, values)}
    everywhere = {**dict(_parse_options(data.everywhere, values)), **targets}
    style = data.style or ("one-dash" if above and above.one_dash else "gnu")
    after = data.after
    asked = {name: each for spec, why in data.asks.items() for name, each in _parse_options(spec, {}, why)}
    command = CommandProfile(
        options={
            **dict(_parse_options(GENERIC, {})),
            **(above.asked if above else {}),
            **(above.everywhere if above else {}),
            **everywhere,
            **dict(_parse_options("" if data.harmless == "any" else data.harmless, values)),
            **asked,
        },
        asked={**(above.asked if above else {}), **asked},
        everywhere={**(above.everywhere if above else {}), **everywhere},
        every_option=data.harmless == "any",
        operands=shape(data.operands or "plain"),
        operands_why=data.operands_why,
        most=data.most,
        once=_names(data.once),
        once_from=data.once_from,
        needs=_names(data.needs),
        needs_why=data.needs_why,
        operands_need=_names(data.operands_need),
        one_dash=style == "one-dash",
        ordered=data.runs is not None if data.ordered is None else data.ordered,
        runs=data.runs,
        runs_option=_names(data.runs_option),
        joins=data.joins,
        after=None if after in {None, "operands"} else dict(_parse_options(f"{GENERIC} {after}", values)),
        after_operands=after == "operands",
        opposites={**(above.opposites if above else {}), **_opposites(data.opposites)},
        why=data.why,
        language=data.language,
        stdin=None if data.stdin is None else _names(f"{GENERIC} {data.stdin}"),
        stdin_operands=data.stdin_operands,
        stdin_why=data.stdin_why,
        starts=data.operands is not None,
    )
    subs = [(names, compile_command(each, command)) for names, each in data.commands.items()]
    # Several sub-commands with one description are written in one key, with commas.
    commands = {name.strip(): each for names, each in subs for name in names.split(",")}
    names_others = (
        data.runs is not None or data.runs_option != "" or any(each.names_others for each in commands.values())
    )
    return msgspec.structs.replace(command, commands=commands, names_others=names_others)


def shape(text: str) -> re.Pattern[str] | None:
    """Compile a shape: one of the names, or an expression between slashes; None accepts anything."""
    if text == "any":
        return None
    pattern = text[1:-1] if len(text) > 1 and text.startswith("/") and text.endswith("/") else SHAPES.get(text)
    if pattern is None:
        raise ProfileError(f"{text!r} is no shape; use one of {', '.join(SHAPES)}, or an expression between slashes")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ProfileError(f"{text!r} is no regular expression: {error}") from error


def _opposites(groups: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return which options each one takes back: all of the other names in its groups, but its own."""
    found: dict[str, frozenset[str]] = {}
    for options in ([each.split(",") for each in group.split()] for group in groups):
        every = frozenset(name for names in options for name in names)
        for names in options:
            found.update({name: found.get(name, frozenset()) | every - frozenset(names) for name in names})
    return found


def _value_shapes(values: Mapping[str, str]) -> dict[str, re.Pattern[str] | None]:
    shapes = {text: PLAIN_VALUE if text == "plain" else shape(text) for text in values.values()}
    return {name: shapes[text] for names, text in values.items() for name in names.replace(",", " ").split()}


def _parse_options(
    spec: str, values: Mapping[str, re.Pattern[str] | None], why: str | None = None
) -> Iterator[tuple[str, Option]]:
    """Yield every name in a list such as `-n,--lines= -v --color?`, with its option."""
    for word in spec.split():
        plain = word.rstrip("=?#") if len(word) > len("-#") else word
        arity = word[len(plain) :]
        names = tuple(plain.split(","))
        wrong = next((each for each in names if not _OPTION_NAME.fullmatch(each)), None)
        if wrong is not None or arity not in {"", "=", "?", "#"}:
            raise ProfileError(f"{word!r} is no option; write it as -x, --name, -x,--name= or --name?")
        found = next((values[name] for name in names if name in values), PLAIN_VALUE)
        option = Option(names=names, arity=cast("Arity", arity), values=found, why=why)
        yield from ((name, option) for name in names)


def _names(spec: str) -> frozenset[str]:
    return frozenset(spec.replace(",", " ").split())


def letters(command: CommandProfile, word: str) -> Iterable[tuple[str, str | None]] | None:
    """Split a bundle such as `-xvf5` into options, the last perhaps with its value; None if one is unknown."""
    found: list[tuple[str, str | None]] = []
    for at, letter in enumerate(word[1:], start=2):
        option = command.option(f"-{letter}")
        if option is None:
            return None
        if at < len(word) and option.takes_rest(word[at:]):
            return [*found, (f"-{letter}", word[at:])]
        found.append((f"-{letter}", None))
    return found


def split_word(command: CommandProfile, word: str) -> list[tuple[str, str | None]] | None:
    """Return the options in one word, each with its attached value; None if one of them is unknown."""
    name, equals, value = word.partition("=")
    if word.startswith("--") or command.one_dash:
        option = command.option(name)
        if option is not None:
            return None if equals and not option.arity else [(name, value if equals else None)]
        letter = command.option(word[:2]) if command.one_dash and not word.startswith("--") else None
        return [(word[:2], word[2:])] if letter and letter.attaches(word) else None
    option = command.option(word)
    if option is not None:
        return [(word, None)]
    found = letters(command, word)
    return None if found is None else list(found)


def is_option(word: str) -> bool:
    """Whether the word is written as an option; a single dash is standard input."""
    return word.startswith("-") and word != "-"
