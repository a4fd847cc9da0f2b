"""Option parsers for the danger tables: by an allow-list of harmless options, or by a deny-list of dangerous ones.

Tests: tests/policy/shell/test_dangers.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from sayso.policy.shell.wrappers import Argv

Danger = Callable[[Argv], str | None]  # from the arguments to their danger, if any

_SHORTEST = 3  # `--o` may stand for `--output`


class ParsedOptions(NamedTuple):
    """Parsed arguments: the first word that is not on the allow-list, the options, and the operands."""

    unknown: str | None
    given: tuple[tuple[str, str], ...]
    operands: Argv

    @property
    def names(self) -> frozenset[str]:
        """The options without their values."""
        return frozenset(name for name, _ in self.given)


class Harmless:
    """Allow-list of the options with which a program neither runs, writes nor sends anything; others are unknown.

    For programs whose dangerous options cannot all be listed.
    """

    def __init__(self, spec: str, values: Mapping[str, str] | None = None) -> None:
        """Compile the list.

        Args:
            spec: `-x` and `--name` stand alone, `-x=` and `--name=` take a value, `-x?` and `--name?` may have one
                attached to them.
            values: patterns of the harmless values, for options with others.
        """
        self._kinds = {word.rstrip("=?"): word[-1] for word in spec.split()}
        self._values = {name: re.compile(pattern) for name, pattern in (values or {}).items()}

    def read(self, args: Argv, *, ordered: bool = False) -> ParsedOptions:
        """Parse the arguments as the program does.

        Args:
            args: of the program.
            ordered: every word after the first operand is an operand too, as for programs that pass them on.
        """
        given: list[tuple[str, str]] = []
        operands: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--":
                operands += words
            elif not word.startswith("-") or word == "-":
                operands += (word, *words) if ordered else (word,)
            else:
                found = self._parse_word(word, words)
                given += found or []
                if found is None or not all(self._is_harmless_value(name, value) for name, value in found):
                    return ParsedOptions(word, tuple(given), tuple(operands))
        return ParsedOptions(None, tuple(given), tuple(operands))

    def _is_harmless_value(self, name: str, value: str) -> bool:
        return name not in self._values or bool(self._values[name].fullmatch(value))

    def _parse_word(self, word: str, following: Iterator[str]) -> list[tuple[str, str]] | None:
        """Return the options in one word, with their values; nothing if one of them is unknown."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            return self._parse_value(name, value, attached=bool(equals), following=following)
        found: list[tuple[str, str]] = []
        for at, letter in enumerate(word[1:], start=2):
            if self._kinds.get(f"-{letter}", "") in {"=", "?"}:
                last = self._parse_value(f"-{letter}", word[at:], attached=at < len(word), following=following)
                return None if last is None else [*found, *last]
            if f"-{letter}" not in self._kinds:
                return None
            found.append((f"-{letter}", ""))
        return found

    def _parse_value(
        self, name: str, value: str, *, attached: bool, following: Iterator[str]
    ) -> list[tuple[str, str]] | None:
        kind = self._kinds.get(name)
        if kind is None or (attached and kind not in "=?"):
            return None
        if kind == "=" and not attached:
            value = next(following, "")
            if value.startswith("-") and value != "-":
                return None  # another version of the program may parse it as an option
        return [(name, value)]

    def as_danger(self, program: str) -> Danger:
        """Return the check that asks about every other option of the program, and about options from a file."""

        def check(args: Argv) -> str | None:
            return unlisted_reason(program, self.read(args).unknown or from_file(args))

        return check


def unlisted_reason(program: str, word: str | None) -> str | None:
    """Return the sentence about a word that is not on the list."""
    return f"{word} is not known to be harmless: {program} may write, run or send something" if word else None


def from_file(args: Argv) -> str | None:
    """Return the first argument that names a response file, if there is one."""
    return next((word for word in args if word.startswith("@")), None)


def operands(args: Argv, valued: Iterable[str] = ()) -> Argv:
    """Return the arguments that are no options, nor the values of these options."""
    takes = frozenset(valued)
    found: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            found += words
        elif word in takes:
            next(words, None)
        elif not word.startswith("-") or word == "-":
            found.append(word)
    return tuple(found)


def find_option(
    args: Argv,
    *,
    short: str = "",
    long: Iterable[str] = (),
    valued: str = "",
    spared: Iterable[str] = (),
) -> str | None:
    """Return the first argument that is, or can be short for, one of these options.

    Words behind `--` count too: it may be the value of another option.

    Args:
        args: of the program.
        short: letters; they may be bundled behind one dash.
        long: names; they may be abbreviated.
        valued: letters whose value may follow in the same word.
        spared: arguments that only look like an abbreviation.
    """
    known = [f"--{name}" for name in long]
    harmless = frozenset(spared)
    for word in args:
        name = word.partition("=")[0]
        if word.startswith("--"):
            if len(name) >= _SHORTEST and word not in harmless and any(each.startswith(name) for each in known):
                return word
        elif word.startswith("-") and _has_letter(word[1:], short, valued):
            return word
    return None


def _has_letter(letters: str, short: str, valued: str) -> bool:
    for letter in letters:
        if letter in short:
            return True
        if letter in valued:
            return False
    return False


def by_options(
    why: str,
    *,
    short: str = "",
    long: str = "",
    valued: str = "",
    files: bool = False,
) -> Danger:
    """Return the check that asks about these options, and about response files where the program reads them."""
    names = long.split()

    def check(args: Argv) -> str | None:
        word = find_option(args, short=short, long=names, valued=valued)
        word = word or (from_file(args) if files else None)
        return f"{word} {why}" if word else None

    return check


def with_one_dash(args: Argv, harmless: frozenset[str]) -> str | None:
    """Return the first option that is not harmless, for programs whose names follow one dash or two, in any case."""
    for word in args:
        name = word.removeprefix("-").removeprefix("-").partition("=")[0].lower()
        if word.startswith("-") and word not in {"-", "--"} and name not in harmless:
            return word
    return None
