"""Languages of arguments: programs whose arguments are an expression, or are read in their own way (find, tar, less).

Tests: tests/policy/shell/proof/test_languages.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sayso.policy.shell.proof.scripts import awk, sed
from sayso.policy.shell.wrappers import Argv, word_set

Language = Callable[[Argv, frozenset[str]], str | None]  # from the arguments, and the rule's own words, to a doubt

_FIND_FLAGS = word_set(
    "-H -L -P -O0 -O1 -O2 -O3 -daystart -depth -d -follow -ignore_readdir_race -noignore_readdir_race -mount -noleaf "
    "-xdev -nouser -nogroup -empty -executable -readable -writable -false -true -nowarn -warn -a -and -o -or -not "
    "-prune -quit -print -print0 -ls --help -help --version -version ! ( ) ,"
)
_FIND_VALUES = word_set(
    "-maxdepth -mindepth -regextype -amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -mmin -mtime -name -newer -path -perm -regex -samefile -size -type -uid "
    "-used -user -wholename -xtype -context -printf"
)
_FIND_NEWER = re.compile(r"-newer[aBcm][aBcmt]")
_FIND_RUNS = word_set("-exec -ok")


def find(args: Argv, own: frozenset[str]) -> str | None:
    """Allow only tests and actions that show something; commands behind `-exec` are judged by the rules."""
    words = iter(args)
    for word in words:
        if word in _FIND_VALUES or _FIND_NEWER.fullmatch(word):
            next(words, None)
        elif word in _FIND_RUNS:
            before = ""
            for inner in words:
                ends = inner == "+" and before == "{}"
                if ends and word == "-ok":
                    return "-ok takes `+` for an argument of what it runs"
                if ends or inner == ";":
                    break
                before = inner
        elif word.startswith("-") and word not in _FIND_FLAGS and word not in own:
            return f"{word} is not known to be harmless for find: it may write, delete or run something"
    return None


def tar(args: Argv, own: frozenset[str]) -> str | None:
    """Allow only to list a local archive."""
    if not args:
        return None
    first, lists = args[0], False
    if not first.startswith("-"):
        if not set(first) <= set("tvfzjJa") and first not in own:
            return "tar does more than list an archive"
        lists, args = "t" in first or first in own, args[1:]
    for word in args:
        if word in _TAR_LONG or word.startswith(("--file=", "--exclude=", "--strip-components=")):
            lists = lists or word == "--list"
        elif re.fullmatch(r"-[tvfzjJa]+", word):
            lists = lists or "t" in word
        elif word.startswith("-") and word not in own:
            return f"{word} is an option of tar that may write or run something"
    remote = next((word for word in args if ":" in word and word not in own), None)
    if remote:
        return f"{remote} may be on another machine, and tar runs a program to get there"
    return None if lists or not own.isdisjoint(args) else "tar does more than list an archive"


_TAR_LONG = word_set(
    "--list --verbose --gzip --bzip2 --xz --zstd --auto-compress --file --help --version --exclude --wildcards "
    "--no-wildcards --anchored --no-anchored --ignore-case --full-time --numeric-owner --totals --strip-components"
)


# less reads several options from one word, and a command behind `+`: only words of letters are parsed.
_LESS_SHORT = re.compile(r"-(?:[NnSRrFXiIsMmeEgGwWqQfuUJaAL]|[xzj]\d+)+")
_LESS_LONG = frozenset({
    "line-numbers", "chop-long-lines", "raw-control-chars", "no-init", "quit-if-one-screen", "quit-at-eof",
    "ignore-case", "squeeze-blank-lines", "long-prompt", "quiet", "silent", "hilite-search", "hilite-unread",
    "status-column", "tilde", "no-lessopen", "use-color", "mouse", "wordwrap", "incsearch", "version", "help",
})  # fmt: skip


def less(args: Argv, own: frozenset[str]) -> str | None:
    """Allow only options that change how a file is shown."""
    for word in args:
        shows = _LESS_SHORT.fullmatch(word) or (word.startswith("--") and word[2:].lower() in _LESS_LONG)
        odd = word.startswith(("-", "+")) and not shows and word not in {"-", "--"} and word not in own
        if "\n" in word or odd:
            return f"{word} is not known to be harmless: less may write a file or run a command of its own"
    return None


# Every conversion but `%n`, which assigns to a variable.
_PRINTF_FORMAT = re.compile(
    r"(?:[^%\\]|\\[\s\S]|%%|%[-+ #0']*+(?:\d++|\*)?(?:\.(?:\d++|\*)?)?[hlqjztL]*(?:[diouxXeEfFgGaAcsbqQ]|\([^)]*\)T))*"
)


def printf(args: Argv, own: frozenset[str]) -> str | None:
    """Allow formats that set no variable."""
    if args and args[0].startswith("-v") and "-v" not in own:
        return "-v sets a variable"
    form = next(iter(args[1:] if args[:1] == ("--",) else args), "")
    return None if _PRINTF_FORMAT.fullmatch(form) else "its format may set a variable, as %n does"


def test(args: Argv, own: frozenset[str]) -> str | None:
    """Allow tests that look at no variable."""
    del own
    return "it looks at a variable, whose index may run something" if {"-v", "-R"} & set(args) else None


LANGUAGES: Mapping[str, Language] = {
    "awk": awk, "sed": sed, "less": less, "find": find, "tar": tar, "printf": printf, "test": test,
}  # fmt: skip
