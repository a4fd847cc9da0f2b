"""Dangers of git: options that run or write something, and sub-commands that do so unless they only list.

Tests: tests/policy/shell/test_dangers.py
"""

from __future__ import annotations

from sayso.policy.shell.dangers.options import Danger, Harmless, find_option, unlisted_reason
from sayso.policy.shell.wrappers import Argv

_GLOBAL = frozenset({"--no-pager", "--version", "--help", "--no-optional-locks", "--literal-pathspecs"})
_LONG = (
    "output", "ext-diff", "upload-pack", "receive-pack", "exec", "open-files-in-pager", "extcmd", "config", "template",
    "output-directory", "textconv", "server-option", "gpg-sign", "edit", "interactive", "delete", "move",
    "copy", "force", "edit-description", "set-upstream-to", "unset-upstream", "exec-path", "mirror",
)  # fmt: skip
_SHORT = {
    "grep": "O", "clone": "uc", "rebase": "xi", "difftool": "x", "archive": "o", "push": "fdo",
}  # fmt: skip
# Sub-commands that never contact another repository, so `::` in their arguments names no helper program.
_LOCAL = frozenset({
    "log", "diff", "show", "grep", "blame", "shortlog", "rev-list", "rev-parse", "ls-files", "status", "commit",
    "add", "branch", "tag", "describe", "reflog", "stash", "cat-file",
})  # fmt: skip
_FILTERS = (
    "--contains= --no-contains= --merged= --no-merged= --points-at= --sort= --format= --column? --no-column --color? "
    "--no-color -i --ignore-case -l --list --omit-empty "
)
_BRANCH = Harmless(_FILTERS + "-a --all -r --remotes -v --verbose -q --quiet --show-current --abbrev? --no-abbrev")
_TAG = Harmless(_FILTERS + "-n?")
_LISTS = frozenset({"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"})
_REMOTE = Harmless("-v --verbose -n --push --all")
_CONFIG = Harmless(
    "--get --get-all --get-regexp -l --list --global --local --system --worktree --show-origin --show-scope "
    "--name-only -z --null --type= --bool --int --default= --includes --no-includes -f= --file="
)


def git(args: Argv) -> str | None:
    """Check git's own options, then the sub-command's."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] not in _GLOBAL:
            return f"{args[at]} before the sub-command changes what git runs"
        at += 1
    if at == len(args):
        return None
    command, rest = args[at], args[at + 1 :]
    check = _COMMANDS.get(command)
    return check(rest) if check else _by_table(command, rest)


def _by_table(command: str, rest: Argv) -> str | None:
    word = find_option(rest, short=_SHORT.get(command, ""), long=_LONG, spared=("--text",))
    if word:
        return f"{word} may write, delete or run something"
    remote = None if command in _LOCAL else next((each for each in rest if "::" in each), None)
    return f"{remote} names a helper program" if remote else None


def _push(rest: Argv) -> str | None:
    word = next((each for each in rest if each.startswith(("+", ":"))), None)
    return f"{word} overwrites or deletes what the other repository has" if word else _by_table("push", rest)


def _branch(rest: Argv) -> str | None:
    parsed = _BRANCH.read(rest)
    makes = parsed.operands and not parsed.names & _LISTS
    return unlisted_reason("git branch", parsed.unknown) or ("it makes a branch" if makes else None)


def _tag(rest: Argv) -> str | None:
    parsed = _TAG.read(rest)
    makes = parsed.operands and not parsed.names & (_LISTS | {"-n"})
    return unlisted_reason("git tag", parsed.unknown) or ("it makes a tag" if makes else None)


def _remote(rest: Argv) -> str | None:
    parsed = _REMOTE.read(rest)
    changes = parsed.operands and parsed.operands[0] not in {"show", "get-url"}
    word = parsed.unknown or next((each for each in parsed.operands if "::" in each), None)
    return unlisted_reason("git remote", word) or (f"`{parsed.operands[0]}` changes the remotes" if changes else None)


def _reflog(rest: Argv) -> str | None:
    word = next((each for each in rest if each in {"expire", "delete", "drop", "write"}), None)
    return f"`{word}` changes what git remembers" if word else _by_table("reflog", rest)


def _bisect(rest: Argv) -> str | None:
    return "it runs a program for each commit" if "run" in rest else _by_table("bisect", rest)


def _submodule(rest: Argv) -> str | None:
    return "it runs a program in each submodule" if "foreach" in rest else _by_table("submodule", rest)


def _config(rest: Argv) -> str | None:
    is_query = rest[:1] in {("get",), ("list",)}
    parsed = _CONFIG.read(rest[1:] if is_query else rest, ordered=True)  # after a name, even `-l` is the new value
    reads = is_query or parsed.names & {"--get", "--get-all", "--get-regexp", "-l", "--list"}
    changes = None if reads else "it may change a setting, and settings run programs"
    return unlisted_reason("git config", parsed.unknown) or changes


_COMMANDS: dict[str, Danger] = {
    "push": _push,
    "branch": _branch,
    "tag": _tag,
    "remote": _remote,
    "reflog": _reflog,
    "bisect": _bisect,
    "submodule": _submodule,
    "config": _config,
}
