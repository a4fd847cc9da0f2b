"""The runner: reports notes, reasons and edited arguments to the model, and results to the audit."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import AsyncGenerator, Generator
from functools import partial
from typing import Any, Literal, cast

from sayso.adapters.adalflow.function_tools import FunctionCall
from sayso.adapters.adalflow.library import (
    Function,
    FunctionOutput,
    RunItemStreamEvent,
    Runner,
    RunnerStreamingResult,
    ToolCallActivityRunItem,
    ToolCallRunItem,
    ToolOutput,
)
from sayso.adapters.adalflow.permission import PermissionManager, denied_output, permission_event
from sayso.adapters.adalflow.step_history import run_steps
from sayso.adapters.kit import add_feedback, has_feedback
from sayso.core.model import ApprovalRequest, Approved, Denied
from sayso.engine import context

EventName = Literal["agent.tool_permission_request", "agent.tool_call_start", "agent.tool_call_activity"]


class _ToolFailed(Exception):
    """An error of a tool, which AdalFlow returns as a text."""

    def __init__(self, result: FunctionOutput) -> None:
        super().__init__(result.error)
        self.result = result


class Approving:
    """Mix it in before AdalFlow's `Runner`, or a runner of your own: `class MyRunner(Approving, Runner)`.

    It has an effect only with a permission manager of sayso.
    """

    permission_manager: Any
    agent: Any

    def call(self, prompt_kwargs: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - AdalFlow's own
        """Run; a request shows the query and the steps before it."""
        with self._messages_from(prompt_kwargs):
            return cast("Any", super()).call(prompt_kwargs, *args, **kwargs)

    async def acall(self, prompt_kwargs: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - AdalFlow's own
        """Do what `call` does, asynchronously."""
        with self._messages_from(prompt_kwargs):
            return await cast("Any", super()).acall(prompt_kwargs, *args, **kwargs)

    async def impl_astream(self, prompt_kwargs: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - AdalFlow's own
        """Stream a run; a permission event is emitted when its request is opened, not before."""
        above = cast("Any", super())
        if not isinstance(self.permission_manager, PermissionManager):
            await above.impl_astream(prompt_kwargs, *args, **kwargs)
            return
        with self.permission_manager.runner_emits_requests(), self._messages_from(prompt_kwargs):
            await above.impl_astream(prompt_kwargs, *args, **kwargs)

    def _messages_from(self, prompt: object) -> context.messages_from:
        return context.messages_from(partial(run_steps, self, prompt, context.prompt_role()))

    def _tool_execute_sync(self, func: Function) -> Any:  # noqa: ANN401 - AdalFlow's own types
        manager = self.permission_manager
        if not isinstance(manager, PermissionManager):
            return cast("Any", super())._tool_execute_sync(func)  # noqa: SLF001 - the method that this overrides
        function_call = self._build_call(manager, func)
        outcome = _deny_if_replaced(function_call, manager.settle_sync(function_call), self.agent)
        if isinstance(outcome, Denied):
            return FunctionOutput(name=func.name, input=func, output=denied_output(outcome))
        try:
            with manager.execution(function_call, outcome) as running:
                result = _output(self.agent.tool_manager.execute_func(func=function_call.approved_function(outcome)))
                result.output = running.result = _run_to_end(result.output)
                _raise_if_failed(result)
        except _ToolFailed as failed:
            result = failed.result
        return _report_feedback(result, function_call, outcome)

    async def _tool_execute_async(self, func: Function, streaming_result: RunnerStreamingResult | None = None) -> Any:  # noqa: ANN401 - AdalFlow's own types
        manager = self.permission_manager
        if not isinstance(manager, PermissionManager):
            return await cast("Any", super())._tool_execute_async(func, streaming_result)  # noqa: SLF001 - as above
        function_call = self._build_call(manager, func)

        def emit_request(request: ApprovalRequest) -> None:
            if streaming_result is not None:
                details = (request.metadata or {}).get("confirmation_details")
                _emit(streaming_result, "agent.tool_permission_request", permission_event(function_call, details))

        outcome = _deny_if_replaced(function_call, await manager.settle(function_call, emit_request), self.agent)
        if isinstance(outcome, Denied):
            return FunctionOutput(name=func.name, input=func, output=denied_output(outcome))
        runs = function_call.approved_function(outcome)
        if streaming_result is not None:
            _emit(streaming_result, "agent.tool_call_start", ToolCallRunItem(data=runs, id=function_call.call.call_id))
        try:
            with manager.execution(function_call, outcome) as running:
                result = _output(await self.agent.tool_manager.execute_func_async(func=runs))
                result.output = running.result = await _run_to_end_async(
                    result.output, streaming_result, function_call.call.call_id
                )
                _raise_if_failed(result)
        except _ToolFailed as failed:
            result = failed.result
        return _report_feedback(result, function_call, outcome)

    def _build_call(self, manager: PermissionManager, func: Function) -> FunctionCall:
        return manager.build_call(
            func, agent=getattr(self.agent, "name", "") or "", tool_manager=self.agent.tool_manager
        )


class ApprovalRunner(Approving, Runner):
    """AdalFlow's runner, which reports the decisions of a permission manager of sayso to the model."""


