"""Dangers of ordinary programs: options with which an allowed program runs another one or writes files, so it asks.

A deny-list of known dangers, not an allow-list: it can only turn a `none` of the rules into a question.

Tests: tests/policy/shell/test_dangers.py
"""

from __future__ import annotations

import itertools
import re

from sayso.policy.shell.dangers.code import CODE
from sayso.policy.shell.dangers.git import git
from sayso.policy.shell.dangers.net import NET, ssh_command
from sayso.policy.shell.dangers.options import Danger, Harmless, by_options, find_option, operands, unlisted_reason
from sayso.policy.shell.dangers.text import awk, less, sed
from sayso.policy.shell.wrappers import BUILTINS, Argv, name_of

# Programs that run the program named behind these words, and their options that do not change which one.
_UV = Harmless("-q --quiet --frozen --locked --no-sync --offline --no-dev --all-extras --group= --extra= --package=")
_NPX = Harmless("-y --yes --no --no-install -q --quiet --offline")
_QUIET = Harmless("-q --quiet")
_RUNNERS: dict[Argv, Harmless] = {
    ("uv", "run"): _UV,
    ("uv", "tool", "run"): _UV,
    ("uvx",): _UV,
    **dict.fromkeys((("npx",), ("bunx",), ("npm", "exec"), ("pnpm", "exec"), ("yarn", "exec"), ("yarn", "run")), _NPX),
    **{(name, "run"): _QUIET for name in ("poetry", "pipenv", "hatch", "pdm", "pipx", "rye", "pixi")},
    ("bundle", "exec"): _QUIET,
    ("coverage", "run"): Harmless("-m --branch --source= --include= --omit= -a --append -p --parallel-mode"),
}
_RUNNER_NAMES = frozenset(words[0] for words in _RUNNERS)
_LONGEST_RUNNER = max(map(len, _RUNNERS))
_MODULE = re.compile(r"-[bBdEiIOPqRsSuvx]*m(.*)", re.DOTALL)
_ALIASES = {
    "py.test": "pytest",
    "batcat": "bat",
    "fdfind": "fd",
    "bsdtar": "tar",
    "gawk": "awk",
    "mawk": "awk",
    "nawk": "awk",
    "original-awk": "awk",
    "[": "test",
    **{f"g{name}": name for name in ("sort", "tar", "date", "sed", "make", "split", "uniq", "tee", "shuf")},
}


def danger(argv: Argv) -> str | None:
    """Return the known danger of this command, if it has one."""
    named = innermost_named(argv)
    if named[:1] and named[0].startswith("-"):
        return f"{named[0]} may change what {argv[0]} runs"
    check = _DANGERS.get(_known_name(named))
    return None if check is None else check(named[1:])


def has_dangers(argv: Argv) -> bool:
    """Whether the program has dangerous options at all, so that an argument not yet expanded could be one of them."""
    runs = name_of(argv) in _RUNNER_NAMES or innermost_named(argv) != argv
    return runs or _known_name(argv) in _DANGERS


def _known_name(argv: Argv) -> str:
    """Return the key of the program in the tables: without alias, version or the runner's environment."""
    name = name_of(argv).partition("@")[0].rpartition(":")[2]
    plain = name if name in _DANGERS else re.sub(r"(?<=[a-z])-?[23](?:\.\d+)*$", "", name)
    return _ALIASES.get(plain, plain)


def innermost_named(argv: Argv) -> Argv:
    """Return the command that runners run by its name: `python -m NAME …`, `uv run NAME …`; else this one."""
    inside = _named_by_runner(argv)
    while inside:
        argv, inside = inside, _named_by_runner(inside)
    return argv


def _named_by_runner(argv: Argv) -> Argv:
    name = name_of(argv)
    if re.fullmatch(r"(?:python|pypy)[0-9.]*", name):
        return _python_module(argv[1:])
    lengths = range(1, min(len(argv), _LONGEST_RUNNER) + 1)
    found = next((length for length in lengths if (name, *argv[1:length]) in _RUNNERS), 0)
    if not found:
        return ()
    parsed = _RUNNERS[name, *argv[1:found]].read(argv[found:], ordered=True)
    return (parsed.unknown,) if parsed.unknown else parsed.operands


def _python_module(args: Argv) -> Argv:
    at = 0
    while at < len(args) and args[at].startswith("-"):
        match = _MODULE.fullmatch(args[at])
        if match:
            return (match[1], *args[at + 1 :]) if match[1] else args[at + 1 :]
        at += 2 if args[at] in {"-X", "-W"} else 1
    return ()


def _find(args: Argv) -> str | None:
    bad = frozenset({"-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-execdir", "-okdir"})
    word = next((each for each in args if each in bad or each.startswith("-D")), None)
    return f"{word} writes or deletes files, or runs programs in folders that it finds" if word else None


def _gfind(args: Argv) -> str | None:
    # By this name its inner commands are not judged.
    word = next((each for each in args if each in {"-exec", "-ok"}), None)
    return f"{word} runs a program" if word else _find(args)


