"""The public doubles, as users of the library meet them."""

import asyncio

import pytest
from anyio.lowlevel import checkpoint

from sayso import ApprovalController, ApprovalDecision, Policy, ToolCall, requires_approval
from sayso.core.model import Approved, Denied
from sayso.testing import FixedClock, ScriptedChannel, idle_rules

pytest_plugins = ["pytester"]

A_USERS_TEST = """
    from sayso import requires_approval

    pytest_plugins = ["sayso.testing"]

    @requires_approval
    def pay(amount):
        return amount

    def test_foreseen(approver):
        approver.approve("pay")
        assert pay(5) == 5

    def test_not_foreseen(approver):
        try:
            pay(5)
        except PermissionError:
            pass

    def test_nobody_asked(approver):
        approver.approve("pay")

    def test_after_the_fixture_nothing_is_guarded():
        assert pay(5) == 5
"""


def test_the_approver_fixture_works_in_a_users_own_suite_and_fails_what_was_not_scripted(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(A_USERS_TEST)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=4, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*nobody foresaw the question about pay(amount=5); left in the script: nothing*",
            "*nobody asked for the answer: yes to pay*",
        ],
        consecutive=False,
    )


async def test_scripted_answers_go_to_the_tool_they_are_for_in_order() -> None:
    person = ScriptedChannel()
    person.approve("b")
    person.deny("a", note="no a")
    person.approve()
    controller = ApprovalController(policy=Policy(default="required"), channels=[person])
    outcomes = [await controller.settle(ToolCall(tool=tool)) for tool in ("a", "b", "c", "d")]
    assert [isinstance(outcome, Approved) for outcome in outcomes] == [False, True, True, False]
    assert [request.tool_name for request in person.unforeseen] == ["d"]


async def test_a_question_that_was_not_foreseen_is_refused() -> None:
    person = ScriptedChannel()
    outcome = await ApprovalController(policy=Policy(default="required"), channels=[person]).settle(ToolCall(tool="a"))
    assert isinstance(outcome, Denied)
    assert outcome.note == "the test did not foresee this question"


def test_answers_given_at_the_start_are_used_in_order() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True), ApprovalDecision(approved=False))
    controller = ApprovalController(channels=[person])

    @requires_approval
    def pay() -> str:
        return "paid"

    with controller.activated():
        assert pay() == "paid"
        with pytest.raises(PermissionError):
            pay()
    assert person.unused == []


async def test_a_wait_that_is_due_already_ends_once_though_the_clock_goes_on_meanwhile() -> None:
    clock = FixedClock()

    async def wait() -> None:
        async with clock.until(clock.now()):
            try:
                await asyncio.Event().wait()
            finally:
                clock.advance(1.0)
                await checkpoint()  # the loop may end the wait now, though it is ending by itself

    with pytest.raises(TimeoutError):
        await wait()


def test_a_rule_about_no_tool_of_the_agent_is_told_with_the_nearest_name() -> None:
    policy = Policy({"pya": "none", "look": "none", "web_*": "required"})
    assert idle_rules(policy, ["pay", "look"]) == [
        "tools.pya is about none of the tools; did you mean 'pay'?",
        "tools.web_* is about none of the tools",
    ]
    assert idle_rules(policy, ["pya", "look", "web_search"]) == []
