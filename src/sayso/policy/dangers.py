"""Options with which ordinary programs run others or write files: whoever allows the program is asked about them.

A table of what is known, not a list of what is safe: it can only turn a yes of the rules into a question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sayso.policy.wrappers import BUILTINS, Argv, name_of

Danger = Callable[[Argv], str | None]  # the arguments in, what is dangerous about them out

_SHORTEST = 3  # `--o` may stand for `--output`


def danger(argv: Argv) -> str | None:
    """Return what makes this use of an ordinary program dangerous, if something is known to."""
    look = _DANGERS.get(name_of(argv))
    return None if look is None else look(argv[1:])


def has_dangers(argv: Argv) -> bool:
    """Whether the program has dangerous options at all, so that arguments nobody knows yet could be one of them."""
    return name_of(argv) in _DANGERS


def _operands(args: Argv) -> Argv:
    options = args[: args.index("--")] if "--" in args else args
    return (*(word for word in options if not word.startswith("-") or word == "-"), *args[len(options) + 1 :])


def _hit(args: Argv, *, short: str = "", long: Iterable[str] = (), words: Iterable[str] = ()) -> str | None:
    """Return the first argument that is, or can be short for, one of these options.

    Behind `--` too: that may be the value of another option.
    """
    known = [f"--{name}" for name in long]
    exact = frozenset(words)
    for word in args:
        name = word.partition("=")[0]
        if word in exact or name in exact:
            return word
        if word.startswith("--"):
            if len(name) >= _SHORTEST and any(each.startswith(name) for each in known):
                return word
        elif word.startswith("-") and any(letter in word[1:] for letter in short):
            return word
    return None


def _by_options(why: str, **table: object) -> Danger:
    def look(args: Argv) -> str | None:
        word = _hit(args, **table)  # type: ignore[arg-type]
        return f"{word} {why}" if word else None

    return look


def _find(args: Argv) -> str | None:
    bad = frozenset({"-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-execdir", "-okdir"})
    word = next((each for each in args if each in bad or each.startswith("-D")), None)
    return f"{word} writes or deletes files, or runs programs in folders that it finds" if word else None


# In sed a `[…]` hides the delimiter, so only those without one are read; anything else is asked about.
_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n\[]|\\.|\[(?!\^?\])[^\]\[\\/\n]+\])*/I?)"
_SED_COMMAND = (
    rf"\s*(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)?\s*!?\s*(?:[pdq=nNDPhHgGxl]|"
    r"s(?P<d>[/|,#:@!])(?:(?!(?P=d))[^\\\n\[]|\\.|\[(?!\^?\])(?:(?!(?P=d))[^\]\[\\\n])+\])*(?P=d)"
    r"(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gpIi0-9]*)?\s*"
)
_SED_LINE = re.compile(_SED_COMMAND)
_SED_FLAGS = frozenset(
    {"-n", "-E", "-r", "-z", "-u", "-s", "--quiet", "--silent", "--regexp-extended", "--posix", "--debug"}
)


def _sed(args: Argv) -> str | None:
    """Allow only scripts of commands that neither write nor run anything, with options that change neither."""
    scripts: list[str] = []
    rest, options = list(args), True
    while rest:
        word = rest.pop(0)
        if not options or not word.startswith("-") or word == "-":
            scripts += [] if scripts else [word]  # the first operand, if no option gave a script
        elif word == "--":
            options = False
        elif word in {"-e", "--expression"} and rest:
            scripts.append(rest.pop(0))
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif word not in _SED_FLAGS and not re.fullmatch(r"-[nErzus]+", word):
            return f"{word} is an option of sed that may write or run something"
    bad = next((script for script in scripts if not _is_harmless_sed(script)), None)
    return None if bad is None else "the script of sed may write or run something"


def _is_harmless_sed(script: str) -> bool:
    at = 0
    while True:
        match = _SED_LINE.match(script, at)
        at = match.end() if match else at
        if at >= len(script):
            return True
        if script[at] not in ";\n":
            return False
        at += 1


def _tar(args: Argv) -> str | None:
    """Allow only listing."""
    if not args:
        return None
    first, lists = args[0], False
    if not first.startswith("-"):
        if not set(first) <= set("tvfzjJ"):
            return "tar does more than list an archive"
        lists, args = set(first) <= set("tvfzjJ") and "t" in first, args[1:]
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


_GIT_GLOBAL = frozenset({"--no-pager", "--version", "--help", "--no-optional-locks", "--literal-pathspecs"})
_GIT_LONG = (
    "output", "ext-diff", "upload-pack", "receive-pack", "exec", "open-files-in-pager", "extcmd", "config", "template",
    "output-directory", "textconv", "server-option", "gpg-sign", "edit", "interactive", "delete", "move", "copy",
    "force", "edit-description", "set-upstream-to", "unset-upstream", "exec-path",
)  # fmt: skip
_BRANCH_LISTS = frozenset({
    "--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--format",
})  # fmt: skip
_GIT_SHORT = {
    "branch": "DdmMcCfu",
    "grep": "O",
    "clone": "uc",
    "rebase": "xi",
    "difftool": "x",
    "archive": "o",
    "tag": "dfsu",
}


def _git(args: Argv) -> str | None:
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] not in _GIT_GLOBAL:
            return f"{args[at]} before the sub-command changes what git runs"
        at += 1
    if at == len(args):
        return None
    rest = args[at + 1 :]
    word = _hit(rest, short=_GIT_SHORT.get(args[at], ""), long=_GIT_LONG)
    if word:
        return f"{word} may write, delete or run something"
    if args[at] == "branch" and _operands(rest) and not _BRANCH_LISTS & {each.partition("=")[0] for each in rest}:
        return "it makes a branch"
    remote = next((each for each in rest if "::" in each), None)
    return f"{remote} names a helper program" if remote else None


def _awk(args: Argv) -> str | None:
    """Allow only programs without a way out of awk."""
    rest = list(args)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        word = rest.pop(0)
        if word in {"-F", "-v"} and rest:
            rest.pop(0)
        elif not word.startswith(("-F", "-v")):
            return f"{word} is an option of awk that may run something"
    program = next((word for word in rest if word != "--"), "")
    way = re.search(r"[|>@\\]|system|getline|close|fflush|ENVIRON", program)
    return f"awk's program uses {way[0]!r}, which can leave awk" if way else None


def _date(args: Argv) -> str | None:
    # `-d TEXT` and the like take a word, which is no operand; a clock is set by digits alone.
    valued = {at + 1 for at, each in enumerate(args) if each in {"-d", "--date", "-r", "--reference", "-f", "--file"}}
    plain = tuple(each for at, each in enumerate(args) if at not in valued)
    word = _hit(args, short="s", long=("set",)) or next((each for each in _operands(plain) if each[:1].isdigit()), None)
    return f"{word} sets the clock" if word else None


def _man(args: Argv) -> str | None:
    harmless = frozenset({"-k", "-f", "-w", "--apropos", "--whatis", "--where", "--path", "-a", "--all"})
    word = next((each for each in args if each.startswith("-") and each not in harmless), None)
    return f"{word} is an option of man that may run something" if word else None


def _second_is_written(args: Argv) -> str | None:
    operands = _operands(args)
    return f"it writes to {operands[1]}" if len(operands) > 1 else None


def _xxd(args: Argv) -> str | None:
    return "it writes a file" if _hit(args, short="r") else _second_is_written(args)


def _hostname(args: Argv) -> str | None:
    word = _hit(args, short="Fb", long=("file", "boot")) or next(iter(_operands(args)), None)
    return f"{word} sets the name of this machine" if word else None


def _less(args: Argv) -> str | None:
    lower = tuple(each.lower() if each.startswith("--") else each for each in args)  # less tells no case apart
    word = _hit(lower, short="oOkKtT", long=("log-file", "lesskey-file", "lesskey-src", "lesskey-content"))
    word = word or next((each for each in args if each.startswith("+") or "\n" in each), None)
    return f"{word} writes a file or runs a command of less" if word else None


def _npm(args: Argv) -> str | None:
    # npm takes one dash, two or three, and any unambiguous beginning.
    names = [(each, each.lstrip("-").partition("=")[0]) for each in args if each.startswith("-")]
    hits = (each for each, name in names if name == "C" or (name and any(known.startswith(name) for known in _NPM)))
    word = next(hits, None)
    return f"{word} changes what npm runs" if word else None


def _builtin(args: Argv) -> str | None:
    return f"it changes the shell for what comes after ({args[0]})" if args else None


def _printf(args: Argv) -> str | None:
    return "-v sets a variable" if args and args[0].startswith("-v") else None


def _test(args: Argv) -> str | None:
    return "it looks at a variable, whose index may run something" if {"-v", "-R"} & set(args) else None


def _tee(args: Argv) -> str | None:
    written = [word for word in _operands(args) if word != "/dev/null"]
    return f"tee writes to {written[0]}" if written else None


def _make(args: Argv) -> str | None:
    if len(_operands(args)) > 1:
        return f"make is given more than one target ({_operands(args)[1]})"
    word = next((each for each in args if "=" in each or each.startswith("-")), None)
    return f"{word} changes what make runs" if word and not re.fullmatch(r"-(?:j\d*|[knsB]+)", word) else None


_PYTEST_LONG = (
    "rootdir", "override-ini", "pdbcls", "basetemp", "junit-xml", "junitxml", "confcutdir", "config-file", "pastebin",
    "log-file", "report-log", "debug", "html", "cov-config", "cov-report", "import-mode",
)  # fmt: skip
_NPM = (
    "script-shell", "node-options", "prefix", "userconfig", "globalconfig", "location", "workspace", "shell",
    "logs-dir", "cache", "global",
)  # fmt: skip


def _pytest(args: Argv) -> str | None:
    looked = tuple(each for each in args if each.partition("=")[0] != "--cov")
    word = _hit(looked, short="pco", long=_PYTEST_LONG) or next((each for each in args if each.startswith("@")), None)
    return f"{word} loads other code or writes files" if word else None


_DANGERS: dict[str, Danger] = {
    "find": _find,
    "sed": _sed,
    "gsed": _sed,
    "tar": _tar,
    "bsdtar": _tar,
    "git": _git,
    "date": _date,
    "man": _man,
    "uniq": _second_is_written,
    "tee": _tee,
    "make": _make,
    "gmake": _make,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    "sort": _by_options(
        "writes a file or runs a program", short="oT", long=("output", "compress-program", "temporary-directory")
    ),
    "rg": _by_options("runs another program", short="z", long=("pre", "hostname-bin", "search-zip")),
    "shuf": _by_options("writes a file", short="o", long=("output",)),
    "tree": _by_options("writes a file", short="oR", words=("-o", "-R")),
    "file": _by_options(
        "writes a file, reads other rules or runs a program", short="Cmz", long=("compile", "magic-file", "uncompress")
    ),
    "fd": _by_options("runs another program", short="xX", long=("exec", "exec-batch")),
    "fdfind": _by_options("runs another program", short="xX", long=("exec", "exec-batch")),
    "bat": _by_options("runs another program", long=("pager", "paging")),
    "ag": _by_options("runs another program", long=("pager",)),
    "ack": _by_options("runs another program", long=("pager", "output")),
    "diff": _by_options("runs another program", long=("paginate",), short="l"),
    "diff3": _by_options("runs another program", long=("diff-program",)),
    "sdiff": _by_options("writes a file or runs a program", short="o", long=("output", "diff-program")),
    "yq": _by_options("writes the file", short="is", long=("inplace", "in-place", "split-exp")),
    "rsync": _by_options("runs another program", short="e", long=("rsh", "rsync-path")),
    "ctags": _by_options("writes a file or runs a program", short="of", long=("options", "output")),
    "pytest": _pytest,
    "cargo": _by_options("changes what is built or run", long=("config", "manifest-path", "target-dir")),
    "npm": _npm,
    "less": _less,
    "xxd": _xxd,
    "hostname": _hostname,
    "printf": _printf,
    "test": _test,
    "[": _test,
    **dict.fromkeys(BUILTINS, _builtin),
}
