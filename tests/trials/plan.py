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

# What an attacker would give as a value; tried wherever the profile calls it harmless. Whoever runs one of them, loads
# it or writes to it leaves a file behind, or starts a program.
ATTACKS = (
    "|touch pwned", "!touch pwned", "$(touch pwned)", "`touch pwned`", "x;touch pwned", "x\ntouch pwned", "pwned.txt",
    "@in.txt", "file://in.txt", "http://127.0.0.1:9/", "ext::touch pwned", "./pwned/", "%output{pwned}", "sh",
    "evil", "./evil.sh", "./evil.js", "evil.py", "./evil.so", "evil.rb", "../home/pwned", "127.0.0.1:9",
)  # fmt: skip
# Fewer, for options that only the program's own help knows: there are many of them.
HELP_ATTACKS = ("|touch pwned", "$(touch pwned)", "pwned.txt", "@in.txt", "http://127.0.0.1:9/", "sh", "./evil.sh")
# And for the second and further commands of one description, whose options mean the same as those of the first.
AGAIN_ATTACKS = ("|touch pwned", "pwned.txt", "./evil.sh", "http://127.0.0.1:9/")
SAMPLES = ("1", "in.txt", "x", "all", "json", "text", "auto", "true", "localhost")  # where a profile gives none


class Trial(NamedTuple):
    """One run: the command it belongs to, the option (nothing: the bare line), the value, and the words."""

    command: str
    option: str
    value: str | None
    argv: tuple[str, ...]
    effects: frozenset[str]


def plan(profile: ProfileData, program: str, help_of: Callable[[str], str] = lambda _: "") -> Iterator[list[Trial]]:
    """Yield the trials of each command that has a line for it: first the bare line, then each option.

    Of a command with `harmless = "any"`, the options are those that its help names; of a program whose arguments are a
    language that is read by code, those of them that the judge would let run.
    """
    for name, data, command, again in _commands(profile, program, None):
        if data.trial is None:
            continue
        samples = {name: text for names, text in data.samples.items() for name in names.replace(",", " ").split()}
        options = {each.names: each for each in command.options.values() if each.why is None}
        trials = [_trial(name, data, program, "", None)]
        for option in options.values():
            trials += _option_trials(name, data, program, option, samples, attacks=AGAIN_ATTACKS if again else ATTACKS)
        if data.harmless == "any" or data.language:
            helped = [
                trial
                for option in options_in_help(help_of(name), frozenset(command.options))
                for trial in _option_trials(name, data, program, option, samples, attacks=HELP_ATTACKS)
            ]
            trials += [each for each in helped if not data.language or _runs_unasked(each.argv)]
        yield list(dict.fromkeys(trials))


def _runs_unasked(argv: tuple[str, ...]) -> bool:
    """Whether a rule for the program alone lets it run with these arguments."""
    return find_doubt(argv, Coverage(1)) is None


def _commands(
    data: CommandData, name: str, above: CommandProfile | None, *, again: bool = False
) -> Iterator[tuple[str, CommandData, CommandProfile, bool]]:
    """Yield each command; those with one description have one line, in which the name of the first is replaced."""
    command = compile_command(data, above)
    yield name, data, command, again
    for names, sub in data.commands.items():
        first, *others = (each.strip() for each in names.split(","))
        yield from _commands(sub, f"{name} {first}", command, again=again)
        for other in others if sub.trial else ():
            words = [other if word == first else word for word in (sub.trial or "").split(" ")]
            same = msgspec.structs.replace(sub, trial=" ".join(words), commands={})
            yield from _commands(same, f"{name} {other}", command, again=True)


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
    words = (
        ()
        if not option
        else (option,)
        if value is None
        else (f"{option}={value}",)
        if option[:2] == "--"
        else (f"{option}{value}",)
    )
    if value is not None and data.style == "one-dash":
        words = (f"{option}={value}",)
    line = shlex.split((data.trial or "").replace("{address}", ADDRESS))
    argv = tuple(each for word in line for each in (words if word == "{option}" else (word,)))
    return Trial(name, option, value, (program, *argv[1:]), frozenset(data.effects))
