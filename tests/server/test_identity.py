"""Who is let in: tokens of every wrong kind, signing in by a link, and out again."""

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from tests.server.served import PATIENCE, Served, following, heard
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sayso.core import tokens
from sayso.server.http.problems import HttpProblem
from sayso.server.identity import COOKIE
from sayso.server.services.connections import Connections
from sayso.server.services.throttle import Throttle
from sayso.testing import FixedClock

PEOPLE = (
    ("GET", "/approvals"), ("GET", "/approvals/pending"), ("GET", "/approvals/x"), ("POST", "/approvals/x"),
    ("POST", "/approvals/x/seen"), ("GET", "/events"), ("GET", "/stats"), ("GET", "/remembered"),
    ("DELETE", "/remembered/x"), ("GET", "/audit"), ("GET", "/audit/state"), ("POST", "/sign-out"),
)  # fmt: skip


def statuses(client: httpx2.Client) -> set[int]:
    bodies = {"/approvals/x": {"approved": True}}
    return {client.request(method, path, json=bodies.get(path, {})).status_code for method, path in PEOPLE}


@pytest.mark.proves("H11")
def test_without_a_token_nothing_is_told(served: Served) -> None:
    with served.client() as nobody:
        assert statuses(nobody) == {401}
        answer = nobody.get("/approvals")
        assert nobody.get("/me").status_code == 401
    assert (answer.headers["www-authenticate"], answer.headers["cache-control"]) == ("Bearer", "no-store")
    with pytest.raises(InvalidStatus) as refused, served.socket():
        pass
    assert refused.value.response.status_code == 401


def test_tokens_of_every_wrong_kind_are_refused(served: Served) -> None:
    served.hub.throttle = Throttle(failures=1000)
    good = served.token()
    now = time.time()
    gone, over = served.token(), tokens.make("approver", "ann", now=now - 60, seconds=30)
    served.revoke(gone)
    served.do(served.store.add_token(over[0]))
    for text in (
        gone,
        over[1],
        good[:-1] + ("A" if good[-1] != "A" else "B"),
        good.replace("approver", "session"),
        "x",
    ):
        with served.client(text) as client:
            assert statuses(client) | {client.get("/me").status_code} == {401}
        with pytest.raises(InvalidStatus) as refused, served.socket(text):
            pass
        assert refused.value.response.status_code == 401
    with served.client() as client:
        assert client.get("/me", headers={"Authorization": f"Basic {good}"}).status_code == 401
        assert client.get("/me", params={"token": good}).status_code == 401


@pytest.mark.parametrize("kind", ["agent", "link"])
def test_a_token_of_another_kind_cannot_do_the_work_of_people(served: Served, kind: tokens.TokenKind) -> None:
    text = served.token(kind, project="shop")
    with served.client(text) as client:
        assert statuses(client) == {403}
        told = client.get("/me")
        assert told.status_code == (200 if kind == "agent" else 403)
        assert kind != "agent" or (told.json()["kind"], told.json()["project"]) == ("agent", "shop")
    with pytest.raises(InvalidStatus) as refused, served.socket(text):
        pass
    assert refused.value.response.status_code == 403


def test_many_wrong_tokens_from_one_address_have_to_wait_and_a_right_one_does_not(served: Served) -> None:
    served.hub.throttle = Throttle(failures=3)
    with served.client("wrong") as stranger, served.person() as ann:
        assert [stranger.get("/me").status_code for _ in range(5)] == [401, 401, 401, 429, 429]
        answer = stranger.get("/me")
        assert 1 <= int(answer.headers["retry-after"]) <= 61
        assert stranger.post("/sign-in", json={"code": "wrong"}).status_code == 429
        assert ann.get("/me").status_code == 200


def test_one_person_can_give_only_so_many_answers_in_a_minute(served: Served) -> None:
    served.hub.throttle = Throttle(answers=2)
    request = served.ask()
    with served.person() as ann, served.person("bob") as bob:
        codes = [ann.post("/approvals/x", json={"approved": True}).status_code for _ in range(3)]
        assert codes == [404, 404, 429]
        assert ann.get("/approvals").status_code == 200
        assert bob.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 200


