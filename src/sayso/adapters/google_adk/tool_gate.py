"""The gate before each tool of an app: decides about a call, lets it run once as it was decided, and notes its end.

Tests: tests/adapters/google_adk/test_conformance.py
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.adk.tools import AgentTool, BaseTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_confirmation import ToolConfirmation

from sayso.adapters.google_adk.confirmations import answered_ids, own_confirmation, stop, to_decision
from sayso.adapters.google_adk.session_calls import SessionCall, identify, is_workflow_node, session_of
from sayso.adapters.kit import (
    Gate,
    GuardedRun,
    OnDenied,
    WebUser,
    add_feedback,
    call_text,
    check_start,
    forget_suspended,
    give_answer,
    has_feedback,
    is_suspended,
    resume_suspended,
    suspend,
)
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied, Pending
from sayso.engine import context as running
from sayso.errors import ApprovalPending, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.adk.agents import InvocationContext
    from google.adk.events import Event
    from google.adk.tools import ToolContext
    from google.genai import types

    from sayso.core.model import ApprovalRequest, ToolCall
    from sayso.policy.policy import ToolRules

_MOST = 1_000  # of what is noted of calls that are made, and never run


@dataclass
class OpenCall:
    """A call whose tool runs; it holds nothing of ADK's context, by which it is found."""

    call: ToolCall
    session: str  # of ADK
    run: GuardedRun
    outer: OpenCall | None
    is_suspended: bool = False


_OPEN: ContextVar[OpenCall | None] = ContextVar("sayso_adk_open", default=None)


class ToolGate:
    """What the plugin does before and after a tool."""

    def __init__(
        self, gate: Gate, on_denied: OnDenied, answered_by: Callable[[ToolContext], WebUser | None] | None
    ) -> None:
        self._gate = gate
        self._on_denied = on_denied
        self._answered_by = answered_by
        self._open: weakref.WeakKeyDictionary[ToolContext, OpenCall] = weakref.WeakKeyDictionary()
        self._new: dict[tuple[str, str], None] = {}  # calls that a model has just made here, and none has taken
        self._feedback: dict[tuple[str, str], tuple[Approved, str]] = {}
        self._said: dict[str, tuple[weakref.ref[InvocationContext], set[str]]] = {}  # by the ids of the runs

    def note_message(self, invocation: InvocationContext, message: types.Content) -> None:
        """Note the confirmations that a run is started with."""
        _note(self._said, invocation.invocation_id, (weakref.ref(invocation), answered_ids(message)))

    def note_run(self, invocation: InvocationContext) -> None:
        """Forget the confirmations of an earlier run that this one goes on with."""
        begun, _ = self._said.get(invocation.invocation_id, (None, set[str]()))
        if begun is not None and begun() is not invocation:
            del self._said[invocation.invocation_id]

    async def note_event(self, event: Event) -> None:
        """Note the calls of a response of a model, and tell the model what a person has changed of a call."""
        if event.partial or event.author == "user":
            return
        for call in event.get_function_calls():
            _note(self._new, (event.id, call.id or ""), None)
        for response in event.get_function_responses():
            key = (event.invocation_id, response.id or "")
            # Another plugin has answered for the tool, and ADK has told ours nothing of its end.
            for context in [each for each in self._open if (each.invocation_id, each.function_call_id) == key]:
                await self.returned(context, response.response)
            told = self._feedback.pop(key, None)
            if told is not None:
                response.response = {"result": add_feedback(_text_of(response.response), *told)}

    async def decide(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext, invocation: InvocationContext
    ) -> dict[str, Any] | None:
        """Decide about a call: return None, with its arguments in place, or what the model is told instead."""
        if type(tool) in {BaseTool, SetModelResponseTool}:  # there is no such tool; the last answer of the model
            return None
        check_tool(tool)
        asked = identify(tool, args, context, invocation, self._gate)
        if isinstance(asked, Denied):
            return self._refuse(tool, asked)
        marked = bool(await tool.check_require_confirmation(thaw(asked.call.args), context))
        rules = asked.tool.rules_for(marked=marked)
        with running.messages_from(asked.messages):
            outcome = await self._outcome(asked, rules, inline=not _can_stop(context, invocation))
        if isinstance(outcome, Pending):
            await self._suspend_outer()
            return stop(context, outcome.request)
        if isinstance(outcome, Denied):
            return self._refuse(tool, outcome)
        self._begin(asked, outcome, args, marked=marked)
        return None

    async def _outcome(self, asked: SessionCall, rules: ToolRules, *, inline: bool) -> Approved | Denied | Pending:
        """Decide; ADK may enter the hook again for a call that was asked about before: then the store knows."""
        call, adapter = asked.call, self._gate.controller.adapter
        tightened = self._gate.tighten(rules)
        is_new = self._take(asked)
        known = None if is_new else await adapter.find_request(call)
        outcome = adapter.decide_fast(call, tightened) if known is None else None
        if outcome is not None:
            return outcome
        if await is_suspended(known, call, self._gate.controller):
            return await resume_suspended(call, rules, self._gate)
        before = False if is_new else None
        if inline or self._gate.controller.mode != "defer":
            return await adapter.settle(call, tightened, asked=before, inline=inline)
        outcome = await adapter.review(call, tightened, asked=before)
        if isinstance(outcome, Pending) and asked.context.tool_confirmation is not None:
            await self._answer(outcome.request, asked.context)
            outcome = await adapter.review(call, tightened, asked=True)
            if isinstance(outcome, Pending):  # another pause of the same call would be the end of it for ADK
                raise ApprovalPending.for_request(outcome.request)
        return outcome

    def _take(self, asked: SessionCall) -> bool:
        """Whether the model has just made a call in this process, once: nobody can have been asked about it before."""
        key = (asked.event.id if asked.event is not None else "", asked.call.call_id)
        if asked.context.tool_confirmation is not None or key not in self._new:
            return False
        del self._new[key]
        return True

    async def _answer(self, request: ApprovalRequest, context: ToolContext) -> None:
        """Give the answer of a front end to the controller, where the host says whose it is.

        Only what this very run was started with counts: an earlier answer was perhaps another person's.
        """
        _, said = self._said.get(context.invocation_id, (None, set[str]()))
        shown = own_confirmation(context.session.events, context.function_call_id)
        if self._answered_by is None or shown is None or shown.id not in said or shown.request != request.id:
            return
        user = self._answered_by(context)
        decision = None if context.tool_confirmation is None else to_decision(context.tool_confirmation, request)
        if user is not None and decision is not None:
            await give_answer(self._gate.controller, request, decision, user)

    def _refuse(self, tool: BaseTool, outcome: Denied) -> dict[str, Any]:
        if self._on_denied == "raise" and outcome.cause != "failed":
            raise outcome.error(tool.name)
        return {"error": outcome.message}

    def _begin(self, asked: SessionCall, outcome: Approved, args: dict[str, Any], *, marked: bool) -> None:
        """Begin the run of a call: what ADK calls next is the tool."""
        args.clear()
        args.update(thaw(outcome.args))
        _set_confirmation(asked.context, marked=marked)
        run = GuardedRun(self._gate, asked.call, outcome, marked_as=asked.tool.marked_as, messages=asked.messages)
        run.begin()
        check_start(asked.call.tool, None)  # these arguments: it has started, and a tool inside it of that name has not
        opened = OpenCall(asked.call, session_of(asked.context.session), run, _OPEN.get())
        self._open[asked.context] = opened
        _OPEN.set(opened)

    async def _suspend_outer(self) -> None:
        """Note that the calls around one that stops have stopped, too: ADK tells nobody of it."""
        opened = _OPEN.get()
        while opened is not None:
            if not opened.is_suspended:
                opened.is_suspended = True
                await suspend(opened.run, opened.call, self._gate.controller)
            opened = opened.outer

    async def returned(self, context: ToolContext, result: object, *, comes_later: bool = False) -> None:
        """Note that a tool has returned, perhaps without its result, for which ADK then stops the run."""
        opened = self._open.pop(context, None)
        if opened is None:
            return
        await self._close(opened)
        actions = context.actions
        if context.function_call_id in {*actions.requested_tool_confirmations, *actions.requested_auth_configs}:
            # The tool itself asks for something, and ADK calls it again with the answer.
            await suspend(opened.run, opened.call, self._gate.controller)
            await self._suspend_outer()
            return
        if comes_later:
            await self._suspend_outer()
        opened.run.returned(result)
        outcome = opened.run.outcome
        if has_feedback(outcome):
            key = (context.invocation_id, context.function_call_id or "")
            _note(self._feedback, key, (outcome, call_text(opened.call.tool, outcome.args)))

    async def raised(self, context: ToolContext, error: BaseException) -> None:
        """Note that a tool has failed."""
        opened = self._open.pop(context, None)
        if opened is not None:
            opened.run.raised(error)
            await self._close(opened)

    async def _close(self, opened: OpenCall) -> None:
        """Take a call that has ended out of the calls around others; one that ends does not go on later."""
        _OPEN.set(opened.outer)
        if opened.is_suspended:
            await forget_suspended(opened.call, self._gate.controller)


