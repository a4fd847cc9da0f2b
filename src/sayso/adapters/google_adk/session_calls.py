"""Tool calls of an ADK agent as `ToolCall`: the event that makes it, its session, and the events before.

Tests: tests/adapters/google_adk/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from google.adk.agents import LlmAgent

from sayso.adapters.google_adk.declared_tools import DeclaredTool, declared_tool
from sayso.adapters.kit import Gate, build_call
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result
from sayso.core.model import Denied, ToolCall
from sayso.engine import context as running

if TYPE_CHECKING:
    from google.adk.agents import InvocationContext
    from google.adk.events import Event
    from google.adk.sessions import Session
    from google.adk.tools import BaseTool, ToolContext


@dataclass(frozen=True)
class SessionCall:
    """A call of an agent, with its tool, the event that makes it, and the messages before it."""

    call: ToolCall
    tool: DeclaredTool
    context: ToolContext
    event: Event | None
    messages: running.Messages


def identify(
    tool: BaseTool, args: Mapping[str, Any], context: ToolContext, invocation: InvocationContext, gate: Gate
) -> SessionCall | Denied:
    """Return the call of a tool, or why it cannot be decided about."""
    declared = declared_tool(tool)
    events = context.session.events
    event = None if is_workflow_node(context) else event_of(events, context.function_call_id)
    try:
        call = build_call(
            tool.name,
            declared.read(args),
            # The id that a node's call gets is another one each time that it runs.
            call_id=context.node_path if is_workflow_node(context) else context.function_call_id,
            agent=invocation.agent.name if isinstance(invocation.agent, LlmAgent) else None,
            session=gate.session_for(session_of(context.session)),
            run=context.invocation_id if event is None else event.id,
            schema_hash=declared.schema_hash,
        )
    except ValueError as error:
        return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
    collect = partial(_said_before, events, event, running.prompt_role())
    return SessionCall(call=call, tool=declared, context=context, event=event, messages=collect)


def is_workflow_node(context: ToolContext) -> bool:
    """Whether a tool is a node of a workflow: no agent calls it, so no callback of an agent comes after the plugins."""
    return context.node is not None


def session_of(session: Session) -> str:
    """Return the id of ADK's session: its own one is chosen by the host, and is one user's in one app."""
    return _joined(session.app_name, session.user_id, session.id)


@lru_cache(maxsize=1_000)
def _joined(*parts: str) -> str:
    return "/".join(quote(each, safe="") for each in parts)


def event_of(events: Sequence[Event], call_id: str | None) -> Event | None:
    """Return the newest event that makes the call with this id."""
    return next((each for each in reversed(events) if call_id in {call.id for call in each.get_function_calls()}), None)


def _said_before(events: Sequence[Event], event: Event | None, prompt_role: Role) -> Iterator[ConversationMessage]:
    """Yield what was said before a call, the newest first."""
    before = list(events)
    while event is not None and before and before[-1].id != event.id:
        before.pop()
    for each in reversed(before):
        role: Role = prompt_role if each.author == "user" else "agent"
        for part in reversed((each.content and each.content.parts) or ()):
            if part.text:
                yield ConversationMessage(role=role, text=part.text)
            elif part.function_response:
                told = part.function_response
                yield ConversationMessage(role="tool", text=describe_result(told.name or "", told.response))
            elif part.function_call and (event is None or each.id != event.id):
                yield ConversationMessage(
                    role=role, text=describe_call(part.function_call.name or "", part.function_call.args or {})
                )
