"""Index of entries by tool name: a hash lookup for exact names, and for globs by literal prefix or suffix.

Tests: tests/policy/test_policy.py
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.policy.entries import Entry

_WILD = re.compile(r"[*?\[]")
_EXACT = 1 << 30


def is_glob(pattern: str) -> bool:
    """Whether a pattern has wildcards, and so may match more names than its own."""
    return _WILD.search(pattern) is not None


Ranked = tuple[int, "Entry"]  # the rank is the specificity of the entry
_Glob = tuple[Ranked, Callable[[str], object] | None]  # the test of a name with its head or tail; None: matches


class Index:
    """Index of the owner's entries; a lookup does not depend on their number."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._exact: dict[str, Ranked] = {}
        self._heads: dict[str, list[_Glob]] = {}
        self._tails: dict[str, list[_Glob]] = {}
        for entry in self.entries:
            self._add(entry)
        self._head_sizes = sorted({len(head) for head in self._heads})
        self._tail_sizes = sorted({len(tail) for tail in self._tails})

    def _add(self, entry: Entry) -> None:
        pattern = entry.pattern
        # Globs too: a tool may be called `file[write]`, which that glob does not match.
        self._exact[pattern] = (_EXACT, entry)
        wild = _WILD.search(pattern)
        if wild is None:
            return
        head, tail = pattern[: wild.start()], re.split(r"[*?\]]", pattern)[-1]
        glob = ((_count_literals(pattern), entry), _matcher(pattern, head, tail))
        if head or not tail:
            self._heads.setdefault(head, []).append(glob)
        else:
            self._tails.setdefault(tail, []).append(glob)

    def matching(self, tool: str) -> list[Ranked]:
        """Return the entries for this name with their rank: the exact one, then globs, the most specific first."""
        found: list[Ranked] = []
        heads, tails, length = self._heads, self._tails, len(tool)
        for size in self._head_sizes:
            if size > length:
                break
            if tool[:size] in heads:
                found += _matching_globs(heads[tool[:size]], tool)
        for size in self._tail_sizes:
            if size > length:
                break
            if tool[-size:] in tails:
                found += _matching_globs(tails[tool[-size:]], tool)
        if tool in self._exact:
            found.append(self._exact[tool])
        found.sort(key=lambda each: (-each[0], each[1].pattern))
        return found


def _matching_globs(globs: list[_Glob], tool: str) -> list[Ranked]:
    # An entry whose pattern equals the name is found as the exact one.
    return [ranked for ranked, matches in globs if (not matches or matches(tool)) and ranked[1].pattern != tool]


def _matcher(pattern: str, head: str, tail: str) -> Callable[[str], object] | None:
    if pattern in (head + "*", "*" + tail):
        return None  # the lookup by head or tail has matched the whole pattern
    compiled: list[re.Pattern[str]] = []

    def matches(tool: str) -> object:
        if not compiled:  # compiled at first use: most of ten thousand rules are never matched
            compiled.append(re.compile(fnmatch.translate(pattern)))
        return compiled[0].match(tool)

    return matches


def _count_literals(pattern: str) -> int:
    """Count the literal characters of a glob: a set such as `[a-z]` says little about a name."""
    return len(re.sub(r"\[[!]?\]?[^\]]*\]|[*?\[\]]", "", pattern))
