"""`sayso runs`: what is parked until it is answered can be seen, and dropped."""

import json
from typing import Any

from tests.cli.questions import ask, in_store, sayso, stored, within

from sayso import ApprovalDecision, ApprovalRequest
from sayso.core.model import ParkedRun, new_id


def park(*asked: ApprovalRequest, agent: str = "payer", calls: tuple[str, ...] = ()) -> ParkedRun:
    """Park a run that waits for these requests, as an adapter does."""
    requests = tuple(each.id for each in asked)
    run = ParkedRun(id=new_id(), agent=agent, session="s1", requests=requests, calls=calls, parked_at=1.0)
    in_store(lambda store: store.park(run.id, b"state", run))
    return run


def facts() -> list[dict[str, Any]]:
    return json.loads(sayso("runs", "--json").stdout)


def test_parked_runs_are_listed_with_what_they_wait_for() -> None:
    first, second = ask({"amount": 5}), ask({"amount": 6})
    run = park(first, second)
    park(calls=("elsewhere",), agent="")
    within(lambda controller: controller.answer(first.id, ApprovalDecision(approved=True)))
    told = sayso("runs").stdout
    assert f"{run.id[-6:]}  payer, parked " in told
    assert "waits for 1 of 2 answers\n        pay(amount=6)\n" in told
    assert "an agent without a name" in told
    assert "waits for results from outside (1)" in " ".join(told.split())
    assert [(each["waits_for"], each["can_resume"]) for each in facts()] == [([second.id], False), ([], False)]
    within(lambda controller: controller.answer(second.id, ApprovalDecision(approved=False)))
    told = " ".join(sayso("runs").stdout.split())
    assert "answered; it can be resumed, unless a process is resuming it now" in told
    assert facts()[0]["can_resume"]


def test_no_parked_run_is_said_so() -> None:
    ask()
    assert sayso("runs").stdout == "No run is parked.\n"
    assert facts() == []


def test_a_run_that_is_dropped_withdraws_its_questions_and_says_who_dropped_it() -> None:
    question, other = ask({"amount": 5}), ask({"amount": 6})
    run, kept = park(question), park(other)
    done = sayso("runs", "drop", run.id[-6:], "--who", "carla")
    assert (done.exit_code, done.stdout) == (0, f"dropped  {run.id[-6:]} of payer\n")
    closed = stored(question)
    assert closed.status == "withdrawn"
    assert closed.decision is not None
    assert closed.decision.note == "carla dropped the run that asked"
    assert stored(other).status == "open"
    assert [each["id"] for each in facts()] == [kept.id]


def test_an_id_that_names_no_run_drops_none() -> None:
    run = park(ask())
    done = sayso("runs", "drop", run.id[-6:], "ffffff")
    assert done.exit_code == 3
    assert "no run is parked under the id 'ffffff'; see `sayso runs`" in done.stderr
    assert len(facts()) == 1
