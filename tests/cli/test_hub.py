"""The same commands over a hub: the token says who answers, and what they may see."""

import json
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.questions import Result
from tests.cli.questions import sayso as run
from tests.server.served import Served
from tests.terminal import Terminal

from sayso import ApprovalController, ApprovalDecision
from sayso.people import Approvers
from sayso.policy.tools import ToolRules


def sayso(*arguments: str) -> Result:
    """Run a command at the hub of this test, unless it names another place."""
    return run(*arguments) if "--store" in arguments else run(*arguments, "--store", os.environ["HUB"])


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Served]:
    served = Served(tmp_path)
    served.start()
    monkeypatch.setenv("HUB", served.url)
    monkeypatch.setenv("SAYSO_TOKEN", served.token(name="ann", roles=("ops",)))
    yield served
    served.stop()


def test_what_waits_at_a_hub_is_listed_shown_and_answered(hub: Served) -> None:
    request = hub.ask({"amount": "6"})
    short = request.id[-6:]
    assert short in sayso("pending").stdout
    assert "ann" not in sayso("show", short).stdout
    assert '"6"' in sayso("show", short).stdout, "a text does not look like a number"
    done = sayso("approve", short, "-m", "fine", "--who", "somebody-else")
    assert done.exit_code == 0, done.stderr
    decision = hub.get(request).decision
    assert decision is not None
    assert (decision.approved, decision.who, decision.note) == (True, "ann", "fine"), "the token says who it was"
    assert json.loads(sayso("pending", "--json").stdout) == []


@pytest.mark.parametrize("command", ["approve", "deny"])
def test_who_comes_second_is_told_who_was_faster(hub: Served, command: str) -> None:
    request = hub.ask()
    hub.do(
        ApprovalController(mode="defer", store=hub.store).answer(
            request.id, ApprovalDecision(approved=False), who="bob"
        )
    )
    done = sayso(command, request.id)
    assert (done.exit_code, "already denied by bob" in done.stderr) == (5, True)


def test_an_answer_that_is_not_taken_leaves_the_request_open_and_says_why(hub: Served) -> None:
    request = hub.ask(approvers=Approvers(roles=("lead",)))
    done = sayso("approve", request.id)
    assert done.exit_code == 1
    assert "ann is not in that role; the request is still open" in " ".join(done.stderr.split())
    assert hub.get(request).status == "open"


def test_edited_arguments_that_do_not_fit_the_tool_are_refused_here_already(hub: Served) -> None:
    schema = '{"type": "object", "properties": {"amount": {"type": "integer"}}}'
    request = hub.ask(own=ToolRules(parameters=lambda: schema))
    Path("args.json").write_text('{"amount": "six"}')
    done = sayso("approve", request.id, "--args", "args.json")
    assert "amount: 'six' is not of type 'integer'" in " ".join(done.stderr.split())
    assert hub.get(request).status == "open"
    Path("args.json").write_text('{"amount": 6}')
    assert sayso("approve", request.id, "--args", "args.json").exit_code == 0
    decision = hub.get(request).decision
    assert decision is not None
    assert decision.override_args == {"amount": 6}


def test_other_projects_do_not_exist(hub: Served) -> None:
    request = hub.ask(project="shop")
    assert json.loads(sayso("pending", "--all", "--json").stdout) == []
    assert sayso("show", request.id).exit_code == 3


def test_a_hub_that_is_away_or_does_not_know_the_token_is_said(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for token, words in (("", "wants to know who you are"), ("sayso_nonsense", "does not take this token")):
        monkeypatch.setenv("SAYSO_TOKEN", token)
        done = sayso("pending")
        assert (done.exit_code, words in " ".join(done.stderr.split())) == (1, True)
    monkeypatch.setenv("SAYSO_TOKEN", "sayso_nonsense")
    assert "cannot be reached" in sayso("pending", "--store", "http://127.0.0.1:1").stderr
    for address, words in (
        ("http://hub.example", "anybody on the way can read it"),
        ("https://ann:secret@hub.example", "has no name, password"),
    ):
        assert words in " ".join(sayso("pending", "--store", address).stderr.split())


def test_the_live_inbox_follows_a_hub(hub: Served) -> None:
    first = hub.ask({"amount": 1})
    terminal = Terminal([sys.executable, "-m", "sayso", "watch", "--store", hub.url])
    terminal.wait_for("amount: 1")
    second = hub.ask({"amount": 2}, tool="refund")
    terminal.wait_for("refund")
    terminal.press("y")
    terminal.wait_for("amount: 2")
    assert hub.get(first).status == "approved"
    hub.do(
        ApprovalController(mode="defer", store=hub.store).answer(second.id, ApprovalDecision(approved=False), who="bob")
    )
    terminal.wait_for("was denied by bob")
    terminal.write("q")
    assert terminal.end()[1] == 0
