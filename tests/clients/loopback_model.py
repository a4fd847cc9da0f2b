"""A scripted model on loopback that speaks the wire protocols of coding agents, so that they run whole and offline.

It has no state: the turn that it plays is the number of tool calls that the conversation holds already, so a run that
is resumed goes on where it was. Requests that offer no tools, for titles and the like, are answered with a word.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

Body = dict[str, Any]
Stream = list[tuple[str, Body | str]]
_USAGE = {"input_tokens": 1, "output_tokens": 1}


@dataclass(frozen=True)
class ModelCall:
    """A call that the model makes."""

    tool: str
    args: Mapping[str, Any]


@dataclass
class Script:
    """What the model says turn by turn, and the conversations that it was shown."""

    turns: list[list[ModelCall]] = field(default_factory=list[list[ModelCall]])
    seen: list[Body] = field(default_factory=list[Body])
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def play(self, body: Body, made: int) -> list[ModelCall]:
        """Return the calls that follow on so many calls of a conversation."""
        if not body.get("tools"):
            return []
        self.seen.append(body)
        for calls in self.turns:
            if made < len(calls) or not calls:
                return calls
            made -= len(calls)
        return []


class LoopbackModel:
    """The model as a server, for a `with` block."""

    def __init__(self) -> None:
        self.script = Script()
        script = self.script

        class Handler(_Dialects):
            played = script

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Dialects(BaseHTTPRequestHandler):
    """The protocols: Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's generateContent."""

    protocol_version = "HTTP/1.1"
    played: Script

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer what asks for models."""
        self._send({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})

    def do_POST(self) -> None:
        """Answer in the dialect of the path."""
        body, path = self._read(), self.path.split("?", maxsplit=1)[0]
        if path.endswith("/count_tokens"):
            self._send({"input_tokens": 1})
        elif path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif path.lower().endswith("generatecontent"):
            self._gemini(body)
        else:
            self._send({})

    def _read(self) -> Body:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b"".join(self._chunks())
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            return cast("Body", json.loads(data or b"{}"))
        except ValueError:  # compressed telemetry
            return {}

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, body: Body | bytes, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Stream) -> None:
        lines: list[str] = []
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            lines.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
        self._send("".join(lines).encode(), "text/event-stream")

    def _id(self, kind: str) -> str:
        return f"{kind}_{next(self.played.ids):06d}"

    def _anthropic(self, body: Body) -> None:
        made = [
            block
            for message in body.get("messages", [])
            if message["role"] == "assistant" and isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        calls = self.played.play(body, len(made))
        blocks: list[Body] = [
            {"type": "tool_use", "id": self._id("toolu"), "name": each.tool, "input": dict(each.args)} for each in calls
        ]
        blocks = blocks or [{"type": "text", "text": "done"}]
        stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        head = {"id": self._id("msg"), "type": "message", "role": "assistant", "model": "scripted", "usage": _USAGE}
        if not body.get("stream"):
            self._send({**head, **stop, "content": blocks})
            return
        begin: Body = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
        events: Stream = [("message_start", {"type": "message_start", "message": begin})]
        for index, block in enumerate(blocks):
            events += _anthropic_block(index, block)
        events.append(("message_delta", {"type": "message_delta", "delta": stop, "usage": _USAGE}))
        self._stream([*events, ("message_stop", {"type": "message_stop"})])

    def _responses(self, body: Body) -> None:
        made = [each for each in cast("list[Body]", body.get("input", [])) if each.get("type") == "function_call"]
        calls = self.played.play(body, len(made))
        out: list[Body] = [
            {
                "type": "function_call",
                "id": self._id("fc"),
                "call_id": self._id("call"),
                "name": each.tool,
                "arguments": json.dumps(each.args),
            }
            for each in calls
        ]
        text: Body = {"type": "output_text", "text": "done", "annotations": []}
        out = out or [{"type": "message", "id": self._id("m"), "role": "assistant", "content": [text]}]
        head: Body = {"id": self._id("resp"), "object": "response", "created_at": 1, "model": "scripted", "output": []}
        usage = {**_USAGE, "input_tokens_details": None, "output_tokens_details": None, "total_tokens": 2}
        done = {**head, "status": "completed", "output": out, "usage": usage}
        events: Stream = [_typed("response.created", response={**head, "status": "in_progress"})]
        for index, item in enumerate(out):
            events.append(_typed("response.output_item.added", output_index=index, item=item))
            events.append(_typed("response.output_item.done", output_index=index, item=item))
        self._stream([*events, _typed("response.completed", response=done)])

    def _chat(self, body: Body) -> None:
        said = [each for each in body.get("messages", []) if each["role"] == "assistant"]
        calls = self.played.play(body, sum(len(each.get("tool_calls") or ()) for each in said))
        given = [
            {
                "index": index,
                "id": self._id("call"),
                "type": "function",
                "function": {"name": each.tool, "arguments": json.dumps(each.args)},
            }
            for index, each in enumerate(calls)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": given} if given else {"content": "done"}
        stop = "tool_calls" if calls else "stop"
        head: Body = {"id": self._id("chatcmpl"), "created": 1, "model": "scripted"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": stop}
            self._send({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        head["object"] = "chat.completion.chunk"
        first = {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        last: Body = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}
        self._stream([("", first), ("", last), ("", "[DONE]")])

    def _gemini(self, body: Body) -> None:
        parts = [part for each in body.get("contents", []) if each.get("role") == "model" for part in each["parts"]]
        calls = self.played.play(body, sum("functionCall" in part for part in parts))
        said: list[Body] = [{"functionCall": {"name": each.tool, "args": dict(each.args)}} for each in calls]
        content = {"role": "model", "parts": said or [{"text": "done"}]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        answer: Body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
        if "stream" in self.path.lower():
            self._stream([("", answer)])
        else:
            self._send(answer)


def _typed(kind: str, **facts: object) -> tuple[str, Body]:
    return kind, {"type": kind, **facts}


def _anthropic_block(index: int, block: Body) -> Stream:
    begin: Body = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
    delta: Body = {"type": "text_delta", "text": block.get("text")}
    if block["type"] == "tool_use":
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        _typed("content_block_start", index=index, content_block=begin),
        _typed("content_block_delta", index=index, delta=delta),
        _typed("content_block_stop", index=index),
    ]
