"""Server-sent events: the stream of request changes for one person, from any point of the feed on.

Tests: tests/server/services/test_events.py
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import anyio
from starlette.responses import Response

from sayso.core import json_codec
from sayso.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Message, Receive, Scope, Send

    from sayso.server.hub import Hub
    from sayso.server.identity import Principal
    from sayso.server.services.connections import ClientConnection
    from sayso.server.services.events import EventBatch

_PING = b": ping\n\n"
_PING_SECONDS = 15.0
PATIENCE_SECONDS = 30.0  # a client that reads nothing for this long is disconnected


class EventStream(Response):
    """Response that streams events to one person."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, person: Principal, after: int | None) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._person = person
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Stream events until the client disconnects or the connection must close."""
        with self._hub.connections.admit(self._person.token) as connection, self._hub.events.subscribed():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_on_disconnect, receive, tasks.cancel_scope)
                tasks.start_soon(cancel_when_closing, connection, tasks.cancel_scope)
                # In a task of its own: otherwise each event would wake every middleware between here and the server.
                tasks.start_soon(self._send_events, send, tasks.cancel_scope)
            if connection.must_close.is_set():
                with contextlib.suppress(TimeoutError), self._hub.deadlines.within(PATIENCE_SECONDS):
                    await send(_body_message(b"", more=False))

    async def _send_events(self, send: Send, scope: anyio.CancelScope) -> None:
        """Send events while the client reads them; a slow client is cut off, without the last chunk."""
        send_limit = self._hub.deadlines.within(PATIENCE_SECONDS)
        with contextlib.suppress(TimeoutError, StoreError):
            async with contextlib.aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    with send_limit:
                        await send(_body_message(chunk))
        scope.cancel()

    async def _chunks(self) -> AsyncGenerator[bytes]:
        """Yield events, and pings in between."""
        events, ping_limit = self._hub.events, self._hub.deadlines.within(_PING_SECONDS)
        point = await events.start_point(self._after)
        yield _event("hello", json_codec.to_json({"point": point}), point)
        while True:
            try:
                with ping_limit:
                    await events.wait_past(point)
            except TimeoutError:
                yield _PING
                continue
            batch = await events.next_batch(point)
            if chunk := self._render_batch(batch):
                yield chunk
            point = batch.point

    def _render_batch(self, batch: EventBatch) -> bytes:
        """Render the events of this person's projects; only the last one carries the point of the whole batch."""
        token = self._person.token

        def render(batch: EventBatch) -> bytes:
            mine = [event for event in batch.events if token.is_for(event.request.project)]
            points = [batch.after] * (len(mine) - 1) + [batch.point]
            return b"".join(_event("request", each.text, point) for each, point in zip(mine, points, strict=False))

        return batch.cached(f"events of {token.project}", render)


def _event(name: str, text: str, point: int) -> bytes:
    # `json_codec` writes no line breaks, so one `data` line holds the whole JSON.
    return f"event: {name}\nid: {point}\ndata: {text}\n\n".encode()


def _body_message(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def cancel_when_closing(connection: ClientConnection, scope: anyio.CancelScope) -> None:
    """Cancel a scope when its connection must close."""
    await connection.must_close.wait()
    scope.cancel()
