"""Events: what is told, from which point on, to whom, and that nobody can hold up the others."""

import asyncio
import itertools
import json
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.server.conftest import ON_EACH_STORE
from tests.server.served import PATIENCE, Served, following, heard

from sayso import ApprovalDecision
from sayso.core import json_codec
from sayso.server.services.events import Events
from sayso.stores.memory import MemoryStore
from sayso.testing.samples import sample_request

NO = ApprovalDecision(approved=False, who="bob")


def close(served: Served, request: Any) -> None:
    served.do(served.store.close(request.id, "denied", NO, now=1.0))


# --- Server-sent events ------------------------------------------------------------------------------


def test_every_change_is_told_as_it_happens(served: Served) -> None:
    before = served.ask()
    with served.person() as ann, following(ann) as events:
        name, point, data = next(events)
        assert (name, data) == ("hello", {"point": int(point)})
        request = served.ask({"amount": 12**4000})
        name, later, data = next(events)
        assert (name, data) == ("request", json.loads(json_codec.to_json(json_codec.request_to_dict(request))))
        assert int(later) > int(point)
        close(served, before)
        assert (next(events)[2]["id"], served.get(before).status) == (before.id, "denied")


def test_a_list_and_the_events_after_its_point_miss_nothing(served: Served) -> None:
    served.ask()
    with served.person() as ann:
        point = ann.get("/approvals").json()["point"]
        missed = [served.ask().id for _ in range(300)]
        with following(ann, after=point) as events:
            assert next(events)[0] == "hello"
            assert [next(events)[2]["id"] for _ in missed] == missed


def test_who_comes_back_goes_on_from_the_last_event(served: Served) -> None:
    with served.person() as ann:
        with following(ann) as events:
            next(events)
            first = served.ask()
            _, point, data = next(events)
            assert data["id"] == first.id
        missed = served.ask()
        ann.headers["Last-Event-ID"] = point
        with following(ann, after=0) as events:  # the address of a browser's stream stays the same
            assert [next(events)[0], next(events)[2]["id"]] == ["hello", missed.id]


def test_a_point_that_was_never_reached_means_now(served: Served) -> None:
    with served.person() as ann, following(ann, after=10**9) as events:
        assert next(events)[2] == {"point": 0}
        request = served.ask()
        assert next(events)[2]["id"] == request.id


def test_a_listener_gets_past_what_is_not_kept_any_more(served: Served) -> None:
    request = served.ask(asked_at=1.0)
    close(served, request)
    assert served.do(served.store.drop([request.id])) == 1
    with served.person() as ann, following(ann, after=0) as events:
        assert next(events)[0] == "hello"
        batch = served.do(served.hub.events.next_batch(0))
        assert (batch.events, batch.point) == ((), served.do(served.hub.events.start_point()))
        later = served.ask()
        assert next(events)[2]["id"] == later.id


@pytest.mark.parametrize("after", ["-1", "x", "1e3", str(2**80)])
def test_a_point_that_is_none_is_refused(served: Served, after: str) -> None:
    with served.person() as ann:
        assert ann.get("/events", params={"after": after}).status_code == 422
        assert ann.get("/events", headers={"Last-Event-ID": after}).status_code == 422


@pytest.mark.proves("H11")
@ON_EACH_STORE
def test_events_of_another_project_are_not_told(served: Served) -> None:
    with (
        served.person(project="shop") as ann,
        following(ann) as events,
        served.socket(served.token(project="shop")) as own,
    ):
        next(events)
        served.ask(project="bank")
        mine = served.ask(project="shop")
        assert next(events)[2]["id"] == mine.id
        assert heard(own)["id"] == mine.id


def test_a_listener_that_never_reads_holds_up_nobody(served: Served) -> None:
    """Its socket fills up while others are told of everything (P13)."""
    large = {"text": "x" * 200_000}
    head = f"GET /events?after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token()}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(5):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", served.port))
            deaf.sendall(head.encode())
        served.until(lambda: len(served.hub.connections), 5)
        ann = stack.enter_context(served.person())
        events = stack.enter_context(following(ann))
        next(events)
        for _ in range(30):
            request = served.ask(large)
            assert next(events)[2]["id"] == request.id


def test_two_thousand_idle_connections_are_all_told_and_cost_nobody_the_hub(served: Served) -> None:
    """Half of them listen, half of them say nothing; each takes little memory, at both ends together (P13)."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    texts = [served.token(name=f"ann{number}") for number in range(5)]
    heads = [f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {text}\r\n\r\n" for text in texts]
    before = _resident()
    with ExitStack() as stack:
        idle = [stack.enter_context(_connected(served)) for _ in range(2000)]
        listening = idle[::2]
        for each, head in zip(listening, itertools.cycle(heads), strict=False):
            each.sendall(head.encode())
        served.until(lambda: len(served.hub.connections), len(listening))
        request = served.ask()
        for each in listening:
            told = b""
            while request.id.encode() not in told:
                told += each.recv(65536)
        assert (_resident() - before) / len(idle) < 64_000
        with served.person("bob") as bob:
            assert bob.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 200
    served.until(lambda: len(served.hub.connections), 0)


def _connected(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), PATIENCE)


def _resident() -> int:
    """How many bytes of memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_a_listener_that_comes_before_the_hub_is_awake_misses_nothing() -> None:
    store = MemoryStore()
    request = await store.open(sample_request())
    events = Events(store)
    listening = asyncio.ensure_future(events.next_batch(0))
    await checkpoint()
    await events.start()
    with anyio.fail_after(PATIENCE):
        assert [each.request.id for each in (await listening).events] == [request.id]