def _deny_if_replaced(function_call: FunctionCall, outcome: Approved | Denied, agent: Any) -> Approved | Denied:  # noqa: ANN401 - any agent
    """Refuse a call if another tool took its name during the decision."""
    here = agent.tool_manager.context.get(function_call.call.tool)
    if isinstance(outcome, Denied) or (function_call.tool is not None and function_call.tool.source is here):
        return outcome
    reason = "another tool has taken its name while it was decided about"
    return Denied(cause="changed", reason=reason, request_id=outcome.request_id)


def _output(result: object) -> FunctionOutput:
    if not isinstance(result, FunctionOutput):
        raise TypeError(f"the tool manager returned {result!r} instead of a FunctionOutput")
    return result


def _raise_if_failed(result: FunctionOutput) -> None:
    """Raise the error of a tool, so that the audit records it."""
    if result.error is not None:
        raise _ToolFailed(result)


def _emit(stream: RunnerStreamingResult, name: EventName, item: Any) -> None:  # noqa: ANN401 - any item of AdalFlow
    stream.put_nowait(RunItemStreamEvent(name=name, item=item))


def _run_to_end(output: Any) -> Any:  # noqa: ANN401 - the tool's own
    """Await or exhaust the result of a tool, as AdalFlow does for `call`, but within the audited time."""
    if inspect.iscoroutine(output) or inspect.isasyncgen(output):
        return asyncio.run(_run_to_end_async(output, None, ""))
    if not inspect.isgenerator(output):
        return output
    return [item for item in cast("Generator[Any]", output) if not isinstance(item, ToolCallActivityRunItem)]


async def _run_to_end_async(output: Any, stream: RunnerStreamingResult | None, call_id: str) -> Any:  # noqa: ANN401 - the tool's own
    """Await or exhaust the result of a tool, as AdalFlow does: all items or, for a stream, the last one."""
    if inspect.iscoroutine(output):
        return await output
    if not inspect.isasyncgen(output) and not inspect.isgenerator(output):
        return output
    found: list[Any] = []
    async for item in _each(cast("Any", output)):
        if not isinstance(item, ToolCallActivityRunItem):
            found.append(item)
        elif stream is not None:
            item.id = call_id
            _emit(stream, "agent.tool_call_activity", item)
    if stream is None:
        return found
    return found[-1] if found else None


async def _each(output: Any) -> AsyncGenerator[Any]:  # noqa: ANN401 - the tool's own
    if inspect.isasyncgen(output):
        async for item in output:
            yield item
    else:
        for item in output:
            yield item


def _report_feedback(result: FunctionOutput, function_call: FunctionCall, outcome: Approved) -> FunctionOutput:
    """Add what AdalFlow would not report to the model: an error, the edited arguments and the note."""
    output: Any = result.output
    failed = result.error is not None and output is None
    seen: Any = output.observation if isinstance(output, ToolOutput) else result.error if failed else output
    if has_feedback(outcome):
        seen = add_feedback(seen, outcome, _call_text(function_call.approved_function(outcome)))
    elif not failed:
        return result
    if isinstance(output, ToolOutput):
        result.output = dataclasses.replace(output, observation=seen)
    else:
        result.output = ToolOutput(output=output, observation=seen, status="error" if failed else "success")
    return result


def _call_text(func: Function) -> str:
    named = (f"{name}={value!r}" for name, value in (func.kwargs or {}).items())
    return f"{func.name}({', '.join([*map(repr, func.args or ()), *named])})"
