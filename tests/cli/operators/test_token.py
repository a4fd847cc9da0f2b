"""Making, listing and revoking tokens."""

import json
from typing import Any

import pytest
from tests.cli.questions import ask, in_store, sayso

from sayso.core import tokens
from sayso.core.ports import Store


@pytest.fixture(autouse=True)
def store() -> None:
    ask()


def made(*words: str) -> dict[str, Any]:
    done = sayso("token", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def known(token_id: str) -> tokens.Token | None:
    async def work(store: Store) -> Any:
        return await store.token(token_id)  # type: ignore[attr-defined]

    return in_store(work)


def test_a_token_is_shown_once_and_only_its_hash_is_kept() -> None:
    facts = made(
        "create", "approver", "--name", "ann", "--project", "shop", "--role", "ops", "--role", "dba", "--for", "30d"
    )
    token = known(facts["id"])
    assert token is not None
    assert tokens.is_valid(token, facts["text"], token.made_at)
    assert (token.kind, token.name, token.project, token.roles) == ("approver", "ann", "shop", ("ops", "dba"))
    assert token.expires_at == token.made_at + 30 * 86400
    assert facts["text"] not in sayso("token", "list").stdout + sayso("token", "list", "--json").stdout


def test_the_text_alone_is_on_the_output() -> None:
    done = sayso("token", "create", "agent", "--name", "builder")
    assert tokens.parse_token_id(done.stdout.strip()) is not None
    assert "shown once" in done.stderr


def test_a_link_is_an_address_that_is_valid_for_ten_minutes() -> None:
    facts = made("link", "--name", "ann", "--url", "https://hub.example/", "--opens", "x")
    assert facts["url"].startswith("https://hub.example/sign-in?code=sayso_link_")
    assert (facts["kind"], facts["opens"], facts["expires_at"]) == ("link", "x", facts["made_at"] + 600)


def test_a_link_without_an_address_says_that_it_is_for_the_default_one() -> None:
    told = sayso("token", "link", "--name", "ann")
    assert told.stdout.startswith("http://127.0.0.1:8484/sign-in?code=")
    assert told.stderr == "This is for a hub at http://127.0.0.1:8484, the default; give another address with --url.\n"
    assert sayso("token", "link", "--name", "ann", "--url", "http://127.0.0.1:9000").stderr == ""


def test_tokens_are_listed_and_revoked_by_either_end_of_their_id() -> None:
    assert sayso("token", "list").stdout == "There are no tokens.\n"
    facts = made("create", "approver", "--name", "ann", "--role", "ops", "--project", "*")
    listed = sayso("token", "list").stdout
    assert listed.split(maxsplit=1)[1] == "approver ann of every project in the role ops\n"
    assert sayso("token", "revoke", listed.split()[0]).stdout.startswith("revoked  approver ann")
    assert known(facts["id"]) is None
    assert sayso("token", "revoke", facts["id"]).exit_code == 3
    assert sayso("token", "revoke", "x").exit_code == 3


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("create", "approver"), 2),
        (("create", "session", "--name", "ann"), 2),
        (("create", "approver", "--name", "ann lee"), 1),
        (("create", "agent", "--name", "ann", "--project", "*"), 1),
        (("create", "approver", "--name", "ann", "--role", "ops,dba"), 1),
        (("create", "approver", "--name", "ann", "--for", "soon"), 2),
        (("link", "--name", ""), 1),
    ],
)
def test_what_could_be_mistaken_is_refused_in_one_sentence(words: tuple[str, ...], code: int) -> None:
    done = sayso("token", *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.stderr
