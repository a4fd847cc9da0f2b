"""Wrapper programs (`sudo`, `env`, `xargs` …): tables of their options locate the wrapped command exactly.

Tests: tests/policy/shell/test_judge.py
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

Argv = tuple[str, ...]

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh", "yash"})
# Builtins that change the shell for later commands, or evaluate the index of a variable.
BUILTINS = frozenset({
    "alias", "unalias", "bind", "compgen", "complete", "compopt", "declare", "typeset", "local", "export", "readonly",
    "enable", "getopts", "hash", "jobs", "let", "mapfile", "readarray", "read", "set", "shopt", "trap", "ulimit",
    "umask", "unset", "wait", "pushd", "popd", "fg", "bg", "disown", "history", "fc",
})  # fmt: skip
INTERPRETERS = frozenset({
    "python", "python2", "python3", "node", "nodejs", "deno", "bun", "perl", "ruby", "php", "lua", "luajit", "tclsh",
    "expect", "awk", "gawk", "mawk", "nawk", "osascript", "Rscript", "julia", "java", "pwsh", "powershell", "vim", "vi",
    "nvim", "ex", "ed", "emacs", "gdb", "lldb", "sqlite3", "mysql", "psql", "eval", "source", ".", "trap", "alias",
})  # fmt: skip
RUNNERS = frozenset({
    "npx", "pnpx", "bunx", "uvx", "pipx", "uv", "npm", "pnpm", "yarn", "make", "just", "task", "docker", "podman",
    "kubectl", "ssh", "parallel", "watch", "script", "su", "runuser", "flock", "chroot", "unshare", "nsenter", "strace",
    "ltrace", "entr", "at", "batch", "crontab", "systemd-run", "busybox", "toybox", "xvfb-run", "firejail", "bwrap",
    "setpriv", "sg", "rlwrap", "unbuffer", "poetry", "hatch", "tox", "nox", "cargo", "go", "dotnet", "mvn", "gradle",
})  # fmt: skip

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
LONGEST_PATTERN = 30  # words of a rule


class UnknownOption(ValueError):
    """Error: the table does not know an option of a wrapper, so the wrapped command is unknown."""


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """Option table of a wrapper: flags, options with a value, and the number of operands before the command."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    queries: frozenset[str] = frozenset()  # options with which it runs nothing
    first: int = 0
    assigns: bool = False  # NAME=value before the command
    adds: bool = False  # it appends further arguments to the command


_PLACEHOLDERS = frozenset({"{}", "%", "@"})  # placeholders that no word of a rule contains


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


