"""`sayso stats`: the numbers of the page's overview, in a terminal and as JSON, over a file, a database and a hub."""

import re

import pytest
from tests.cli.places import Place
from tests.cli.questions import ask, sayso

from sayso import ApprovalDecision
from sayso.core.approvers import Approvers

HOUR = 3600


def fill(place: Place) -> None:
    """Six requests: of two tools, two agents and three people."""
    for number, (yes, who, after) in enumerate([(True, "ann", 10), (True, "Ann", 30), (False, "bob", 20)]):
        place.answer(place.ask("pay", args={"n": number}, agent_path=("coder",)), yes=yes, who=who, after=after)
    place.ask("pay", agent_path=("coder",))
    gone = place.ask("mail", agent_path=("report", "payer"))
    place.do(lambda store: store.close(gone.id, "withdrawn", None, now=gone.asked_at))
    place.ask("mail", ago=30 * HOUR)


def test_the_numbers_are_by_tool_agent_and_person(place: Place) -> None:
    fill(place)
    found = place.facts("stats")
    assert found["by_tool"] == [
        {"tool": "pay", "asked": 4, "approved": 2, "denied": 1, "expired": 0, "withdrawn": 0, "p50": 20.0, "p90": 30.0},
        {
            "tool": "mail",
            "asked": 1,
            "approved": 0,
            "denied": 0,
            "expired": 0,
            "withdrawn": 1,
            "p50": None,
            "p90": None,
        },
    ]
    assert [(each["agent"], each["asked"], each["p50"]) for each in found["by_agent"]] == [
        ("coder", 4, 20.0), ("report > payer", 1, None),
    ]  # fmt: skip
    people = [(each["who"].lower(), each["answered"], each["approved"], each["denied"]) for each in found["by_person"]]
    assert people == [("ann", 2, 2, 0), ("bob", 1, 0, 1)]
    assert found["busiest"]["asked"] in {1, 2, 3, 4, 5}  # an hour may have begun in between
    assert sum(each["asked"] for each in found["by_hour"]) == 5
    assert found["complete"]
    assert sum(each["asked"] for each in place.facts("stats", "--since", "2d")["by_tool"]) == 6


def test_the_terminal_shows_a_row_for_each(place: Place) -> None:
    fill(place)
    told = place.sayso("stats", "--since", "7d").stdout
    assert re.search(r"^6 asked since 20\d\d-", told)
    assert "2 allowed, 1 denied, 0 expired, 1 withdrawn, 2 open" in told
    assert "an answer took 20s in the median, 30s at the 90th percentile, 30s at most" in told
    assert re.search(r"^busiest hour: 20\d\d-.*, with \d asked$", told, re.MULTILINE)
    rows = {line.split("  ")[0]: line.split()[-7:] for line in told.splitlines()}
    assert rows["by tool"] == ["asked", "yes", "no", "expired", "withdrawn", "median", "p90"]
    assert rows["pay"] == ["4", "2", "1", "0", "0", "20s", "30s"]
    assert rows["report > payer"] == ["1", "0", "0", "0", "1", "-", "-"]
    assert rows["(no name)"][:2] == ["1", "0"]
    assert rows["bob"][-5:] == ["1", "0", "1", "20s", "20s"]


def test_every_yes_of_several_people_counts_and_nobody_is_no_person(place: Place) -> None:
    votes = tuple(ApprovalDecision(approved=True, who=who, decided_at=9.0) for who in ("ann", "bob"))
    place.ask(approvers=Approvers(count=2), votes=votes, decision=votes[1], status="approved", asked_at=8.0)
    request = place.ask()
    nobody = ApprovalDecision(approved=False, note="there is no terminal", unattended=True)
    place.do(lambda store: store.close(request.id, "denied", nobody, now=request.asked_at))
    assert place.facts("stats")["by_person"] == []
    waits = place.ask(approvers=Approvers(count=2), votes=votes[:1])
    assert [each["who"] for each in place.facts("stats", "--since", "8d")["by_person"]] == ["ann"]
    assert place.get(waits).status == "open"


@pytest.mark.parametrize("columns", ["20", "40", "100"])
def test_it_fits_every_width_and_cuts_no_number(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ask({"amount": 5}, tool="a tool \x1b[2J with a very long name " * 9)
    told = sayso("stats").stdout
    assert max(map(len, told.splitlines())) <= int(columns)
    assert "\x1b" not in told
    assert "asked" in told.split("by tool")[1]


def test_many_rows_are_counted_and_the_rest_is_named() -> None:
    for number in range(14):
        ask(tool=f"tool_{number:02}")
    told = sayso("stats").stdout
    assert "… and 2 more: --json has all" in told
    assert (told.count("tool_"), told.count("tool_13")) == (12, 0)


def test_nothing_asked_is_said_so(place: Place) -> None:
    place.ask(ago=3 * 24 * HOUR)
    assert re.fullmatch(r"Nothing was asked since 20\d\d-.*\.\n", place.sayso("stats").stdout)


@pytest.mark.parametrize("since", ["32d", "1999-01-01", "soon"])
def test_a_time_that_cannot_be_counted_is_wrong_usage(since: str) -> None:
    ask()
    done = sayso("stats", "--since", since)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--since" in done.stderr
