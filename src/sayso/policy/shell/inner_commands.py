"""Inner commands: over-approximates the commands that a command may run in turn, to find stricter rules only.

The tables of `wrappers` know exactly where an inner command begins; here every possible beginning counts.

Tests: tests/policy/shell/test_block_scan.py
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice, pairwise

from sayso.policy.shell.proof.runners import innermost_named
from sayso.policy.shell.quoting import MARK
from sayso.policy.shell.wrappers import (
    BUILTINS,
    LONGEST_PATTERN,
    SHELLS,
    WRAPPERS,
    Argv,
    UnknownOption,
    name_of,
    runs_others,
    wrapped_commands,
)

_DEEPEST = 8
_LONGEST = 100  # words kept of a possible command; a rule is far shorter, even with some options before it
_MOST_SPLIT = 2
_SPLIT_STRING = re.compile(r"-[A-Za-z0]*S|--s[a-z-]*=")
_BLANK = re.compile(r"\s")
_MAY_BE_SCRIPT = re.compile(r"[\s(`\ue001]")
_GIT_SHELL = re.compile(r"(?:[^=]*=)?!(.*)", re.DOTALL)
_LOADERS = ("ld-linux", "ld-musl", "ld.so")
# A command may begin at any word behind these.
_RUNS_SUFFIX = frozenset({
    "strace", "ltrace", "unshare", "taskset", "prlimit", "setarch", "linux32", "linux64", "chrt", "choom", "setpriv",
    "nsenter", "start-stop-daemon", "jobs", "chroot", "runcon", "pkexec", "gosu", "su-exec", "dbus-run-session",
})  # fmt: skip
# A command begins behind these, their options (whose arity is unknown here) and this number of operands.
_RUNS_BEHIND: dict[int, str] = {
    0: (
        "busybox, toybox, ssh-agent, fakeroot, valgrind, systemd-run, run0, torsocks, torify, proxychains, "
        "proxychains4, npx, pnpx, bunx, uvx, uv run, uv tool run, pipx run, poetry run, pdm run, hatch run, conda run, "
        "npm exec, pnpm exec, pnpm dlx, yarn exec, yarn dlx, bundle exec, perf stat, perf record, perf trace, "
        "git bisect run, xvfb-run, firejail, bwrap, rlwrap, unbuffer, entr, watch, parallel, chronic, eatmydata, "
        "numactl, cpulimit, tini, dumb-init"
    ),
    1: (
        "flock, ssh, docker exec, docker run, docker container exec, docker compose exec, docker compose run, "
        "podman exec, podman run, kubectl exec, oc exec, direnv exec, faketime, lxc exec"
    ),
}
# Their most used options without a value: the word behind one of these is an operand.
_FLAGS: dict[str, frozenset[str]] = {
    "docker": frozenset({"-i", "-t", "-it", "-ti", "-d", "--rm", "--init", "--privileged"}),
    "podman": frozenset({"-i", "-t", "-it", "-ti", "-d", "--rm", "--init", "--privileged"}),
    "kubectl": frozenset({"-i", "-t", "-it", "-ti"}),
    "npx": frozenset({"-y", "--yes", "--no", "--no-install"}),
    "uv": frozenset({"--frozen", "--locked", "--no-sync", "--isolated", "-q", "--quiet"}),
    "systemd-run": frozenset({"--user", "--scope", "--wait", "--pipe", "--pty", "-t", "-P", "-q"}),
}
# A script begins behind these, their options and a number of operands: at least, at most.
_TAKES_SCRIPT = {
    "ssh": (1, 1),
    "watch": (0, 0),
    "parallel": (0, 0),
    "entr": (0, 0),
    "trap": (0, 0),
    "su": (0, 1),
    "runuser": (0, 1),
    "script": (0, 1),
    "flock": (0, 1),
    "sg": (1, 1),
}
_CALLS = frozenset({"npx", "pnpx", "npm", "pnpm", "yarn", "bunx", "nix-shell", "nix", "devbox", "mise"})
_CALL_OPTIONS = frozenset({"-c", "--call", "--run", "--command", "--shell-mode"})  # their value is a script
_EXECUTES = frozenset({"-x", "--exec", "-X", "--exec-batch"})  # of fd


def _by_program() -> dict[str, list[tuple[list[str], int]]]:
    """Return the sub-commands of each program, with the number of operands before the inner command."""
    programs: dict[str, list[tuple[list[str], int]]] = {}
    for operands, names in _RUNS_BEHIND.items():
        for words in names.split(", "):
            name, *path = words.split()
            programs.setdefault(name, []).append((path, operands))
    return programs


_BEHIND = _by_program()
# Every name that this module knows.
_RUNS_OTHERS = frozenset({
    *WRAPPERS, *SHELLS, *BUILTINS, *_RUNS_SUFFIX, *_BEHIND, *_TAKES_SCRIPT, *_CALLS, "find", "fd", "fdfind", "git",
    "eval", "source", ".", "at", "batch", "test", "[", "[[",
})  # fmt: skip
_ORDINARY = re.compile(r"(?!ld-|ld\.|python)[\w.+-]+")
_GIT_RUNNERS = frozenset({"rebase", "filter-branch", "submodule", "bisect"})


def with_inner_commands(argv: Argv) -> list[Argv]:
    """Return this command and every command that it may run."""
    found: list[Argv] = []
    waiting = [argv]
    while waiting:
        each = waiting.pop()
        if not each:
            continue
        found.append(each)
        inside = _direct_inner_commands(each)
        if inside is None or (inside and len(found) > _DEEPEST):
            return [*found, *any_suffix(argv)]
        waiting += inside
    return found


def runs_only_itself(argv: Argv) -> bool:
    """Whether the command runs no other one, and no script."""
    name = name_of(argv)
    if name not in _RUNS_OTHERS and _ORDINARY.fullmatch(name):
        return innermost_named(argv) == argv
    if name == "git":
        return not any("!" in word or word in _GIT_RUNNERS for word in argv)
    return with_inner_commands(argv) == [argv] and not (is_shell(argv) or reads_input(argv) or scripts_in(argv))


def plain_commands(argv: Argv) -> list[Argv] | None:
    """Return this command and those that it runs, if these run nothing in turn; None if it takes a closer look."""
    if runs_only_itself(argv):
        return [argv]
    if is_shell(argv) or reads_input(argv) or scripts_in(argv):
        return None
    found = with_inner_commands(argv)
    return found if all(map(runs_only_itself, found[1:])) else None


def _direct_inner_commands(argv: Argv) -> list[Argv] | None:
    """Return the commands that this one runs directly; None if their beginning is unknown."""
    name = name_of(argv)
    if name in _RUNS_SUFFIX:
        return None
    if name.startswith(_LOADERS):
        return [argv[at : at + _LONGEST] for at in _possible_starts(argv, 0, 0)]
    if name.startswith("python"):
        return [argv[at:] for at in islice(_module_starts(argv), 1)]
    if name in {"fd", "fdfind"}:
        return [argv[at + 1 :] for at in islice((at for at, word in enumerate(argv) if word in _EXECUTES), 1)]
    if name in _BEHIND:
        flags = _FLAGS.get(name, frozenset())
        return [each for path, operands in _BEHIND[name] for each in _commands_behind(argv, path, operands, flags)]
    try:
        inside = [command.argv for command in wrapped_commands(argv)]
    except UnknownOption:
        return None
    named = innermost_named(argv)  # of a runner that only its profile knows
    return [*inside, named] if named != argv and named not in inside else inside


def any_suffix(argv: Argv) -> list[Argv]:
    """Return every proper suffix of these words."""
    return [argv[at : at + _LONGEST] for at in range(1, len(argv))]


def _commands_behind(argv: Argv, path: list[str], operands: int, flags: frozenset[str]) -> Iterator[Argv]:
    """Yield every possible inner command behind a sub-command and its operands."""
    if not path:
        yield from (argv[at : at + _LONGEST] for at in _possible_starts(argv, operands, operands, flags))
        return
    at = next((at for at in _possible_starts(argv, 0, 0) if argv[at] == path[0]), None)
    if at is not None:
        yield from _commands_behind(argv[at:], path[1:], operands, flags)


def own_length(argv: Argv, subcommand: Argv) -> int:
    """Return how many words may belong to the command itself, if it is such a sub-command and runs another command."""
    name = name_of(argv)
    operands = next((count for path, count in _BEHIND.get(name, ()) if tuple(path) == subcommand), None)
    if operands is None or len(argv) > _LONGEST:
        return len(argv)
    inside = _commands_behind(argv, list(subcommand), operands, _FLAGS.get(name, frozenset()))
    return len(argv) - min(map(len, inside), default=0)


def _possible_starts(argv: Argv, least: int, most: int, flags: frozenset[str] = frozenset()) -> Iterator[int]:
    """Yield the suffixes that may follow this number of operands: a word behind an option may be its value."""
    certain = possible = 0
    for at in range(1, len(argv)):
        if argv[at].startswith("-"):
            continue
        if possible >= least:
            yield at
        before = argv[at - 1]
        valued = at > 1 and before.startswith("-") and before != "--" and "=" not in before and before not in flags
        possible += 1
        certain += not valued
        if certain > most:
            return


def _module_starts(argv: Argv) -> Iterator[int]:
    """Yield where the name of a module stands: `python3 -I -m pip install` runs pip."""
    for at, (before, word) in enumerate(pairwise(argv[:-1]), start=2):
        if word == "-c" or not (word.startswith("-") or before in {"-W", "-X"}):
            return
        if not word.startswith("--") and word.endswith("m"):
            yield at


def reads_input(argv: Argv) -> bool:
    """Whether a shell reads its script from standard input or from a substitution."""
    name, rest = name_of(argv), argv[1:]
    if name in {"source", ".", "eval", "at", "batch"}:
        return True
    if name == "xargs":
        return any(runs_others((word,)) for word in rest)
    if not is_shell(argv):
        return False
    dynamic = any("$" in word or "`" in word for word in rest)
    return dynamic or all(word.startswith("-") or "/dev/" in word for word in rest)


def is_shell(argv: Argv) -> bool:
    """Whether this is a shell, or may be one: its name is computed, and it has `-c`."""
    return name_of(argv) in SHELLS or (bool(re.search(r"[$`*?\[]", argv[0])) and "-c" in argv)


def runs_file(argv: Argv, files: Collection[str]) -> bool:
    """Whether the command is one of these files, or a shell that runs one."""
    if name_of(argv) in SHELLS:
        operand = next((word for word in argv[1:] if not word.startswith("-")), "")
        return operand.rpartition("/")[2] in files
    return "/" in argv[0] and name_of(argv) in files


def scripts_in(argv: Argv) -> list[str]:
    """Return every argument that a shell may evaluate as a script."""
    name, rest = name_of(argv), argv[1:]
    if name == "eval":
        return [" ".join(rest)]
    if is_shell(argv):
        given = any(word.startswith("-") and "c" in word for word in rest)  # else the first word is a file
        return [word for word in rest if not word.startswith("-") or " " in word] if given else []
    if name == "env":
        return list(islice(_split_strings(rest), _MOST_SPLIT))
    if name == "git":
        return list(_git_scripts(argv))
    if name in _CALLS:
        return [value for option, value in pairwise(_split_values(rest)) if option in _CALL_OPTIONS]
    if name in {"test", "[", "[[", "printf"}:
        return [word for word in rest if "[" in word and MARK.search(word)]  # an index
    if name in _TAKES_SCRIPT:
        starts = _possible_starts(argv, *_TAKES_SCRIPT[name])
        joined = [" ".join(argv[at : at + _LONGEST]) for at in starts]
        return [word for word in rest if _BLANK.search(word)] + joined
    return _builtin_scripts(argv) if name in BUILTINS else []


def _split_values(words: Argv) -> Iterator[str]:
    """Yield the words, with the values of `--call=TEXT` as words of their own."""
    for word in words:
        yield from word.split("=", 1) if word.startswith("--") else (word,)


def _split_strings(words: Argv) -> Iterator[str]:
    """Yield the strings that `env -S` splits into a command."""
    for at, word in enumerate(words):
        if _SPLIT_STRING.match(word):
            following = words[at + 1 : at + LONGEST_PATTERN]
            yield _SPLIT_STRING.sub("", " ".join((word, *following))).replace("\\_", " ")


def _git_scripts(argv: Argv) -> Iterator[str]:
    """Yield the scripts that git passes to a shell: aliases, and commands for each commit or submodule."""
    yield from (match[1] for word in argv if (match := _GIT_SHELL.fullmatch(word)))
    for at in _possible_starts(argv, 0, 0):
        if argv[at] in {"rebase", "filter-branch"}:
            yield from (word for word in argv[at:] if _BLANK.search(word))
        elif argv[at] == "submodule" and "foreach" in argv:
            yield " ".join(argv[argv.index("foreach") + 1 :])


def _builtin_scripts(argv: Argv) -> list[str]:
    """Return the texts that a builtin evaluates: an index, and the callbacks of `compgen`, `complete` and `mapfile`."""
    scripts = [word for word in argv[1:] if _MAY_BE_SCRIPT.search(word)]
    for option, value in pairwise((*argv[1:], "")):
        if option.startswith("-") and "C" in option:
            scripts.append(option.partition("C")[2] or value)
    return scripts
