"""`sayso remembered`: what stands for later calls can be seen and taken back."""

import json
from typing import Any

import pytest
from tests.cli.questions import ask, sayso, within

from sayso import ToolCall
from sayso.core.model import Approved, Pending


def remember(*options: str, amount: int = 5, command: str = "approve") -> dict[str, Any]:
    """Answer a question so that it is remembered, and return what is."""
    done = sayso(command, ask({"amount": amount}).id, "--json", "--who", "ann", *(options or ("--always",)))
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["remembered"][0]


def known() -> list[dict[str, Any]]:
    return json.loads(sayso("remembered", "list", "--json").stdout)


def test_what_is_remembered_is_listed_with_who_said_it_and_how_long_it_stands() -> None:
    first = remember("--always", "--for", "2h")
    remember("--uses", "3", "-m", "small sums", amount=6)
    remember("--session", amount=7, command="deny")
    told = sayso("remembered", "list").stdout
    assert told.startswith(f"{first['id'][-6:]}  yes to pay: this exact call of pay\n        pay(amount=5)\n")
    for words in ("in every session, for another 1h; by ann (command line) at 20", "in the session s1, 3 times more"):
        assert words in told.replace("\n        ", " "), told
    assert "note: small sums" in told
    assert "no to pay" in told
    assert [each["decision"]["approved"] for each in known()] == [True, True, False]


def test_nothing_remembered_is_said_so() -> None:
    ask()
    assert sayso("remembered", "list").stdout == "Nothing is remembered.\n"
    assert known() == []
    assert sayso("remembered", "revoke", "--all").stdout == "Nothing was remembered, so nothing was revoked.\n"


def test_what_is_taken_back_is_asked_about_again_and_the_audit_says_who_took_it() -> None:
    kept, gone = remember(amount=5), remember(amount=6)
    done = sayso("remembered", "revoke", gone["id"][-6:], "--who", "carla")
    assert (done.exit_code, done.stdout) == (0, "revoked  pay: this exact call of pay\n")
    assert [each["id"] for each in known()] == [kept["id"]]
    calls = [ToolCall(tool="pay", args={"amount": amount}, session="s1") for amount in (5, 6)]
    outcomes = [within(lambda controller, call=call: controller.review(call)) for call in calls]
    assert [type(each) for each in outcomes] == [Approved, Pending]
    entry = json.loads(sayso("audit", "list", "--step", "revoked", "--json").stdout)
    assert f"{gone['id']} is no longer remembered: revoked by carla" in entry["reason"]


def test_all_of_it_can_be_taken_back_at_once() -> None:
    remember(amount=5)
    remember(amount=6)
    done = sayso("remembered", "revoke", "--all", "--json")
    assert len(json.loads(done.stdout)) == 2
    assert known() == []


@pytest.mark.parametrize(("wrong", "code"), [("beef" * 8, 3), ("no id", 3), ("abc", 4)])
def test_if_one_id_names_nothing_then_nothing_is_taken_back(wrong: str, code: int) -> None:
    each = remember()
    done = sayso("remembered", "revoke", each["id"], wrong)
    assert (done.exit_code, done.stderr.count("\n")) == (code, 1), done.stderr
    assert [one["id"] for one in known()] == [each["id"]]


def test_an_ambiguous_id_takes_nothing_back_and_lists_the_candidates() -> None:
    first, second = remember(amount=5), remember(amount=6)
    done = sayso("remembered", "revoke", first["id"][:5])
    assert done.exit_code == 4
    assert all(each["id"][-6:] in done.stderr for each in (first, second))
    assert len(known()) == 2


@pytest.mark.parametrize("arguments", [[], ["--all", "abcdef"]])
def test_what_to_take_back_has_to_be_said_in_one_way(arguments: list[str]) -> None:
    remember()
    assert sayso("remembered", "revoke", *arguments).exit_code == 2
    assert len(known()) == 1


def test_the_list_is_searched_by_tool_words_person_and_time() -> None:
    first = remember(amount=5)
    second = remember("--always", "-m", "small SUMS", amount=6)

    def found(*options: str) -> list[str]:
        return [each["id"] for each in json.loads(sayso("remembered", "list", *options, "--json").stdout)]

    assert found("--tool", "p*") == found("--who", "ANN") == found("--agent", "payer") == [first["id"], second["id"]]
    assert found("--text", "small sums") == [second["id"]]
    assert found("--text", "5") == [first["id"]], "in the arguments of the request"
    assert found("--tool", "mail") == found("--since", "2099-01-01") == []
    told = sayso("remembered", "list", "--tool", "mail").stdout
    assert told == "Nothing that is remembered matches --tool mail; 2 others are.\n"
