"""Runners: the command that another one runs by its name (`uv run`, `python -m`, `docker exec`), as the profiles say.

Tests: tests/policy/shell/proof/test_runners.py
"""

from __future__ import annotations

from sayso.policy.shell.proof.catalogue import find_command
from sayso.policy.shell.proof.profile import CommandProfile, is_option
from sayso.policy.shell.wrappers import Argv


def innermost_named(argv: Argv) -> Argv:
    """Return the command that runners run by its name; this one if it is no runner."""
    inside = _named_by_runner(argv)
    while inside:
        argv, inside = inside, _named_by_runner(inside)
    return argv


def runs_anything(words: Argv) -> bool:
    """Whether these words of a rule end before the name of the program that they run."""
    command, rest = _enter(words)
    return command is not None and command.runs is not None and not rest[command.runs :]


def _named_by_runner(argv: Argv) -> Argv:
    command = find_command(argv[0])
    if command is None or not command.names_others:
        return ()
    for at, word in enumerate(argv[1:], start=1):
        if word[:2] in command.runs_option:
            return tuple(each for each in (word[2:], *argv[at + 1 :]) if each)
    command, rest = _enter(argv)
    return () if command is None or command.runs is None else rest[command.runs :]


def named_words(argv: Argv) -> Argv:
    """Return the sub-commands and operands of a command, without its options and their values."""
    found: list[str] = []
    command, at = find_command(argv[0]), 1
    while at < len(argv):
        word = argv[at]
        at += 1
        if is_option(word):
            option = command.option(word.partition("=")[0]) if command is not None else None
            at += 1 if option is not None and option.arity == "=" and "=" not in word else 0
        else:
            found.append(word)
            command = command.commands.get(word, command) if command is not None else None
    return tuple(found)


def _enter(argv: Argv) -> tuple[CommandProfile | None, Argv]:
    """Return the innermost sub-command that these words name, and its operands with what follows them."""
    command = find_command(argv[0])
    at = 1
    while command is not None and at < len(argv):
        word = argv[at]
        if is_option(word):
            option = command.option(word.partition("=")[0])
            at += 2 if option is not None and option.arity == "=" and "=" not in word else 1
        elif word in command.commands:
            command, at = command.commands[word], at + 1
        else:
            break
    return command, argv[at:]
