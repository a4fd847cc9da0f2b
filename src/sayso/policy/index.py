"""Entries found by name: exact ones in a dictionary, globs by literal head or tail; many cost no more than few."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.policy.entries import Entry

_WILD = re.compile(r"[*?\[]")
_EXACT = 1 << 30
_Glob = tuple[int, "Entry", Callable[[str], object]]  # rank, entry, and whether it matches a name with its head or tail


class Index:
    """The owner's entries."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Sort the entries into their places."""
        self._exact: dict[str, Entry] = {}
        self._heads: dict[str, list[_Glob]] = {}
        self._tails: dict[str, list[_Glob]] = {}
        for entry in entries:
            self._add(entry)
        self._head_sizes = sorted({len(head) for head in self._heads})
        self._tail_sizes = sorted({len(tail) for tail in self._tails})

    def _add(self, entry: Entry) -> None:
        pattern = entry.pattern
        self._exact[pattern] = entry  # a glob too: a tool may be called `file[write]`, which that glob does not match
        wild = _WILD.search(pattern)
        if wild is None:
            return
        head, tail = pattern[: wild.start()], re.split(r"[*?\]]", pattern)[-1]
        glob = (_literals(pattern), entry, _matcher(pattern, head, tail))
        if head or not tail:
            self._heads.setdefault(head, []).append(glob)
        else:
            self._tails.setdefault(tail, []).append(glob)

    def matching(self, tool: str) -> list[tuple[int, Entry]]:
        """Return the entries for this name with their rank: the exact one, then globs, the most specific first."""
        found: list[tuple[int, Entry]] = []
        for size in self._head_sizes:
            if size <= len(tool) and (globs := self._heads.get(tool[:size])):
                found += [(rank, entry) for rank, entry, matches in globs if matches(tool) and entry.pattern != tool]
        for size in self._tail_sizes:
            if size <= len(tool) and (globs := self._tails.get(tool[-size:])):
                found += [(rank, entry) for rank, entry, matches in globs if matches(tool) and entry.pattern != tool]
        exact = self._exact.get(tool)
        if exact is not None:
            found.append((_EXACT, exact))
        if len(found) > 1:
            found.sort(key=lambda each: (-each[0], each[1].pattern))
        return found


def _matcher(pattern: str, head: str, tail: str) -> Callable[[str], object]:
    if pattern in (head + "*", "*" + tail):
        return _always  # its head or tail is all there is to match, and that is how it was found
    compiled: list[re.Pattern[str]] = []

    def matches(tool: str) -> object:
        if not compiled:  # ten thousand rules are quick to load, and most are never asked about
            compiled.append(re.compile(fnmatch.translate(pattern)))
        return compiled[0].match(tool)

    return matches


def _always(_: str) -> object:
    return True


def _literals(pattern: str) -> int:
    return len(pattern) - sum(map(pattern.count, "*?[]"))