WRAPPERS: dict[str, Wrapper] = {
    # Without its variables a program may obey other files, as git does without the settings of `ShellTool`.
    "env": Wrapper(flags=word_set("-0 --null"), assigns=True),
    "nice": Wrapper(values=word_set("-n --adjustment")),
    "ionice": Wrapper(flags=word_set("-t --ignore"), values=word_set("-c --class -n --classdata")),
    "nohup": Wrapper(),
    "timeout": Wrapper(
        flags=word_set("--foreground --preserve-status -v --verbose"),
        values=word_set("-k --kill-after -s --signal"),
        first=1,
    ),
    "stdbuf": Wrapper(values=word_set("-i --input -o --output -e --error")),
    "setsid": Wrapper(flags=word_set("-c --ctty -f --fork -w --wait")),
    "xargs": Wrapper(
        flags=word_set("-0 --null -r --no-run-if-empty -t --verbose -x --exit"),
        values=word_set("-n --max-args -P --max-procs -I -d --delimiter -L -s --max-chars -E -a --arg-file"),
        adds=True,
    ),
    "command": Wrapper(flags=word_set("-p"), queries=word_set("-v -V")),
    "builtin": Wrapper(),
    "exec": Wrapper(flags=word_set("-c -l"), values=word_set("-a")),
    "sudo": Wrapper(
        flags=word_set("-E -n --non-interactive -H --set-home -k --reset-timestamp -b --background -S --stdin"),
        values=word_set("-u --user -g --group"),
        queries=word_set("-l --list -v --validate -K --remove-timestamp -V --version"),
        assigns=True,
    ),
    "doas": Wrapper(flags=word_set("-n"), values=word_set("-u")),
    "time": Wrapper(flags=word_set("-p")),
}
# GNU's programs as they are called on macOS.
WRAPPERS.update({f"g{name}": WRAPPERS[name] for name in ("env", "nice", "nohup", "timeout", "stdbuf", "xargs")})
# The programs whose approval may be remembered by a prefix, and the number of words of their sub-command.
_SUBCOMMANDS = {
    "git": 1, "npm": 1, "pnpm": 1, "yarn": 1, "cargo": 1, "pip": 1, "pip3": 1, "uv": 1, "poetry": 1, "gh": 2,
    "docker": 1, "podman": 1, "kubectl": 1, "systemctl": 1, "brew": 1, "apt": 1, "apt-get": 1, "terraform": 1, "aws": 2,
    "gcloud": 3, "az": 3, "helm": 1, "dotnet": 1, "conda": 1,
    "ls": 0, "cat": 0, "head": 0, "tail": 0, "wc": 0, "grep": 0, "rg": 0, "cut": 0, "tr": 0, "diff": 0, "stat": 0,
    "du": 0, "df": 0, "mkdir": 0, "touch": 0, "pytest": 0, "ruff": 1, "black": 0, "isort": 0,
}  # fmt: skip
_GROUPS = word_set(
    "container compose image network volume tool workspace remote stash reflog worktree bisect notes "
    "cache system state pip repo rollout services env owner auth secret release issue pr service context buildx "
    "builder stack swarm manifest trust checkpoint machine pod kube nuget sparse-checkout registry dependency "
    "self python workload sln package new ef source artifact scout model"
)
_RUNS_SCRIPTS = word_set(
    "run run-script exec x dlx start eval debug shell config alias submodule filter-branch bisect foreach rebase "
    "node explore pkg workspace api unshare rustc plugin plugins template configure fsi sh ruby irb bundle hook "
    "send-email daemon difftool mergetool instaweb for-each-repo credential extension init"
)
# The sub-commands of these programs that may be remembered: any other word may be a script or an alias.
_REMEMBERED = {
    "npm": word_set(
        "install i ci add uninstall remove update ls list view info outdated audit test why explain search"
    ),
    "pnpm": word_set("install i add remove update ls list outdated audit test why"),
    "yarn": word_set("install add remove upgrade list info outdated audit test why"),
    "cargo": word_set("build check test clippy fmt doc bench add remove update tree metadata fetch clean search"),
}
EXECUTES = word_set("-exec -execdir -ok -okdir")


class InnerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A wrapped command: its arguments, their offset, and the assignments for it."""

    argv: Argv
    start: int
    assignments: Argv = ()
    adds: bool = False
    finds: bool = False  # `{}` in it stands for paths


def name_of(argv: Argv) -> str:
    """Return the program's name without its folder."""
    return argv[0].rpartition("/")[2] if argv else ""


def wrapped_commands(argv: Argv) -> list[InnerCommand]:
    """Return the commands that this one runs; an empty list if it is not a wrapper, or runs nothing.

    Raises:
        UnknownOption: it is a wrapper with an option that is not in its table.
    """
    name = name_of(argv)
    if name == "find":
        return _find_commands(argv)
    wrapper = WRAPPERS.get(name)
    found = [] if wrapper is None else _locate_wrapped(argv, wrapper)
    for each in found if name in {"xargs", "gxargs"} else ():
        _check_placeholders(argv[: each.start])
    return found


def _check_placeholders(options: Argv) -> None:
    """Refuse a placeholder that may be part of the command: `xargs -I status git status` runs another one."""
    for at, word in enumerate(options):
        mark = word[2:] or next(iter(options[at + 1 :]), "")
        if word.startswith("-I") and mark not in _PLACEHOLDERS:
            raise UnknownOption(f"xargs puts what it reads in the place of {mark!r}, which may be part of the command")


