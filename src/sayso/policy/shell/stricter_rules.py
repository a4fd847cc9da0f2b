"""Stricter rules: the rules that ask or block, and the commands of a line that may match one of them.

Tests: tests/policy/shell/test_option_matching.py
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from sayso.policy.shell.block_scan import scan_commands
from sayso.policy.shell.inner_commands import plain_commands
from sayso.policy.shell.lexer import Part
from sayso.policy.shell.option_matching import LooseRule, loosen, may_match
from sayso.policy.shell.rules import ShellRule
from sayso.policy.shell.spellings import canonical_name
from sayso.policy.shell.wrappers import Argv

_GLOB = re.compile(r"[*?\[]")
_LONGEST_GLOB = 60


class StricterRules:
    """Rules that ask or block, by program."""

    def __init__(self, rules: Sequence[ShellRule]) -> None:
        self.blocks = any(each.approval == "blocked" for each in rules)
        self._rules: dict[str, list[tuple[LooseRule, ShellRule]]] = {}
        for each in rules:
            if each.approval != "none":
                loose = loosen(each.words)
                self._rules.setdefault(loose.program, []).append((loose, each))

    def suspect(self, line: str, parts: Sequence[Part]) -> Iterator[tuple[Argv, ShellRule]]:
        """Yield the commands of a line that may match such a rule; `parts` are those that are proven.

        Raises:
            TooComplex: the line might run anything.
        """
        for argv in self._commands(line, parts):
            yield from self._matching(argv)
        for part in parts if self._rules else ():
            read = tuple(each.target for each in part.redirects if not each.writes and each.operator == "<")
            if part.argv and read:  # `cat < .env` is `cat .env`
                yield from ((part.argv, rule) for _, rule in self._matching((*part.argv, *read)))

    def _matching(self, argv: Argv) -> Iterator[tuple[Argv, ShellRule]]:
        named = canonical_name(argv)
        yield from ((argv, rule) for loose, rule in self._about(named[0]) if may_match(loose, named))

    def _commands(self, line: str, parts: Sequence[Part]) -> Iterable[Argv]:
        """Return the commands that a line may run; where nothing is blocked, a proof that they are plain is enough."""
        if not self._rules:
            return ()
        if self.blocks or not parts:
            return scan_commands(line)
        found = [plain_commands(part.argv) for part in parts if part.argv]
        plain = [each for each in found if each is not None]
        return chain.from_iterable(plain) if len(plain) == len(found) else scan_commands(line)

    def _about(self, name: str) -> list[tuple[LooseRule, ShellRule]]:
        """Return the rules about a program; its name may be a glob."""
        if not _GLOB.search(name):
            return self._rules.get(name, [])
        pattern = "*" if len(name) > _LONGEST_GLOB or "[:" in name else name.replace("[^", "[!")
        known = [some for each, some in self._rules.items() if fnmatch.fnmatchcase(each, pattern)]
        return [each for some in known for each in some]
