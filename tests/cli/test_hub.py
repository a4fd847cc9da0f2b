"""The same commands over a hub: the token says who answers, and what they may see."""

import contextlib
import http.server
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.questions import Result
from tests.cli.questions import sayso as run
from tests.server.served import Served
from tests.terminal import KEYS, Terminal
from tests.waiting import within

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest
from sayso.core.approvers import Approvers, Seen
from sayso.core.ports import Store
from sayso.core.tokens import EVERY_PROJECT
from sayso.policy.policy import ToolRules
from sayso.server.http.problems import HttpProblem


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
    request = hub.ask(tool_rules=ToolRules(parameters=lambda: schema))
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
    for token, words in (("", "wants to know who you are"), ("sayso_nonsense", "does not take the token")):
        monkeypatch.setenv("SAYSO_TOKEN", token)
        done = sayso("pending")
        assert (done.exit_code, words in " ".join(done.stderr.split())) == (1, True)
    monkeypatch.setenv("SAYSO_TOKEN", "sayso_nonsense")
    assert "cannot be reached" in sayso("pending", "--store", "http://127.0.0.1:1").stderr
    for address, words in (
        ("http://hub.example", "anybody on the way can read it"),
        ("https://ann:secret@hub.example", "has no name, password"),
        (hub.url.replace("http://", "https://"), "speaks http, not https; write http:// in the address"),
    ):
        assert words in " ".join(sayso("pending", "--store", address).stderr.split())


