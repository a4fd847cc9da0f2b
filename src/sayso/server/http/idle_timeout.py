"""HTTP for connections that say what they want within some seconds; uvicorn alone would wait for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_MOST_CONNECTIONS = 10_000
_SILENCE_SECONDS = 20.0  # a connection may take so long to say what it wants


class IdleTimeout(asyncio.Protocol):
    """What any of uvicorn's readers of HTTP is given: it ends a connection that says nothing."""

    connections: set[Any]  # these four are uvicorn's
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    _idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - as uvicorn has it
        """Begin to wait for the first request, if there is room for one more connection."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
            return
        self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.cancel_idle_timer()
        super().connection_lost(exc)

    def _start_idle_timer(self) -> None:
        self._idle_timer = self.loop.call_later(_SILENCE_SECONDS, self._close_if_idle, self.cycle)

    def _close_if_idle(self, before: object) -> None:
        """Close the connection if no request has come since, and none is being answered."""
        under_way = self.cycle is not None and not self.cycle.response_complete
        if self.cycle is before and not under_way:
            self.transport.abort()
        else:
            self._start_idle_timer()

    def cancel_idle_timer(self) -> None:
        """Wait no longer, also for a socket: it may be silent, and is asked for signs of life."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


class IdleTimeoutProtocol(IdleTimeout, H11Protocol):
    """HTTP in Python alone."""

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 - uvicorn's
        """Let the socket have the connection."""
        self.cancel_idle_timer()
        super().handle_websocket_upgrade(event)
