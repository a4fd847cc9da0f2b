"""`sayso serve` as a process: its link, its end, and answers that come from other processes."""

import asyncio
import json
import signal
import ssl
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from tests.certificates import Authority
from tests.server.served import PATIENCE, following
from tests.server.started import Hub
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from sayso import ApprovalController, Policy, guard
from sayso.stores.remote import RemoteStore


@pytest.fixture
def hub(tmp_path: Path) -> Generator[Hub]:
    started = Hub(tmp_path, "--log-json")
    yield started
    started.kill()


def test_the_link_that_is_printed_signs_in_once(hub: Hub) -> None:
    assert "The hub serves the store sayso.db, which was made just now, at http://127.0.0.1:" in " ".join(
        hub.greeting.split()
    )
    with httpx2.Client(base_url=hub.url, timeout=PATIENCE) as browser:
        assert browser.post("/sign-in", json={"code": hub.code}).status_code == 200
        assert browser.get("/me").json()["project"] == "*"
        assert browser.post("/sign-in", json={"code": hub.code}, headers={"Origin": hub.url}).status_code == 410
        link = hub.sayso("token", "link", "--name", "bob", "--role", "ops", "--url", hub.url)
        browser.cookies.clear()
        assert browser.post("/sign-in", json={"code": link.partition("code=")[2]}).status_code == 200
        told = browser.get("/me").json()
    assert (told["name"], told["roles"]) == ("bob", ["ops"])


def test_a_long_poll_is_woken_by_an_answer_of_another_process(hub: Hub) -> None:
    (request,) = hub.ask()
    with hub.person() as ann, ThreadPoolExecutor(1) as pool, following(ann, after=0) as events:
        assert [next(events)[0], next(events)[2]["id"]] == ["hello", request.id]
        waiting = pool.submit(ann.get, f"/approvals/{request.id}", params={"wait": 60})
        hub.sayso("approve", request.id)
        assert waiting.result(PATIENCE).json()["decision"]["channel"] == "command line"
        assert next(events)[2]["status"] == "approved"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_hub_that_is_told_to_stop_ends_its_streams_and_itself(hub: Hub, number: signal.Signals) -> None:
    (request,) = hub.ask()
    with hub.person() as ann, following(ann, after=0) as events, ThreadPoolExecutor(2) as pool:
        headers = {"Authorization": ann.headers["Authorization"]}
        address = hub.url.replace("http", "ws") + "/ws/test"
        with connect(address, additional_headers=headers, proxy=None) as socket:
            assert json.loads(socket.recv(PATIENCE))["id"] == request.id
            assert [next(events)[0], next(events)[2]["id"]] == ["hello", request.id]
            waiting = pool.submit(ann.get, f"/approvals/{request.id}", params={"wait": 60})
            deadline = time.monotonic() + PATIENCE
            while "sayso_connections 3" not in (told := ann.get("/metrics").text):
                assert time.monotonic() < deadline, told
            ended = pool.submit(hub.end, number)
            assert list(events) == []
            with pytest.raises(ConnectionClosed):
                socket.recv(PATIENCE)
            assert waiting.result(PATIENCE).json()["status"] == "open"
            code, log = ended.result(PATIENCE)
    assert code == 0
    assert "Traceback" not in log
    assert not hub.file.with_name("sayso.db-bells").exists()


def test_the_log_is_json_and_holds_neither_tokens_nor_arguments(hub: Hub) -> None:
    (request,) = hub.ask()
    with hub.person() as ann:
        text = ann.headers["Authorization"].removeprefix("Bearer ")
        ann.get("/sign-in", params={"code": hub.code})
        ann.get("/approvals", params={"q": "a secret of mine"})
        note = "a note that nobody else should read"
        assert ann.post(f"/approvals/{request.id}", json={"approved": False, "note": note}).status_code == 200
    _, log = hub.end(signal.SIGTERM)
    lines = [json.loads(line) for line in log.splitlines()]
    answered = [each for each in lines if each.get("path") == f"/approvals/{request.id}"]
    assert [(each["method"], each["status"], each["who"]) for each in answered] == [("POST", 200, "ann")]
    for secret in (text, hub.code, "a secret of mine", note, "amount"):
        assert secret not in log


def test_a_hub_that_was_killed_has_everything_when_it_is_started_again(hub: Hub, tmp_path: Path) -> None:
    asked = hub.ask(300)
    with hub.person() as ann:
        headers = dict(ann.headers)
        for request in asked[:50]:
            assert ann.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 200
    hub.kill()
    again = Hub(tmp_path)
    try:
        with httpx2.Client(base_url=again.url, headers=headers, timeout=PATIENCE) as ann:
            waiting = ann.get("/approvals", params={"limit": 1000}).json()["items"]
            assert [each["id"] for each in waiting] == [each.id for each in asked[50:]]
            late = ann.post(f"/approvals/{asked[0].id}", json={"approved": False})
            assert (late.status_code, late.json()["request"]["status"]) == (409, "approved")
            assert ann.get("/audit/state").json()["verified"]
    finally:
        again.kill()


# --- a database ----------------------------------------------------------------------------------------


def asks(url: str, token: str) -> list[int]:
    """Call a tool as an agent on another machine does, and return what it did."""
    ran: list[int] = []

    async def pay(amount: int) -> None:
        ran.append(amount)

    async def work() -> None:
        store = RemoteStore(url, token=token)
        async with ApprovalController(store=store, policy=Policy(default="required"), timeout=PATIENCE) as controller:
            await guard(pay, controller)(5)
        await store.aclose()

    asyncio.run(work())
    return ran


@pytest.mark.proves("R70", "H3", "H8")
def test_a_hub_on_a_database_takes_an_agents_question_to_a_person_and_the_answer_back(
    tmp_path: Path, database: str
) -> None:
    hub = Hub(tmp_path, "--log-json", database=database)
    try:
        assert f"The hub serves the store {database}, at http://127.0.0.1:" in " ".join(hub.greeting.split())
        token = hub.sayso("token", "create", "agent", "--name", "builder")
        with hub.person() as ann, following(ann, after=0) as events, ThreadPoolExecutor(1) as pool:
            agent = pool.submit(asks, hub.url, token)
            assert next(events)[0] == "hello"
            asked = next(events)[2]
            assert (asked["tool"], asked["args"], agent.done()) == ("pay", {"amount": 5}, False)
            assert ann.post(f"/approvals/{asked['id']}", json={"approved": True}).json()["status"] == "approved"
            assert agent.result(PATIENCE) == [5]
        assert "approved and run: it returned" in hub.sayso("show", asked["id"][-8:])
        assert "4 entries" in hub.sayso("audit", "verify")
        code, log = hub.end(signal.SIGTERM)
        assert (code, "Traceback" in log, list(tmp_path.iterdir())) == (0, False, [])
    finally:
        hub.kill()


# --- https ---------------------------------------------------------------------------------------------


def test_over_https_the_cookie_is_for_https_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    hub = Hub(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key))
    try:
        trusting = ssl.create_default_context(cafile=str(authority.file))
        with httpx2.Client(base_url=hub.url, verify=trusting, timeout=PATIENCE) as browser:
            assert hub.url.startswith("https://127.0.0.1:")
            answer = browser.post("/sign-in", json={"code": hub.code})
            assert "Secure" in answer.headers["set-cookie"]
            assert browser.get("/me").status_code == 200
    finally:
        hub.kill()
