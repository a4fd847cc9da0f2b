"""Hubs that are really served: in a thread, in a process that can be killed, and behind a line that can be cut."""

import asyncio
import contextlib
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import uvicorn

from sayso.core import tokens
from sayso.core.ports import Clock
from sayso.core.tokens import TokenKind
from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.stores.postgres import PostgresStore
from sayso.stores.remote import RemoteStore
from sayso.stores.sqlite import SqliteStore

_SERVE = """
import socket, sys, uvicorn
from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.stores.sqlite import SqliteStore

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("serves", flush=True)

app = create_app(Hub(SqliteStore(sys.argv[1])))
own = socket.socket()
own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
own.bind(("127.0.0.1", int(sys.argv[2])))
Server(uvicorn.Config(app, log_level="warning", ws="none")).run(sockets=[own])
"""

_SECONDS_TO_START = 60.0


def listening() -> socket.socket:
    """Take a free port; who connects waits until somebody serves it."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", 0))
    taken.listen(2048)
    return taken


class Served:
    """A hub in a thread of this process, on a file or on the database at an address."""

    def __init__(
        self,
        place: Path | str,
        *,
        clock: Clock | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self.store = PostgresStore(place) if isinstance(place, str) else SqliteStore(place)
        self.hub = Hub(self.store, clock=clock)
        self._socket = listening()
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            create_app(self.hub),
            log_level="warning",
            ws="none",
            timeout_graceful_shutdown=1,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()

    def agent(self, name: str = "builder", project: str = "", *, url: str = "", patience: float = 30.0) -> RemoteStore:
        return RemoteStore(url or self.url, token=self.token(name, project), patience=patience)

    def token(self, name: str = "builder", project: str = "", kind: TokenKind = "agent") -> str:
        token, text = tokens.make(kind, name, now=0.0, project=project)
        in_thread(lambda: asyncio.run(self.store.add_token(token)))
        return text

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        in_thread(lambda: asyncio.run(self.store.aclose()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def in_thread(work: Callable[[], object]) -> None:
    """Do something that needs a loop of its own."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


class HubProcess:
    """A hub in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._taken = socket.socket()  # nobody else gets the port while the hub is away, and who connects is refused
        self._taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._taken.bind(("127.0.0.1", 0))
        self.port: int = self._taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it takes a while until it serves."""
        command = [sys.executable, "-c", _SERVE, str(self._file), str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def kill(self) -> None:
        assert self._process is not None
        with self._process:
            self._process.kill()

    def _until_it_serves(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], _SECONDS_TO_START)[0], "the hub does not start"
        assert self._process.stdout.readline() == b"serves\n", "the hub ended before it served"

    def __enter__(self) -> Self:
        """Start it, and wait until it serves."""
        self.start()
        try:
            self._until_it_serves()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._taken.close()


class Line:
    """A TCP line to a hub that is cut where a test says: before a request arrives, or before its answer does."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._socket = listening()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._lock = threading.Lock()
        self._cuts: list[tuple[bytes, str]] = []
        self._pairs: list[socket.socket] = []
        self.cut_off: list[bytes] = []
        self.is_cut = threading.Event()
        self._is_dead = False
        self._closing = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self, operation: str, where: str, times: int = 1) -> None:
        """Cut the next connections that carry this operation: `before` the hub sees it, or its `answer`."""
        self.is_cut.clear()
        with self._lock:
            self._cuts += [(f"/agent/{operation} ".encode(), where)] * times

    def break_down(self) -> None:
        """Let nothing through any more."""
        self._is_dead = True
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for each in pairs:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def repair(self) -> None:
        self._is_dead = False

    def close(self) -> None:
        self._closing = True
        self.break_down()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            if self._is_dead or self._closing:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            with self._lock:
                self._pairs += [near, far]
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """Carry one connection: a request, its answer, the next request."""
        with near, far, contextlib.suppress(OSError):
            while request := _message(near):
                where = self._due(request)
                if where == "before":
                    return
                far.sendall(request)
                answer = _message(far)
                if where == "answer":
                    self.is_cut.set()
                    return
                near.sendall(answer)

    def _due(self, request: bytes) -> str:
        first = request.split(b"\r\n", 1)[0]
        with self._lock:
            for each in self._cuts:
                if each[0] in first:
                    self._cuts.remove(each)
                    self.cut_off.append(request)
                    if each[1] == "before":
                        self.is_cut.set()
                    return each[1]
        return ""


def _message(source: socket.socket) -> bytes:
    """Read one HTTP message whole; nothing if the connection has ended."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = source.recv(65536)
        if not chunk:
            return b""
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < length:
        chunk = source.recv(65536)
        if not chunk:
            return b""
        body += chunk
    return head + b"\r\n\r\n" + body
