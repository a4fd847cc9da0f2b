"""Output functions: decided about like a tool of their name, though they are in no toolset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, cast

from pydantic import BaseModel
from pydantic_ai import ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import RunContext

from sayso.adapters.kit import GuardedRun
from sayso.adapters.pydantic_ai.calls import shape_of, to_tool_call
from sayso.adapters.pydantic_ai.durable import as_step, in_workflow, is_recoverable
from sayso.adapters.pydantic_ai.guard import AgentGuard
from sayso.adapters.pydantic_ai.toolset import deny_if_changed
from sayso.core.model import Approved, Denied, Pending, ToolCall
from sayso.engine import context
from sayso.policy.policy import ToolRules

_LOST = "the run ended with the final result beside it before this call was approved"
_ARGUMENT = "output"  # the name of the value, where the model was asked for one value


async def call_output_function(
    guard: AgentGuard,
    ctx: RunContext[Any],
    about: OutputContext,
    output: Any,  # noqa: ANN401 - what the model gave
    function: Callable[[Any], Awaitable[Any]],
) -> Any:  # noqa: ANN401 - what the function makes of it
    """Call the function if it is approved; a refusal is reported to the model, which can answer otherwise."""
    controller, args = guard.controller, _args(output)
    name = about.function_name or (about.tool_call.tool_name if about.tool_call else _ARGUMENT)
    rules = guard.tighten(
        ToolRules(misfit=lambda _: "what an agent hands on cannot be edited, only refused with a note")
    )
    try:
        call = to_tool_call(name, args, ctx, "", context.current_session() or controller.session)
    except ValueError as error:
        raise ModelRetry(f"{name} was not called: its arguments cannot be shown: {error}") from None

    async def run() -> Any:  # noqa: ANN401 - what the function makes of it
        return await _decide_and_call(guard, ctx, call, rules, output, function=function)

    if not in_workflow() or ctx.partial_output or not controller.adapter.may_ask(call, rules):
        return await run()
    result = await as_step(controller, call, run)
    return _refuse(guard, name, result) if isinstance(result, Denied) else result


def _refuse(guard: AgentGuard, name: str, outcome: Denied) -> NoReturn:
    raise outcome.error(name) if guard.on_denied == "raise" else ModelRetry(outcome.message)


async def _decide_and_call(
    guard: AgentGuard,
    ctx: RunContext[Any],
    call: ToolCall,
    rules: ToolRules,
    output: Any,  # noqa: ANN401 - what the model gave
    *,
    function: Callable[[Any], Awaitable[Any]],
) -> Any:  # noqa: ANN401 - what the function makes of it
    name = call.tool
    if await guard.is_approved_outside(call, rules):
        return await function(output)
    outcome = guard.decide_fast(call, rules)
    if outcome is None:
        if ctx.partial_output:
            raise ModelRetry(f"{name} is asked about when the output is whole")
        shape = shape_of(_args(output))
        outcome = deny_if_changed(await _settle_output(guard, call, rules), call, _args(output), shape)
    if isinstance(outcome, Denied):
        _refuse(guard, name, outcome)
    with GuardedRun(guard, call, outcome) as running:
        running.result = await function(output)
    return running.result


async def _settle_output(guard: AgentGuard, call: ToolCall, rules: ToolRules) -> Approved | Denied:
    controller = guard.controller
    if controller.mode != "defer":
        return await controller.adapter.settle(call, rules, keep=is_recoverable())
    outcome = await controller.adapter.review(call, rules)
    if not isinstance(outcome, Pending):
        return outcome
    # PydanticAI cannot stop here, so the answer would have no waiter.
    await controller.adapter.withdraw_if_open(outcome.request.id)
    reason = "a run that stops for its answers cannot stop at its output; nobody could be asked"
    return Denied(cause="blocked", reason=reason, request_id=outcome.request.id)


def _args(output: Any) -> dict[str, Any]:  # noqa: ANN401 - what the model gave
    if isinstance(output, BaseModel):
        return dict(output)
    return dict(cast("Mapping[str, Any]", output)) if isinstance(output, Mapping) else {_ARGUMENT: output}


def report_lost_calls(ctx: RunContext[Any], messages: list[ModelMessage]) -> None:
    """Add a denial to the history for each call that PydanticAI dropped, because a final result stood beside it.

    It does so with calls for which a hook wants an approval, and tells no capability.
    """
    at = next((at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], ModelResponse)), None)
    if at is None or messages[at].run_id != ctx.run_id:
        return
    answered = {getattr(part, "tool_call_id", None) for message in messages[at + 1 :] for part in message.parts}
    denial = Denied(cause="blocked", reason=_LOST).message
    lost = [
        ToolReturnPart(part.tool_name, denial, part.tool_call_id, outcome="denied")
        for part in messages[at].parts
        if isinstance(part, ToolCallPart) and part.tool_call_id not in answered
    ]
    last = messages[-1]
    if lost and isinstance(last, ModelRequest):  # else a hook has ended the run before its calls
        last.parts = [*last.parts, *lost]
