"""Function calls of an agent as `ToolCall`: the tool, its rules and mark, the framework's ids, the messages before.

Tests: tests/adapters/agent_framework/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from agent_framework import AgentSession, FunctionInvocationContext, FunctionTool, Message
from pydantic import ValidationError

from sayso.adapters.agent_framework.call_arguments import CallArguments, problems_of
from sayso.adapters.kit import Gate, WebUser, build_call, marked_tool, rules_from_schema, schema_hash
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result
from sayso.core.model import ApprovalDecision, Denied, ToolCall, new_id
from sayso.engine import context as running
from sayso.policy.policy import ToolRules

_SESSION = "sayso_session"  # the key of what an agent's session keeps for us


class Answer(NamedTuple):
    """An answer from a front end of the framework, with the person whom the host has authenticated."""

    decision: ApprovalDecision
    user: WebUser


@dataclass
class AgentRun:
    """One run of an agent: what its middleware round the model and round the tools know together."""

    gate: Gate
    agent: str
    session: AgentSession | None  # the caller's own; the framework resumes only with one
    messages: Sequence[Message]
    new_calls: set[str] = field(default_factory=set[str])  # ids in the model's last response that nobody has taken
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])  # by the ids of their approval requests
    stopped_for: set[str] = field(default_factory=set[str])  # ids of the requests for which it has stopped
    session_id: str = ""

    def __post_init__(self) -> None:
        """Give the session an id of ours: the framework's own is chosen by the host, and may occur elsewhere."""
        state: dict[str, Any] = {} if self.session is None else self.session.state
        kept = state.get(_SESSION)
        self.session_id = kept if isinstance(kept, str) and kept else new_id()
        state[_SESSION] = self.session_id

    def take(self, call_id: str) -> bool:
        """Whether the model has just made a call with this id, once: nobody can have been asked about it before."""
        is_new = call_id in self.new_calls
        self.new_calls.discard(call_id)
        return is_new


@dataclass(frozen=True)
class InvokedCall:
    """A call of an agent with its tool, its arguments and the messages before it."""

    call: ToolCall
    tool: FunctionTool  # the one whose function runs
    arguments: CallArguments
    rules: ToolRules
    messages: running.Messages
    context: FunctionInvocationContext

    @property
    def marked_as(self) -> str | None:
        """The name under which its function asks by itself, if it is decorated with `@requires_approval`."""
        marked = marked_tool(self.tool.func)
        return marked.name if marked else None


def identify(context: FunctionInvocationContext, run: AgentRun) -> InvokedCall | Denied:
    """Return the call of a context, or why it cannot be decided about."""
    tool = innermost(context.function)
    schema = tool.parameters()
    try:
        arguments = CallArguments(tool, context.arguments)
        call = build_call(
            tool.name,
            arguments.shown,
            call_id=context.metadata["call_id"],
            run=context.metadata.get("function_call_occurrence_id", ""),
            agent=run.agent,
            session=run.gate.session_for(run.session_id),
            schema_hash=schema_hash(schema),
        )
    except ValidationError as error:
        return Denied(cause="failed", reason=f"its arguments do not fit the tool: {problems_of(error)}")
    except ValueError as error:
        return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
    rules = rules_from_schema(
        schema,
        description=tool.description,
        function=tool.func,
        marked=is_marked(tool),
        misfit=None if tool.input_model is None else arguments.misfit,
    )
    said = partial(_said_before, run.messages, running.prompt_role())
    return InvokedCall(call, tool, arguments, rules, said, context)


def innermost(tool: FunctionTool) -> FunctionTool:
    """Return the tool inside those that are made of another tool."""
    while isinstance(tool.func, FunctionTool):
        tool = tool.func
    return tool


def is_marked(tool: FunctionTool) -> bool:
    """Whether the framework's own mark says that somebody has to be asked about a tool."""
    return tool.approval_mode == "always_require"


def _said_before(messages: Sequence[Message], prompt_role: Role) -> Iterator[ConversationMessage]:
    """Yield what was said before a call, the newest first."""
    for message in reversed(messages):
        role: Role = "agent" if message.role == "assistant" else prompt_role
        for content in reversed(message.contents):
            if content.type == "function_result":
                yield ConversationMessage(role="tool", text=describe_result("", str(content.result)))
            elif content.type == "function_call":
                yield ConversationMessage(
                    role=role, text=describe_call(content.name or "", content.parse_arguments() or {})
                )
            elif content.type == "text" and content.text and message.role != "system":
                yield ConversationMessage(role=role, text=content.text)
