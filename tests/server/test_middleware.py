"""What is refused before any route sees it."""

import io
import json
import logging
import socket
import sqlite3
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.server.served import PATIENCE, Served
from websockets.exceptions import InvalidStatus

from sayso.server.http.logs import JsonLines, ShortLines
from sayso.server.middleware import is_deep

EVIL = "http://evil.example"


# --- Where a request comes from ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8484", "localhost.evil.example", "127.0.0.1.evil.example", ""]
)
def test_a_name_that_is_not_the_hubs_is_refused(served: Served, host: str) -> None:
    """A page of evil.example whose name was made to point here (DNS rebinding) gets nothing, token or not."""
    text = served.token()
    with served.client(text, Host=host) as client:
        for path in ("/approvals", "/healthz", "/me"):
            assert client.get(path).status_code == 421
    with pytest.raises(InvalidStatus) as refused, served.socket(text, headers={"Host": host}, server_hostname=None):
        pass
    assert refused.value.response.status_code in {421, 400}


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8484", "10.1.2.3"])
def test_a_name_of_this_machine_and_an_address_are_let_in(served: Served, host: str) -> None:
    with served.client(Host=host) as client:
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"},
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": "http://[evil"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {},
    ],
)
def test_a_page_of_somebody_else_cannot_answer_with_the_cookie_of_a_browser(
    served: Served, headers: dict[str, str]
) -> None:
    request = served.ask()
    with served.browser() as browser:
        with served.client(**headers) as page:
            page.cookies = browser.cookies
            for method, path in (
                ("POST", f"/approvals/{request.id}"),
                ("POST", "/sign-out"),
                ("DELETE", "/remembered/x"),
            ):
                assert page.request(method, path, json={"approved": True}).status_code == 403
        assert browser.get("/me").status_code == 200
    assert served.get(request).status == "open"


def test_cookies_that_were_torn_apart_on_the_way_are_still_those_of_a_browser(served: Served) -> None:
    request = served.ask()
    with served.browser() as browser, served.client() as page:
        mine = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        headers = [("Cookie", "theme=dark"), ("Cookie", mine)]
        path = f"/approvals/{request.id}"
        answer = page.post(path, json={"approved": True}, headers=headers)
    assert (answer.status_code, "must send an Origin header" in answer.json()["detail"]) == (403, True)
    assert served.get(request).status == "open"


def test_a_foreign_page_cannot_answer_even_with_a_token_or_sign_anybody_in(served: Served) -> None:
    request, code = served.ask(), served.token("link")
    with served.client(served.token(), Origin=EVIL) as page:
        assert page.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 403
        assert page.post("/sign-in", json={"code": code}).status_code == 403
    with served.client() as browser:
        assert browser.post("/sign-in", json={"code": code}).status_code == 200


def test_a_foreign_page_cannot_open_a_socket_with_the_cookie_of_a_browser(served: Served) -> None:
    with served.browser() as browser:
        cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
        for origin in (EVIL, "null", None, "http://127.0.0.1:1"):
            with pytest.raises(InvalidStatus) as refused, served.socket(headers=cookie, origin=origin):
                pass
            assert refused.value.response.status_code == 403
        with served.socket(headers=cookie, origin=served.url) as own:
            own.ping().wait(PATIENCE)
    with pytest.raises(InvalidStatus) as refused, served.socket(served.token(), origin=EVIL):
        pass
    assert refused.value.response.status_code == 403


def test_over_https_a_page_that_came_by_http_is_a_foreign_one(tmp_path: Path) -> None:
    """Whoever is on the way can have written it."""
    served = Served(tmp_path, proxy="127.0.0.1")
    served.start()
    try:
        request = served.ask()
        with served.client(served.token(), **{"X-Forwarded-Proto": "https"}) as page:
            for scheme, status in (("http", 403), ("https", 200)):
                origin = f"{scheme}://127.0.0.1:{served.port}"
                answer = page.post(f"/approvals/{request.id}", json={"approved": True}, headers={"Origin": origin})
                assert answer.status_code == status
    finally:
        served.stop()


# --- Bodies ------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(served: Served) -> None:
    head = (
        f"POST /approvals/x HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token()}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000001\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as raw:
        raw.sendall(head.encode())
        assert raw.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_say_how_large_it_is_is_read_only_so_far(served: Served) -> None:
    def endless() -> object:
        while True:
            yield b"[" * 65536

    with served.person() as ann:
        answer = ann.post("/approvals/x", content=endless(), headers={"Content-Type": "application/json"})  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["status"]) == (413, 413)


