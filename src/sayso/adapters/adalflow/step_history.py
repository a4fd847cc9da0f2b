"""Step history of an AdalFlow run as a conversation: the query, the tool calls and the first words of results.

A step's thought is left out. A runner with a conversation memory adds the turns before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from sayso.adapters.adalflow.library import Function
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result

_QUERY = "input_str"  # the key of the query in AdalFlow's prompt


def run_steps(runner: Any, prompt: object, prompt_role: Role) -> Iterator[ConversationMessage]:  # noqa: ANN401 - AdalFlow's own
    """Yield the messages of a run before its current step, the newest first."""
    for step in reversed(list(runner.step_history)):
        yield from _step_messages(step)
    query = cast("Mapping[str, object]", prompt).get(_QUERY) if isinstance(prompt, Mapping) else None
    yield from _texts(prompt_role, query)
    memory = runner.conversation_memory
    turns: list[Any] = [] if memory is None else list(memory.current_conversation.dialog_turns.values())
    for turn in reversed(turns):
        yield from _texts("agent", getattr(turn.assistant_response, "response_str", None))
        yield from _texts(prompt_role, getattr(turn.user_query, "query_str", None))


def _step_messages(step: Any) -> Iterator[ConversationMessage]:  # noqa: ANN401 - AdalFlow's own
    func = step.function
    if not isinstance(func, Function):
        return
    if step.observation is not None:
        yield ConversationMessage(role="tool", text=describe_result(func.name, step.observation))
    positional = {str(at): value for at, value in enumerate(func.args or ())}
    yield ConversationMessage(role="agent", text=describe_call(func.name, {**positional, **(func.kwargs or {})}))


def _texts(role: Role, text: object) -> Iterator[ConversationMessage]:
    if isinstance(text, str):
        yield ConversationMessage(role=role, text=text)
