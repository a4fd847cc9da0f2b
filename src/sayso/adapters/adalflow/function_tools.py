"""Conversion of AdalFlow's calls: every argument by its name, and back to positional and keyword arguments."""

from __future__ import annotations

import copy
import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from sayso.adapters import function
from sayso.adapters.adalflow.library import Function, FunctionTool
from sayso.adapters.previewing import apply_preview
from sayso.core.callables import is_async
from sayso.core.canonical import canonical, freeze, thaw
from sayso.core.model import Approved, Preview, Rule, ToolCall, Verdict, new_id
from sayso.errors import CanonicalError, ToolError
from sayso.policy.policy import ToolRules


@dataclass(frozen=True, kw_only=True)
class FunctionCall:
    """A function call of AdalFlow, as a `ToolCall` with its tool and rules."""

    func: Function
    call: ToolCall
    rules: ToolRules
    tool: GuardedFunctionTool | None  # None if it cannot be called, for the reason in `problem`
    problem: str = ""

    def approved_function(self, outcome: Approved) -> Function:
        """Return the function to run: a copy with exactly the approved arguments."""
        if self.tool is None:
            raise TypeError(f"{self.call.tool} cannot be called: {self.problem}")
        args, kwargs = self.tool.split_arguments(thaw(outcome.args), positional=len(self.func.args or ()))
        return copy_function(self.func, args, kwargs)

    def edited_arguments(self, args: object, kwargs: object) -> dict[str, Any]:
        """Return edited arguments by name; None leaves the positional or the keyword arguments as they are.

        Raises:
            TypeError: the tool cannot be called with them.
        """
        if self.tool is None:
            raise TypeError(f"{self.call.tool} cannot be called: {self.problem}")
        given = self.func.args if args is None else args, self.func.kwargs if kwargs is None else kwargs
        return self.tool.bind_arguments(*_check_arguments(*given))


class GuardedFunctionTool:
    """A tool of AdalFlow with its rules, its signature and its preview."""

    def __init__(self, name: str, source: FunctionTool, *, mark: str) -> None:
        """Wrap a tool; `mark` is the reason why it asks, and an empty one leaves that to the policy."""
        self.source = source
        self._target = target = cast("Callable[..., Any]", cast("Any", source).fn)
        self._callback = cast("Callable[..., Any] | None", cast("Any", source).pre_execute_callback)
        self._marked_tool = getattr(target, "__sayso__", None)
        self._mark = mark
        tool = function.Tool(_plain_function(target), None, {"name": name}, mark=bool(mark), on_denied="raise")
        self.name, self.signature, self.schema_hash = name, tool.signature, tool.schema_hash
        self._defaults = {key: value for key, value in tool.defaults.items() if _is_data(value)}
        own = self._marked_tool if isinstance(self._marked_tool, function.Tool) else None
        self.marked_as = own.name if own is not None else name
        self.rules = ToolRules(
            judge=own.rules.judge if own is not None else None,
            marked=bool(mark) or bool(getattr(target, "_requires_approval", False)),
            details=self._details,
            misfit=tool.misfit,
            parameters=tool.rules.parameters,
        )

    def bind_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return all arguments by name, with the defaults that can be shown, since a rule may be about one of them.

        Raises:
            TypeError: the tool cannot be called like that.
        """
        bound = self.signature.bind(*args, **kwargs)
        given = self._defaults | bound.arguments
        return {name: given[name] for name in self.signature.parameters if name in given}

    def split_arguments(self, named: Mapping[str, Any], *, positional: int) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments as AdalFlow passes them: by position only as many as before, or as needed."""
        given = OrderedDict((name, named[name]) for name in self.signature.parameters if name in named)
        bound = inspect.BoundArguments(self.signature, given)
        args, kwargs = list(bound.args), dict(bound.kwargs)
        parameters = list(self.signature.parameters.values())
        if len(args) > len(parameters) or any(each.kind is each.VAR_POSITIONAL for each in parameters[: len(args)]):
            return args, kwargs
        while len(args) > positional and parameters[len(args) - 1].kind is not inspect.Parameter.POSITIONAL_ONLY:
            value = args.pop()
            kwargs[parameters[len(args)].name] = value
        return args, {name: kwargs[name] for name in (*self.signature.parameters, *kwargs) if name in kwargs}

    async def _details(self, call: ToolCall) -> Verdict:
        """Return the verdict of the mark, with the preview of AdalFlow's own `pre_execute_callback`."""
        if isinstance(self._marked_tool, function.Tool):
            verdict = await self._marked_tool.details(call)
        else:
            rule, words = Rule(source="AdalFlow", key=self.name), function.doc_line(self._target)
            verdict = Verdict(approval="required", reason=self._mark, rule=rule, description=words)
        return verdict if self._callback is None else await apply_preview(self._preview, call, verdict)

    def preview_details(self, func: Function) -> Any:  # noqa: ANN401 - the host's own
        """Return the preview of a synchronous `pre_execute_callback`; raise `ToolError` if the call would fail."""
        if self._callback is None or is_async(self._callback):
            return None
        shown = self._callback(*(func.args or ()), **(func.kwargs or {}))
        read_preview(shown)
        return shown

    async def _preview(self, **named: object) -> Preview:
        args, kwargs = self.split_arguments(named, positional=0)
        shown = self._callback(*args, **kwargs) if self._callback is not None else None
        return read_preview(await shown if inspect.isawaitable(shown) else shown)


