"""Headers of MCP over HTTP: which ones go on, checked against the body, and made anew for what was approved.

A router that reads headers must not see another call than the server that reads the body. Headers that mirror arguments
(`Mcp-Param-*`) never go on: the relay writes its own.

Tests: tests/adapters/mcp/test_mcp_headers.py
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from sayso.adapters.mcp import messages
from sayso.adapters.mcp.messages import MessageError

METHOD, NAME, PARAM = "mcp-method", "mcp-name", "mcp-param-"
SESSION, VERSION, LAST_EVENT = "mcp-session-id", "mcp-protocol-version", "last-event-id"
_FORWARDED = frozenset({SESSION, VERSION, "traceparent", "tracestate"})
_NAMED_BY = {messages.CALL: "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def forwarded(given: Mapping[str, str], method: str) -> dict[str, str]:
    """Return the headers of a client that go on to the server as they are: all others stay here."""
    known = _FORWARDED | {LAST_EVENT} if method == "GET" else _FORWARDED
    return {name: value for name, value in given.items() if name in known}


def routing(message: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the headers that repeat what a message of the protocol of 2026 says, and what a tool mirrors of a call."""
    method = message.get("method")
    if not isinstance(method, str):
        return {}
    name = messages.part(message, "params", _NAMED_BY.get(method, ""))
    found = {METHOD: method, **({NAME: _encode(name)} if isinstance(name, str) else {})}
    arguments = messages.part(message, "params", "arguments")
    return found | {f"{PARAM}{token}": text for token, text in _mirrored(schema, arguments)}


def check(given: Mapping[str, str], message: Mapping[str, Any]) -> None:
    """Refuse headers that say another thing than the body.

    Raises:
        MessageError: names the header.
    """
    wanted = routing(message)
    for name in (METHOD, NAME):
        if name in given and decoded(given[name]) != decoded(wanted.get(name, "")):
            raise MessageError(f"its header {name} says {given[name]!r}, and its body says another thing")
    version = messages.part(message, "params", "_meta", f"{messages.PROTOCOL}protocolVersion")
    if VERSION in given and isinstance(version, str) and given[VERSION] != version:
        raise MessageError(f"its header {VERSION} says {given[VERSION]!r}, and its body says another version")


def decoded(value: str) -> str | None:
    """Return what a header says; None if its encoding is broken."""
    found = _ENCODED.fullmatch(value)
    if found is None:
        return value
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _encode(value: str) -> str:
    if (not value or _PLAIN.fullmatch(value)) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _mirrored(schema: object, arguments: object) -> Iterator[tuple[str, str]]:
    """Yield the header names and values of the arguments for which the schema has an `x-mcp-header`."""
    properties = messages.part(schema, "properties")
    if not isinstance(properties, dict) or not isinstance(arguments, dict):
        return
    for key, inner in cast("dict[str, Any]", properties).items():
        value, token = cast("dict[str, Any]", arguments).get(key), messages.part(inner, "x-mcp-header")
        text = _as_text(value)
        if isinstance(token, str) and _TOKEN.fullmatch(token) and text is not None:
            yield token.lower(), _encode(text)
        yield from _mirrored(inner, value)


def _as_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
