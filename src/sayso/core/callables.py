"""Inspection of callables: whether a call returns an awaitable.

Tests: tests/adapters/test_function.py
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling this gives something to await: an async function, a partial of one, or an object like one."""
    while isinstance(function, functools.partial):
        function = cast("Callable[..., Any]", function.func)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
    )
