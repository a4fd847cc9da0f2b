"""Plan of the trials: each harmless option of a profile, with harmless values, in the line that the profile gives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import msgspec
from tests.trials.sandbox import ADDRESS

from sayso.policy.shell.proof.doubts import Coverage, find_doubt
from sayso.policy.shell.proof.profile import (
    Arity,
    CommandData,
    CommandProfile,
    Option,
    ProfileData,
    compile_command,
)

ELSEWHERE = "http://127.0.0.1:9/"  # nobody listens there
# What an attacker would give as a value; tried wherever the profile calls it harmless. Whoever runs one of them, loads
# it or writes to it leaves a file behind, or starts a program.
ATTACKS = (
    "|touch pwned", "!touch pwned", "x;touch pwned `touch pwned` $(touch pwned)", "x\ntouch pwned", "pwned.txt",
    "@in.txt", "file://in.txt", ELSEWHERE, "ext::touch pwned", "%output{pwned}", "sh",
    "evil", "./evil.sh", "./evil.js", "evil.py", "./evil.so", "../home/pwned", "127.0.0.1:9",
)  # fmt: skip
# Fewer, for options that only the program's own help knows: there are many of them.
HELP_ATTACKS = ("|touch pwned", "$(touch pwned)", "pwned.txt", "@in.txt", ELSEWHERE, "sh", "./evil.sh")
# Of a program that takes long, only these.
SLOW_ATTACKS = frozenset(
    {"|touch pwned", "x;touch pwned `touch pwned` $(touch pwned)", "pwned.txt", "./evil.sh", "./evil.js", "evil.py"}
)
# And for the second and further commands of one description, whose options mean the same as those of the first.
AGAIN_ATTACKS = ("|touch pwned", "pwned.txt", "./evil.sh", ELSEWHERE)
SAMPLES = ("1", "in.txt", "x", "all", "json", "text", "auto", "true", "localhost")  # where a profile gives none


class Trial(NamedTuple):
    """One run: the command it belongs to, the option (nothing: the bare line), the value, and the words."""

    command: str
    option: str
    value: str | None
    argv: tuple[str, ...]
    effects: frozenset[str]  # of the profile; `anywhere`: an operand may name any address
    apart: tuple[str, ...] = ()  # the words with the value in a word of its own, for programs that want it so


def plan(profile: ProfileData, program: str, help_of: Callable[[str], str] = lambda _: "") -> Iterator[list[Trial]]:
    """Yield the trials of each command that has a line for it: first the bare line, then each option.

    Of a command with `harmless = "any"`, the options are those that its help names; of a program whose arguments are a
    language that is read by code, those of them that the judge would let run.
    """
    lines = (profile.trial or "").strip().splitlines()
    first = lines[0].split()[0] if lines else ""
    line = _line_of(program, first, lines) or _line_of(program, first, lines[:1])
    own = msgspec.structs.replace(profile, trial=line)
    common: set[tuple[str, ...]] = set()
    for name, data, command, again in _commands(own, program, None):
        if data.trial is None:
            continue
        samples = {name: text for names, text in data.samples.items() for name in names.replace(",", " ").split()}
        options = {each.names: each for each in command.options.values() if each.why is None}
        options = {names: each for names, each in options.items() if names not in common}
        common |= {each.names for each in command.everywhere.values()}  # they are tried with one command
        if command.operands is None or command.operands.fullmatch(ELSEWHERE):
            data = msgspec.structs.replace(data, effects=[*data.effects, "anywhere"])  # noqa: PLW2901
        trials = [_trial(name, data, program, "", None)]
        for option in options.values():
            trials += _option_trials(name, data, program, option, samples, attacks=AGAIN_ATTACKS if again else ATTACKS)
        if data.harmless == "any" or data.language:
            known = frozenset(command.options) | samples.keys()
            found = [_option(each, text) for each, text in samples.items()] if data.language else []
            for option in (*found, *options_in_help(help_of(name), known)):
                more = _option_trials(name, data, program, option, samples, attacks=HELP_ATTACKS)
                trials += (each for each in more if not data.language or _runs_unasked(each.apart or each.argv))
        yield list(dict.fromkeys(trials))


def _option(name: str, sample: str) -> Option:
    """Return an option of a language, with a value if there is a sample of one."""
    return Option(names=(name,), arity="=" if sample else "", values=None)


def _runs_unasked(argv: tuple[str, ...]) -> bool:
    """Whether a rule for the program alone lets it run with these arguments."""
    return find_doubt(argv, Coverage(1)) is None


def _commands(
    data: CommandData, name: str, above: CommandProfile | None, *, again: bool = False
) -> Iterator[tuple[str, CommandData, CommandProfile, bool]]:
    """Yield each command; those with one description have one line, but for those that have one more."""
    command = compile_command(data, above)
    yield name, data, command, again
    for names, sub in data.commands.items():
        first, *others = (each.strip() for each in names.split(","))
        lines = (sub.trial or "").strip().splitlines()
        for nth, own in enumerate((first, *others)):
            line = _line_of(own, first, lines)
            if line is not None or nth == 0:
                same = msgspec.structs.replace(sub, trial=line, commands={} if nth else sub.commands)
                yield from _commands(same, f"{name} {own}", command, again=again or nth > 0)


def _line_of(name: str, first: str, lines: list[str]) -> str | None:
    """Return the line of a command: one that has its name, or the only one, with its name instead of the first."""
    own = next((line for line in lines if name in line.split()), None)
    if own is None and len(lines) == 1:
        return " ".join(name if word == first else word for word in lines[0].split(" "))
    return own


# Lines such as `  -n, --lines[=K]  how many`: the names, and the sign of a value.
_HELP_LINE = re.compile(r"^\s+(-[\w?-]+(?:, +-[\w-]+)*)(\[=|=| <| [A-Z]{2,})?", re.MULTILINE)
_NAME = re.compile(r"-\w|--\w[\w-]+")
_ARITY = {"": "", "[=": "?"}  # any other sign is of a value that has to be there


def options_in_help(text: str, known: frozenset[str]) -> list[Option]:
    """Return the options that a program's help names, but for those that are known; they take any value."""
    found: dict[tuple[str, ...], Option] = {}
    for line in _HELP_LINE.finditer(text):
        names = tuple(each for each in line[1].split(", ") if _NAME.fullmatch(each) and each not in known)
        if names:
            found[names] = Option(names=names, arity=cast("Arity", _ARITY.get(line[2] or "", "=")), values=None)
    return list(found.values())


