"""The middleware: puts every tool call of a LangChain agent, or of a `ToolNode`, behind one controller.

Tests: tests/adapters/langchain/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, NotRequired, Unpack, cast

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from sayso.adapters.kit import (
    ControllerSettings,
    Gate,
    GuardedRun,
    OnDenied,
    WebUser,
    add_feedback,
    build_controller,
    call_text,
    check_on_denied,
    has_feedback,
)
from sayso.adapters.langchain.graph_calls import GraphCall, identify
from sayso.adapters.langchain.interrupts import Questions
from sayso.adapters.langchain.start_check import checked_starts
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied, new_id
from sayso.engine import blocking
from sayso.engine.controller import ApprovalController
from sayso.policy.policy import Policy

Answer = ToolMessage | Command[Any]
Handler = Callable[[ToolCallRequest], Answer]
AsyncHandler = Callable[[ToolCallRequest], Awaitable[Answer]]


class ApprovalsState(AgentState[Any]):
    """State of a guarded agent: the session of its thread, which the checkpointer takes to other processes."""

    sayso_session: NotRequired[Annotated[str, PrivateStateAttr]]


class Approvals(AgentMiddleware[Any, Any, Any]):
    """Nothing that an agent calls runs without your say-so: `create_agent(…, middleware=[…, Approvals(controller)])`.

    It comes last in the list. Where the controller waits for people, each call waits in place; where it defers, the
    graph is interrupted, and `resume` goes on when the question is answered, perhaps in another process.
    """

    state_schema = ApprovalsState
    tools = ()

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        answered_by: Callable[[Any], WebUser | None] | None = None,
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked. Inside a tool of another agent,
                the policy can only make that agent's policy stricter.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with an `ApprovalError`.
            answered_by: returns the person, whom the host has authenticated, whose answer an interrupt is resumed with,
                from LangGraph's `ToolRuntime`. Left out, or None: what an interrupt is resumed with means nothing.
            **settings: those of `ApprovalController`.
        """
        self._gate = Gate(build_controller(controller, settings))
        self._questions = Questions(self._gate, answered_by)
        self._on_denied = check_on_denied(on_denied)

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._gate.controller

    # Hooks of LangChain.

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - LangChain's own types
        """Hide the tools that are blocked for all arguments, and note the calls that the model makes."""
        return self._with_session(request, self._note(handler(self._with_shown_tools(request))))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:  # noqa: ANN401 - LangChain's own types
        """Do what `wrap_model_call` does, asynchronously."""
        return self._with_session(request, self._note(await handler(self._with_shown_tools(request))))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Answer:
        """Decide about a call, and run it if it is approved."""
        call = identify(request, self._gate)
        outcome = call if isinstance(call, Denied) else self._questions.decide_sync(call)
        if isinstance(call, Denied) or isinstance(outcome, Denied):
            return self._denied_answer(request, cast("Denied", outcome))
        run = self._run(call, outcome)
        with run, checked_starts():
            try:
                run.result = handler(_approved_request(request, outcome))
            except ParentCommand as handoff:
                run.returned(handoff)
                raise
            except GraphInterrupt:
                blocking.run(self._questions.suspend, call, run)
                raise
        return _told(run.result, call, outcome)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncHandler) -> Answer:
        """Do what `wrap_tool_call` does, asynchronously."""
        call = identify(request, self._gate)
        outcome = call if isinstance(call, Denied) else await self._questions.decide(call)
        if isinstance(call, Denied) or isinstance(outcome, Denied):
            return self._denied_answer(request, cast("Denied", outcome))
        run = self._run(call, outcome)
        with run, checked_starts():
            try:
                run.result = await handler(_approved_request(request, outcome))
            except ParentCommand as handoff:
                run.returned(handoff)
                raise
            except GraphInterrupt:
                await self._questions.suspend(call, run)
                raise
        return _told(run.result, call, outcome)

    def _run(self, call: GraphCall, outcome: Approved) -> GuardedRun:
        name = call.tool.marked_as
        passed = None if name is None else call.tool.arguments.parsed(outcome.args)
        return GuardedRun(self._gate, call.call, outcome, marked_as=name, passed=passed, messages=call.messages)

    def _denied_answer(self, request: ToolCallRequest, outcome: Denied) -> ToolMessage:
        """Return the words for the model in the place of the result."""
        name = request.tool_call["name"]
        if self._on_denied == "raise" and outcome.cause != "failed":
            raise outcome.error(name)
        return ToolMessage(outcome.message, name=name, tool_call_id=request.tool_call["id"] or "", status="error")

    def _note(self, response: Any) -> Any:  # noqa: ANN401 - LangChain's own types
        for message in response.result:
            if isinstance(message, AIMessage):
                self._questions.new_calls.note(message)
        return response

    def _with_session(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - LangChain's own types
        """Give the thread a session of its own: a thread's id is chosen by its host, and may occur elsewhere."""
        if request.state.get("sayso_session"):
            return response
        return ExtendedModelResponse(response, Command(update={"sayso_session": new_id()}))

    def _with_shown_tools(self, request: Any) -> Any:  # noqa: ANN401 - LangChain's own types
        self._gate.know_tools([_tool_name(tool) for tool in request.tools])
        shown = [tool for tool in request.tools if self._shows(tool)]
        return request if len(shown) == len(request.tools) else request.override(tools=shown)

    def _shows(self, tool: BaseTool | dict[str, Any]) -> bool:
        """Whether the model is offered a tool; one that runs at the provider only if the policy lets it run unasked."""
        name = _tool_name(tool)
        if self._gate.hides(name):
            return False
        if not isinstance(tool, dict) or _runs_here(tool):
            return True
        return self._gate.allows(name) or self._gate.allows(str(tool.get("type", "")))


def _tool_name(tool: BaseTool | dict[str, Any]) -> str:
    if not isinstance(tool, dict):
        return tool.name
    function = tool.get("function")
    named = cast("dict[str, Any]", function) if isinstance(function, dict) else tool
    return str(named.get("name") or tool.get("type") or "")


def _runs_here(tool: dict[str, Any]) -> bool:
    """Whether a tool that is given as a mapping describes a function of the application."""
    return tool.get("type") == "function" or "input_schema" in tool or "parameters" in tool


def _approved_request(request: ToolCallRequest, outcome: Approved) -> ToolCallRequest:
    return request.override(tool_call=cast("Any", {**request.tool_call, "args": thaw(outcome.args)}))


def _told(result: Any, call: GraphCall, outcome: Approved) -> Any:  # noqa: ANN401 - LangChain's own types
    """Return the result with what a person has edited and noted, wherever the message for the model is in it."""
    if not has_feedback(outcome):
        return result
    if isinstance(result, Command):
        command = cast("Command[Any]", result)
        return replace(command, update=_told_update(command.update, call, outcome))
    if isinstance(result, list):
        return [_told(each, call, outcome) for each in cast("list[Any]", result)]
    return _told_message(result, call, outcome)


def _told_update(update: Any, call: GraphCall, outcome: Approved) -> Any:  # noqa: ANN401 - LangGraph's own types
    """Return an update of the state, which is a list of messages or has lists of them."""
    if isinstance(update, dict):
        return {
            name: _told_update(each, call, outcome) if isinstance(each, list) else each
            for name, each in cast("dict[str, Any]", update).items()
        }
    if isinstance(update, list):
        return [_told_message(each, call, outcome) for each in cast("list[Any]", update)]
    return update


def _told_message(message: Any, call: GraphCall, outcome: Approved) -> Any:  # noqa: ANN401 - LangChain's own types
    if not isinstance(message, ToolMessage) or message.tool_call_id != call.runtime.tool_call_id:
        return message
    ran = call_text(call.call.tool, outcome.args)
    if isinstance(message.content, str):
        return message.model_copy(update={"content": add_feedback(message.content, outcome, ran)})
    said = {"type": "text", "text": add_feedback("see below", outcome, ran)}
    return message.model_copy(update={"content": [said, *message.content]})
