"""What is in `deploy/` fits together: its commands are sayso's, its rights are enough, nothing is open."""

import configparser
import re
import shlex
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import click
import pytest
from ruamel.yaml import YAML
from tests.postgres import Postgres

from sayso.cli.main import commands
from sayso.client import retention
from sayso.client.archive import Archive
from sayso.errors import StoreError
from sayso.stores.postgres import PostgresStore
from sayso.testing.samples import NO, sample_request

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = YAML(typ="safe").load(DEPLOY / "compose.yaml")  # pyright: ignore[reportUnknownMemberType]
UNIT = configparser.RawConfigParser(strict=False, interpolation=None)
UNIT.optionxform = str  # type: ignore[assignment,method-assign] - systemd minds the case
UNIT.read(DEPLOY / "sayso-hub.service")
OURS = {name: each for name, each in COMPOSE["services"].items() if each["image"] == "sayso"}
RUN = [
    *(pytest.param(each["command"], id=name) for name, each in OURS.items() if "command" in each),
    pytest.param(shlex.split(UNIT["Service"]["ExecStart"])[1:], id="unit"),
]


@pytest.mark.parametrize("words", RUN)
def test_what_is_run_is_a_command_of_sayso(words: list[str]) -> None:
    name, *rest = [word.replace("${SAYSO_HOST:?}", "hub.example.com") for word in words]
    listed = commands.commands[name]
    context = listed.make_context(name, rest)
    assert isinstance(context, click.Context)
    if name == "serve":
        assert context.params["behind_proxy"]


@pytest.mark.proves("H8")
def test_only_the_proxy_is_reachable_and_nothing_of_ours_can_write_or_gain_rights() -> None:
    services = COMPOSE["services"]
    assert [name for name, each in services.items() if "ports" in each] == ["proxy"]
    for name in (*OURS, "proxy", "rights"):
        each = services[name]
        assert (each["read_only"], each["cap_drop"]) == (True, ["ALL"]), name
        assert each["security_opt"] == ["no-new-privileges:true"], name
    assert all(COMPOSE["networks"][name]["internal"] for name in ("inside", "data"))
    proxy = services["proxy"]["networks"]["inside"]["ipv4_address"]
    assert {tuple(each["command"])[4] for name, each in OURS.items() if name.startswith("hub")} == {proxy}
    (pool,) = COMPOSE["networks"]["inside"]["ipam"]["config"]
    assert ip_address(proxy) not in ip_network(pool["ip_range"]), "else a hub that starts earlier may take it"
    passwords = re.findall(r"PASSWORD: (.*)", (DEPLOY / "compose.yaml").read_text())
    assert all(re.fullmatch(r"\$\{\w+:\?\}", each) for each in passwords), "a password that is not said is an error"
    hubs = [name for name in OURS if name.startswith("hub")]
    assert re.findall(r"server (\S+):8484", (DEPLOY / "nginx.conf").read_text()) == hubs


def test_the_image_is_built_here_and_the_database_is_used_once_it_can_be_reached() -> None:
    policies = {name: each["pull_policy"] for name, each in OURS.items()}
    assert policies == {name: "build" if "build" in each else "never" for name, each in OURS.items()}
    database = COMPOSE["services"]["database"]
    assert "-h 127.0.0.1" in " ".join(database["healthcheck"]["test"]), "before, only its own machine's socket is there"
    waits = {name: list(each["depends_on"].items()) for name, each in OURS.items() if "depends_on" in each}
    assert waits["tables"] == [("database", {"condition": "service_healthy"})]
    assert waits["hub-1"] == waits["hub-2"] == [("rights", {"condition": "service_completed_successfully"})]


def test_the_image_runs_as_nobody_and_installs_only_what_has_a_hash() -> None:
    content = (DEPLOY / "Containerfile").read_text()
    assert re.search(r"^USER 65532:65532$", content, re.MULTILINE)
    assert "--require-hashes --only-binary :all: -r" in content
    assert not re.search(r"https?://(?!127\.0\.0\.1)|^FROM \S+/", content, re.MULTILINE), "a name, and no address"
    pinned = (DEPLOY / "requirements.txt").read_text()
    names = re.findall(r"^([a-z0-9._-]+(?:\[[a-z,]+\])?)==", pinned, re.MULTILINE)
    assert {"asyncpg", "click", "fastapi", "uvicorn", "websockets"} <= set(names)
    assert pinned.count("--hash=sha256:") >= len(names)


@pytest.mark.proves("H8")
async def test_the_rights_are_enough_for_an_agent_and_only_the_owner_can_cut_the_audit(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    script = (DEPLOY / "rights.sql").read_text()
    grants = [_plain(each) for each in re.findall(r"^GRANT .*?;", script, re.MULTILINE | re.DOTALL)]
    assert grants
    postgres.ask("CREATE ROLE another_agent LOGIN")  # roles are for all databases of the server
    for each in grants:
        postgres.ask(each.replace("sayso_agent", "another_agent"), database)
    agent, owner = PostgresStore(database.replace("postgres@", "another_agent@")), PostgresStore(database)
    request = await agent.open(sample_request(asked_at=1.0))
    await agent.close(request.id, "denied", NO, now=2.0)
    with pytest.raises(StoreError, match="does not give this user a right that sayso needs"):
        await retention.prune(agent, 3.0, archive=Archive(tmp_path / "agent.jsonl"))
    assert not (tmp_path / "agent.jsonl").exists(), "it is told so before anything is gone"
    done = await retention.prune(owner, 3.0, archive=Archive(tmp_path / "owner.jsonl"))
    assert (done.requests, done.entries) == (1, 2)
    for each in (agent, owner):
        await each.aclose()


def _plain(statement: str) -> str:
    return " ".join(statement.rstrip(";").split())
