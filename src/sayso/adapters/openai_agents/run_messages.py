"""Messages before a call, for approvers: what the SDK has last given to the model of the run.

Tests: tests/adapters/openai_agents/test_run_states.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast

from agents import RunContextWrapper

from sayso.adapters.openai_agents.model_arguments import read_arguments
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result


class ModelInput:
    """What the model of a run was last given; the SDK tells tools only what the run began with."""

    def __init__(self) -> None:
        self.items: Sequence[Any] | None = None


MODEL_INPUT: ContextVar[ModelInput | None] = ContextVar("sayso_openai_model_input", default=None)


def said_before(context: RunContextWrapper[Any], prompt_role: Role) -> Iterator[ConversationMessage]:
    """Yield what the model was told before a call, the newest first."""
    known = MODEL_INPUT.get()
    items = known.items if known is not None and known.items is not None else context.turn_input
    for each in reversed(items):
        item = cast("Mapping[str, Any]", each)
        if item.get("type") == "function_call":
            yield ConversationMessage(role="agent", text=describe_call(item["name"], _arguments(item["arguments"])))
        elif item.get("type") == "function_call_output":
            yield ConversationMessage(role="tool", text=describe_result("", text_of(item["output"])))
        elif "content" in item:
            role: Role = "agent" if item.get("role") == "assistant" else prompt_role
            yield ConversationMessage(role=role, text=text_of(item["content"]))


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        return read_arguments(text)
    except ValueError:  # a call that did not run
        return {}


def text_of(content: object) -> str:
    """Return the text of a message's content."""
    if not isinstance(content, list):
        return str(content)
    parts = [cast("Mapping[str, Any]", each) for each in cast("list[object]", content) if isinstance(each, Mapping)]
    return "\n".join(str(each["text"]) for each in parts if "text" in each)
