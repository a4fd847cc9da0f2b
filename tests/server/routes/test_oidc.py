"""Signing in with an account elsewhere: a hub that was started for it, a real provider, and all that can be wrong."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import OctKey
from tests.server.accounts import CLIENT, OTHER_KEY, SECRET, Accounts
from tests.server.mounted import Mounted
from tests.server.served import PATIENCE, Served
from tests.server.started import Hub

from sayso.errors import ConfigurationError
from sayso.server.http.problems import HttpProblem
from sayso.server.hub import Hub as OwnHub
from sayso.server.routes.oidc import OidcSignIn, Provider
from sayso.server.services.throttle import Throttle
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock

OPTIONS = ("--oidc-client", CLIENT, "--oidc-domain", "Example.org", "--oidc-roles", "teams")


@pytest.fixture(scope="module")
def provider() -> Generator[Accounts]:
    with Accounts() as accounts:
        yield accounts


@pytest.fixture
def accounts(provider: Accounts) -> Generator[Accounts]:
    yield provider
    provider.be_honest()


@pytest.fixture(scope="module")
def hub(provider: Accounts, tmp_path_factory: pytest.TempPathFactory) -> Generator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    started = Hub(folder, "--oidc-issuer", provider.url, *OPTIONS, environ={"SAYSO_OIDC_SECRET": SECRET})
    yield started
    started.kill()


class Traveller(httpx2.Client):
    """A browser that goes to the provider and comes back, one step at a time."""

    def __init__(self, hub: Hub | Mounted) -> None:
        super().__init__(base_url=hub.url, timeout=PATIENCE)

    def sent(self) -> str:
        """Begin, and return the address at the provider to which the hub sends this browser."""
        answer = self.get("/oidc/start")
        assert answer.status_code == 303
        return answer.headers["location"]

    def back(self) -> str:
        """Begin, sign in at the provider, and return the address at the hub to which that leads."""
        return self.post(self.sent()).headers["location"]

    def arrives(self, address: str) -> str:
        """Come back to the hub, and return where it sends this browser."""
        answer = self.get(address)
        assert answer.status_code == 303
        return answer.headers["location"]

    @property
    def is_known(self) -> bool:
        return self.get("/me").status_code == 200


@pytest.fixture
def ann(hub: Hub) -> Generator[Traveller]:
    with Traveller(hub) as traveller:
        yield traveller


def refused(status: int) -> str:
    return f"/sign-in?refused={status}"


def test_whoever_comes_back_is_known_by_their_proven_address_and_has_their_roles(
    ann: Traveller, accounts: Accounts
) -> None:
    accounts.claims["email"] = "Ann@Example.ORG"  # the same person, however it is written
    assert ann.get("/sign-in/accounts").json() == {"at": "localhost"}
    assert ann.arrives(ann.back()) == "/"
    told = ann.get("/me").json()
    assert (told["name"], told["roles"], told["project"]) == ("ann@example.org", ["ops"], "*")


def test_what_goes_to_the_provider_is_bound_to_this_hub_and_to_one_sign_in(ann: Traveller, hub: Hub) -> None:
    sent = [{name: value for name, (value,) in parse_qs(urlsplit(ann.sent()).query).items()} for _ in range(2)]
    assert all(each["redirect_uri"] == f"{hub.url}/oidc/callback" for each in sent)
    assert all(each["code_challenge_method"] == "S256" for each in sent)
    for name in ("state", "nonce", "code_challenge"):
        assert sent[0][name] != sent[1][name]
        assert len(sent[0][name]) >= 43


def test_a_way_back_works_once_and_only_in_the_browser_that_began(ann: Traveller, hub: Hub) -> None:
    """What somebody else was sent to signs nobody in: no CSRF at signing in, no replay."""
    way = ann.back()
    with Traveller(hub) as mallory:
        assert mallory.arrives(way) == refused(400)
        mallory.sent()  # with a state of its own, still not with this one
        assert mallory.arrives(way) == refused(400)
        assert not mallory.is_known
    state = parse_qs(urlsplit(way).query)["state"][0]
    assert ann.arrives(way) == "/"
    ann.cookies.clear()
    ann.cookies.set(f"sayso_oidc_{urlsplit(str(hub.url)).port}", state)
    assert ann.arrives(way) == refused(400)
    assert not ann.is_known


def test_a_state_or_a_code_that_is_not_the_hubs_is_refused(ann: Traveller) -> None:
    way = ann.back()
    state, code = (parse_qs(urlsplit(way).query)[name][0] for name in ("state", "code"))
    assert ann.arrives(f"/oidc/callback?code={code}&state=made-up") == refused(400)
    assert ann.arrives(f"/oidc/callback?code={code}") == refused(400)
    assert ann.arrives(f"/oidc/callback?error=access_denied&state={state}") == refused(401)
    assert ann.arrives(f"/oidc/callback?code=made-up&state={state}") == refused(502)
    assert ann.arrives(way) == refused(400), "a state that was tried is used up"
    assert not ann.is_known


def test_nothing_in_the_address_says_where_a_browser_goes_then(ann: Traveller) -> None:
    way = ann.back()
    assert ann.arrives(f"{way}&next=https://evil.example&return_to=//evil.example") == "/"
    assert ann.get("/oidc/start?next=https://evil.example").headers["location"].startswith("http://localhost:")


@pytest.mark.parametrize(
    "forged",
    [
        {"nonce": "another"},
        {"aud": "another-client"},
        {"iss": "https://evil.example"},
        {"exp": int(time.time()) - 120},
        {"azp": "another-client"},
        {"sub": None},
    ],
    ids=lambda forged: next(iter(forged)),
)
def test_an_answer_that_was_made_for_something_else_is_refused(
    ann: Traveller, accounts: Accounts, forged: dict[str, Any]
) -> None:
    accounts.claims |= forged
    assert ann.arrives(ann.back()) == refused(502)
    assert not ann.is_known


@pytest.mark.parametrize("how", ["another key", "no signature", "a public key as a secret", "no token", "no JSON"])
def test_an_answer_that_the_provider_did_not_sign_is_refused(ann: Traveller, accounts: Accounts, how: str) -> None:
    if how == "another key":
        accounts.key = OTHER_KEY
    elif how == "a public key as a secret":
        accounts.key, accounts.header = OctKey.import_key(b"x" * 32), {"alg": "HS256", "kid": "k1"}
    elif how == "no signature":
        accounts.token = "eyJhbGciOiJub25lIn0.e30."  # noqa: S105 - {"alg": "none"} and nothing
    else:
        accounts.token = "" if how == "no token" else "not.a.token"
    assert ann.arrives(ann.back()) == refused(502)
    assert not ann.is_known


@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": False},
        {"email_verified": "true"},
        {"email": "a b@example.org"},
        {"email": None},
        {"email": "mallory@evil.example"},
        {"email": "mallory@example.org.evil.example"},
        {"email": "mallory@evilexample.org"},
        {"email": "example.org"},
    ],
)
def test_an_address_that_is_not_proven_or_not_of_the_domain_signs_nobody_in(
    ann: Traveller, accounts: Accounts, claims: dict[str, Any]
) -> None:
    accounts.claims |= claims
    assert ann.arrives(ann.back()) == refused(403)
    assert not ann.is_known


@pytest.mark.parametrize(
    "facts",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_a_provider_that_says_something_else_about_itself_is_not_gone_to(
    ann: Traveller, accounts: Accounts, facts: dict[str, Any]
) -> None:
    accounts.facts = facts
    assert ann.arrives("/oidc/start") == refused(502)


@pytest.fixture
def inboxes(accounts: Accounts, tmp_path: Path) -> Generator[list[Mounted]]:
    """Two hubs of one machine, each in an application of its own."""
    provider = Provider(issuer=accounts.url, client_id=CLIENT, client_secret=SECRET)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    hubs = [Mounted(folder, provider) for folder in folders]
    for each in hubs:
        each.start()
    yield hubs
    for each in hubs:
        each.stop()


def test_people_come_back_to_a_hub_that_is_mounted_and_its_cookies_go_nowhere_else(inboxes: list[Mounted]) -> None:
    inbox = inboxes[0]
    with Traveller(inbox) as ann:
        assert parse_qs(urlsplit(ann.sent()).query)["redirect_uri"] == [f"{inbox.url}/oidc/callback"]
        assert ann.arrives(f"{inbox.url}/oidc/callback?code=x&state=y") == f"/inbox{refused(400)}"
        way = ann.back()
        assert [each.path for each in ann.cookies.jar] == ["/inbox"]
        assert ann.arrives(way) == "/inbox/"
        assert ann.get("/me").json()["name"] == "ann@example.org"
        assert [(each.name, each.path) for each in ann.cookies.jar] == [(f"sayso_session_{inbox.port}", "/inbox")]
        assert ann.get("/").headers["content-type"].startswith("text/html")


def test_a_browser_can_be_signing_in_to_two_hubs_of_one_machine_at_once(inboxes: list[Mounted]) -> None:
    """It sends the cookies of a host to all of its ports."""
    with Traveller(inboxes[0]) as ann, Traveller(inboxes[1]) as other:
        other.cookies = ann.cookies.jar  # one browser
        ways = [each.back() for each in (ann, other)]
        assert [each.arrives(way) for each, way in zip((ann, other), ways, strict=True)] == ["/inbox/", "/inbox/"]
        assert (ann.is_known, other.is_known) == (True, True)


def test_a_hub_without_accounts_offers_none(served: Served) -> None:
    with served.client() as ann:
        assert ann.get("/sign-in/accounts").json() == {"at": None}
        assert ann.get("/oidc/start").status_code == 404


@pytest.mark.anyio
async def test_a_sign_in_takes_ten_minutes_at_most_and_leaves_nothing_behind(provider: Accounts) -> None:
    clock, store = FixedClock(), MemoryStore()
    sign_in = OidcSignIn(OwnHub(store, clock=clock), Provider(issuer=provider.url, client_id=CLIENT), url="https://hub")
    _, late = await sign_in.begin()
    clock.advance(601)
    with pytest.raises(HttpProblem, match="took too long"):
        await sign_in.finish(late, "a-code")
    _, forgotten = await sign_in.begin()
    assert await store.parked(f"oidc\0{forgotten}")
    clock.advance(601)
    await sign_in.begin()
    assert await store.parked(f"oidc\0{forgotten}") is None


def test_only_so_many_sign_ins_are_begun_from_one_address() -> None:
    throttle = Throttle()
    for _ in range(60):
        throttle.count_sign_in("10.0.0.1")
    throttle.count_sign_in("10.0.0.2")
    with pytest.raises(HttpProblem, match="too many sign-ins"):
        throttle.count_sign_in("10.0.0.1")


@pytest.mark.anyio
async def test_a_provider_that_is_away_is_said() -> None:
    away = Provider(issuer="http://127.0.0.1:9", client_id=CLIENT)
    with pytest.raises(HttpProblem, match="cannot be reached"):
        await OidcSignIn(OwnHub(MemoryStore()), away, url="https://hub").begin()


def test_a_provider_without_https_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be an https address"):
        Provider(issuer="http://accounts.example", client_id=CLIENT)
