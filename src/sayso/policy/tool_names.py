"""Rules compared with the tools of an agent: misspelt names, rules that name no tool, tools that no rule names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from sayso.policy.index import is_glob
from sayso.policy.vocabulary import suggest

if TYPE_CHECKING:
    from sayso.core.model import Rule
    from sayso.policy.policy import Policy

_ALIKE = 0.8  # `read_file` and `write_file` are less alike, `payy` and `pay` more


class MisspeltRules:
    """Finds rules that seem to misspell a tool, as an agent's tools become known; each rule is reported once.

    A rule may be for a tool of another agent, or for one that is added later. So it is reported only if a known tool
    has nearly the same name, and no rule of its own.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known: set[str] = set()
        self._reported: set[str] = set()

    def report(self, tools: Collection[str]) -> list[str]:
        """Return a sentence for each rule that seems to misspell one of these tools."""
        if self._known.issuperset(tools):
            return []  # the usual case, at every step of a run
        patterns = self._policy.patterns
        alone = [tool for tool in tools if tool not in self._known and tool not in patterns]
        self._known.update(tools)
        return list(self._misspelt(patterns.items(), alone)) if alone else []

    def _misspelt(self, patterns: Iterable[tuple[str, Rule]], tools: Collection[str]) -> Iterator[str]:
        for name, rule in patterns:
            if name in self._known or name in self._reported or is_glob(name):
                continue
            near = _nearest(name, tools)
            if near is not None:
                self._reported.add(name)
                yield f"the rule {rule} names no tool of this agent; did you mean {near!r}?"


def _nearest(name: str, tools: Collection[str]) -> str | None:
    slip = next((tool for tool in tools if _differs_by_case(name, tool) or _is_transposed(name, tool)), None)
    return slip or next(iter(difflib.get_close_matches(name, tools, n=1, cutoff=_ALIKE)), None)


def _differs_by_case(name: str, tool: str) -> bool:
    return name.casefold() == tool.casefold()


def _is_transposed(name: str, tool: str) -> bool:
    """Tell whether two neighbouring characters are swapped; short names are too little alike for a ratio."""
    apart = [place for place, pair in enumerate(zip(name, tool, strict=False)) if pair[0] != pair[1]]
    if len(name) != len(tool) or len(apart) != 2 or apart[1] != apart[0] + 1:  # noqa: PLR2004 - neighbours are two
        return False
    return name[apart[0]] == tool[apart[1]] and name[apart[1]] == tool[apart[0]]


def idle_rules(policy: Policy, tools: Collection[str]) -> Iterator[tuple[str, Rule, str]]:
    """Yield each name or glob that is that of none of these tools, with its rule and a sentence."""
    for pattern, rule in policy.patterns.items():
        if pattern not in tools and not any(fnmatchcase(tool, pattern) for tool in tools):
            near = "" if is_glob(pattern) else suggest(pattern, [tool for tool in tools if tool not in policy.patterns])
            yield pattern, rule, f"{rule.key} is about none of the tools{near}"


def unnamed_tools(policies: Collection[Policy], tools: Iterable[str]) -> list[str]:
    """Return the tools that no rule of these policies names, so that the default decides about them."""
    return [tool for tool in tools if not any(policy.names(tool) for policy in policies)]
