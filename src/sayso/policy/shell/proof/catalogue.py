"""Catalogue of the profiles: finds the file of a program by its name, and compiles it when it is first needed.

Tests: tests/policy/shell/proof/test_profile.py
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Generator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec

from sayso.policy.shell.proof.profile import (
    CommandData,
    CommandProfile,
    ProfileData,
    ProfileError,
    compile_command,
    parse_profile,
)

_PROGRAMS = re.compile(r'programs = \[("[^"]+"(?:, "[^"]+")*)\]')
# A program that no profile describes: these options have one meaning everywhere.
UNKNOWN = msgspec.structs.replace(
    compile_command(CommandData(harmless="--verbose --quiet --silent --no-color --color?")), described=False
)
_PROJECT_SCRIPTS = frozenset({"gradlew", "mvnw"})  # that every project with these tools has
_VERSION = re.compile(r"(?<=[a-z])-?[0-9]+(?:\.\d+)*$")


def unknown_below(command: CommandProfile) -> CommandProfile:
    """Return the description of a sub-command that the profile does not know: what is harmless everywhere still is."""
    return msgspec.structs.replace(
        UNKNOWN,
        options={**UNKNOWN.options, **command.everywhere},
        everywhere=command.everywhere,
        one_dash=command.one_dash,
    )


@functools.cache
def profile_files() -> Mapping[str, Traversable]:
    """Return the file of each program. Only the first lines are read, which name the programs: there are many files."""
    found: dict[str, Traversable] = {}
    for family in resources.files("sayso.policy.shell").joinpath("profiles").iterdir():
        for file in family.iterdir() if family.is_dir() else ():
            if file.name.endswith(".toml"):
                with file.open(encoding="utf-8") as lines:
                    match = _PROGRAMS.match(next(lines, ""))
                found.update((name, file) for name in (match[1].replace('"', "").split(", ") if match else ()))
    return found


def program_name(name: str) -> str:
    """Return the name of the program in the catalogue: without a folder, a version, or the package of a runner."""
    folder, slash, last = name.rpartition("/")
    if slash and not folder.endswith("bin") and not folder.startswith("@") and last not in _PROJECT_SCRIPTS:
        return name  # a program of the project's own, whatever it is called
    plain = last.partition("@")[0]
    files = profile_files()
    return plain if plain in files else _VERSION.sub("", plain)


@functools.cache
def compiled_profile(file: Traversable) -> CommandProfile:
    """Return the compiled profile of a file; raises `ProfileError`, which names the file."""
    data = read_profile(file)
    with _naming(file):
        return compile_command(data)


@functools.cache
def read_profile(file: Traversable) -> ProfileData:
    """Return the data of a profile file; raises `ProfileError`, which names the file."""
    with _naming(file):
        return parse_profile(file.read_text(encoding="utf-8"))


@contextlib.contextmanager
def _naming(file: Traversable) -> Generator[None]:
    try:
        yield
    except (ProfileError, UnicodeDecodeError) as error:
        raise ProfileError(f"the profile {file.name} is malformed: {error}") from error


@functools.lru_cache(maxsize=1024)
def find_command(name: str) -> CommandProfile | None:
    """Return the compiled profile of the program, if there is one."""
    file = profile_files().get(program_name(name))
    command = None if file is None else compiled_profile(file)
    own = command is not None and "/" in name and not name.startswith("/")  # `bin/test` is a script of the project
    return None if own and command is not None and (command.every_option or command.language) else command
