"""Serving a hub with uvicorn: the address, connections that never say anything, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from sayso.errors import ConfigurationError
from sayso.server.guards import LARGEST_BODY

if TYPE_CHECKING:
    from fastapi import FastAPI

    from sayso.server.hub import Hub

_BACKLOG = 1024
_MOST_CONNECTIONS = 10_000
_SILENCE_SECONDS = 20.0  # a connection may take so long to say what it wants
_FAREWELL_SECONDS = 10
_STUCK_MS = 60_000  # a peer that takes nothing for so long is gone, for the kernel too


class PatientProtocol(H11Protocol):
    """HTTP for connections that say what they want within some seconds; uvicorn alone would wait for ever."""

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

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 - uvicorn's
        """Wait no longer: a socket may be silent, and is asked for signs of life."""
        self._stop_listening()
        super().handle_websocket_upgrade(event)

    def _listen_for_request(self) -> None:
        self._silence = self.loop.call_later(_SILENCE_SECONDS, self._lose_patience, self.cycle)

    def _lose_patience(self, before: object) -> None:
        """Close the connection if no request has come since, and none is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # there is none at first, whatever its type says
        under_way = cycle is not None and not cycle.response_complete
        if self.cycle is before and not under_way:
            self.transport.abort()
        else:
            self._listen_for_request()

    def _stop_listening(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


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
        http=PatientProtocol,
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
