"""Inspection of callables: whether a call returns an awaitable.

Tests: tests/adapters/test_function.py
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast


def is_async(function: Callable[..., Any]) -> bool:
    """Whether this is an async function, a partial of one, or an object with an async `__call__`."""
    while isinstance(function, functools.partial):
        function = cast("Callable[..., Any]", function.func)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
    )
