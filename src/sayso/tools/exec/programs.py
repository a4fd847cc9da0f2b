"""Program lookup: resolves the executables and scripts that a shell line starts, before it runs.

Tests: tests/tools/test_shell.py
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sayso.errors import ToolError
from sayso.policy.shell.inner_commands import with_inner_commands
from sayso.policy.shell.lexer import Part
from sayso.policy.shell.wrappers import name_of
from sayso.tools.exec import processes

# After these, the name of a program can mean another one than before.
_UNSETTLING = frozenset((
    "cd", "pushd", "popd", "hash", "alias", "unalias", "enable", "source", ".", "eval", "exec", "export", "set",
    "shopt", "unset", "declare", "typeset", "readonly", "local", "function",
))  # fmt: skip
# The code of these is in a file from their arguments.
_INTERPRETERS = (
    "bash", "sh", "dash", "zsh", "ksh", "python", "node", "deno", "bun", "perl", "ruby", "php", "lua", "rscript", "awk",
    "gawk", "make", "tclsh",
)  # fmt: skip


class Programs(NamedTuple):
    """Programs of a line: the executables found, the scripts they run, and whether the list is complete."""

    first: str | None
    found: tuple[str, ...]
    scripts: tuple[str, ...]
    all_known: bool

    @classmethod
    def from_parts(cls, parts: Iterable[Part] | None, folder: str, path: str) -> Programs:
        """Look up the programs of a line's commands; `parts` is None if the commands are not provable."""
        given = [part.argv for part in parts or () if part.argv]
        if parts is None or any(argv[0] in _UNSETTLING for argv in given):
            return cls(None, (), (), all_known=False)
        commands = [argv for each in given for argv in (each, *with_inner_commands(each))]
        programs = [_find_command(argv[0], folder, path) for argv in commands]
        found = tuple(dict.fromkeys(each for each in programs if each is not None))
        scripts = tuple(dict.fromkeys(each for argv in commands for each in _scripts(argv, folder)))
        first = programs[0] if programs else None
        return cls(first, found, scripts, all_known=None not in programs)

    def identities(self, program: str) -> list[str]:
        """Return the identity (path, inode, size, times) of each file, which changes with the file."""
        return [_identity(each) for each in (program, *self.found, *self.scripts)]


def _find_command(name: str, folder: str, path: str) -> str | None:
    if "/" in name and not name.startswith("/"):
        name = f"{folder}/{name}"
    return processes.find_program(name, path)


def _scripts(argv: tuple[str, ...], folder: str) -> Iterator[str]:
    if not name_of(argv).lower().rstrip("0123456789.").startswith(_INTERPRETERS):
        return
    for word in argv[1:]:
        path = word if word.startswith("/") else f"{folder}/{word}"
        try:
            if stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a text
                yield path
        except (OSError, ValueError):
            continue  # an option, or another word that is not a file


def _identity(path: str) -> str:
    try:
        facts = os.stat(path)  # noqa: PTH116 - a text
    except OSError as error:
        raise ToolError(f"{path!r} cannot be run: {error.strerror}") from error
    return f"{path}:{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"
