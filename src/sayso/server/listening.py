"""Serving a hub with uvicorn: the address, connections that never say anything, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sayso.errors import ConfigurationError
from sayso.server.guards import LARGEST_BODY

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fastapi import FastAPI
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from sayso.server.hub import Hub

try:  # both are faster, and come with `sayso[server-fast]`
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    from uvloop import new_event_loop
except ImportError:
    HttpToolsProtocol = None
    from asyncio import new_event_loop

_BACKLOG = 1024
_MOST_CONNECTIONS = 10_000
_SILENCE_SECONDS = 20.0  # a connection may take so long to say what it wants
_FAREWELL_SECONDS = 10
_LARGEST_HEAD = 65_536
_MOST_AT_ONCE = 100  # requests that one client sends before it has the answer to the first
_STUCK_MS = 60_000  # a peer that takes nothing for so long is gone, for the kernel too


class _Patience(asyncio.Protocol):
    """For connections that say what they want within some seconds; uvicorn alone would wait for ever."""

    connections: set[Any]  # these four are uvicorn's
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: RequestResponseCycle | None
    _silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - as uvicorn has it
        """Begin to wait for the first request, if there is room for one more connection."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
            return
        self._listen_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_listening()
        super().connection_lost(exc)

    def _listen_for_request(self) -> None:
        self._silence = self.loop.call_later(_SILENCE_SECONDS, self._lose_patience, self.cycle)

    def _lose_patience(self, before: object) -> None:
        """Close the connection if no request has come since, and none is being answered."""
        under_way = self.cycle is not None and not self.cycle.response_complete
        if self.cycle is before and not under_way:
            self.transport.abort()
        else:
            self._listen_for_request()

    def _stop_listening(self) -> None:
        """Wait no longer, also for a socket: it may be silent, and is asked for signs of life."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


class PlainProtocol(_Patience, H11Protocol):
    """HTTP in Python alone."""

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 - uvicorn's
        """Let the socket have the connection."""
        self._stop_listening()
        super().handle_websocket_upgrade(event)


PROTOCOL: type[asyncio.Protocol] = PlainProtocol

if HttpToolsProtocol is not None:

    class FastProtocol(_Patience, HttpToolsProtocol):
        """HTTP by httptools, with the limits that it does not have: on what is no body, and on what comes at once."""

        _heads = 0  # bytes since the last piece of a body, or the end of the last request
        _in_head = True

        def data_received(self, data: bytes) -> None:
            """Refuse headers without end, and a client that does not wait for answers."""
            self._heads += len(data)
            super().data_received(data)
            if self.transport.is_closing():
                return
            if self._heads > _LARGEST_HEAD:
                self.send_400_response("The headers are too large.")
            elif len(self.pipeline) > _MOST_AT_ONCE:
                self.transport.abort()

        def on_message_begin(self) -> None:
            """Begin with the headers of a request."""
            self._in_head = True
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            """Take a header, but none that comes after the body: what has been checked already must stay as it is."""
            if self._in_head:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            """Let the request begin."""
            self._in_head = False
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            """Take a piece of the body."""
            self._heads = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            """End a request."""
            self._heads = 0
            super().on_message_complete()

        def handle_websocket_upgrade(self) -> None:
            """Let the socket have the connection."""
            self._stop_listening()
            super().handle_websocket_upgrade()

    PROTOCOL = FastProtocol


class HubServer(uvicorn.Server):
    """A server that lets streams, sockets and long polls end before it waits for their connections."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        """Take the hub."""
        super().__init__(config)
        self._hub = hub

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do what uvicorn does, but do not end the process by the signal afterwards: the store is closed first."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would stay open, then everything else."""
        self._hub.rest()
        await super().shutdown(sockets)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Take the address.

    Raises:
        ConfigurationError: it cannot be had, and why.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if "TCP_USER_TIMEOUT" in vars(socket):
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STUCK_MS)
            taken.bind(address)
            taken.listen(_BACKLOG)
        except OSError:
            taken.close()
            raise
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(f"{host} port {port} cannot be served: {why}; choose another with --port") from None
    return taken


def server(
    app: FastAPI, hub: Hub, *, certificate: str | None = None, key: str | None = None, proxy: str | None = None
) -> HubServer:
    """Return the server of a hub's application, which runs on a socket that is bound already."""
    config = uvicorn.Config(
        app,
        http=PROTOCOL,
        ws_max_size=LARGEST_BODY,
        ws_per_message_deflate=False,  # compressing what strangers write beside secrets gives them away
        access_log=False,  # it would write down the codes of links
        log_config=None,
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy or "",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=_FAREWELL_SECONDS,
        timeout_keep_alive=15,
    )
    return HubServer(config, hub)


def run(serving: Coroutine[Any, Any, None]) -> None:
    """Run a hub on the fastest event loop that is there."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serving)
