"""Tool starts: the last place before a tool runs, where only an approved call passes, once and unchanged.

CrewAI runs hooks behind ours, tries a failing tool again under one call of its hooks, and lets anybody take all hooks
away. So each guarded tool checks for itself: the function that CrewAI runs is replaced in that one tool.

Tests: tests/adapters/crewai/test_holes.py
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from types import MethodType
from typing import Any, TypeGuard

from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.tools.structured_tool import CrewStructuredTool
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import BaseModel

from sayso.adapters.kit import GuardedRun, check_start
from sayso.core.canonical import freeze, is_same_value, thaw
from sayso.core.model import Approved, ToolCall
from sayso.engine import context
from sayso.errors import ApprovalBlocked, ConfigurationError

_FUNCTION_TOOL: Any = Tool  # what `@tool` makes of a function; its type parameters are of no concern here
_OWN_RUNS: tuple[Any, ...] = (BaseTool.run, _FUNCTION_TOOL.run)
_GUARDING = threading.Lock()  # calls of one response meet a new tool at once
_UNGUARDED = "CrewAI started it without having asked the hooks of `Approvals`; did something remove them?"
_TWICE = "it was started a second time under one approval"
_CHANGED = "its arguments were changed after the decision"


class Permit:
    """The approval of one call, with which its tool starts once."""

    def __init__(self, tool: BaseTool | CrewStructuredTool, call: ToolCall, outcome: Approved, run: GuardedRun) -> None:
        self.tool = tool
        self.outcome = outcome
        # Frozen, since hooks behind ours may change what they are given; an edit may leave out defaults.
        self._approved = freeze(plain_args(tool.args_schema, thaw(outcome.args)))
        self.outer: Permit | None = None  # of the call around this one, in the same context
        self._asked = call.args
        self._run = run
        self._unused = [True]
        self._error: BaseException | None = None

    @property
    def args(self) -> dict[str, Any]:
        """The approved arguments, of which each caller gets a copy."""
        return thaw(self._approved)

    @contextlib.contextmanager
    def start(self, args: Mapping[str, Any] | None, name: str) -> Generator[GuardedRun]:
        """Run the tool in the block, if it gets what was asked about or approved; else raise.

        Where CrewAI tries a tool that has failed again, its first error is raised again, for the model to read.
        """
        given = None if args is None else freeze(args)
        if given is None or not any(is_same_value(given, known) for known in (self._approved, self._asked)):
            raise ApprovalBlocked(name, _CHANGED, cause="changed")
        if not self._use():
            raise self._error or ApprovalBlocked(name, _TWICE, cause="replayed")
        try:
            with self._run as run:
                check_start(name, self.outcome.args)
                yield run
        except BaseException as error:
            self._error = error
            raise

    def expire(self) -> bool:
        """End the permit, and audit that the call did not run if it has not; true if it has run."""
        if not self._use():
            return True
        self._run.begin().raised(RuntimeError("CrewAI did not start the tool"))
        return False

    def _use(self) -> bool:
        try:
            return self._unused.pop()
        except IndexError:  # by another thread, too
            return False


_PERMIT: ContextVar[Permit | None] = ContextVar("sayso_crewai_permit", default=None)


def grant(permit: Permit) -> None:
    """Let the tool of a call start in this context."""
    permit.outer = _PERMIT.get()
    _PERMIT.set(permit)


def withdraw(permit: Permit) -> None:
    """Take the permit of a call back, now that CrewAI has done with it."""
    if _PERMIT.get() is permit:
        _PERMIT.set(permit.outer)


class GuardedFunction:
    """The function of one tool, which runs only with a permit."""

    def __init__(self, function: Callable[..., Any], tool: BaseTool | CrewStructuredTool) -> None:
        self.function = function
        self.tool = tool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - what the tool takes and returns
        """Run the function with the approved arguments, if its call is approved; else raise `ApprovalBlocked`."""
        if inspect.iscoroutinefunction(self.function):
            return self._run_async(args, kwargs)
        permit, given = self._permit(), self._given(args, kwargs)
        if permit is None:
            self._check_unasked(given)
            return self.function(*args, **kwargs)
        with permit.start(given, self.name) as run:
            run.result = self.function(**self._approved(permit))
            if inspect.iscoroutine(run.result):
                run.result = asyncio.run(run.result)  # as CrewAI would
        return run.result

    async def _run_async(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - as above
        permit, given = self._permit(), self._given(args, kwargs)
        if permit is None:
            self._check_unasked(given)
            return await self.function(*args, **kwargs)
        with permit.start(given, self.name) as run:
            run.result = await self.function(**self._approved(permit))
        return run.result

    @property
    def name(self) -> str:
        """The name of the tool, as the model and the rules have it."""
        return name_of(self.tool)

    def _permit(self) -> Permit | None:
        permit = _PERMIT.get()
        return permit if permit is not None and permit.tool is self.tool else None

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        return None if args else plain_args(self.tool.args_schema, kwargs)

    def _approved(self, permit: Permit) -> dict[str, Any]:
        """Return the approved arguments as the tool's function takes them."""
        schema = self.tool.args_schema
        return _validated(schema, permit.args).model_dump() if _has_fields(schema) else permit.args

    def _check_unasked(self, given: dict[str, Any] | None) -> None:
        """Let a tool run that another one starts by hand, if nobody has to be asked about it."""
        running = context.current_call()
        if running is None or running.call is None:
            raise ApprovalBlocked(self.name, _UNGUARDED, cause="unguarded")
        check_start(self.name, given)


