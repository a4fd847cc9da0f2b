"""A client for HTTP that costs little beside the server it measures: one thread, epoll, keep-alive connections."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable, Iterable

_END, _LENGTH = b"\r\n\r\n", b"content-length: "
_LARGEST_READ = 1 << 20

Heard = Callable[["Connection", bytes], None]


class Connection:
    """One connection. `heard` is told the body of every answer or, on a stream, every piece that comes."""

    def __init__(self, port: int, heard: Heard, *, stream: bool = False) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.heard = heard
        self._stream = stream
        self._buffer = b""

    def send(self, message: bytes) -> None:
        self.socket.sendall(message)

    def receive(self) -> None:
        """Take what has come."""
        data = self.socket.recv(_LARGEST_READ)
        if not data:
            raise ConnectionError(f"the server has closed the connection, after {self._buffer[-300:]!r}")
        if self._stream:
            self.heard(self, data)
            return
        self._buffer = self._buffer + data if self._buffer else data
        while self._buffer and self._take():
            pass

    def _take(self) -> bool:
        """Take one whole answer, if it is there."""
        head = self._buffer.find(_END)
        if head < 0:
            return False
        at = self._buffer.find(_LENGTH, 0, head) + len(_LENGTH)
        line = self._buffer.find(b"\r", at)
        end = head + len(_END) + int(self._buffer[at:line])
        if len(self._buffer) < end:
            return False
        if not self._buffer.startswith(b"HTTP/1.1 20"):
            raise ConnectionError(self._buffer[:end].decode(errors="replace"))
        body, self._buffer = self._buffer[head + len(_END) : end], self._buffer[end:]
        self.heard(self, body)
        return True


class Crowd:
    """Many connections that are looked after together."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._all: dict[int, Connection] = {}

    def add(self, connection: Connection) -> Connection:
        self._all[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.EPOLLIN)
        return connection

    def run(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        """Take what comes until it is enough."""
        while not done():
            found = self._poll.poll(seconds)
            if not found:
                raise TimeoutError(f"the server said nothing for {seconds} s")
            for number, _ in found:
                self._all[number].receive()

    def close(self) -> None:
        for each in self._all.values():
            each.socket.close()
        self._poll.close()


def post(path: str, body: bytes, **headers: str) -> bytes:
    """Write a request."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + _END + body


def get(path: str, **headers: str) -> bytes:
    """Write a request."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + _END


def drive(port: int, messages: Iterable[bytes], *, connections: int, clock: Callable[[], float]) -> list[float]:
    """Send all messages over so many connections, each when the last one is answered; return how long each took."""
    left = deque(messages)
    count = len(left)
    began: dict[Connection, float] = {}
    took: list[float] = []

    def go_on(connection: Connection) -> None:
        if left:
            began[connection] = clock()
            connection.send(left.popleft())

    def heard(connection: Connection, _: bytes) -> None:
        took.append(clock() - began[connection])
        go_on(connection)

    crowd = Crowd()
    for _ in range(connections):
        go_on(crowd.add(Connection(port, heard)))
    crowd.run(lambda: len(took) == count)
    crowd.close()
    return took
