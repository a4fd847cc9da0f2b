"""Messages of MCP (JSON-RPC 2.0), read so strictly that no other reader can read them differently.

Tests: tests/adapters/mcp/test_messages.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Never, cast

import msgspec

CALL = "tools/call"
LIST = "tools/list"
CHANGED = "notifications/tools/list_changed"
PROTOCOL = "io.modelcontextprotocol/"  # what begins the keys of a request's own `_meta`
_KEYS = ("jsonrpc", "id", "method", "params", "result", "error")
_PARAMS = ("name", "arguments", "_meta", "task", "inputResponses", "requestState")
_BREAKS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # at which some readers end a line


_SESSION = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_LONGEST_NAME = 100
_LONGEST_SHOWN = 1000


class MessageError(ValueError):
    """A message that must not reach the server, and why."""


class ServerHead(msgspec.Struct):
    """The part of a server's message that the relay reads."""

    id: msgspec.Raw = msgspec.Raw()
    method: str | None = None


_read_head = msgspec.json.Decoder(ServerHead).decode


def read_client_message(line: bytes) -> tuple[dict[str, Any], bytes]:
    """Return a client's message, and the line to pass on: as it came, or encoded anew where readers might split it.

    Raises:
        MessageError: it could be read in two ways, or is none.
    """
    try:
        text = line.decode()
        body = _decode(text)
    except MessageError:
        raise
    except (ValueError, RecursionError) as error:
        raise MessageError(f"it is no JSON ({error})") from None
    if isinstance(body, list):
        raise MessageError("it is a batch; send one message at a time")
    if not isinstance(body, dict):
        raise MessageError("it is no object")
    message = cast("dict[str, Any]", body)
    refuse_other_case(message, _KEYS, "it has")
    method = message.get("method")
    if method is not None and not isinstance(method, str):
        raise MessageError("its method is no text")
    if method is not None and method != CALL and method.strip().casefold() == CALL:
        raise MessageError(f"its method is {method!r}; write {CALL!r}")
    if method == CALL:
        _check_call(message)
    return message, encode(message) if _BREAKS.search(text.removesuffix("\n").removesuffix("\r")) else line


def _check_call(message: Mapping[str, Any]) -> None:
    params = message.get("params")
    if not isinstance(params, dict):
        raise MessageError("a call without params")
    given = cast("dict[str, Any]", params)
    refuse_other_case(given, _PARAMS, "a call has")
    if not isinstance(given.get("name"), str):
        raise MessageError("a call that names no tool")
    if not isinstance(given.get("arguments") or {}, dict):
        raise MessageError("a call whose arguments are no object")
    if not isinstance(given.get("_meta") or {}, dict):
        raise MessageError("a call whose _meta is no object")
    if message.get("id") is not None and id_text(message["id"]) is None:
        raise MessageError("a call whose id is neither a text nor a whole number")


def refuse_other_case(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse keys that differ in case only from a known one, or from each other: some readers take one for the other.

    Raises:
        MessageError: names the key.
    """
    names = frozenset(known)
    plain = {name.casefold(): name for name in names}
    for key in given:
        meant = plain.setdefault(key.casefold(), key)
        if meant != key and key not in names:
            raise MessageError(f"{where} the key {key!r}, which some readers take for {meant!r}")


def refuse_ambiguous(given: object) -> None:
    """Refuse an object, at any depth, with two keys that differ in case only.

    Raises:
        MessageError: names one of them.
    """
    if isinstance(given, dict):
        refuse_other_case(cast("dict[str, Any]", given), (), "the arguments have")
    for each in cast("dict[str, Any]", given).values() if isinstance(given, dict) else cast("list[Any]", given):
        if isinstance(each, dict | list):
            refuse_ambiguous(cast("object", each))


def id_text(given: object) -> str | None:
    """Return an id as JSON, so that 1 and "1" differ; None for what is no id."""
    if isinstance(given, str) or (isinstance(given, int) and not isinstance(given, bool)):
        return json.dumps(given)
    return None


def read_server_head(line: bytes) -> ServerHead | None:
    """Return the id and the method of a server's message; None for what is none, or a batch."""
    try:
        return _read_head(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def response_id(head: ServerHead) -> str | None:
    """Return the id of a response, as `id_text` writes it; None for a request, a notification, or another value."""
    if not head.id or head.method is not None:
        return None
    try:
        return id_text(json.loads(bytes(head.id)))
    except ValueError:
        return None


def loose_id(value: object) -> object:
    """Return an id as the most lenient client compares it: 1, 1.0 and "1" are one."""
    try:
        return float(value) if isinstance(value, str | int | float) else value
    except (ValueError, OverflowError):
        return value


def read_batch(line: bytes) -> list[bytes]:
    """Return the messages of a batch, each a line of its own; servers of 2025-03-26 may send one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [encode(each) for each in cast("list[Any]", found)] if isinstance(found, list) else []


def part(message: object, *path: str) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return what stands in a message under these keys; None if nothing does, or if it has another shape."""
    found: Any = message
    for key in path:
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return found


def read_object(line: bytes) -> dict[str, Any]:
    """Return a message of a server; an empty one for what is no object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def client_name(params: object) -> str:
    """Return what the client of a request or of a handshake calls itself; an empty text if it does not say."""
    for name in (part(params, "_meta", f"{PROTOCOL}clientInfo", "name"), part(params, "clientInfo", "name")):
        if isinstance(name, str):
            return name[:_LONGEST_NAME]
    return ""


def client_session(params: object) -> str:
    """Return the session that the client names in a call, as Codex does; an empty text if it names none."""
    found = part(params, "_meta", "x-codex-turn-metadata", "session_id")
    return found if isinstance(found, str) and _SESSION.fullmatch(found) else ""


def shown(value: object) -> str:
    """Return a value of a server as short text."""
    return json.dumps(value, ensure_ascii=False)[:_LONGEST_SHOWN]


def encode(message: object) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def refusal_result(text: str) -> dict[str, Any]:
    """Return the result of a call that did not run: clients show it to the model, unlike an error."""
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": True}


def error_line(key: str, text: str, code: int = -32603) -> bytes:
    """Return the response to a request, whose id is given as JSON, that was not passed on or cannot be answered."""
    return encode({"jsonrpc": "2.0", "id": json.loads(key), "error": {"code": code, "message": text}})


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MessageError("a key stands in it twice")
    return found


def _refuse_constant(name: str) -> Never:
    raise MessageError(f"it has {name}, which is no number")


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant).decode
