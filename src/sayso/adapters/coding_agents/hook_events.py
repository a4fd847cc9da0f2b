"""Events of hooks, read strictly: what two readers could read in two ways is no event.

Tests: tests/adapters/coding_agents/test_client_calls.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from sayso.core.canonical import parse_args

if TYPE_CHECKING:
    from sayso.adapters.coding_agents.clients import Client, EventKind


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What a client tells its hook about one call."""

    kind: EventKind
    session: str = ""
    folder: str = ""
    tool: str = ""
    args: Mapping[str, Any] = {}
    call_id: str = ""  # the client's own, which a retry of the model does not keep
    agent: str = ""  # the sub-agent that makes the call
    server: str = ""  # the MCP server that has the tool, as the client's settings name it
    result: object = None
    error: str = ""
    seconds: float | None = None


def read_event(text: str, client: Client) -> HookEvent:
    """Return the event of a client.

    Raises:
        ValueError: it is not an event of this client; the call must not run.
    """
    body, fields = parse_args(text), client.fields
    kind: EventKind = "before"
    if fields.kind is not None:
        name = _text(body, fields.kind)
        if name not in client.kinds:
            raise ValueError(f"{client.title} sent the event {name!r}, which this release of sayso does not know")
        kind = client.kinds[name]
    if kind == "other":
        return HookEvent(kind=kind)
    folder = _text(body, fields.folder)
    if not folder.startswith("/"):
        raise ValueError(f"the event has the folder {folder!r}; it has to be an absolute path")
    return HookEvent(
        kind=kind,
        session=_text(body, fields.session),
        folder=folder,
        tool=_text(body, fields.tool),
        args=_args(body.get(fields.args)),
        call_id=next((each for name in fields.call_ids if isinstance(each := body.get(name), str)), ""),
        agent=_optional(body, "agent_type"),
        server=_server(body),
        result=body.get(fields.result),
        error=_optional(body, fields.error),
        seconds=milliseconds / 1000 if isinstance(milliseconds := body.get("duration_ms"), int | float) else None,
    )


def _text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not found:
        raise ValueError(f"the event has no {name!r}")
    return found


def _optional(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    return found if isinstance(found, str) else ""


def _args(given: object) -> Mapping[str, Any]:
    """Return the arguments of a call, which some clients send as JSON text."""
    if isinstance(given, str):
        return parse_args(given)
    if not isinstance(given, Mapping):
        raise ValueError("the event has no arguments")  # noqa: TRY004 - one error for all that is no event
    return cast("Mapping[str, Any]", given)


def _server(body: Mapping[str, Any]) -> str:
    found = body.get("mcp_server")
    name = cast("Mapping[str, object]", found).get("name") if isinstance(found, Mapping) else None
    return name if isinstance(name, str) else ""
