"""Message history of a PydanticAI run as a conversation: prompts, texts, tool calls and the first words of results.

System prompts, instructions and thinking are left out; an image or another file is only named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

from pydantic_ai.messages import (
    AudioUrl,
    BaseToolCallPart,
    BaseToolReturnPart,
    BinaryContent,
    CachePoint,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    TextPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.tools import RunContext

from sayso.adapters.pydantic_ai.calls import fields_of
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result
from sayso.engine import context

_URLS: dict[type, str] = {ImageUrl: "[image]", AudioUrl: "[audio]", VideoUrl: "[video]", DocumentUrl: "[document]"}
_MOST_ITEMS = 20  # of a list that a tool returns


def messages_of(ctx: RunContext[Any]) -> context.Messages:
    """Return the function that collects the messages of a run before the call in its context, the newest first."""
    return partial(_messages, ctx, context.prompt_role())


def _messages(ctx: RunContext[Any], prompt_role: Role) -> Iterator[ConversationMessage]:
    for parts in _parts_before(ctx.messages, ctx.tool_call_id):
        said = [each for each in (_said(part, prompt_role) for part in parts) if each is not None]
        together = [list(same) for _, same in groupby(said, key=lambda each: each[0])]
        for same in reversed(together):
            yield ConversationMessage(role=same[0][0], text="\n".join(text for _, text in same))


def _parts_before(messages: Sequence[ModelMessage], call_id: str | None) -> Iterator[Sequence[object]]:
    """Yield the parts of each message, the newest first, without the call itself and what follows it."""
    places = (
        (at, number)
        for at in range(len(messages) - 1, -1, -1)
        for number, part in enumerate(messages[at].parts)
        if isinstance(part, BaseToolCallPart) and part.tool_call_id == call_id
    )
    at, number = next(places, (len(messages), 0))
    if at < len(messages):
        yield messages[at].parts[:number]
    yield from (message.parts for message in reversed(messages[:at]))


def _said(part: object, prompt_role: Role) -> tuple[Role, str] | None:
    match part:
        case UserPromptPart(content=content):
            return prompt_role, content if isinstance(content, str) else " ".join(map(_content_text, content))
        case TextPart(content=content):
            return "agent", content
        case FilePart(content=content):
            return "agent", _content_text(content)
        case BaseToolCallPart():
            call = cast("BaseToolCallPart[Any]", part)
            return "agent", describe_call(call.tool_name, call.args_as_dict())
        case BaseToolReturnPart():
            result = cast("BaseToolReturnPart[Any]", part)
            return "tool", describe_result(result.tool_name, _plain(result.content))
        case _:
            return None


def _content_text(item: object) -> str:
    """Return an item of a prompt as text; a file becomes its kind."""
    text = item if isinstance(item, str) else getattr(item, "content", None)
    if isinstance(text, str):
        return text
    return "" if isinstance(item, CachePoint) else _file_kind(item) or "[file]"


def _file_kind(item: object) -> str | None:
    if isinstance(item, BinaryContent):
        kind = item.media_type.partition("/")[0]
        return f"[{kind}]" if kind in {"image", "audio", "video"} else "[file]"
    return _URLS.get(type(item))


def _plain(result: object) -> object:
    """Return a result as data that can be redacted: files by their kind, the fields of a model or dataclass."""
    if isinstance(result, list | tuple):
        return [_plain(each) for each in cast("list[object]", result)[:_MOST_ITEMS]]
    return _file_kind(result) or fields_of(result) or result
