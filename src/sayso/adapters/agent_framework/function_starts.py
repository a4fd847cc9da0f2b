"""Function starts: the last place before a tool runs, where an approved call passes once, with what was approved.

Middleware of context providers comes after ours, and can change the arguments or run the tool twice. So each tool that
is called checks for itself: its function is replaced in that one tool.

Tests: tests/adapters/agent_framework/test_holes.py
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextvars import ContextVar
from functools import wraps
from types import FunctionType
from typing import Any

from agent_framework import FunctionInvocationContext, FunctionTool

from sayso.adapters.agent_framework.function_calls import InvokedCall, innermost
from sayso.adapters.kit import check_start
from sayso.engine import context
from sayso.errors import ApprovalBlocked, ConfigurationError

_GUARDING = threading.Lock()  # runs in several threads may meet a new tool at once
_GUARDED: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()
_CHANGED = "its arguments were changed after the decision"


class StartPermit:
    """The approval of one call, with which the function of its tool starts once."""

    def __init__(self, asked: InvokedCall, values: Mapping[str, Any]) -> None:
        self.tool = asked.tool
        self.is_taken = False
        self._asked = asked
        self._values = values

    def take(self, given: tuple[object, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the function gets, in the place of what it is started with.

        Raises:
            ApprovalBlocked: it was started before, or with other arguments than were judged.
        """
        check_start(self._asked.call.tool, None)
        bound = vars(self.tool).get("_instance")  # the object of a tool that is a method: it has no public name
        passed = _without_contexts(named)
        is_by_name = not given or (len(given) == 1 and given[0] is bound)
        if not is_by_name or not self._asked.arguments.is_passed(passed):
            raise ApprovalBlocked(self._asked.call.tool, _CHANGED, cause="changed")
        self.is_taken = True
        contexts = {name: self._approved(named[name]) for name in named.keys() - passed.keys()}
        return {**self._values, **contexts}

    def _approved(self, given: FunctionInvocationContext) -> FunctionInvocationContext:
        """Return the context that a function asks for, with the arguments that were approved."""
        own = copy.copy(given)
        own.arguments = dict(self._values)
        return own


_PERMIT: ContextVar[StartPermit | None] = ContextVar("sayso_agent_framework_permit", default=None)


@contextlib.contextmanager
def permit_start(asked: InvokedCall, values: Mapping[str, Any]) -> Generator[StartPermit]:
    """Let the tool of an approved call start in the block, which is inside its guarded run."""
    guard_starts([asked.tool])  # its function may have been replaced while somebody was asked
    permit = StartPermit(asked, values)
    token = _PERMIT.set(permit)
    try:
        yield permit
    finally:
        context.reset(_PERMIT, token)


def check_own_start(tool: FunctionTool) -> None:
    """Check that a tool starts its function as the framework's own tools do.

    Raises:
        ConfigurationError: it starts in a way of its own, in which nothing could be checked.
    """
    if type(tool).invoke is not FunctionTool.invoke:
        raise ConfigurationError(
            f"the tool {tool.name!r} overrides `invoke`, so nothing could check what it runs with; put what it does "
            "into its function"
        )


def guard_starts(tools: Iterable[object]) -> None:
    """Have the functions of tools check each start."""
    for tool in (innermost(each) for each in tools if isinstance(each, FunctionTool)):
        with _GUARDING:
            function = tool.func
            if function is not None and not (isinstance(function, FunctionType) and function in _GUARDED):
                tool.func = _checked(function, tool.name)
                _GUARDED.add(tool.func)


def _checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that checks its start; it stays sync or async, for the framework runs these in other ways."""

    @wraps(function)
    def checked(*args: object, **kwargs: object) -> object:
        return function(*args, **_take(checked, name, args, kwargs))

    @wraps(function)
    async def checked_async(*args: object, **kwargs: object) -> object:
        return await function(*args, **_take(checked_async, name, args, kwargs))

    return checked_async if inspect.iscoroutinefunction(function) else checked


def _take(
    checked: Callable[..., Any], name: str, args: tuple[object, ...], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    permit = _PERMIT.get()
    if permit is not None and permit.tool.func is checked:
        return permit.take(args, kwargs)
    check_start(name, None if args else _without_contexts(kwargs))  # a tool that another one calls
    return kwargs


def _without_contexts(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments without the context that the framework passes to functions that ask for it."""
    return {name: value for name, value in named.items() if not isinstance(value, FunctionInvocationContext)}