def _option_trials(
    name: str,
    data: CommandData,
    program: str,
    option: Option,
    samples: dict[str, str],
    *,
    attacks: tuple[str, ...] = ATTACKS,
) -> Iterator[Trial]:
    """Yield the option by each of its names with a sample, and by the first with every attack that it lets through."""
    sample = next((samples[each] for each in option.names if each in samples), None)
    for spelling in option.names:
        shown = "-5" if spelling == "-NUM" else spelling
        if option.arity in {"", "?", "#"}:
            yield _trial(name, data, program, shown, None)
        if option.arity:
            fitting = sample or next((each for each in SAMPLES if _fits(option, each)), None)
            yield from () if fitting is None else [_trial(name, data, program, shown, fitting)]
    if option.arity in {"=", "?"}:
        yield from (_trial(name, data, program, option.names[-1], each) for each in attacks if _fits(option, each))


def _fits(option: Option, value: str) -> bool:
    return option.values is None or bool(option.values.fullmatch(value))


def _trial(name: str, data: CommandData, program: str, option: str, value: str | None) -> Trial:
    line = shlex.split((data.trial or "").replace("{address}", ADDRESS))

    def filled(*words: str) -> tuple[str, ...]:
        argv = tuple(each for word in line for each in (words if word == "{option}" else (word,)))
        return (program, *argv[1:])

    effects = frozenset(data.effects)
    if not option or value is None:
        return Trial(name, option, value, filled(*([option] if option else [])), effects)
    short = len(option) == len("-x") and data.style != "one-dash"
    attached = f"{option}{value}" if short else f"{option}={value}"
    return Trial(name, option, value, filled(attached), effects, filled(option, value))
