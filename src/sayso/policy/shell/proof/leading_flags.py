"""Leading flags: harmless options in front of what a rule names, which matching skips.

Tests: tests/policy/shell/proof/test_profile.py
"""

from __future__ import annotations

from sayso.policy.shell.proof.catalogue import find_command
from sayso.policy.shell.proof.profile import CommandProfile, is_option, split_word
from sayso.policy.shell.wrappers import WRAPPERS, Argv, name_of


def without_leading_flags(argv: Argv) -> Argv:
    """Return the command without harmless flags in front: `ip -4 addr` is `ip addr`, `mvn -q test` is `mvn test`."""
    command, at = find_command(argv[0]), 1
    if command is None or command.language or command.why or name_of(argv) in WRAPPERS:
        return argv
    while at < len(argv) and is_option(argv[at]) and _are_flags(command, argv[at]):
        at += 1
    return (argv[0], *argv[at:])


def _are_flags(command: CommandProfile, word: str) -> bool:
    """Whether the word holds only harmless options that take no value, wherever they work."""
    options = [command.option(name) for name, _ in split_word(command, word) or ()]
    plain = (each is not None and not each.arity and not each.why and not each.target for each in options)
    return bool(options) and all(plain)
