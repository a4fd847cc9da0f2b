"""Entries found by name: exact ones in a dictionary, globs by literal head or tail; many cost no more than few."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.policy.entries import Entry

_WILD = re.compile(r"[*?\[]")
_EXACT = 1 << 30


class Index:
    """The owner's entries."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Sort the entries into their places."""
        self._exact: dict[str, Entry] = {}
        self._heads: dict[str, list[tuple[Entry, re.Pattern[str]]]] = {}
        self._tails: dict[str, list[tuple[Entry, re.Pattern[str]]]] = {}
        for entry in entries:
            self._add(entry)
        self._head_sizes = sorted({len(head) for head in self._heads})
        self._tail_sizes = sorted({len(tail) for tail in self._tails})

    def _add(self, entry: Entry) -> None:
        wild = _WILD.search(entry.pattern)
        if wild is None:
            self._exact[entry.pattern] = entry
            return
        glob = (entry, re.compile(fnmatch.translate(entry.pattern)))
        head, tail = entry.pattern[: wild.start()], re.split(r"[*?\]]", entry.pattern)[-1]
        if head or not tail:
            self._heads.setdefault(head, []).append(glob)
        else:
            self._tails.setdefault(tail, []).append(glob)

    def matching(self, tool: str) -> list[tuple[int, Entry]]:
        """Return the entries for this name with their rank: the exact one, then globs, the most specific first."""
        globs = [glob for size in self._head_sizes if size <= len(tool) for glob in self._heads.get(tool[:size], ())]
        globs += [glob for size in self._tail_sizes if size <= len(tool) for glob in self._tails.get(tool[-size:], ())]
        found = [(_literals(entry.pattern), entry) for entry, pattern in globs if pattern.match(tool)]
        if tool in self._exact:
            found.append((_EXACT, self._exact[tool]))
        return sorted(found, key=lambda each: (-each[0], each[1].pattern))


def _literals(pattern: str) -> int:
    return len(pattern) - sum(pattern.count(each) for each in "*?[]")
