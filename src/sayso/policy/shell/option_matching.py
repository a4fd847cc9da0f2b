"""Option matching: whether a command may match a blocking rule, in any spelling and order of its options.

Tests: tests/policy/shell/test_block_scan.py
"""

from __future__ import annotations

from collections.abc import Sequence

from sayso.policy.shell.wrappers import Argv

# Long forms of short options: a rule that blocks one spelling blocks the other too.
_LETTERS = {
    "a": ("--all",),
    "d": ("--delete", "--data", "--detach"),
    "D": ("--delete",),
    "e": ("--eval", "--exec", "--execute"),
    "f": ("--force", "--file", "--filename"),
    "F": ("--form", "--force"),
    "g": ("--global",),
    "i": ("--in-place", "--interactive"),
    "k": ("--insecure",),
    "n": ("--no-verify",),
    "o": ("--output",),
    "r": ("--recursive",),
    "R": ("--recursive",),
    "T": ("--upload-file",),
    "v": ("--volume",),
    "x": ("--extract", "--exec"),
    "X": ("--request",),
    "y": ("--yes", "--assume-yes"),
}
_EITHER_CASE = frozenset("rR")


def may_match(words: Argv, argv: Argv) -> bool:
    """Whether a command may match the words of a rule: options in any place, bundled or not, in full or abbreviated."""
    flags = [word for word in words[1:] if word.startswith("-") and word != "-"]
    names = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    before = next((at for at, word in enumerate(words[1:]) if word in flags), len(names))
    options = [word for word in argv[1:] if word.startswith("-") and word != "-"]
    given = [word for word in argv[1:] if not word.startswith("-") or word == "-"]
    # The first names may be values of options that come before the sub-command.
    starts = range(_leading_options(argv) + 1)
    # The first fit is enough: the words behind it include those behind any later fit.
    start = next((at for at in starts if given[at : at + before] == names[:before]), None)
    named = start is not None and _contains_in_order(names[before:], given[start + before :])
    if "--force" in flags and words[:2] == ("git", "push"):
        options += ["--force" for word in given if word.startswith("+")]
    return named and all(_has_option(flag, options) for flag in flags)


def _leading_options(argv: Argv) -> int:
    """Count the options before the sub-command, each of which may have a value."""
    at, count = 1, 0
    while at < len(argv) and argv[at].startswith("-"):
        count += 1
        at += 1
        if at + 1 < len(argv) and not argv[at].startswith("-") and argv[at + 1].startswith("-"):
            at += 1
    return count


def _contains_in_order(wanted: Sequence[str], given: Sequence[str]) -> bool:
    rest = iter(given)
    return all(word in rest for word in wanted)


def _has_option(flag: str, options: Sequence[str]) -> bool:
    letters = {letter for option in options if not option.startswith("--") for letter in option[1:]}
    names = {option.partition("=")[0] for option in options if option.startswith("--")}
    if flag.startswith("--"):
        also = (letter for letter, long in _LETTERS.items() if flag in long)
        return any(_is_short_for(name, flag) for name in names) or not letters.isdisjoint(also)
    return flag in options or all(
        letter in letters
        or (letter.swapcase() in letters and letter in _EITHER_CASE)
        or any(_is_short_for(name, each) for name in names for each in _LETTERS.get(letter, ()))
        for letter in flag[1:]
    )


def _is_short_for(option: str, flag: str) -> bool:
    return option == flag or (len(option) > len("--x") and option.startswith("--") and flag.startswith(option))