def _set_confirmation(context: ToolContext, *, marked: bool) -> None:
    """Set what ADK's gate, and the tool itself, take for the answer of a person."""
    if marked:
        context.tool_confirmation = ToolConfirmation(confirmed=True)
    elif context.tool_confirmation is not None and own_confirmation(context.session.events, context.function_call_id):
        context.tool_confirmation = None  # it is no answer to what the tool itself may ask


def check_tool(tool: BaseTool) -> None:
    """Check that the agent behind a tool, if there is one, runs with the plugins of the app.

    Raises:
        ConfigurationError: it does not.
    """
    if isinstance(tool, AgentTool) and not tool.include_plugins:
        raise ConfigurationError(
            f"the agent {tool.name!r} runs without the plugins of the app, and so without `Approvals`; leave out "
            "`include_plugins=False`"
        )


def _can_stop(context: ToolContext, invocation: InvocationContext) -> bool:
    """Whether a pause of this call is kept, so that its run can go on later."""
    if is_workflow_node(context) or invocation.live_request_queue is not None:
        return False
    outer = _OPEN.get()
    if outer is None:
        return running.current_call() is None
    return outer.session == session_of(context.session)


def _note(noted: dict[Any, Any], key: object, value: object) -> None:
    if len(noted) >= _MOST:
        noted.pop(next(iter(noted)))
    noted[key] = value


def _text_of(response: Mapping[str, Any] | None) -> str:
    """Return a result as text: ADK puts what is no mapping under `result`."""
    given = dict(response or {})
    only = given.get("result") if set(given) == {"result"} else given
    return only if isinstance(only, str) else json.dumps(only, ensure_ascii=False, default=str)
