"""Obeyed files: the files in its folder that a program runs, so that writing one changes what an allowed line does.

These files are ordinary work and stay writable, unlike the protected names; `sayso check` warns where rules and zones
allow both unasked. Which they are stands in the profiles (`obeys`).

Tests: tests/cli/test_obeyed_files.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sayso.policy.shell.proof.catalogue import find_command, profile_files, program_name, read_profile
from sayso.policy.shell.proof.profile import compile_obeys, is_option
from sayso.policy.shell.proof.runners import innermost_named, named_words
from sayso.policy.shell.spellings import GOALS
from sayso.policy.shell.wrappers import SHELLS, Argv, name_of

_RUNS_SCRIPTS = SHELLS | {
    *("python", "pypy", "node", "nodejs", "bun", "perl", "ruby", "php", "lua", "luajit", "tclsh", "Rscript", "julia"),
    *("pwsh", "source", ".", "tsx", "ts-node", "ts-node-esm", "ts-node-script", "nodemon", "elixir", "groovy"),
    *("osascript", "expect", "wish", "runghc", "ipython"),
}
_RUNS_NOTHING = frozenset({"--version", "--help", "-h", "-V", "--info"})
_TELLS = frozenset({"help", "version"})  # sub-commands of most programs, and goals of some
_VERSION = re.compile(r"[\d.]+$")
_SHELL_CODE = re.compile(r"-[a-z]*c")
_CODE = re.compile(r"-[cepErm]|--eval|--print")
_SCRIPT = re.compile(r"(?:\./)?(\w[\w./-]*)")


def obeyed_files(pattern: Argv) -> Iterator[str]:
    """Yield the files, relative to the folder of a line, that commands with this prefix run, as far as is known.

    A name behind `**/` counts in every folder below.
    """
    if not _RUNS_NOTHING.isdisjoint(pattern):
        return
    named = innermost_named(pattern)
    commands = dict.fromkeys((named, pattern))  # `bash run.sh` names the script that it runs
    yield from (each for command in commands for each in _scripts(command))
    yield from _by_profile(named)
    yield from _modules(pattern, named)
    yield from _by_profile(pattern) if named != pattern else ()


def _scripts(named: Argv) -> Iterator[str]:
    """Yield the script that a command names itself: `./run.sh`, `python -u build.py`."""
    script = _SCRIPT.fullmatch(next(_named_scripts(named), ""))
    if script:
        yield script[1]


def _named_scripts(named: Argv) -> Iterator[str]:
    if not named:
        return
    if "/" in named[0]:
        yield named[0]
    elif _VERSION.sub("", name_of(named)) in _RUNS_SCRIPTS or named[0] == ".":
        takes_code = _SHELL_CODE if name_of(named) in SHELLS else _CODE
        command = find_command(named[0])
        words = () if any(map(takes_code.fullmatch, named)) else named_words(named)[:1]
        yield from words if command is None or not words or words[0] not in command.commands else ()


def _modules(pattern: Argv, named: Argv) -> Iterator[str]:
    """Yield the file that stands in for a module: `python -m json.tool` looks for `json.py` in the folder first."""
    if named and named != pattern and _VERSION.sub("", name_of(pattern)) in {"python", "pypy"}:
        yield f"{named[0].partition('.')[0]}.py"


def _by_profile(pattern: Argv) -> Iterator[str]:
    """Yield the files of each sub-command that fits, as far as both go: `npm` allows `npm test` too."""
    file = profile_files().get(program_name(pattern[0])) if pattern else None
    if file is None:
        return
    words, name = named_words(pattern), program_name(pattern[0]).rpartition("/")[2]
    tells = name not in GOALS and not _TELLS.isdisjoint(words[:1])
    for obeyed, program, path in compile_obeys(read_profile(file)):
        if program in {None, name} and _fits(path, words, pattern) and (path or not tells):
            yield obeyed


def _fits(path: Argv, words: Argv, pattern: Argv) -> bool:
    """Whether these may be the sub-command and the options of the pattern."""
    options = list(filter(is_option, path))
    names = (word for word in path if word not in options)
    return set(options) <= {*pattern} and all(a == b for a, b in zip(names, words, strict=False))
