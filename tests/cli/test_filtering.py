"""Filters of the lists: over a file, a database and a hub they find the same, and nothing is hidden silently."""

import sys
from datetime import datetime
from pathlib import Path

import pytest
from tests.cli.places import Place
from tests.cli.questions import ask, sayso
from tests.terminal import Terminal

DAY = 86_400


def test_what_waits_is_filtered_by_tool_agent_words_people_and_time(place: Place) -> None:
    pay = place.ask("pay", args={"to": "Ann"}, agent_path=("report", "payer"), ago=3 * DAY)
    push = place.ask("git_push", agent_path=("coder",))
    pull = place.ask("git_pull", agent_path=("coder",))
    assert place.ids() == [pay.id, push.id, pull.id]
    assert place.ids("--tool", "GIT_*") == place.ids("--agent", "coder") == place.ids("--since", "1d")
    assert place.ids("--since", "1d") == [push.id, pull.id]
    assert place.ids("--agent", "payer") == place.ids("--text", "ann to") == place.ids("--until", "1d") == [pay.id]
    assert place.ids("--tool", "git_*", "--text", "pull") == [pull.id]
    assert place.ids("--tool", "git") == [], "a name is meant whole"
    assert place.ids("--who", "bob") == []
    told = place.sayso("pending", "--tool", "git_p*l").stdout
    assert (told.count("git_pull"), told.count("\n")) == (1, 2)


def test_a_filter_that_matches_nothing_is_named_with_the_number_of_the_others(place: Place) -> None:
    place.answer(place.ask("pay"), yes=True, who="ann")
    assert place.sayso("pending", "--tool", "pay").stdout == "Nothing waits for an answer.\n"
    place.ask("mail")
    told = place.sayso("pending", "--tool", "pay").stdout
    assert told == "Nothing that waits matches --tool pay; 1 other waits.\n"
    place.ask("mail")
    told = place.sayso("pending", "--text", "two words", "--who", "ann").stdout
    assert told == "Nothing that waits matches --text 'two words' --who ann; 2 others wait.\n"
    told = place.sayso("pending", "--all", "--tool", "p").stdout
    assert told == "No request matches --tool p; 3 were searched.\n"
    assert place.ids("--tool", "p") == []


def test_closed_requests_are_searched_by_person_and_date_however_many_came_later(place: Place) -> None:
    old, other = place.ask("refund", ago=40 * DAY), place.ask("refund", ago=30 * DAY)
    place.answer(old, yes=True, who="Bob")
    place.answer(other, yes=False, who="cem")
    place.ask_many(120)
    assert place.ids("--all", "--tool", "refund") == [old.id, other.id]
    assert place.ids("--all", "--who", "bob") == [old.id]
    assert place.ids("--all", "--since", "35d", "--until", "20d") == [other.id]
    day = datetime.fromtimestamp(old.asked_at + DAY).astimezone().date().isoformat()
    assert place.ids("--all", "--until", day) == [old.id]
    assert len(place.ids("--all")) == 100
    assert place.facts("show", old.id[-8:])["decision"]["who"] == "Bob", "what is found can be shown by its id"


def test_a_filter_with_control_characters_does_nothing_to_the_terminal() -> None:
    ask()
    assert r"--tool \x1b[2Jx; 1 other waits." in sayso("pending", "--tool", "\x1b[2Jx").stdout


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none_is_wrong_usage(option: str) -> None:
    ask()
    done = sayso("pending", option, "soon")
    assert (done.exit_code, "'soon' is not a time" in done.stderr) == (2, True)


def test_a_long_search_shows_how_far_it_has_come_and_leaves_no_trace(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "state.db"))
    rare = place.ask("rare", ago=DAY)
    place.ask_many(10_050)
    terminal = Terminal([sys.executable, "-m", "sayso", "pending", "--all", "--tool", "rare", "--store", place.where])
    screen, code = terminal.end()
    assert code == 0
    assert "10,000 requests searched…".encode() in terminal.raw
    assert screen.startswith(f"{rare.id[-6:]}  1d old, no end: an agent\n        rare(amount=5)")
    assert "searched" not in screen
