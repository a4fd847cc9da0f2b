"""`sayso doctor`: what is set up, and what of it does not work."""

import json
import platform
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.questions import STORE, ask, sayso
from tests.terminal import Terminal

from sayso.cli.main import commands


def found(*arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    done = sayso("doctor", "--json", *arguments)
    assert done.exit_code == code, done.stdout
    return {each["what"]: each for each in json.loads(done.stdout)}


def test_a_set_up_that_works_is_ok_in_words() -> None:
    Path("sayso.yaml").write_text("default: required\n", encoding="utf-8")
    ask()
    done = sayso("doctor")
    assert done.exit_code == 0
    assert "ok       policy sayso.yaml: loads, with 1 rules" in done.stdout
    assert "ok       store: state.db can be read and written, " in done.stdout
    assert "ok       requests: 1 open, the oldest for 0s" in done.stdout
    assert "ok       audit: the chain is whole, 1 entries" in done.stdout
    assert f"ok       Python: {platform.python_version()}" in done.stdout
    assert {line.split()[0] for line in done.stdout.splitlines() if line[0] != " "} <= {"ok", "warning"}


def test_versions_of_what_is_installed_are_told() -> None:
    told = found(code=1)
    assert told["click"]["told"][0].isdigit()
    assert {"sayso", "pydantic-ai-slim", "bubblewrap", "terminal", "screen"} <= told.keys()


def test_nothing_set_up_is_a_warning_and_not_broken() -> None:
    done = CliRunner().invoke(commands, ["doctor", "--json"])
    told = {each["what"]: each["state"] for each in json.loads(done.stdout)}
    assert (done.exit_code, told["policy"], told["store"]) == (0, "warning", "warning")
    assert list(Path().iterdir()) == []


def test_the_default_file_is_looked_at_if_no_store_is_named() -> None:
    ask()
    Path(STORE).rename("sayso.db")
    done = CliRunner().invoke(commands, ["doctor", "--json"])
    told = {each["what"]: each["told"] for each in json.loads(done.stdout)}
    assert told["store"].startswith("sayso.db can be read and written")


@pytest.mark.parametrize("content", [None, b"", b"x" * 5000])
def test_a_store_that_cannot_be_used_is_a_problem(content: bytes | None) -> None:
    if content is not None:
        Path(STORE).write_bytes(content)
    assert found(code=1)["store"]["state"] == "problem"
    assert sayso("doctor").stdout.count("problem") == 1
    assert Path(STORE).exists() == (content is not None)


def test_a_broken_chain_is_a_problem() -> None:
    ask()
    with closing(sqlite3.connect(STORE)) as connection, connection:
        connection.execute("DELETE FROM audit")
    assert found(code=1)["audit"]["state"] == "problem"


@pytest.mark.parametrize("content", ["default: x\n", "default: [\n"])
def test_a_policy_with_mistakes_is_a_problem(content: str) -> None:
    ask()
    Path("sayso.yaml").write_text(content, encoding="utf-8")
    assert found(code=1)["policy sayso.yaml"]["state"] == "problem"


def test_a_policy_with_warnings_is_a_warning() -> None:
    ask()
    Path("sayso.yaml").write_text(
        "default: none\nshell: {rules: [{pattern: python, approval: none}]}\n", encoding="utf-8"
    )
    assert found()["policy sayso.yaml"]["state"] == "warning"


def test_two_policies_in_one_place_are_a_problem() -> None:
    ask()
    for name in ("sayso.yaml", "sayso.yml"):
        Path(name).write_text("default: none\n", encoding="utf-8")
    assert found(code=1)["policy"]["state"] == "problem"


def test_a_terminal_is_told_from_what_is_none() -> None:
    ask()
    assert "nobody can be asked here" in found()["terminal"]["told"]
    screen, code = Terminal([sys.executable, "-m", "sayso", "doctor", "--store", STORE]).end()
    assert code == 0
    assert "questions can be asked here" in screen
    assert "off, since NO_COLOR says so" in screen


def test_a_database_is_measured_and_told(database: str) -> None:
    told = {each["what"]: each for each in json.loads(sayso("doctor", "--json", "--store", database).stdout)}
    assert "can be read and written, PostgreSQL 18" in told["store"]["told"]
    assert told["round trip"]["told"].endswith("ms there and back")
    assert "a change is heard of after" in told["hints"]["told"]
    assert " of 200 at the server" in told["connections"]["told"]
    assert told["requests"]["told"] == "none is open"
    assert told["audit"]["told"] == "the chain is whole, 0 entries"
    assert (told["clock"]["state"], told["disk"]["state"]) == ("ok", "warning")  # the server of the tests syncs nothing


def test_a_database_that_cannot_be_reached_is_a_problem() -> None:
    done = sayso("doctor", "--json", "--store", "postgresql://ann:hidden@127.0.0.1:1/x")
    told = {each["what"]: each for each in json.loads(done.stdout)}
    assert done.exit_code == 1
    assert "postgresql://ann@127.0.0.1:1/x cannot be reached" in told["store"]["told"]