def test_a_minute_later_one_may_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 30.0, 59.0, 61.0, 61.0])
    monkeypatch.setattr("sayso.server.services.throttle.monotonic", lambda: next(clock))
    throttle = Throttle(answers=2)
    throttle.count_answer("ann")
    throttle.count_answer("ann")
    with pytest.raises(HttpProblem) as refused:
        throttle.count_answer("ann")
    assert refused.value.facts["retry_after"] == 1
    throttle.count_answer("ann")  # the first is more than a minute ago, the second is not
    with pytest.raises(HttpProblem):
        throttle.count_answer("ann")


# --- Browsers ----------------------------------------------------------------------------------------


def test_a_link_signs_a_browser_in_exactly_once(served: Served) -> None:
    code = served.token("link", "ann", project="shop", roles=("ops",), opens="a request", seconds=600)
    with served.client() as browser, served.client() as other:
        answer = browser.post("/sign-in", json={"code": code})
        assert (answer.status_code, answer.json()) == (200, {"opens": "a request"})
        cookie = answer.headers["set-cookie"].lower()
        assert all(each in cookie for each in ("httponly", "samesite=strict", "path=/", "max-age=43200"))
        assert "secure" not in cookie  # this is http
        told = browser.get("/me").json()
        assert (told["name"], told["kind"], told["project"], told["roles"]) == ("ann", "session", "shop", ["ops"])
        replayed = other.post("/sign-in", json={"code": code})
        assert (replayed.status_code, "set-cookie" in replayed.headers) == (410, False)
        assert replayed.json()["detail"].startswith("this link was used already, or its time is up")


def test_a_link_that_is_over_or_no_link_signs_nobody_in(served: Served) -> None:
    old = tokens.make("link", "ann", now=time.time() - 700, seconds=600)
    served.do(served.store.add_token(old[0]))
    with served.client() as browser:
        for code in (old[1], served.token("approver"), served.token("session"), "", "x" * 400):
            assert browser.post("/sign-in", json={"code": code}).status_code == 410
        for body in ({}, {"code": 5}, {"code": "x", "more": 1}, {"code": "x" * 501}):
            assert browser.post("/sign-in", json=body).status_code == 422
        assert not browser.cookies


def test_looking_at_a_link_says_whom_it_signs_in_and_does_not_use_it_up(served: Served) -> None:
    code = served.token("link", "ann", opens="a request")
    with served.client() as browser:
        browser.get("/sign-in", params={"code": code})
        looked = browser.post("/sign-in/link", json={"code": code})
        assert (looked.status_code, looked.json()) == (200, {"name": "ann", "opens": "a request"})
        assert not browser.cookies
        assert browser.post("/sign-in", json={"code": code}).status_code == 200


def test_only_the_code_of_a_link_that_works_says_whom_it_signs_in(served: Served) -> None:
    used, other = served.token("link", "ann"), served.token("link", "ann")
    old = tokens.make("link", "ann", now=time.time() - 700, seconds=600)
    served.do(served.store.add_token(old[0]))
    forged = other[:-1] + ("A" if other[-1] != "A" else "B")
    with served.client() as browser, served.client() as stranger:
        assert browser.post("/sign-in", json={"code": used}).status_code == 200
        for code in (used, old[1], forged, served.token("approver"), ""):
            told = stranger.post("/sign-in/link", json={"code": code})
            assert (told.status_code, "ann" in told.text) == (410, False)
    served.hub.throttle = Throttle(failures=1)
    with served.client() as stranger:
        answers = [stranger.post("/sign-in/link", json={"code": forged}).status_code for _ in range(3)]
    assert 429 in answers, "guesses are counted"


def test_signing_out_ends_the_session_everywhere(served: Served) -> None:
    with served.browser() as browser, served.client(Origin=served.url) as copy:
        copy.cookies.set(f"{COOKIE}_{served.port}", browser.cookies[f"{COOKIE}_{served.port}"])
        assert copy.get("/me").status_code == 200
        assert browser.post("/sign-out", json={}).status_code == 204
        assert browser.get("/me").status_code == 401
        assert copy.get("/me").status_code == 401
    with served.person() as ann:
        assert ann.post("/sign-out").status_code == 403  # a token is revoked, not signed out