def _tar(args: Argv) -> str | None:
    """Allow only listing."""
    if not args:
        return None
    first, lists = args[0], False
    if not first.startswith("-"):
        if not set(first) <= set("tvfzjJ"):
            return "tar does more than list an archive"
        lists, args = "t" in first, args[1:]
    for word in args:
        if word in {"--list", "--verbose", "--gzip", "--bzip2", "--xz", "--file"} or word.startswith("--file="):
            lists = lists or word == "--list"
        elif re.fullmatch(r"-[tvfzjJ]+", word):
            lists = lists or "t" in word
        elif word.startswith("-"):
            return f"{word} is an option of tar that may write or run something"
    remote = next((word for word in args if ":" in word), None)
    if remote:
        return f"{remote} may be on another machine, and tar runs a program to get there"
    return None if lists else "tar does more than list an archive"


_DATE = Harmless(
    "-u --utc --universal -R --rfc-email -I? --iso-8601? --rfc-3339= -d= --date= -r= --reference= -f= --file= --debug "
    "--resolution --version --help"
)


def _date(args: Argv) -> str | None:
    parsed = _DATE.read(args)
    word = parsed.unknown or next((each for each in parsed.operands if not each.startswith("+")), None)
    return f"{word} may set the clock" if word else None


_MAN = Harmless("-k -f -w --apropos --whatis --where --path -a --all")


def _man(args: Argv) -> str | None:
    return unlisted_reason("man", _MAN.read(args).unknown)


def _second_is_written(args: Argv) -> str | None:
    named = operands(args, ("-f", "-s", "-w", "--indent"))
    return f"it writes to {named[1]}" if len(named) > 1 else None


def _xxd(args: Argv) -> str | None:
    named = operands(args, ("-c", "-g", "-l", "-o", "-s"))
    return "it writes a file" if find_option(args, short="r") or len(named) > 1 else None


def _hostname(args: Argv) -> str | None:
    word = find_option(args, short="Fb", long=("file", "boot")) or next(iter(operands(args)), None)
    return f"{word} sets the name of this machine" if word else None


def _builtin(args: Argv) -> str | None:
    return f"it changes the shell for what comes after ({args[0]})" if args else None


def _env(args: Argv) -> str | None:
    # Without its variables a program may obey other files, as git does without the settings of `ShellTool`.
    options = itertools.takewhile(lambda word: word.startswith("-") or "=" in word, args)
    word = next((each for each in options if each.startswith("-") and each not in {"--", "-0", "--null"}), None)
    return f"{word} takes variables away, which can change what runs" if word else None


def _printf(args: Argv) -> str | None:
    return "-v sets a variable" if args and args[0].startswith("-v") else None


def _test(args: Argv) -> str | None:
    return "it looks at a variable, whose index may run something" if {"-v", "-R"} & set(args) else None


def _tee(args: Argv) -> str | None:
    written = [word for word in operands(args) if word != "/dev/null"]
    return f"tee writes to {written[0]}" if written else None


def _bat(args: Argv) -> str | None:
    checked = tuple(each for each in args if each != "--paging=never")
    word = find_option(checked, long=("pager", "paging", "lessopen", "generate-config-file"))
    word = word or ("cache" if "cache" in operands(args) else None)
    return f"{word} runs another program, or writes a file" if word else None


def _ssh_and_there(args: Argv) -> str | None:
    """Check the remote command too."""
    there = ssh_command(args)
    if _known_name(innermost_named(there)) == "ssh":
        return "it goes on to a third machine"
    return NET["ssh"](args) or danger(there)


_DANGERS: dict[str, Danger] = {
    **CODE,
    **NET,
    "ssh": _ssh_and_there,
    "git": git,
    "sed": sed,
    "awk": awk,
    "less": less,
    "find": _find,
    "gfind": _gfind,
    "tar": _tar,
    "date": _date,
    "man": _man,
    "uniq": _second_is_written,
    "json.tool": _second_is_written,
    "tee": _tee,
    "xxd": _xxd,
    "bat": _bat,
    "hostname": _hostname,
    "printf": _printf,
    "env": _env,
    "test": _test,
    "sort": by_options(
        "writes a file or runs a program",
        short="oT",
        long="output compress-program temporary-directory",
        valued="ktS",
    ),
    "split": by_options("runs a program", long="filter"),
    "shuf": by_options("writes a file", short="o", long="output", valued="nie"),
    "rg": by_options("runs another program", short="z", long="pre hostname-bin search-zip", valued="egtTmABCfrjMEd"),
    "tree": by_options("writes a file", short="oR"),
    "file": by_options(
        "writes a file, reads other rules or runs a program",
        short="CmzZ",
        long="compile magic-file uncompress uncompress-noreport",
        valued="FfPe",
    ),
    "fd": by_options("runs another program", short="xX", long="exec exec-batch", valued="teEdSco"),
    "ag": by_options("runs another program", long="pager"),
    "ack": by_options("runs another program", long="pager output ackrc"),
    "diff": by_options("runs another program", short="l", long="paginate", valued="CUIxXFSWD"),
    "diff3": by_options("runs another program", long="diff-program"),
    "sdiff": by_options("writes a file or runs a program", short="o", long="output diff-program", valued="Iw"),
    "yq": by_options("writes the file", short="is", long="inplace in-place split-exp", valued="opI"),
    "ctags": by_options("writes a file or runs a program", short="of", long="options output"),
    "iconv": by_options("writes a file", short="o", long="output", valued="ft"),
    "xmllint": by_options("writes a file or takes commands", long="output shell"),
    **dict.fromkeys(BUILTINS, _builtin),
}
