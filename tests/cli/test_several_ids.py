"""Several ids in one command: all are found before one is answered, and each answer is told by itself."""

import json
import sys

import pytest
from tests.cli.places import Place
from tests.cli.questions import STORE, ask, sayso, stored
from tests.terminal import Terminal

from sayso import ApprovalRequest
from sayso.policy.scopes import call_scope, tool_scope


@pytest.mark.parametrize(("command", "status"), [("approve", "approved"), ("deny", "denied")])
def test_each_request_gets_its_own_answer_and_line(place: Place, command: str, status: str) -> None:
    asked = [place.ask(args={"number": number}) for number in range(3)]
    names = [each.id[-10:] for each in asked]
    done = place.sayso(command, *names, names[0], "-m", "together", "--who", "ann")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line[:6] for line in done.stdout.splitlines() if not line.startswith(" ")] == [
        each.id[-6:] for each in asked
    ]
    for each in asked:
        found = place.get(each)
        assert found.decision is not None
        assert (found.status, found.decision.note, found.decision.who) == (status, "together", "ann")


@pytest.mark.parametrize(("wrong", "code"), [("beef" * 8, 3), ("no id", 3), ("abc", 4), ("AMBIGUOUS", 4)])
def test_if_one_id_is_unknown_or_ambiguous_nothing_is_answered(place: Place, wrong: str, code: int) -> None:
    asked = [place.ask(), place.ask()]
    wrong = asked[0].id[:5] if wrong == "AMBIGUOUS" else wrong
    for command in ("approve", "deny", "show"):
        done = place.sayso(command, asked[0].id, asked[1].id, wrong)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert {place.get(each).status for each in asked} == {"open"}


def test_what_is_not_taken_is_told_beside_what_is_and_the_first_such_gives_the_code(place: Place) -> None:
    answered, first, gone, last = (place.ask(args={"number": number}) for number in range(4))
    place.answer(answered, yes=False, who="bob")
    place.do(lambda store: store.close(gone.id, "withdrawn", None, now=0.0))
    done = place.sayso("approve", first.id, gone.id, answered.id, last.id)
    assert done.returncode == 6
    assert done.stderr == "Error: 2 of 4 answers were not taken\n"
    told = " ".join(done.stdout.split())
    for request, words in (
        (first, "Approved: pay of"),
        (gone, "your answer was not taken: the request is withdrawn"),
        (answered, "your answer was not taken: the request was already denied by bob"),
        (last, "Approved: pay of"),
    ):
        assert f"{request.id[-6:]} {words}" in told, told
    assert [place.get(each).status for each in (answered, first, gone, last)] == [
        "denied", "approved", "withdrawn", "approved",
    ]  # fmt: skip
    again = place.sayso("deny", answered.id, gone.id, "--json")
    facts = json.loads(again.stdout)
    assert (again.returncode, [each["taken"] for each in facts]) == (5, [False, False])
    assert "already denied by bob" in facts[0]["problem"]


def test_one_id_is_an_object_and_several_are_a_list(place: Place) -> None:
    one, two = place.ask(), place.ask()
    assert place.facts("show", one.id)["id"] == one.id
    assert [each["id"] for each in place.facts("show", two.id, one.id)] == [two.id, one.id]
    shown = place.sayso("show", two.id, one.id).stdout
    assert shown.index(two.id) < shown.index(one.id)
    assert place.facts("approve", one.id)["taken"] is True
    assert [(each["taken"], each["request"]["id"]) for each in place.facts("deny", two.id, two.id)] == [(True, two.id)]


def test_an_answer_that_covers_another_of_them_counts_for_both(place: Place) -> None:
    def alike(number: int) -> ApprovalRequest:
        args = {"number": number}
        return place.ask(args=args, scopes=(call_scope("pay", args), tool_scope("pay")))

    first, second = alike(1), alike(2)
    done = place.sayso("approve", first.id, second.id, "--scope", "tool", "--always")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert {place.get(each).status for each in (first, second)} == {"approved"}


def test_edited_arguments_are_for_one_call() -> None:
    first, second = ask(), ask()
    done = sayso("approve", first.id, second.id, "--args", "-", given='{"amount": 1}')
    assert (done.exit_code, "--args are the arguments of one call" in done.stderr) == (2, True)
    assert {stored(each).status for each in (first, second)} == {"open"}


def test_in_a_terminal_all_calls_are_shown_before_the_first_is_answered() -> None:
    first, second = ask({"amount": 1}), ask({"amount": 2})
    screen, code = Terminal([sys.executable, "-m", "sayso", "approve", first.id, second.id, "--store", STORE]).end()
    assert code == 0
    assert screen.index("pay(amount=1)") < screen.index("pay(amount=2)") < screen.index("Approved: pay")
