"""Idle time-out of HTTP connections (slow loris): uvicorn itself waits without limit for the head of a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_MOST_CONNECTIONS = 10_000
_SILENCE_SECONDS = 20.0  # how long a client may take to send the head of a request


class IdleTimeoutProtocol(H11Protocol):
    """uvicorn's HTTP protocol on h11; closes a connection that sends no request within the time-out."""

    _idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - as uvicorn has it
        """Start the idle timer, or refuse one connection too many."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
            return
        self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the idle timer."""
        self._cancel_idle_timer()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 - uvicorn's
        """Cancel the idle timer: a WebSocket may be silent, and pings show whether its peer lives."""
        self._cancel_idle_timer()
        super().handle_websocket_upgrade(event)

    def _start_idle_timer(self) -> None:
        self._idle_timer = self.loop.call_later(_SILENCE_SECONDS, self._close_if_idle, self.cycle)

    def _close_if_idle(self, before: object) -> None:
        """Close the connection if no request has arrived since, and none is being answered."""
        is_first = self.cycle is None  # pyright: ignore[reportUnnecessaryComparison] - it is None before the first request
        if self.cycle is before and (is_first or self.cycle.response_complete):
            self.transport.abort()
        else:
            self._start_idle_timer()

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
