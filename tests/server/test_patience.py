"""Connections that say nothing, say it too slowly, or take nothing: none of them stays."""

import socket

import pytest
from tests.server.served import PATIENCE, Served, following

SHORT = 0.2


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
    monkeypatch.setattr("sayso.server.listening._SILENCE_SECONDS", SHORT)
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
    monkeypatch.setattr("sayso.server.guards._BODY_SECONDS", SHORT)
    head = (
        f"POST /approvals/x HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token()}\r\n"
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"approved": '
    )
    with raw(served) as slow:
        slow.sendall(head.encode())
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_listener_that_takes_nothing_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sayso.server.streams.PATIENCE_SECONDS", SHORT)
    monkeypatch.setattr("sayso.server.sockets.PATIENCE_SECONDS", SHORT)
    head = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token()}\r\n\r\n"
    with socket.socket() as deaf, served.socket(served.token(), max_queue=1):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", served.port))
        deaf.sendall(head.encode())
        served.until(lambda: len(served.hub.connections) == 2)
        for _ in range(16):
            served.ask({"text": "x" * 600_000})
        served.until(lambda: len(served.hub.connections) == 0)


def test_a_stream_without_events_gives_signs_of_life(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sayso.server.streams._PING_SECONDS", 0.01)
    with served.person() as ann, ann.stream("GET", "/events") as stream:
        signs = (line for line in stream.iter_lines() if line.startswith(":"))
        assert [next(signs) for _ in range(3)] == [": ping"] * 3