def test_a_browser_can_be_signed_in_to_two_hubs_of_one_machine(served: Served, tmp_path: Path) -> None:
    """It gives the cookies of a host to all of its ports."""
    (tmp_path / "other").mkdir()
    other = Served(tmp_path / "other")
    other.start()
    try:
        with served.browser("ann") as browser:
            code = other.token("link", "bob")
            assert browser.post(f"{other.url}/sign-in", json={"code": code}, headers={"Origin": other.url}).is_success
            hubs = (served.url, other.url)
            assert [browser.get(f"{each}/me").json()["name"] for each in hubs] == ["ann", "bob"]
            assert len(browser.cookies) == len(hubs)
    finally:
        other.stop()


@pytest.mark.parametrize(("proxy", "secure"), [("127.0.0.1", True), ("10.9.9.9", False), (None, False)])
def test_what_a_proxy_says_is_believed_of_the_one_that_was_named(
    tmp_path: Path, proxy: str | None, secure: bool
) -> None:
    served = Served(tmp_path, proxy=proxy)
    served.start()
    try:
        request = served.ask()
        headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
        with served.client(**headers) as browser:
            cookie = browser.post("/sign-in", json={"code": served.token("link")}).headers["set-cookie"]
        assert ("Secure" in cookie) == secure
        assert cookie.startswith("__Host-") == secure  # no other name of the domain can set such a cookie
        with served.client(served.token(), **headers) as ann:
            told = ann.post(f"/approvals/{request.id}", json={"approved": True}).json()
    finally:
        served.stop()
    assert told["decision"]["channel"] == f"rest from {'192.0.2.7' if secure else '127.0.0.1'}"


def test_a_hub_forgets_tokens_whose_time_is_up(tmp_path: Path) -> None:
    clock = FixedClock()
    served = Served(tmp_path, clock=clock)
    served.start()
    try:
        kept = tokens.parse_token_id(served.token("approver"))
        served.token("link", seconds=3600)
        while len(served.do(served.store.tokens())) > 1:
            clock.advance(600.0)
        assert [each.id for each in served.do(served.store.tokens())] == [kept]
    finally:
        served.stop()


# --- Connections that stay open ----------------------------------------------------------------------


def test_a_revoked_token_ends_its_stream_and_its_socket(served: Served) -> None:
    gone, stays = served.token(name="ann"), served.token(name="bob")
    with (
        served.client(gone) as ann,
        served.client(stays) as bob,
        following(ann) as ending,
        following(bob) as going,
        served.socket(gone) as socket,
    ):
        assert [next(each)[0] for each in (ending, going)] == ["hello", "hello"]
        served.revoke(gone)
        assert list(ending) == []
        with pytest.raises(ConnectionClosed) as closed:
            heard(socket)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
        request = served.ask()
        assert next(going)[2]["id"] == request.id


def test_a_socket_whose_token_is_gone_answers_nothing_any_more(served: Served) -> None:
    """Also in the seconds before it is closed for that."""
    request, text = served.ask(), served.token()
    with served.socket(text) as socket:
        assert heard(socket)["id"] == request.id
        served.revoke(text)
        with contextlib.suppress(ConnectionClosed):
            socket.send(json.dumps({"type": "approval_response", "id": request.id, "outcome": "proceed_once"}))
            assert heard(socket)["problem"]["status"] == 401
    assert served.get(request).status == "open"


def test_a_long_poll_of_a_revoked_token_returns_with_the_request_as_it_stands(served: Served) -> None:
    request, text = served.ask(), served.token()
    with served.client(text) as ann, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ann.get, f"/approvals/{request.id}", params={"wait": 60})
        served.until(lambda: len(served.hub.connections), 1)
        served.revoke(text)
        answer = waiting.result(PATIENCE)
    assert (answer.status_code, answer.json()["status"]) == (200, "open")


def test_there_are_only_so_many_connections_of_one_name_and_in_all(served: Served) -> None:
    served.hub.connections = Connections(served.store, served.hub.clock, most=3, most_of_one=2)
    ann, bob = served.token(name="ann"), served.token(name="bob")
    with served.socket(ann), served.socket(ann), served.client(ann) as client:
        with pytest.raises(InvalidStatus) as refused, served.socket(ann):
            pass
        assert refused.value.response.status_code == 429
        assert client.get("/events").status_code == 429
        assert client.get("/me").status_code == 200
        with served.socket(bob):
            with pytest.raises(InvalidStatus) as refused, served.socket(bob):
                pass
            assert refused.value.response.status_code == 503