def plain_args(schema: type[BaseModel] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as the tool will get them, defaults too, as plain data.

    Raises:
        ValueError: they do not fit the tool.
    """
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a model's JSON, of which CrewAI checks nothing
        raise ValueError(f"they are {type(given).__name__}, not named arguments")  # noqa: TRY004 - what does not fit
    if not _has_fields(schema):
        return dict(given)
    return _validated(schema, given).model_dump(mode="json", by_alias=True)


def _has_fields(schema: type[BaseModel] | None) -> TypeGuard[type[BaseModel]]:
    """Whether a schema names arguments; if not, CrewAI passes them on as they are."""
    return schema is not None and bool(schema.model_fields)


def _validated(schema: type[BaseModel], given: Mapping[str, Any]) -> BaseModel:
    """Return arguments with the names that the model writes, or those that the tool's function gets."""
    return schema.model_validate(dict(given), by_alias=True, by_name=True)


def name_of(tool: BaseTool | CrewStructuredTool) -> str:
    """Return the name of a tool as the model and the rules have it."""
    return sanitize_tool_name(tool.name)


def guard_start(tool: BaseTool) -> None:
    """Let a tool start only with a permit from here on, whoever starts it.

    Raises:
        ConfigurationError: the tool runs in a way of its own, which cannot be checked.
    """
    kind: Any = type(tool)
    if kind.run not in _OWN_RUNS or (_is_function(tool) and kind._run is not _FUNCTION_TOOL._run):  # noqa: SLF001 - what a subclass may define
        raise ConfigurationError(
            f"the tool {tool.name!r} runs in a way of its own, which cannot be guarded; derive it from BaseTool, and "
            "define only `_run`"
        )
    if _is_function(tool):
        _guard_function(tool)
        return
    with _GUARDING:
        for method in ("_run", "_arun"):  # which a subclass of `BaseTool` defines; CrewAI may call either
            if not _is_guarded(vars(tool).get(method), tool):
                vars(tool)[method] = GuardedFunction(MethodType(getattr(kind, method), tool), tool)


def guard_structured(tool: CrewStructuredTool) -> BaseTool | CrewStructuredTool:
    """Guard the tool that CrewAI is about to run, made by CrewAI itself perhaps; return the one that is checked."""
    original: Any = tool._original_tool  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the native loop runs it, and nothing else tells of it
    if not isinstance(original, BaseTool):
        _guard_function(tool)
        return tool
    guard_start(original)
    if not _is_function(original):
        tool.func = vars(original)["_run"]  # it may hold the method from before
    return original


def function_of(tool: BaseTool | CrewStructuredTool) -> object:
    """Return the function behind a guarded tool, as its author wrote it."""
    return _unguarded(tool.func if _is_function(tool) or isinstance(tool, CrewStructuredTool) else vars(tool)["_run"])


def _is_function(tool: object) -> TypeGuard[Tool[..., Any]]:
    """Whether `@tool` has made a tool of a function."""
    return isinstance(tool, Tool)


def _guard_function(tool: Tool[..., Any] | CrewStructuredTool) -> None:
    with _GUARDING:
        if not _is_guarded(tool.func, tool):
            tool.func = GuardedFunction(_unguarded(tool.func), tool)


def _is_guarded(function: object, tool: object) -> bool:
    """Whether a function is guarded for this tool; a copy of a tool still has that of the first one."""
    return isinstance(function, GuardedFunction) and function.tool is tool


def _unguarded(function: Any) -> Any:  # noqa: ANN401 - the function of a tool
    return function.function if isinstance(function, GuardedFunction) else function
