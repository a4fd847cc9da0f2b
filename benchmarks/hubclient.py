"""Load generator for the hub, cheap next to the server: one thread, epoll, keep-alive connections."""

from __future__ import annotations

import base64
import itertools
import json
import resource
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from benchmarks.hubserver import Child
from benchmarks.store import request
from sayso.core import json_codec
from sayso.core.agent_protocol import MEDIA, ChangesReply, GetChanges, Open
from sayso.core.model import new_id
from sayso.core.msgpack_codec import pack_request, unpack_request

_END, _LENGTH = b"\r\n\r\n", b"content-length: "
_LARGEST_READ = 1 << 20
_MOST_CONNECTIONS = 64  # of agents, and as many of approvers
_PREPARED = 2_000  # requests that are serialised before a turn begins
_WAIT = 25.0

Way = Literal["events", "sockets"]
OnData = Callable[["Connection", bytes], None]


def raise_open_files() -> None:
    """Raise the limit of open files to the hard limit, also for child processes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Connection:
    """One connection; the callback `on_data` receives the body of every response or, on a stream, every chunk."""

    def __init__(self, port: int, on_data: OnData, *, stream: bool = False, small_buffer: bool = False) -> None:
        self.socket = socket.socket()
        if small_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.on_data = on_data
        self._stream = stream
        self._buffer = b""

    def send(self, message: bytes) -> None:
        self.socket.sendall(message)

    def receive(self) -> None:
        """Receive the available bytes."""
        data = self.socket.recv(_LARGEST_READ)
        if not data:
            raise ConnectionError(f"the server has closed the connection, after {self._buffer[-300:]!r}")
        if self._stream:
            self.on_data(self, data)
            return
        self._buffer = self._buffer + data if self._buffer else data
        while self._buffer and self._parse_response():
            pass

    def _parse_response(self) -> bool:
        """Parse one complete response, if there is one."""
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
        self.on_data(self, body)
        return True


class Crowd:
    """Connection pool with one selector."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._all: dict[int, Connection] = {}

    def add(self, connection: Connection) -> Connection:
        self._all[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.EPOLLIN)
        return connection

    def run(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        """Run the event loop until `done` or the timeout."""
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


def post(path: str, body: bytes, *, token: str, media: str) -> bytes:
    """Serialise a POST request."""
    lines = (f"Content-Length: {len(body)}", f"Content-Type: {media}")
    return _head("POST", path, token, *lines) + body


def _head(method: str, path: str, token: str, *lines: str) -> bytes:
    known = (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}")
    return "\r\n".join((*known, *lines)).encode() + _END


def drive(port: int, messages: Iterable[bytes], *, connections: int) -> list[float]:
    """Send all messages over a number of connections, one in flight on each; return the latencies."""
    unsent = deque(messages)
    count = len(unsent)
    began: dict[Connection, float] = {}
    took: list[float] = []

    def send_next(connection: Connection) -> None:
        if unsent:
            began[connection] = time.perf_counter()
            connection.send(unsent.popleft())

    def on_data(connection: Connection, _: bytes) -> None:
        took.append(time.perf_counter() - began[connection])
        send_next(connection)

    crowd = Crowd()
    for _ in range(connections):
        send_next(crowd.add(Connection(port, on_data)))
    crowd.run(lambda: len(took) == count)
    crowd.close()
    return took


class Trips:
    """Round trips: an agent that asks as `RemoteStore` does, instant approvers, and a long poll for the answers."""

    def __init__(self, child: Child, *, waiting: int, count: int) -> None:
        self._child = child
        self._waiting = waiting
        self._count = count
        self._asker, self._person = child.tokens("agent")[0], child.tokens("approver")[0]
        self._prepared = deque(self._make_open() for _ in range(min(count, _PREPARED)))
        self._asked = 0
        self._under_way: dict[str, float] = {}
        self._latencies: list[float] = []
        self._to_answer: deque[str] = deque()
        self._asking: dict[Connection, str] = {}
        self._idle_askers: list[Connection] = []
        self._idle_people: list[Connection] = []
        self._point: int | None = None
        self._known = ""

    def _make_open(self) -> tuple[str, bytes]:
        request_id = new_id()
        body = msgspec.msgpack.encode(Open(request=pack_request(request(request_id))))
        return request_id, post("/agent/open", body, token=self._asker, media=MEDIA)

    def run(self, seconds: float | None = None) -> list[float]:
        """Keep the requested number of requests open, until all are answered or the time is up."""
        crowd = Crowd()

        def connect(on_data: OnData) -> Connection:
            return crowd.add(Connection(self._child.port, on_data))

        self._follow(connect(self._on_changes))
        crowd.run(lambda: self._point is not None)
        connections = min(self._waiting, _MOST_CONNECTIONS)
        self._idle_people = [connect(self._on_answered) for _ in range(connections)]
        self._idle_askers = [connect(self._on_opened) for _ in range(connections)]
        ends = None if seconds is None else time.perf_counter() + seconds
        self._send_possible()
        crowd.run(lambda: len(self._latencies) >= self._count or (ends is not None and time.perf_counter() > ends))
        crowd.close()
        return self._latencies

    def _send_possible(self) -> None:
        """Send every ask and answer that is possible now."""
        while self._idle_people and self._to_answer:
            connection = self._idle_people.pop()
            path = f"/approvals/{self._to_answer.popleft()}"
            connection.send(post(path, b'{"approved": true}', token=self._person, media="application/json"))
        while self._idle_askers and self._asked < self._count and len(self._under_way) < self._waiting:
            connection = self._idle_askers.pop()
            request_id, message = self._prepared.popleft() if self._prepared else self._make_open()
            self._asking[connection] = request_id
            self._under_way[request_id] = time.perf_counter()
            self._asked += 1
            connection.send(message)

    def _on_opened(self, connection: Connection, _: bytes) -> None:
        self._to_answer.append(self._asking.pop(connection))
        self._idle_askers.append(connection)
        self._send_possible()

    def _on_answered(self, connection: Connection, _: bytes) -> None:
        self._idle_people.append(connection)
        self._send_possible()

    def _follow(self, connection: Connection) -> None:
        wait = 0.0 if self._point is None else _WAIT
        body = msgspec.msgpack.encode(GetChanges(after=self._point, wait=wait, known=self._known))
        connection.send(post("/agent/changes", body, token=self._asker, media=MEDIA))

    def _on_changes(self, connection: Connection, body: bytes) -> None:
        for request_id in self._closed(body):
            began = self._under_way.pop(request_id, None)
            if began is not None:  # not left over from another turn
                self._latencies.append(time.perf_counter() - began)
        self._follow(connection)
        self._send_possible()

    def _closed(self, body: bytes) -> list[str]:
        if self._child.kind == "raw":
            self._point = 0
            return json.loads(body)
        reply = msgspec.msgpack.decode(body, type=ChangesReply)
        self._point, self._known = reply.point, reply.known
        found = [unpack_request(each) for each in reply.rows]
        return [each.id for each in found if each.status != "open"]


class Listeners:
    """Event fan-out: very many subscribers, and one agent that opens requests."""

    def __init__(self, child: Child, count: int, *, way: Way, small_buffer: bool = False) -> None:
        self._child = child
        self._crowd = Crowd()
        self._tails: dict[Connection, bytes] = {}
        self._mark = b"\r\n\r\n" if way == "sockets" else b"hello"
        self._reached = 0
        self._agent, self._person = child.tokens("agent")[0], child.tokens("approver")[0]
        heads = itertools.cycle([_subscribe_request(way, token) for token in child.tokens("approver")])
        for _ in range(count):
            connection = Connection(child.port, self._on_event, stream=True, small_buffer=small_buffer)
            self._tails[connection] = b""
            self._crowd.add(connection).send(next(heads))
        self._crowd.run(lambda: self._reached == count)
        self._publisher = self._crowd.add(Connection(child.port, lambda _, __: None))

    def _on_event(self, connection: Connection, data: bytes) -> None:
        tail = self._tails[connection]
        if tail is self._mark:
            return
        found = tail + data
        if self._mark in found:
            self._reached += 1
            self._tails[connection] = self._mark
        else:
            self._tails[connection] = found[-len(self._mark) :]

    def publish(self) -> float:
        """Open a request, and return the time until the last subscriber has received the event."""
        asked = request(new_id())
        if self._child.kind == "raw":
            message = post(
                "/tell",
                json_codec.to_json(json_codec.request_to_dict(asked)).encode(),
                token="",
                media="application/json",
            )
            return self._time_fan_out(asked.id, message)
        body = msgspec.msgpack.encode(Open(request=pack_request(asked)))
        seconds = self._time_fan_out(asked.id, post("/agent/open", body, token=self._agent, media=MEDIA))
        answer = post(f"/approvals/{asked.id}", b'{"approved": true}', token=self._person, media="application/json")
        self._time_fan_out(asked.id, answer)  # leaves no open request for later subscribers
        return seconds

    def _time_fan_out(self, request_id: str, message: bytes) -> float:
        self._mark, self._reached = request_id.encode(), 0
        self._tails = dict.fromkeys(self._tails, b"")
        start = time.perf_counter()
        self._publisher.send(message)
        self._crowd.run(lambda: self._reached == len(self._tails))
        return time.perf_counter() - start

    def close(self) -> None:
        self._crowd.close()


def _subscribe_request(way: Way, token: str) -> bytes:
    if way == "events":
        return _head("GET", "/events", token)
    key = base64.b64encode(b"0123456789abcdef").decode()
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}")
    return _head("GET", "/ws/bench", token, *upgrade)