def test_of_strangers_only_a_short_body_is_kept(served: Served) -> None:
    """Else a few thousand of them could fill the hub's memory."""
    head = "POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as raw:
        raw.sendall(head.encode() + b" " * 16_001)
        assert raw.recv(1000).startswith(b"HTTP/1.1 401 ")
    long, request = "x" * 100_000, served.ask()
    with served.person() as ann:
        answer = ann.post(f"/approvals/{request.id}", json={"outcome": "modify", "args": {"text": long}})
        assert answer.json()["decision"]["args"] == {"text": long}


def test_a_body_that_is_nested_deep_is_refused(served: Served) -> None:
    request = served.ask()
    for opening, closing in (('{"a":', "}"), ("[", "]")):
        for depth in (130, 900, 100_000):
            nested = opening * depth + "1" + closing * depth
            body = f'{{"approved": true, "args": {{"x": {nested}}}}}'
            with served.person() as ann:
                answer = ann.post(
                    f"/approvals/{request.id}", content=body.encode(), headers={"Content-Type": "application/json"}
                )
            assert answer.status_code in {413, 422}
    assert served.get(request).status == "open"


def test_brackets_inside_texts_are_not_deep() -> None:
    assert not is_deep(json.dumps({"text": '[{"\\' * 1000}).encode())
    assert not is_deep(b"[" + b"[],{}," * 1000 + b"1]")
    assert is_deep(b"[" + b"[]," * 200_000 + b"1]")
    for depth, deep in ((118, False), (119, True)):
        assert is_deep(b'{"a\\\\":["\\"[","' + b"[" * 50 + b'",' + b"[" * depth) is deep
    assert is_deep(b'{"a":' * 121 + b"1" + b"}" * 121)
    assert not is_deep(b'{"a":' * 120 + b"1" + b"}" * 120)


# --- What is answered --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/approvals", "/healthz", "/nothing", "/events", "/openapi.json", "/me", "/metrics"])
def test_every_answer_keeps_a_browser_from_doing_more_with_it(served: Served, path: str) -> None:
    with served.person() as ann, ann.stream("GET", path) as answer:
        headers = answer.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


@pytest.mark.parametrize("path", ["/", "/sign-in", "/page/main.js", "/healthz", "/readyz"])
def test_who_asks_only_for_the_headers_gets_those_of_the_whole_answer(served: Served, path: str) -> None:
    with served.client() as client:
        head, whole = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length", "content-security-policy"):
        assert head.headers[name] == whole.headers[name]


@pytest.mark.parametrize("form", [ShortLines, JsonLines])
def test_nobody_writes_lines_of_their_own_into_the_log(served: Served, form: type[logging.Formatter]) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(form())
    logger = logging.getLogger("sayso.access")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with served.client() as client:
            client.get("/x%0A12:00:00%20INFO%20POST%20/approvals/forged%20200%0D%1B[2J%E2%80%A8")
        served.until(lambda: "forged" if "forged" in written.getvalue() else written.getvalue(), "forged")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    (line,) = written.getvalue().splitlines()
    assert "forged" in line
    assert line.isprintable()


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("PUT", "/me", 405), ("GET", "/sign-out", 405)]
)
def test_what_is_not_there_is_told_as_a_problem(served: Served, method: str, path: str, status: int) -> None:
    with served.person() as ann:
        answer = ann.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json().keys() == {"title", "status", "detail"}


def test_a_store_that_fails_is_told_as_a_problem_without_its_whereabouts(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    person, agent, request = served.token(), served.token("agent", "builder"), served.ask(asked_by="builder")
    with sqlite3.connect(served.file) as file:
        file.execute("DROP TABLE requests")
    with served.client(person) as ann, served.client(agent) as builder:
        answers = [ann.get("/approvals"), ann.get("/readyz"), builder.get(f"/requests/{request.id}")]
    for answer in answers:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert str(served.file) not in answer.text
    assert str(served.file) in caplog.text


def test_what_an_address_holds_is_told_to_no_trace(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a link is in the address that a browser opens, and FastAPI would put that into its spans."""
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with served.client() as browser:
        assert browser.get("/sign-in", params={"code": "secret"}).status_code == 200
    assert not spans.get_finished_spans()
