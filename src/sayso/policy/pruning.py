"""Pruning: removes the parts of a policy's data that have the wrong form, so that the rest can still be checked.

Tests: tests/policy/test_compile.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from sayso.policy.data_schema import Key, Problem

# The length of the key of a rule's field, by section. Such a field is removed whole, because half of one has another
# meaning, as `escalate` has without its `role`.
_FIELD_DEPTHS = {"tools": 3, "tool_configs": 3, "custom_tools": 3, "shell_rules": 3, "shell": 4, "sandbox": 4}


def prune(data: Mapping[str, Any], problems: Iterable[Problem]) -> dict[str, Any]:
    """Return a copy without the values that these problems are about; in lists, None takes their places."""
    copied = cast("dict[str, Any]", _copy(data))
    for problem in problems:
        if problem.key:
            _remove(copied, problem.key[: _FIELD_DEPTHS.get(str(problem.key[0]), len(problem.key))])
    return copied


def _copy(value: object) -> object:
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {name: _copy(item) for name, item in entries.items() if isinstance(name, str) and name}
    return [_copy(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def _remove(data: dict[str, Any], key: Key) -> None:
    inside: object = data
    for step in key[:-1]:
        inside = _item(inside, step)
    if isinstance(inside, dict):
        cast("dict[str | int, object]", inside).pop(key[-1], None)
    elif isinstance(inside, list):
        cast("list[object]", inside)[cast("int", key[-1])] = None


def _item(inside: object, step: str | int) -> object:
    """Return what is in a mapping or a list, or None if it was removed already."""
    if isinstance(inside, dict):
        return cast("dict[str | int, object]", inside).get(step)
    return cast("list[object]", inside)[cast("int", step)] if isinstance(inside, list) else None
