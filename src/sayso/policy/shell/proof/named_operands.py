"""Named operands: what a rule itself names, and whether that is all that its command may change.

Tests: tests/policy/shell/proof/test_named_operands.py
"""

from __future__ import annotations

from sayso.policy.shell.proof.profile import CommandProfile
from sayso.policy.shell.wrappers import word_set

# What they stand before is changed, whatever the program: what no profile describes is read so.
_ENDS = word_set("delete destroy drop erase kill purge remove reset restart rm stop terminate uninstall wipe")


class NamedOperands:
    """Operands among the words of a rule; a rule that names what to change names all of it."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.changes = False  # the rule itself says an option or a verb that changes something: `--fix`, `delete`
        self._count = 0

    def add(self, word: str, command: CommandProfile) -> None:
        """Add an operand of the rule; `pod/web` of kubectl counts as `pod web` does."""
        self.last = word
        self._count += 1 + word.count("/")
        self.note_verb(word, command)

    def note_verb(self, word: str, command: CommandProfile) -> None:
        """Note a verb of a program that no profile describes: what is named begins behind it."""
        if not command.described and word in _ENDS:
            self.changes, self._count = True, 0

    def are_all(self, command: CommandProfile) -> bool:
        """Whether nothing else may be named."""
        changes = self.changes or bool(command.once or command.why)
        return changes and 0 < command.once_from <= self._count
