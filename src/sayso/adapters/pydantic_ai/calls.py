"""Conversion of PydanticAI's calls to `ToolCall`: run, agent path, and arguments as plain data.

Tests: tests/adapters/pydantic_ai/test_toolset.py
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pydantic_core
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.tools import RunContext

from sayso.core.model import ToolCall, new_id
from sayso.engine import context

_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


def to_tool_call(name: str, args: Mapping[str, Any], ctx: RunContext[Any], schema_hash: str, session: str) -> ToolCall:
    """Return the call with exactly the arguments that the tool would get.

    Raises:
        ValueError: an argument cannot be serialised, so it cannot be shown.
    """
    simple = all(type(value) in _PLAIN for value in args.values())
    return ToolCall(
        tool=name,
        args=args if simple else {key: to_plain(value) for key, value in args.items()},
        call_id=ctx.tool_call_id or new_id(),
        session=session,
        run=run_of(ctx, ctx.tool_call_id),
        agent_path=context.agent_path(getattr(ctx.agent, "name", None)),
        schema_hash=schema_hash if simple else _with_types(schema_hash, args),
    )


def _with_types(schema_hash: str, args: Mapping[str, Any]) -> str:
    """Return the hash of the schema and the types of the arguments: two types of a union may look alike."""
    types = [name for value in args.values() for name in _types(value)]
    return hashlib.sha256("\0".join((schema_hash, *types)).encode()).hexdigest()[:16] if types else schema_hash


def _types(value: object) -> Iterator[str]:
    fields = fields_of(value)
    if fields is not None:
        yield f"{type(value).__module__}.{type(value).__qualname__}"
    elif isinstance(value, Mapping):
        fields = cast("Mapping[Any, object]", value)
    elif isinstance(value, list | tuple):
        fields = dict(enumerate(cast("list[object]", value)))
    for each in (fields or {}).values():
        yield from _types(each)


def fields_of(value: object) -> Mapping[Any, object] | None:
    """Return all fields of a model or a dataclass, also private and extra ones; None for any other value."""
    if isinstance(value, BaseModel):
        return {**dict(value), **(value.__pydantic_private__ or {})}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return fields | getattr(value, "__dict__", {})  # with extras, which are not fields
    return None


def to_plain(value: Any) -> Any:  # noqa: ANN401 - any argument in, plain data out
    """Serialise an argument completely, also the fields that a model excludes from its own serialisation.

    A secret is replaced by its hash, so that two secrets differ.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, SecretStr | SecretBytes):
        secret = value.get_secret_value()
        return f"<secret {hashlib.sha256(secret.encode() if isinstance(secret, str) else secret).hexdigest()[:32]}>"
    fields = fields_of(value)
    return _collected(value) if fields is None else {name: to_plain(each) for name, each in fields.items()}


def _collected(value: Any) -> Any:  # noqa: ANN401 - any argument in, plain data out
    if isinstance(value, Mapping):
        given = cast("Mapping[Any, Any]", value)
        written = {str(to_plain(key)): to_plain(each) for key, each in given.items()}
        if len(written) < len(given):
            raise ValueError("two keys of a mapping are written down alike")
        return written
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted((to_plain(each) for each in cast("set[Any]", value)), key=repr)  # the same in every process
    return pydantic_core.to_jsonable_python(value)


def shape_of(value: object) -> object:
    """Return the types in an argument, which its plain data no longer has: a date is a text there, a tuple a list."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - of any argument
    if kind in _PLAIN:
        return kind
    fields = fields_of(value)
    if fields is None and isinstance(value, Mapping):
        fields = cast("Mapping[Any, object]", value)
    elif fields is None and isinstance(value, list | tuple):
        fields = dict(enumerate(cast("list[object]", value)))
    elif isinstance(value, set | frozenset):
        return kind, sorted(repr(shape_of(each)) for each in cast("set[object]", value))
    return kind, {name: (shape_of(name), shape_of(each)) for name, each in (fields or {}).items()}


def run_of(ctx: RunContext[Any], call_id: str | None) -> str:
    """Return the run in which a call was made: a resumed run continues the calls of an earlier one.

    Some providers use a call id again in the next response of a run. The run then gets the number of the call
    appended, which a resumed history counts alike.
    """
    response = _response_with(ctx.messages, call_id)
    if response is not None and not response.run_id:
        return ""
    run = (ctx.run_id or "") if response is None else (response.run_id or "")
    times = sum(_makes(each, call_id) for each in ctx.messages if each.run_id == run) + (response is None)
    return run if times == 1 else f"{run}#{times}"


def call_key(ctx: RunContext[Any], call_id: str) -> str:
    """Return the key of a call of this run, or of the one that it continues."""
    return ToolCall(tool="", call_id=call_id, run=run_of(ctx, call_id)).key


def is_of_earlier_run(ctx: RunContext[Any]) -> bool:
    """Whether the call of this context was made in an earlier run, which this one continues."""
    response = _response_with(ctx.messages, ctx.tool_call_id)
    return response is not None and response.run_id != ctx.run_id


def _response_with(messages: Sequence[ModelMessage], call_id: str | None) -> ModelResponse | None:
    """Return the response that makes the call with this id for which there is no result yet.

    `run_stream` runs the calls beside its output before it records the response.
    """
    for message in reversed(messages):
        if _makes(message, call_id):
            return cast("ModelResponse", message)
        if any(getattr(part, "tool_call_id", None) == call_id for part in message.parts):
            return None  # the result of an earlier call with this id
    return None


def _makes(message: ModelMessage, call_id: str | None) -> bool:
    """Whether a message is a response that makes a call with this id."""
    return any(isinstance(part, ToolCallPart) and part.tool_call_id == call_id for part in message.parts)


def is_beside_output(ctx: RunContext[Any]) -> bool:
    """Whether the run may end with an output that stands beside the call, in the same response."""
    response = _response_with(ctx.messages, ctx.tool_call_id)
    if response is None:  # in `run_stream`, see above
        return bool(ctx.messages) and not isinstance(ctx.messages[-1], ModelResponse)
    if response.run_id != ctx.run_id or ctx.tool_manager is None:
        return False
    known = [ctx.tool_manager.get_tool_def(part.tool_name) for part in response.tool_calls]
    return any(definition is not None and definition.kind == "output" for definition in known)
