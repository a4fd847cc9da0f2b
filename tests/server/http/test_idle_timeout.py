"""Connections that say nothing, say it too slowly, or take nothing: none of them stays."""

import socket

import pytest
from tests.server.served import PATIENCE, Served, following

from sayso.server import serve

SHORT = 0.2


def test_the_faster_event_loop_is_used_where_it_is_installed() -> None:
    assert serve.new_event_loop.__module__ == "uvloop"


def raw(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), PATIENCE)


def ends(connection: socket.socket) -> bool:
    """Whether it is closed, in whichever way."""
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_a_connection_that_does_not_say_what_it_wants_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sayso.server.http.idle_timeout._SILENCE_SECONDS", SHORT)
    text = served.token()
    with raw(served) as silent, raw(served) as slow, served.client(text) as ann, served.socket(text) as own:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        with following(ann) as events:  # what is answered stays open, however long it takes
            next(events)
            for each in (silent, slow):
                assert ends(each)
            request = served.ask()
            assert next(events)[2]["id"] == request.id
            assert request.id in str(own.recv(PATIENCE))


def test_a_body_that_comes_too_slowly_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sayso.server.middleware._BODY_SECONDS", SHORT)
    head = (
        f"POST /approvals/x HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token()}\r\n"
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"approved": '
    )
    with raw(served) as slow:
        slow.sendall(head.encode())
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_listener_that_takes_nothing_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sayso.server.routes.sse.PATIENCE_SECONDS", SHORT)
    monkeypatch.setattr("sayso.server.routes.websocket.PATIENCE_SECONDS", SHORT)
    head = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token()}\r\n\r\n"
    with socket.socket() as deaf, served.socket(served.token(), max_queue=1, close_timeout=SHORT):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", served.port))
        deaf.sendall(head.encode())
        served.until(lambda: len(served.hub.connections), 2)
        for _ in range(16):
            served.ask({"text": "x" * 600_000})
        served.until(lambda: len(served.hub.connections), 0)


def test_a_stream_without_events_gives_signs_of_life(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sayso.server.routes.sse._PING_SECONDS", 0.01)
    with served.person() as ann, ann.stream("GET", "/events") as stream:
        signs = (line for line in stream.iter_lines() if line.startswith(":"))
        assert [next(signs) for _ in range(3)] == [": ping"] * 3


# --- Heads -------------------------------------------------------------------------------------------


def test_a_head_without_end_is_refused(served: Served) -> None:
    with raw(served) as endless:
        endless.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        assert is_cut_off(endless, b"x" * 65_536)


def test_what_comes_after_a_body_is_no_head_without_end(served: Served) -> None:
    with raw(served) as endless:
        endless.sendall(chunked(served) + b"0\r\nX-Long: ")
        assert is_cut_off(endless, b"x" * 65_536)


def is_cut_off(connection: socket.socket, piece: bytes) -> bool:
    """Whether the hub stops listening, long before it has taken all that is sent."""
    try:
        for _ in range(400):
            connection.sendall(piece)
    except OSError:
        return True
    return False


def test_a_header_behind_the_body_says_nothing(served: Served) -> None:
    """Whoever checked the head would not have seen it."""
    behind = f"0\r\nAuthorization: Bearer {served.token()}\r\n\r\n"
    with raw(served) as sly:
        sly.sendall(chunked(served) + behind.encode())
        assert sly.recv(1000).startswith(b"HTTP/1.1 401 ")


def chunked(served: Served) -> bytes:
    """The beginning of an answer to a request, by nobody."""
    body = b'{"approved": true}'
    head = (
        f"POST /approvals/{served.ask().id} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    return head.encode() + b"%x\r\n%s\r\n" % (len(body), body)


def test_two_names_of_the_hub_are_refused(served: Served) -> None:
    """A proxy might have looked at the other one."""
    with raw(served) as double:
        double.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n")
        assert double.recv(1000).split()[1] in {b"400", b"421"}


def test_of_a_client_that_never_waits_for_answers_no_more_is_read(served: Served) -> None:
    """One request at a time: what comes behind it stays in the kernel, and not in the hub's memory."""
    wait = f"GET /approvals/{served.ask().id}?wait=60 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with raw(served) as hasty:
        hasty.sendall(f"{wait}Authorization: Bearer {served.token()}\r\n\r\n".encode())
        served.until(lambda: len(served.hub.connections), 1)
        hasty.settimeout(1)
        assert is_cut_off(hasty, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1500)
