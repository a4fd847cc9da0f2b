"""Scripted model: a PydanticAI test double that needs no network and no key; a script holds its replies and tool calls.

It is stateless: the next turn is derived from the messages of the run, so that concurrent, nested, consecutive and
resumed runs all get their own turns.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from sayso.config.read_file import FileSpec, read_bytes
from sayso.config.yaml_toml import read_yaml
from sayso.errors import Mistake, PolicyError
from sayso.policy.data_schema import Key, Problem, Shape, dotted, list_of, mapping_of, record, text, validate

try:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        TextContent,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
except ImportError as error:
    raise ImportError("PydanticAI is not installed; run `pip install sayso[pydantic-ai]`") from error

_OVER = "The script is over: it has no turn for this."
_PROMPT = "{{prompt}}"
_FILE_SPEC = FileSpec(
    what="a script",
    missing="write it, or name another one",
    empty="write `turns:` and a list below it",
    start="start a script with the line `turns:`",
    largest=1_000_000,
)
_ANYTHING = Shape(kind="anything", fits=lambda _: True, find_problems=lambda _, __: (), schema={})
_CALL = {"call": text("the tool to call"), "args": mapping_of("its arguments", _ANYTHING)}
_TURN = record(
    "one answer of the model: a text, a call, or several calls at once",
    {
        "say": text("what it says, which ends the run; {{prompt}} stands for what the user said"),
        **_CALL,
        "calls": list_of("calls that are made at once", record("a call", _CALL, required=("call",))),
        "if_result": text("the turn is left out unless a result of the calls just made has this text in it"),
    },
)
SCRIPT = record("What a scripted model does.", {"turns": list_of("its answers", _TURN)}, required=("turns",))


class _Turn(NamedTuple):
    """One reply of the model, and the tool result on which it depends, if any."""

    say: str | None
    calls: Sequence[tuple[str, dict[str, Any]]]
    if_result: str | None


def scripted_model(script: str | os.PathLike[str] | Sequence[Mapping[str, Any]]) -> Model:
    """Return a model that follows a script: a YAML file with `turns:`, or the turns themselves.

    Every prompt of the user restarts it; after its last turn the model says that it is over.

    Raises:
        PolicyError: lists every mistake in the script, with its place.
    """
    if isinstance(script, str | os.PathLike):
        turns, name = _from_file(Path(script)), Path(script).name
    else:
        turns, name = _parse_turns({"turns": list(script)}, "script", lambda _: None), "turns"

    async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=_parts(turns, messages))

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for at, part in enumerate(_parts(turns, messages)):
            if isinstance(part, TextPart):
                for piece in re.split(r"(?<=\s)(?=\S)", part.content):
                    yield piece
            else:
                call = DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)
                yield {at: call}

    return FunctionModel(answer, stream_function=stream, model_name=f"scripted:{name}")


# --- Reading a script ----------------------------------------------------------------------------------------


def _from_file(path: Path) -> list[_Turn]:
    document = read_yaml(read_bytes(path, _FILE_SPEC), str(path), _FILE_SPEC)
    return _parse_turns(document.data, str(path), document.mark)


def _parse_turns(data: object, source: str, places: Callable[[Key], tuple[int, int] | None]) -> list[_Turn]:
    problems = list(validate(SCRIPT, data))
    given = [] if problems else cast("list[Mapping[str, Any]]", cast("Mapping[str, Any]", data)["turns"])
    problems = problems or [
        *_end_problems(given),
        *(each for at, turn in enumerate(given) for each in _turn_problems(turn, at)),
    ]
    if problems:
        raise PolicyError([Mistake(source, *(places(key) or (None, None)), message) for key, message in problems])
    return [_Turn(turn.get("say"), [*map(_call, _calls(turn))], turn.get("if_result")) for turn in given]


def _end_problems(turns: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if not turns or "say" not in turns[-1] or "if_result" in turns[-1]:
        key = ("turns", len(turns) - 1) if turns else ("turns",)
        yield Problem(
            key, "the last turn has to be a `say` without `if_result`; add one, so that the model comes to an end"
        )
    for at, turn in enumerate(turns[:-1]):
        if "say" in turn and "if_result" not in turn:
            problem = (
                f"{dotted(('turns', at))} ends the run, so that no turn below it is reached; give it an `if_result`"
            )
            yield Problem(("turns", at), problem)


def _turn_problems(turn: Mapping[str, Any], at: int) -> Iterator[Problem]:
    key = ("turns", at)
    if len({"say", "call", "calls"} & turn.keys()) != 1:
        yield Problem(key, f"{dotted(key)} has to have one of `say`, `call` and `calls`")
    if "args" in turn and "call" not in turn:
        yield Problem((*key, "args"), f"{dotted((*key, 'args'))} belong to no `call`; add one, or take them out")
    if turn.get("calls") == []:
        yield Problem((*key, "calls"), f"{dotted((*key, 'calls'))} is empty; name at least one `call`")
    for call in _calls(turn):
        try:
            json.dumps(call.get("args"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as problem:
            yield Problem(
                key, f"{dotted(key)} has arguments that are no plain data ({problem}); use what JSON can hold"
            )


def _calls(turn: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [turn] if "call" in turn else turn.get("calls", ())


def _call(given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return given["call"], json.loads(json.dumps(given.get("args", {})))  # a copy: what was checked is what is called


# --- Following it --------------------------------------------------------------------------------------------


def _parts(turns: Sequence[_Turn], messages: Sequence[ModelMessage]) -> Sequence[TextPart | ToolCallPart]:
    run = messages[_start(messages) :]
    turn, prompt = _current_turn(turns, run), _prompt(run)
    if turn is None:
        return [TextPart(_OVER)]
    if turn.say is not None:
        return [TextPart(turn.say.replace(_PROMPT, prompt))]
    return [ToolCallPart(name, cast("dict[str, Any]", _fill_prompt(args, prompt))) for name, args in turn.calls]


def _start(messages: Sequence[ModelMessage]) -> int:
    """Return the index of the last prompt."""
    return next((at for at in reversed(range(len(messages))) if _is_prompt(messages, at)), 0)


def _is_prompt(messages: Sequence[ModelMessage], at: int) -> bool:
    """Whether a message is a user's prompt; attachments of a tool and PydanticAI's retry prompts look alike."""
    message = messages[at]
    if not any(isinstance(part, UserPromptPart) for part in message.parts) or _results(message):
        return False  # attachments come with results
    before = messages[at - 1].run_id if at else None
    return before is None or before != message.run_id  # an objection comes in the run that it is about


def _current_turn(turns: Sequence[_Turn], run: Sequence[ModelMessage]) -> _Turn | None:
    """Return the next turn, by replaying the turns of the run."""
    at, results = 0, list[str]()
    for message in run:
        if isinstance(message, ModelResponse):
            at, results = _next(turns, at, results) + 1, []
        else:
            results += _results(message)
    at = _next(turns, at, results)
    return turns[at] if at < len(turns) else None


def _next(turns: Sequence[_Turn], at: int, results: Sequence[str]) -> int:
    while at < len(turns) and not _applies(turns[at], results):
        at += 1
    return at


def _applies(turn: _Turn, results: Sequence[str]) -> bool:
    return turn.if_result is None or any(turn.if_result in each for each in results)


def _results(message: ModelMessage) -> list[str]:
    parts = message.parts if isinstance(message, ModelRequest) else ()
    return [said for part in parts if (said := _result(part)) is not None]


def _result(part: ModelRequestPart) -> str | None:
    if isinstance(part, ToolReturnPart):
        return part.model_response_str()
    return part.model_response() if part.part_kind == "retry-prompt" else None  # the form of an error in PydanticAI 1


def _prompt(run: Sequence[ModelMessage]) -> str:
    prompts = [part.content for part in (run[0].parts if run else ()) if isinstance(part, UserPromptPart)]
    pieces = [piece for content in prompts for piece in ([content] if isinstance(content, str) else content)]
    said = [piece.content if isinstance(piece, TextContent) else piece for piece in pieces]
    return "\n".join(piece for piece in said if isinstance(piece, str))


def _fill_prompt(value: object, prompt: str) -> object:
    if isinstance(value, str):
        return value.replace(_PROMPT, prompt)
    if isinstance(value, dict):
        return {key: _fill_prompt(each, prompt) for key, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_fill_prompt(each, prompt) for each in cast("list[object]", value)]
    return value
