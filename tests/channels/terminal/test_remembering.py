"""Answers that stand for later calls: for what, how long, how often, and what else they answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.channels.terminal.asking import ask
from tests.terminal import KEYS

from sayso import ApprovalController, Policy
from sayso.channels.display.remember_choices import RememberChoices, also_allowed, lifetimes
from sayso.core.model import ApprovalRequest, ToolCall
from sayso.policy import scopes

HOUR, DAY = 3600.0, 86_400.0


def test_an_answer_stands_as_long_and_as_often_as_is_chosen() -> None:
    terminal = ask()
    terminal.press("a")
    terminal.wait_for("[1] allow in this session, any number of times")
    assert "and nothing else" in terminal.screen
    terminal.write("t")
    terminal.wait_for("[1] allow for an hour, in every session, any number of times")
    terminal.write("u")
    terminal.wait_for("in every session, once more")
    terminal.write("u")
    terminal.wait_for("in every session, 3 times more")
    terminal.press("1", at="[u] how often")
    screen, _ = terminal.end()
    assert "RAN: tea costs 4" in screen
    assert "remembered: call None 3600 3" in screen


def test_every_time_and_every_number_comes_round() -> None:
    terminal = ask()
    terminal.press("a")
    terminal.wait_for("allow in this session")
    for words in ("for an hour,", "for a day,", "for a week,", "for 30 days,", "for ever,", "in this session,"):
        terminal.write("t")
        terminal.wait_for(f"[1] allow {words}")
    for words in ("once more", "3 times more", "10 times more", "any number of times"):
        terminal.write("u")
        terminal.wait_for(words)
    terminal.press("b", at="[b] back")
    terminal.press("n")
    terminal.end()


def policy(**remember: Any) -> dict[str, Any]:
    return {"default": "none", "tools": {"set_price": {"approval": "required", "scope": "tool"}}, "remember": remember}


def test_nothing_stands_longer_than_the_rules_allow_and_the_words_say_so() -> None:
    terminal = ask(policy=policy(max="2h"))
    terminal.press("a")
    terminal.wait_for("[1-2] allow in this session, for 2 hours at most")
    terminal.write("t")
    terminal.wait_for("allow for an hour,")
    terminal.write("t")
    terminal.wait_for("allow for 2 hours, in every session; the rules allow no longer")
    terminal.press("2", at="[u] how often")
    assert "remembered: tool None 7200 None" in terminal.end()[0]


@pytest.mark.parametrize(
    ("longest", "seconds"),
    [
        (None, [None, HOUR, DAY, 7 * DAY, 30 * DAY, None]),
        (30 * DAY, [None, HOUR, DAY, 7 * DAY, 30 * DAY]),
        (DAY, [None, HOUR, DAY]),
        (90.0, [None, 90.0]),
    ],
)
def test_what_can_be_chosen_ends_with_the_longest_that_is_allowed(
    longest: float | None, seconds: list[float | None]
) -> None:
    found = lifetimes(longest)
    assert [each.seconds for each in found] == seconds
    assert found[0].remember == "session"
    assert ("at most" in found[0].words) is (longest is not None)


def test_what_an_answer_would_answer_too_is_said_before() -> None:
    terminal = ask(
        policy=policy(), args=[{"item": "tea", "price": 4}, {"item": "tea", "price": 4}, {"item": "milk", "price": 1}]
    )
    terminal.wait_for("1 of 3")
    terminal.press("a")
    terminal.wait_for("[1] also answers 1 more open request")
    assert "[2] also answers 2 more open requests\n" in terminal.screen
    assert "including calls that look nothing like this one" in terminal.screen
    terminal.write("u")
    terminal.wait_for("also answers", gone=True)  # one that is counted answers nothing else
    for _ in range(3):
        terminal.write("u")
        terminal.wait_for(["3 times", "10 times", "any number"][_])
    terminal.press("2", at="[u] how often")
    screen, _ = terminal.end()
    assert screen.count("RAN:") == 3
    assert "Allowed, and remembered. The same answer goes to 2 more open requests." in screen
    assert "answered elsewhere" not in screen, "the questions that go away were answered here"


def ask_elsewhere(store: Path, count: int) -> None:
    async def review() -> None:
        rules = Policy.from_dict(policy())
        async with ApprovalController(policy=rules, store=store, mode="defer", session="other") as controller:
            for number in range(count):
                await controller.review(ToolCall(tool="set_price", args={"item": "oil", "price": number}))

    asyncio.run(review())


def test_what_was_left_and_what_other_processes_ask_is_counted_too(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    terminal = ask(policy=policy(), store=str(store), args=[{"item": "tea", "price": 4}, {"item": "milk", "price": 1}])
    terminal.wait_for("1 of 2")
    terminal.press("l")
    terminal.wait_for("2 of 2")
    terminal.press("a")
    terminal.wait_for("[2] also answers 1 more open request\n")
    terminal.press("b", at="[b] back")
    ask_elsewhere(store, 2)
    terminal.press("a")
    terminal.wait_for("[2] also answers 1 more open request\n")
    terminal.write("t")
    terminal.wait_for("[2] also answers 3 more open requests\n")
    terminal.press("2", at="in every session")
    screen, _ = terminal.end()
    assert "The same answer goes to 3 more open requests." in screen
    assert screen.count("RAN:") == 2


def test_what_other_people_must_answer_is_not_counted() -> None:
    scope = scopes.call_scope("pay", {}, None)
    mine = ApprovalRequest(tool_name="pay", id="1", scopes=(scope,))
    theirs = ApprovalRequest(tool_name="pay", id="2", scopes=(scope,), asked_by="bob")
    alike = ApprovalRequest(tool_name="pay", id="3", scopes=(scope,))
    elsewhere = ApprovalRequest(tool_name="pay", id="4", scopes=(scope,), project="other")
    approval = RememberChoices(mine, list[ApprovalRequest]).approval_for(scope)
    assert approval.also_covers([mine, theirs, alike, elsewhere]) == [alike]


def test_what_must_not_stand_cannot_be_made_to() -> None:
    rules = {"default": "none", "tools": {"set_price": {"approval": "required", "remember": False}}}
    terminal = ask(policy=rules)
    terminal.press("a")
    terminal.wait_for("The rule does not let an answer be remembered.")
    terminal.wait_for(KEYS)
    terminal.press("n")
    terminal.end()


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (None, "and nothing else"),
        ({"path": "a"}, "whatever the other arguments are"),
        ({"path": "A", "text": "x"}, "whatever the other arguments are"),  # another path may have the same payload
        ({"path": "a", "text": "x", "fingerprint": "fa60"}, "and nothing else"),
    ],
)
def test_what_else_a_remembered_yes_allows_is_said_of_the_arguments_that_may_differ(
    payload: dict[str, Any] | None, words: str
) -> None:
    request = ApprovalRequest(tool_name="write", args={"path": "a", "text": "x"}, payload=payload)
    assert also_allowed(request, scopes.call_scope("write", request.args, payload)) == words