def test_address_token_and_leave_are_read_as_an_agent_reads_them(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYSO_TOKEN", f" {os.environ['SAYSO_TOKEN']}\n")  # as from a file
    shouted = sayso("pending", "--store", hub.url.replace("http://", "HTTP://"))
    assert (shouted.exit_code, shouted.stderr) == (0, "")
    monkeypatch.setenv("SAYSO_INSECURE", "yes")
    assert "SAYSO_INSECURE is 'yes'; use 1, or leave it out" in sayso("pending").stderr


def test_what_only_a_store_can_do_is_not_done_over_a_hub(hub: Served) -> None:
    done = sayso("token", "list", "--store", hub.url)
    assert "is a hub, and this command works on the store itself" in " ".join(done.stderr.split())
    assert "https://… of a hub" not in " ".join(sayso("token", "list", "--help").stdout.split())
    assert "https://… of a hub" in " ".join(sayso("pending", "--help").stdout.split())


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = {"/page": (200, b"<html>"), "/json": (200, b"{}")}.get(
            self.path.partition("/approvals")[0], (302, b"")
        )
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
        pass


def test_what_is_no_hub_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYSO_TOKEN", "sayso_nonsense")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for path, words in (("page", "there is no sayso hub at"), ("login", "sends to"), ("json", "nothing of")):
            done = sayso("pending", "--store", f"http://127.0.0.1:{server.server_port}/{path}")
            assert (done.exit_code, words in " ".join(done.stderr.split())) == (1, True), done.stderr
        server.shutdown()


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


def watch(hub: Served) -> Terminal:
    return Terminal([sys.executable, "-m", "sayso", "watch", "--store", hub.url], columns=100)


async def wait_until_seen(store: Store, request_id: str, who: str) -> None:
    point, now = 0, await store.get(request_id)
    with within(30, lambda: now):
        while now is None or who not in [each.who for each in now.seen]:
            await store.changed(point)
            point, _ = await store.changes(point)
            now = await store.get(request_id)


def test_the_live_inbox_of_a_hub_tells_who_else_has_it_before_them_and_does_not_name_oneself(hub: Served) -> None:
    request = hub.ask()
    terminal = watch(hub)
    terminal.wait_for(KEYS)
    hub.do(wait_until_seen(hub.store, request.id, "ann"))
    hub.do(hub.store.mark_seen(request.id, Seen(who="bob", channel="page", at=time.time())))
    assert "ann (page)" not in terminal.wait_for("also seen by bob (page)")
    terminal.write("q")
    assert terminal.end()[1] == 0


def vote(hub: Served, request: ApprovalRequest, who: str) -> None:
    controller = ApprovalController(mode="defer", store=hub.store)
    hub.do(controller.answer(request.id, ApprovalDecision(approved=True), who=who, roles=("ops",)))


TWO_OF_OPS = Approvers(count=2, roles=("ops",))


def test_the_live_inbox_tells_who_has_said_yes_and_that_yours_counts(hub: Served) -> None:
    request = hub.ask(approvers=TWO_OF_OPS)
    terminal = watch(hub)
    screen = terminal.wait_for(KEYS)
    assert "0 of 2 people have said yes" in screen
    assert "  needs       2 people in the role ops; your yes counts\n" in screen
    vote(hub, request, "bob")
    terminal.wait_for("1 of 2 people have said yes: bob")
    assert "[e] edit" not in terminal.wait_for(KEYS)  # they say yes to the same arguments
    terminal.write("y")
    terminal.wait_for("Allowed once.")
    assert hub.get(request).status == "approved"
    terminal.write("q")
    assert terminal.end()[1] == 0


def test_in_the_live_inbox_the_first_of_two_yeses_leaves_the_request_open(hub: Served) -> None:
    request = hub.ask(approvers=TWO_OF_OPS)
    terminal = watch(hub)
    terminal.wait_for(KEYS)
    terminal.write("y")
    terminal.wait_for("Your yes counts: 1 of 2 people have said yes: ann.")
    screen = terminal.wait_for("[n] deny")
    assert "needs 2 people in the role ops; you have said yes; somebody else has to say yes" in " ".join(screen.split())
    assert KEYS not in screen
    assert "1 waits for an answer" in screen
    assert hub.get(request).status == "open"
    terminal.write("q")
    assert terminal.end()[1] == 0


def test_in_the_live_inbox_a_yes_that_cannot_count_is_not_offered(hub: Served) -> None:
    request = hub.ask(approvers=Approvers(roles=("lead",)))
    terminal = watch(hub)
    screen = terminal.wait_for("[n] deny")
    assert "  needs       1 person in the role lead, and ann is not in that role\n" in screen
    assert KEYS not in screen
    terminal.write("n")
    terminal.wait_for("nothing waits")
    assert hub.get(request).status == "denied"
    terminal.write("q")
    assert terminal.end()[1] == 0


def test_an_answer_that_the_live_inbox_cannot_give_says_why_and_leaves_the_request_selected(hub: Served) -> None:
    request = hub.ask()
    hub.ask(tool="refund")
    terminal = watch(hub)
    terminal.wait_for(KEYS)
    with contextlib.suppress(HttpProblem):  # the limit
        while True:
            hub.hub.throttle.count_answer("ann")
    terminal.write("y")
    screen = terminal.wait_for("Not answered: ")
    assert f"▸ {request.id[-6:]}" in screen
    assert KEYS in terminal.wait_for(KEYS)
    assert hub.get(request).status == "open"
    terminal.write("q")
    assert terminal.end()[1] == 0


def test_in_the_live_inbox_nobody_answers_what_they_asked_themselves(hub: Served) -> None:
    request = hub.ask(asked_by="ann")
    terminal = watch(hub)
    screen = terminal.wait_for("You cannot answer this: whoever asks cannot answer, and ann asked this.")
    assert "[n] deny" not in terminal.wait_for("[v] view all")
    assert KEYS not in screen
    assert hub.get(request).status == "open"
    terminal.write("q")
    assert terminal.end()[1] == 0


# --- What stays --------------------------------------------------------------------------------------


def _remember(hub: Served, project: str = "") -> ApprovalRequest:
    request = hub.ask({"amount": 6}, project=project)
    hub.do(
        ApprovalController(mode="defer", store=hub.store).answer(
            request.id, ApprovalDecision(approved=True, remember="session"), who="bob"
        )
    )
    return request


def test_what_a_hub_remembers_is_listed_and_taken_back_by_whom_the_token_says(
    hub: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    _remember(hub)
    (known,) = json.loads(sayso("remembered", "list", "--json").stdout)
    assert "pay(amount=6)" in sayso("remembered", "list").stdout
    done = sayso("remembered", "revoke", known["id"][-6:], "--who", "somebody-else")
    assert (done.exit_code, "revoked" in done.stdout) == (0, True)
    assert json.loads(sayso("remembered", "list", "--json").stdout) == []
    hub.do(hub.store.flush())
    monkeypatch.setenv("SAYSO_TOKEN", hub.token(name="bob", project=EVERY_PROJECT))
    (revoked,) = sayso("audit", "list", "--step", "revoked", "--json").stdout.splitlines()
    assert json.loads(revoked)["reason"].endswith("revoked by ann")
    assert sayso("remembered", "revoke", known["id"]).exit_code == 3


@pytest.fixture
def everything(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYSO_TOKEN", hub.token(name="ann", project=EVERY_PROJECT))


@pytest.mark.usefixtures("everything")
def test_the_audit_of_a_hub_is_listed_shown_exported_and_checked_here(hub: Served) -> None:
    _remember(hub)
    hub.do(hub.store.flush())
    steps = [json.loads(line)["step"] for line in sayso("audit", "list", "--json").stdout.splitlines()]
    assert steps == ["asked", "approved"]
    assert sayso("audit", "list", "--limit", "1").stdout.split()[3] == "approved"
    assert '"amount"' in sayso("audit", "show", "1").stdout
    assert sayso("audit", "show", "9").exit_code == 3
    assert len(sayso("audit", "export").stdout.splitlines()) == 2
    done = sayso("audit", "verify", "--json")
    last = json.loads(done.stdout)["last"]
    assert (done.exit_code, last["number"]) == (0, 2)
    assert sayso("audit", "verify", "--known", f"2:{last['hash']}").exit_code == 0
    assert sayso("audit", "verify", "--known", f"1:{last['hash']}").exit_code == 7


@pytest.mark.usefixtures("everything")
def test_an_entry_that_was_changed_at_the_hub_is_found_out_here(hub: Served) -> None:
    _remember(hub)
    hub.do(hub.store.flush())
    with sqlite3.connect(hub.file) as other:
        other.execute("UPDATE audit SET line = CAST(replace(line, 'asked', 'fixed') AS BLOB) WHERE number = 1")
    done = sayso("audit", "verify")
    assert (done.exit_code, "entry 1 was changed" in " ".join(done.stderr.split())) == (7, True)


def test_of_the_audit_other_projects_are_left_out_and_the_chain_cannot_be_checked_so(
    hub: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, _ = _remember(hub, "shop"), _remember(hub, "bank")
    hub.do(hub.store.flush())
    monkeypatch.setenv("SAYSO_TOKEN", hub.token(name="eve", project="shop"))
    seen = [json.loads(line)["request_id"] for line in sayso("audit", "list", "--json").stdout.splitlines()]
    assert seen == [mine.id, mine.id]
    done = sayso("audit", "verify")
    assert (done.exit_code, "only as a whole" in " ".join(done.stderr.split())) == (1, True)
    (known,) = json.loads(sayso("remembered", "list", "--json").stdout)
    assert known["request_id"] == mine.id


def test_doctor_says_who_one_is_at_a_hub_and_how_it_does(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.ask()
    found = {each["what"]: each for each in json.loads(sayso("doctor", "--json").stdout)}
    assert "is ready" in found["hub"]["told"]
    assert "you are ann" in found["token"]["told"]
    assert "in the roles ops" in found["token"]["told"]
    assert found["requests"]["told"].startswith("1 open")
    assert "chain is whole" in found["audit"]["told"]
    monkeypatch.setenv("SAYSO_TOKEN", "sayso_nonsense")
    done = sayso("doctor")
    assert (done.exit_code, "does not take the token" in " ".join(done.stdout.split())) == (1, True)


def test_doctor_on_the_machine_of_an_agent_says_who_it_is_and_that_it_can_ask(
    hub: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = hub.token("agent", "builder", project="shop")
    monkeypatch.setenv("SAYSO_TOKEN", text)
    done = sayso("doctor")
    assert done.exit_code == 0, done.stdout
    assert "ok       token: you are the agent builder, project shop" in done.stdout
    assert "ok       requests: you can ask at this hub; none of yours waits" in done.stdout
    hub.ask(asked_by="builder", project="shop", session="shop/builder/s1")
    hub.ask(asked_by="somebody-else", project="shop")
    assert "you can ask at this hub; 1 of yours waits for an answer" in " ".join(sayso("doctor").stdout.split())
    hub.revoke(text)
    done = sayso("doctor")
    told = " ".join(done.stdout.split())
    assert (done.exit_code, told.count("problem")) == (1, 1)
    assert "does not take the token: it has expired, was revoked or is of another hub" in told


def test_a_yes_that_is_not_enough_is_told_as_that_and_names_who_asks(
    hub: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = hub.ask(approvers=Approvers(count=2), asked_by="builder")
    assert "builder > report > payer" in " ".join(sayso("pending").stdout.split())
    first = " ".join(sayso("approve", request.id).stdout.split())
    assert first == "Your yes counts: 1 of 2 people have said yes: ann; pay of builder > report > payer still waits."
    monkeypatch.setenv("SAYSO_TOKEN", hub.token(name="bob"))
    assert sayso("approve", request.id).stdout.startswith("Approved: pay of builder > report > payer")
