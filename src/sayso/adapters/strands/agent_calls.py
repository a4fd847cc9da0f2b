"""Tool calls of a Strands agent as `ToolCall`: message, session, schema and rules of the tool, and the messages before.

Tests: tests/adapters/strands/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from strands.types.tools import AgentTool

from sayso.adapters.kit import Gate, build_call, fill_defaults, marked_tool, rules_from_schema, schema_hash
from sayso.adapters.strands.stages import ExecuteToolContext
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result
from sayso.core.model import Denied, ToolCall, new_id
from sayso.engine import context as running
from sayso.policy.policy import ToolRules

_STATE = "sayso_session"  # the key of what an agent's state keeps for us
Message = Mapping[str, Any]


@dataclass(frozen=True)
class KnownTool:
    """What is known of a tool: its schema, its rules, and the name under which its function asks by itself."""

    schema: Mapping[str, Any]
    schema_hash: str
    rules: ToolRules
    marked_as: str | None


@dataclass(frozen=True)
class AgentCall:
    """A call of an agent with its tool, the message that makes it, and the messages before it."""

    call: ToolCall
    tool: KnownTool
    message: Message | None
    stage: ExecuteToolContext
    direct: bool  # made by the application, as `agent.tool.pay(…)`: an interrupt cannot stop it
    messages: running.Messages


def identify(stage: ExecuteToolContext, gate: Gate) -> AgentCall | Denied:
    """Return the call of a stage, or why it cannot be decided about."""
    tool, wanted = stage.tool, stage.tool_use
    if tool is None:
        return Denied(cause="failed", reason=f"there is no tool {wanted['name']!r}")
    agent: Any = stage.agent
    direct = "event_loop_cycle_id" not in stage.invocation_state
    message = None if direct else _message_with(agent.messages, wanted["toolUseId"])
    known = _known(tool)
    try:
        call = build_call(
            tool.tool_name,  # the one that runs: a hook may have chosen another than the model named
            _plain_input(wanted["input"], known.schema),
            call_id=wanted["toolUseId"],
            agent=agent.name,
            session=gate.session_for(session_of(agent)),
            run=new_id() if direct else _run(message),
            schema_hash=known.schema_hash,
        )
    except ValueError as error:
        return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
    collect = partial(_said_before, agent.messages, message, running.prompt_role())
    return AgentCall(call=call, tool=known, message=message, stage=stage, direct=direct, messages=collect)


def _known(tool: AgentTool) -> KnownTool:
    spec: Any = tool.tool_spec
    schema: Mapping[str, Any] = spec["inputSchema"].get("json", spec["inputSchema"])
    function = getattr(tool, "__wrapped__", None)  # set where `@tool` has made it from a function
    marked = marked_tool(function)
    rules = rules_from_schema(schema, description=spec["description"], function=function)
    return KnownTool(schema, schema_hash(schema), rules, marked.name if marked else None)


def session_of(agent: Any) -> str:  # noqa: ANN401 - Strands' own type of a local agent
    """Return the session of an agent: an id in its state, which a session manager takes to other processes.

    Strands' own session id is chosen by the host, and may occur elsewhere.
    """
    kept = agent.state.get(_STATE)
    if not isinstance(kept, str) or not kept:
        kept = new_id()
        agent.state.set(_STATE, kept)
    return kept


def _run(message: Message | None) -> str:
    """Return the id of the response that makes a call: Strands keeps it with the message, over stops too."""
    return "" if message is None else str(message.get("tracking_id") or "")


def _plain_input(given: object, schema: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError("they are no object")  # noqa: TRY004 - told to the model like other bad input
    return fill_defaults(cast("Mapping[str, Any]", given), schema)


def _message_with(messages: Sequence[Message], call_id: str) -> Message | None:
    """Return the newest message that makes the call with this id."""
    made = (each for each in reversed(messages) if each["role"] == "assistant")
    return next((each for each in made if call_id in calls_of(each)), None)


def calls_of(message: Message) -> set[str]:
    """Return the ids of the calls that a message makes."""
    return {each["toolUse"]["toolUseId"] for each in message["content"] if "toolUse" in each}


def _said_before(
    messages: Sequence[Message], message: Message | None, prompt_role: Role
) -> Iterator[ConversationMessage]:
    """Yield what was said before a call, the newest first."""
    before = list(messages)
    while message is not None and before and before[-1] is not message:
        before.pop()
    for each in reversed(before):
        role: Role = "agent" if each["role"] == "assistant" else prompt_role
        for block in reversed(each["content"]):
            if "toolResult" in block:
                yield ConversationMessage(role="tool", text=describe_result("", text_of(block["toolResult"])))
            elif block.get("text"):
                yield ConversationMessage(role=role, text=block["text"])
            elif "toolUse" in block and each is not message:
                use = block["toolUse"]
                yield ConversationMessage(role=role, text=describe_call(use["name"], use["input"]))


def text_of(result: Mapping[str, Any]) -> str:
    """Return the text of a tool's result."""
    return "\n".join(str(each["text"]) for each in result["content"] if "text" in each)
