"""The programs that a shell line starts, as far as they can be told before it runs."""

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
# What these do is in a file that they are given.
_INTERPRETERS = (
    "bash", "sh", "dash", "zsh", "ksh", "python", "node", "deno", "bun", "perl", "ruby", "php", "lua", "rscript", "awk",
    "gawk", "make", "tclsh",
)  # fmt: skip


class Programs(NamedTuple):
    """What a line starts: the programs that could be found, the scripts they are given, and whether that is all."""

    first: str | None
    found: tuple[str, ...]
    scripts: tuple[str, ...]
    all_known: bool

    @classmethod
    def from_parts(cls, parts: Iterable[Part] | None, folder: str, path: str) -> Programs:
        """Look up what the commands of a line start; no parts, if nobody can say what those are."""
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
        """Return what is true of the files of these programs until somebody changes one of them."""
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
            continue  # an option, or something else that is no file


def _identity(path: str) -> str:
    try:
        facts = os.stat(path)  # noqa: PTH116 - a text
    except OSError as error:
        raise ToolError(f"{path!r} cannot be run: {error.strerror}") from error
    return f"{path}:{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"