def _locate_wrapped(argv: Argv, wrapper: Wrapper) -> list[InnerCommand]:
    at = 1
    while at < len(argv) and argv[at].startswith("-") and (argv[at] != "-" or wrapper.assigns):
        word = argv[at]
        if word in wrapper.queries:
            return []
        at += 1
        if word == "--":
            break
        if word in wrapper.values:
            at += 1
        elif word not in wrapper.flags and not _has_value(word, wrapper):
            raise UnknownOption(f"{argv[0]} has the option {word!r}, which hides what it runs")
    begin = at
    while wrapper.assigns and at < len(argv) and _ASSIGNMENT.fullmatch(argv[at]):
        at += 1
    assignments = argv[begin:at]
    at += wrapper.first
    if at >= len(argv):
        return []
    return [InnerCommand(argv=argv[at:], start=at, assignments=assignments, adds=wrapper.adds)]


def _has_value(word: str, wrapper: Wrapper) -> bool:
    """Whether the word is an option with its value attached: `--signal=KILL`, `-n5`."""
    option, equals, _ = word.partition("=")
    if word.startswith("--"):
        return bool(equals) and option in wrapper.values
    return word[:2] in wrapper.values


def _find_commands(argv: Argv) -> list[InnerCommand]:
    """Return the commands that `find` runs on its results."""
    commands: list[InnerCommand] = []
    at = 1
    while at < len(argv):
        if argv[at] in EXECUTES:
            end = _end_of_exec(argv, at + 1)
            command = argv[at + 1 : end]
            if EXECUTES & set(command):
                raise UnknownOption(f"{argv[0]} names one command inside another")
            commands.append(InnerCommand(argv=command, start=at + 1, finds=any("{}" in word for word in command)))
            at = end
        at += 1
    return commands


def _end_of_exec(argv: Argv, start: int) -> int:
    for at in range(start, len(argv)):
        if argv[at] == ";" or (argv[at] == "+" and argv[at - 1] == "{}"):
            if at == start:
                break
            return at
    raise UnknownOption(f"{argv[0]} does not say where the command ends that it runs")


def script_of(argv: Argv) -> str | None:
    """Return the script of a shell, if that is its only argument: `bash -c TEXT`, `eval TEXT`."""
    name, rest = name_of(argv), argv[1:]
    if name == "eval" and rest:
        return " ".join(rest)
    if name not in {"bash", "sh", "dash"} or rest[:-1] != ("-c",):
        return None
    foreign = name != "bash" and re.search(r"&>|\|&|>&", rest[-1])  # other shells parse these differently
    return None if foreign else rest[-1]


def hides_script(argv: Argv) -> bool:
    """Whether a shell gets its script in a form that cannot be analysed."""
    options = [word for word in argv[1:] if word.startswith(("-", "+"))]
    return name_of(argv) in SHELLS and script_of(argv) is None and any("c" in word for word in options)


def runs_others(argv: Argv) -> bool:
    """Whether the program runs code from its arguments: a wrapper, a shell, an interpreter."""
    name = name_of(argv)
    return any(name in known for known in (WRAPPERS, SHELLS, INTERPRETERS, RUNNERS))


def rememberable(argv: Argv) -> Argv | None:
    """Return the program and its sub-command, unless an approval of that prefix would allow nearly anything."""
    count = _SUBCOMMANDS.get(argv[0])
    if count is None:
        return None
    if count == 1 and argv[1:2] and argv[1] in _GROUPS:
        count += 1
    words = argv[1 : 1 + count]
    if len(words) < count or any(not re.fullmatch(r"[a-z][a-z0-9:_-]*", word) for word in words):
        return None
    runs = any(word in _RUNS_SCRIPTS for word in words) or not set(words) <= _REMEMBERED.get(argv[0], set(words))
    return None if runs else (argv[0], *words)


def pattern_warning(pattern: Sequence[str]) -> str | None:
    """Return why allowing this prefix allows nearly anything, if it does."""
    name = name_of(tuple(pattern))
    if name == "git" and len(pattern) == 1:
        return "bare `git` can run any program through its options and aliases; name the sub-command"
    if name in SHELLS or name in INTERPRETERS:
        return f"{name!r} runs whatever code it is given; name the script that may run"
    if len(pattern) == 1 and name in RUNNERS:
        return f"{name!r} runs other programs; name what it may run"
    if len(pattern) == 1 and name in WRAPPERS:
        return f"{name!r} runs other programs; those are judged too, but its own options are not all known"
    return None
