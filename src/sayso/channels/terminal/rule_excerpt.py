"""Excerpt of the policy file around the rule that asks.

Tests: tests/channels/terminal/test_looking.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sayso.channels.display.request_lines import GUTTER, Line, labelled_lines
from sayso.channels.display.sanitize import visible
from sayso.core.model import ApprovalRequest, Rule

_AROUND = 3  # lines above and below
_LARGEST = 1_000_000  # bytes of a policy file that are read


def rule_lines(request: ApprovalRequest, width: int, *, is_local: bool) -> Iterator[Line]:
    """Yield the reason, the rule and an excerpt of its file; a relative path is read only if the run is local."""
    yield []
    yield [("class:heading", "why this is asked")]
    yield from labelled_lines("because", request.reason, width)
    rule = request.rule
    if rule is None:
        return
    yield from labelled_lines("rule", rule.key, width)
    yield from labelled_lines("from", rule.source if rule.line is None else f"{rule.source}, line {rule.line}", width)
    yield from _excerpt(rule, is_local=is_local)


def _excerpt(rule: Rule, *, is_local: bool) -> Iterator[Line]:
    path = Path(rule.source)
    # On another machine, a relative path could name another file.
    lines = _read_policy_lines(path) if rule.line is not None and (is_local or path.is_absolute()) else []
    if rule.line is None or not 0 < rule.line <= len(lines):
        return
    first = max(rule.line - _AROUND, 1)
    for number, text in enumerate(lines[first - 1 : rule.line + _AROUND], first):
        here = number == rule.line
        style = "class:marked" if here else ""
        yield [GUTTER, ("class:number", f"{number:>4} "), (style, f"{'▸' if here else ' '} {visible(text)}")]


def _read_policy_lines(path: Path) -> list[str]:
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []
