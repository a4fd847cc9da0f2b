"""The hub inside somebody's own application, which runs no lifespan for it."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.server.mounted import Mounted
from tests.server.served import following


@pytest.fixture
def mounted(tmp_path: Path) -> Generator[Mounted]:
    hub = Mounted(tmp_path)
    hub.start()
    yield hub
    hub.stop()


def test_a_mounted_hub_follows_its_store_from_the_first_request_on(mounted: Mounted) -> None:
    request = mounted.ask()
    with mounted.person() as ann, following(ann, after=0) as events:
        assert [next(events)[0], next(events)[2]["id"]] == ["hello", request.id]
        assert ann.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 200
        assert next(events)[2]["status"] == "approved"
        due = mounted.ask(expires_at=mounted.hub.clock.now() + 0.05)
        assert [next(events)[2]["status"] for _ in range(2)] == ["open", "expired"]
        assert mounted.get(due).status == "expired"


def test_a_mounted_hub_guards_itself_and_leaves_the_rest_alone(mounted: Mounted) -> None:
    with mounted.client() as client:
        own = client.get(mounted.url.replace("/inbox", "/own"))
        assert (own.text, "content-security-policy" in own.headers) == ("mine", False)
        assert "content-security-policy" in client.get("/healthz").headers
        assert client.get("/healthz", headers={"Host": "team.example"}).status_code == 200
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421


def test_the_cookie_of_a_mounted_hub_is_for_its_prefix_alone(mounted: Mounted) -> None:
    with mounted.client() as browser:
        answer = browser.post("/sign-in", json={"code": mounted.token("link")})
        assert "Path=/inbox" in answer.headers["set-cookie"]
        assert browser.get("/me").json()["name"] == "ann"
