"""Tool calls of a graph as `ToolCall`: thread, message, agent, schema and rules of the tool, and the messages before.

Tests: tests/adapters/langchain/test_conformance.py
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from pydantic import BaseModel, ValidationError

from sayso.adapters.kit import Gate, build_call, content_id, marked_tool, rules_from_schema, schema_hash
from sayso.adapters.langchain.tool_arguments import ToolArguments, tool_arguments
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result
from sayso.core.model import Denied, ToolCall
from sayso.engine import context
from sayso.policy.policy import ToolRules

_MOST_TOOLS = 10_000
_MOST_CALLS = 10_000
_TOOLS: dict[int, ToolFacts] = {}
_ROLES: Mapping[type, Role] = {AIMessage: "agent", ToolMessage: "tool"}


@dataclass(frozen=True)
class ToolFacts:
    """What is known of a tool: its arguments, its rules, and the name under which its function asks by itself."""

    tool: BaseTool
    arguments: ToolArguments
    schema_hash: str
    rules: ToolRules
    marked_as: str | None


@dataclass(frozen=True)
class GraphCall:
    """A call of a graph with its tool, and the run in which LangGraph makes it."""

    call: ToolCall
    tool: ToolFacts
    message: AIMessage | None  # that makes the call
    runtime: Any  # LangGraph's `ToolRuntime`
    messages: context.Messages

    @property
    def rules(self) -> ToolRules:
        """The rules that the tool brings along."""
        return self.tool.rules


class NewCalls:
    """Calls that a model has just made in this process: nobody can have been asked about one of them before.

    Each is new once, and in the run of the graph in which the model made it: between two runs, another process may have
    gone on. So a task that is entered again, a copy of its thread, and another process look into the store.
    """

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, str], None] = OrderedDict()

    def note(self, message: AIMessage) -> None:
        """Note the calls of a response; one without an id gets it later, so its calls are looked up."""
        if message.id:
            self._made.update({(message.id, str(call["id"])): None for call in message.tool_calls})
        while len(self._made) > _MOST_CALLS:
            self._made.popitem(last=False)

    def take(self, asked: GraphCall) -> bool:
        """Whether the call is new, once."""
        message_id = None if asked.message is None else asked.message.id
        try:
            self._made.pop((message_id or "", asked.call.call_id))
        except KeyError:
            return False
        # LangGraph has no public name for this; it is set for the tasks with which a run goes on.
        return not asked.runtime.config.get("configurable", {}).get("__pregel_resuming", False)


def identify(request: ToolCallRequest, gate: Gate) -> GraphCall | Denied:
    """Return the call of a request, or why it cannot be decided about."""
    wanted, tool = request.tool_call, request.tool
    if tool is None or tool.name != wanted["name"]:
        return Denied(cause="failed", reason=f"there is no tool {wanted['name']!r}")
    known, messages = tool_facts(tool), _messages_in(request.state, wanted["id"])
    message = _message_with(messages, wanted["id"])
    runtime = cast("Any", request).runtime
    config: Mapping[str, Any] = runtime.config
    conversation = _conversation(request.state, config)
    message_id = (message.id or "") if message is not None else ""
    try:
        args = known.arguments.read(wanted["args"])
        call = build_call(
            tool.name,
            args,
            call_id=wanted["id"] or content_id(tool.name, args),
            agent=config.get("metadata", {}).get("lc_agent_name"),
            session=gate.session_for(conversation),
            # A model's cache gives a response to several threads with one id, and a session may hold several threads.
            run=" ".join(filter(None, (conversation, message_id))),
            schema_hash=known.schema_hash,
        )
    except ValueError as error:
        return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
    collect = partial(_said_before, messages, message, context.prompt_role())
    return GraphCall(call=call, tool=known, message=message, runtime=runtime, messages=collect)


def tool_facts(tool: BaseTool) -> ToolFacts:
    """Return what is known of a tool; its schema takes LangChain long to build."""
    known = _TOOLS.get(id(tool))
    if known is not None and known.tool is tool:
        return known
    if len(_TOOLS) >= _MOST_TOOLS:
        _TOOLS.clear()
    model: Any = tool.tool_call_schema
    is_model = isinstance(model, type) and issubclass(model, BaseModel)
    schema = cast("dict[str, Any]", model if isinstance(model, dict) else _json_schema(model))
    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None)
    marked, arguments = marked_tool(function), tool_arguments(tool, schema)
    rules = rules_from_schema(
        schema,
        description=tool.description,
        function=function,
        misfit=partial(_misfit, cast("type[BaseModel]", model), arguments) if is_model else None,
    )
    _TOOLS[id(tool)] = ToolFacts(tool, arguments, schema_hash(schema), rules, marked.name if marked else None)
    return _TOOLS[id(tool)]


def _json_schema(model: Any) -> dict[str, Any]:  # noqa: ANN401 - of Pydantic 2 or 1
    return model.model_json_schema() if issubclass(model, BaseModel) else model.schema()


def _misfit(model: type[BaseModel], arguments: ToolArguments, args: Mapping[str, Any]) -> str | None:
    try:
        arguments.read(args)
        model.model_validate(dict(args))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"the edited arguments do not fit the tool: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    except ValueError as error:
        return f"the edited arguments do not fit the tool: {error}"
    return None


def _conversation(state: object, config: Mapping[str, Any]) -> str:
    """Return the session of a thread: the one in the state of a guarded agent, else the thread's id."""
    kept = cast("Mapping[str, Any]", state).get("sayso_session") if isinstance(state, Mapping) else None
    thread = config.get("configurable", {}).get("thread_id")
    return kept or (f"langgraph thread {thread}" if thread else "")


def _messages_in(state: object, call_id: str | None) -> Sequence[AnyMessage]:
    """Return the messages of a state with that which makes this call: a state may be a list, or have several."""
    if not isinstance(state, list | Mapping):
        state = {"messages": getattr(state, "messages", None), **getattr(state, "__dict__", {})}
    values: list[Any] = [state] if isinstance(state, list) else list(cast("Mapping[str, Any]", state).values())
    lists = [cast("list[AnyMessage]", each) for each in values if isinstance(each, list)]
    return next((each for each in lists if _message_with(each, call_id) is not None), ())


def _message_with(messages: Sequence[AnyMessage], call_id: str | None) -> AIMessage | None:
    """Return the newest message that makes the call with this id."""
    made = (each for each in reversed(messages) if isinstance(each, AIMessage))
    return next((each for each in made if any(call["id"] == call_id for call in each.tool_calls)), None)


def _said_before(
    messages: Sequence[AnyMessage], message: AIMessage | None, prompt_role: Role
) -> Iterator[ConversationMessage]:
    """Yield what was said before a call, the newest first; system messages are left out."""
    before = list(messages)
    if message is not None:
        before = before[: before.index(message) + 1]
    for each in reversed(before):
        role = prompt_role if isinstance(each, HumanMessage) else _ROLES.get(type(each))
        text = str(each.text)
        if isinstance(each, AIMessage) and each is not message:
            text = "\n".join([text, *(describe_call(call["name"], call["args"]) for call in each.tool_calls)]).strip()
        elif isinstance(each, ToolMessage):
            text = describe_result(each.name or "", text)
        if role is not None and text:
            yield ConversationMessage(role=role, text=text)