def to_function_call(func: Function, tool: GuardedFunctionTool | None, *, agent_path: tuple[str, ...]) -> FunctionCall:
    """Convert a function to a call; an invalid one is blocked without a question, and never runs."""
    name = func.name if isinstance(cast("object", func.name), str) else repr(func.name)
    facts: dict[str, Any] = {"tool": name, "call_id": func.id or new_id(), "agent_path": agent_path}
    try:
        args, kwargs = _check_arguments(func.args, func.kwargs)
        tool = _require_tool(tool, name)
        call = ToolCall(args=tool.bind_arguments(args, kwargs), schema_hash=tool.schema_hash, **facts)
        # A copy: a callback may keep the model's function, and change it.
        kept = copy_function(func, **thaw(freeze({"args": args, "kwargs": kwargs})))
    except (TypeError, CanonicalError) as error:
        problem = f"{name} cannot be called like that: {error}"
        call = ToolCall(args={"args": repr(func.args), "kwargs": repr(func.kwargs)}, **facts)
        refused = Verdict(approval="blocked", reason=problem, rule=Rule(source="AdalFlow", key=name), fails=True)
        return FunctionCall(func=func, call=call, rules=ToolRules(judge=lambda _: refused), tool=None, problem=problem)
    return FunctionCall(func=kept, call=call, rules=tool.rules, tool=tool)


def copy_function(func: Function, args: list[Any], kwargs: dict[str, Any]) -> Function:
    """Return a copy with these arguments; a subclass may have an `__init__` of its own, which takes others."""
    copied = copy.copy(func)
    copied.args, copied.kwargs = args, kwargs
    return copied


def _require_tool(tool: GuardedFunctionTool | None, name: str) -> GuardedFunctionTool:
    if tool is None:
        raise TypeError(f"there is no tool {name!r}")
    return tool


def read_preview(shown: object) -> Preview:
    """Convert the result of AdalFlow's `pre_execute_callback`: any value to show, or one with an `error`."""
    if isinstance(shown, Preview):
        return shown
    error = getattr(shown, "error", None)
    if error is not None:
        raise ToolError(str(error))
    details = msgspec.to_builtins(shown, str_keys=True, enc_hook=str)
    return Preview(metadata=None if shown is None else {"confirmation_details": details})


def _check_arguments(args: object, kwargs: object) -> tuple[list[Any], dict[str, Any]]:
    """Validate the arguments of a model, which may be anything."""
    given: object = [] if args is None else args
    named: object = {} if kwargs is None else kwargs
    if not isinstance(given, list | tuple) or not isinstance(named, Mapping):
        raise TypeError("`args` has to be a list, and `kwargs` a mapping")
    names = cast("Mapping[Any, Any]", named)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("an argument's name has to be a text")
    return list(cast("list[Any]", given)), dict(names)


def _plain_function(target: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function of the same signature, since a generator cannot be guarded."""

    @functools.wraps(target, updated=())
    def begun(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the tool's own
        return target(*args, **kwargs)

    return begun


def _is_data(value: object) -> bool:
    try:
        canonical(freeze({"": value}))
    except (CanonicalError, TypeError):
        return False
    return True
