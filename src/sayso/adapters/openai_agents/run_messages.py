"""Messages before a call, for approvers, from what the SDK gives to the model.

Tests: tests/adapters/openai_agents/test_run_states.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from agents import RunContextWrapper

from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result


def said_before(context: RunContextWrapper[Any], prompt_role: Role) -> Iterator[ConversationMessage]:
    """Yield what the model was told before a call, the newest first."""
    for each in reversed(context.turn_input):
        item = cast("Mapping[str, Any]", each)
        if item.get("type") == "function_call":
            yield ConversationMessage(role="agent", text=describe_call(item["name"], item["arguments"]))
        elif item.get("type") == "function_call_output":
            yield ConversationMessage(role="tool", text=describe_result("", text_of(item["output"])))
        elif "content" in item:
            role: Role = "agent" if item.get("role") == "assistant" else prompt_role
            yield ConversationMessage(role=role, text=text_of(item["content"]))


def text_of(content: object) -> str:
    """Return the text of a message's content."""
    if not isinstance(content, list):
        return str(content)
    parts = [cast("Mapping[str, Any]", each) for each in cast("list[object]", content) if isinstance(each, Mapping)]
    return "\n".join(str(each["text"]) for each in parts if "text" in each)
