"""Serving a hub with uvicorn: bind the address, choose the event loop, shut down gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import signal
import socket
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

try:
    import uvicorn
except ImportError as error:
    raise ImportError("the hub is not installed; run `pip install sayso[server]`") from error

from sayso.errors import ConfigurationError
from sayso.server.http.idle_timeout import IdleTimeoutProtocol
from sayso.server.middleware import LARGEST_BODY

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fastapi import FastAPI

    from sayso.server.hub import Hub

try:  # the faster event loop of `sayso[server-fast]`
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop

_BACKLOG = 1024
_SHUTDOWN_SECONDS = 10
_GC_THRESHOLD = 10_000  # an answer allocates hundreds of objects, and no cycle
_STUCK_MS = 60_000  # the kernel drops a peer that acknowledges nothing for a minute


class QuietServer(uvicorn.Server):
    """uvicorn server that ends with its first signal, and lets its caller tidy up after it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle signals as uvicorn does, but do not raise them again afterwards: the store must be closed first."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


class HubServer(QuietServer):
    """Server that drains streams, WebSockets and long polls before it waits for their connections."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain long-lived connections, then shut down."""
        self._hub.rest()
        await super().shutdown(sockets)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Bind a listening socket.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sets TCP_NODELAY only on connections of a socket that names its protocol. Without it, the end of an
        # answer waits for a delayed acknowledgement, 40 ms.
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if "TCP_USER_TIMEOUT" in vars(socket):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STUCK_MS)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"{host} port {port} cannot be served: {reason}; choose another with --port") from None
    return listener


def create_server(
    app: FastAPI, hub: Hub, *, certificate: str | None = None, key: str | None = None, proxy: str | None = None
) -> HubServer:
    """Return the server of a hub's application, for a socket that is bound already."""
    config = uvicorn.Config(
        app,
        http=IdleTimeoutProtocol,
        ws_max_size=LARGEST_BODY,
        ws_per_message_deflate=False,  # compression of attacker-controlled text next to secrets leaks them (BREACH)
        access_log=False,  # it would log the codes of sign-in links
        log_config=None,
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy or "",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_keep_alive=15,
    )
    return HubServer(config, hub)


def create_gateway_server(app: Any) -> QuietServer:  # noqa: ANN401 - an ASGI application, by whichever protocol
    """Return the server of a gateway, which cancels its streams when it ends."""
    config = uvicorn.Config(
        app,
        http=IdleTimeoutProtocol,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=15,
    )
    return QuietServer(config)


def run_hub(serving: Coroutine[Any, Any, None]) -> None:
    """Run a hub as the only job of this process, on uvloop if it is installed."""
    gc.freeze()  # modules stay loaded: the collector need not scan them again
    gc.set_threshold(_GC_THRESHOLD)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serving)