# --- Long polls --------------------------------------------------------------------------------------


@pytest.mark.proves("R69")
def test_a_long_poll_returns_when_the_request_is_answered(served: Served) -> None:
    request = served.ask()
    with served.person() as ann, served.person("bob") as bob, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ann.get, f"/approvals/{request.id}", params={"wait": 60})
        served.until(lambda: len(served.hub.connections), 1)
        assert bob.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 200
        assert waiting.result(PATIENCE).json()["status"] == "approved"
        assert ann.get(f"/approvals/{request.id}", params={"wait": 60}).json()["status"] == "approved"


def test_a_long_poll_returns_with_an_open_request_when_its_time_is_up(served: Served) -> None:
    request = served.ask()
    with served.person() as ann:
        assert ann.get(f"/approvals/{request.id}", params={"wait": 0.01}).json()["status"] == "open"
        for wait in ("61", "-1", "nan", "inf"):
            assert ann.get(f"/approvals/{request.id}", params={"wait": wait}).status_code == 422


# --- WebSocket ---------------------------------------------------------------------------------------


@pytest.mark.proves("R68")
def test_requests_come_over_a_socket_and_answers_go_back_each_by_its_id(served: Served) -> None:
    first = served.ask(description="Pay five")
    with served.socket(served.token()) as socket:
        told = heard(socket)
        assert {name: told[name] for name in ("type", "id", "tool", "args", "message")} == {
            "type": "approval_request", "id": first.id, "tool": "pay", "args": {"amount": 5}, "message": "Pay five",
        }  # fmt: skip
        second = served.ask(description="")
        told = heard(socket)
        assert (told["id"], told["message"], told["status"]) == (second.id, "Allow pay to execute?", "open")
        for request, outcome, status in ((second, "cancel", "denied"), (first, "proceed_once", "approved")):
            socket.send(json.dumps({"type": "approval_response", "id": request.id, "outcome": outcome}))
            messages = sorted((heard(socket) for _ in range(2)), key=lambda each: each["type"])
            assert [each["type"] for each in messages] == ["approval_closed", "approval_result"]
            assert messages[0]["request"]["decision"]["channel"] == "websocket from 127.0.0.1"
            assert [(each["id"], each["status"]) for each in messages] == [(request.id, status)] * 2
            assert messages[1]["ok"]


def test_a_socket_hears_of_each_request_once_while_it_is_open(served: Served) -> None:
    with served.socket(served.token()) as socket, served.person() as ann:
        request = served.ask()
        assert heard(socket)["id"] == request.id
        ann.post(f"/approvals/{request.id}/seen")
        close(served, request)
        assert heard(socket)["type"] == "approval_closed"


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("", 422), ("{", 422), ("[]", 422), ("null", 422), ('{"type": "hello"}', 422),
        ('{"type": "approval_response"}', 422),
        ('{"type": "approval_response", "id": "x", "outcome": "cancel"}', 404),
        ('{"type": "approval_response", "id": "x", "outcome": "maybe"}', 422),
        ('{"type": "approval_response", "id": "x", "outcome": "cancel", "outcome": "proceed_once"}', 422),
        ('{"type": "approval_response", "id": ["x"], "outcome": "cancel"}', 422),
        ('{"type": "approval_response", "id": "x", "outcome": "modify", "args": ' + "[" * 200 + "]" * 200 + "}", 413),
    ],
)  # fmt: skip
def test_a_message_that_makes_no_sense_is_told_so_and_the_talk_goes_on(
    served: Served, message: str, status: int
) -> None:
    with served.socket(served.token()) as socket:
        for _ in range(2):
            socket.send(message)
            told = heard(socket)
            assert (told["type"], told["ok"], told["problem"]["status"]) == ("approval_result", False, status)
        socket.send(b"\x00")
        assert heard(socket)["problem"]["status"] == 422


def test_an_answer_that_came_too_late_says_how_the_request_stands(served: Served) -> None:
    request = served.ask()
    with served.socket(served.token()) as socket:
        heard(socket)
        close(served, request)
        heard(socket)
        socket.send(json.dumps({"type": "approval_response", "id": request.id, "outcome": "proceed_once"}))
        problem = heard(socket)["problem"]
    assert (problem["status"], problem["request"]["status"]) == (409, "denied")


# --- Expiry ------------------------------------------------------------------------------------------


def test_a_hub_closes_requests_by_itself_when_their_time_comes(served: Served) -> None:
    with served.person() as ann, following(ann) as events:
        next(events)
        now = served.hub.clock.now()
        later, sooner = served.ask(expires_at=now + 3600), served.ask(expires_at=now + 0.05)
        told = [next(events)[2] for _ in range(3)]
        assert [(each["id"], each["status"]) for each in told] == [
            (later.id, "open"), (sooner.id, "open"), (sooner.id, "expired"),
        ]  # fmt: skip
        assert [each["id"] for each in ann.get("/approvals").json()["items"]] == [later.id]
