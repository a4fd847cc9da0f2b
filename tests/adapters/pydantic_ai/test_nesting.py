"""Agents that call agents: one controller, and every question says by which way it came."""

from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.pydantic_ai import Approvals

PAY: Call = ("pay", {"amount": 5})


class Person:
    """Refuses what one agent wants, approves what the others want."""

    def __init__(self, refused: str = "") -> None:
        self.asked: list[tuple[tuple[str, ...], str]] = []
        self._refused = refused

    def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append((request.agent_path, request.tool_name))
        return ApprovalDecision(approved=request.agent_path[-1] != self._refused)


def three(till: Till, outer: Approvals, middle: Approvals, inner: Approvals) -> Agent[None, Any]:
    """Three agents, each of which pays and then calls the next one."""
    last = Agent(Scripted([PAY]).model, name="inner", tools=[till.pay], capabilities=[inner])
    second = Agent(Scripted([PAY], [("ask_inner", {})]).model, name="middle", tools=[till.pay], capabilities=[middle])

    @second.tool_plain
    async def ask_inner() -> str:
        return (await last.run("go")).output

    first = Agent(Scripted([PAY], [("ask_middle", {})]).model, name="outer", tools=[till.pay], capabilities=[outer])

    @first.tool_plain
    async def ask_middle() -> str:
        return (await second.run("go")).output

    return first


@pytest.mark.proves("H17")
async def test_three_agents_deep_one_controller_is_asked_and_knows_the_way(till: Till) -> None:
    person = Person(refused="middle")
    controller = ApprovalController(policy=Policy({"pay": "required"}), approval_callback=person)
    await three(till, Approvals(controller), Approvals(), Approvals(controller)).run("go")
    assert person.asked == [
        (("outer",), "pay"),
        (("outer", "middle"), "pay"),
        (("outer", "middle", "inner"), "pay"),
    ]
    assert till.ran == [("pay", 5), ("pay", 5)], "the refusal reached the agent in the middle, and no other"


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("outer", "inner", "asked", "paid"),
    [
        ("none", "required", 1, 3),
        ("none", "blocked", 0, 2),
        ("required", "none", 3, 3),
        ("blocked", "none", 0, 0),
    ],
)
async def test_a_nested_agent_can_tighten_the_policy_above_it_and_never_loosen_it(
    till: Till, outer: str, inner: str, asked: int, paid: int
) -> None:
    person = Person()
    never = Person(refused="inner")
    controller = ApprovalController(policy=Policy({"pay": outer}), approval_callback=person)
    stricter = Approvals(Policy({"pay": inner}), approval_callback=never)
    await three(till, Approvals(controller), Approvals(), stricter).run("go")
    assert len(person.asked) == asked
    assert len(till.ran) == paid
    assert never.asked == [], "whom the nested agent would ask is not asked"


async def test_an_agent_that_is_run_by_nobody_s_tool_asks_its_own_controller(till: Till) -> None:
    persons = [Person(), Person()]
    for person in persons:
        controller = ApprovalController(policy=Policy({"pay": "required"}), approval_callback=person)
        agent = Agent(Scripted([PAY]).model, name="alone", tools=[till.pay], capabilities=[Approvals(controller)])
        with ApprovalController(mode="auto_deny").activated():
            await agent.run("go")
    assert [person.asked for person in persons] == [[(("alone",), "pay")]] * 2


@pytest.mark.proves("R31", "R44")
async def test_a_marked_function_asks_once_through_the_agent_s_controller(till: Till) -> None:
    from sayso import requires_approval  # noqa: PLC0415

    @requires_approval
    def pay(amount: int) -> str:
        return till.pay(amount)

    def pay_twice(ctx: RunContext[None], amount: int) -> str:
        return pay(amount) + pay(amount)

    person = Person()
    approvals = Approvals(Policy(), approval_callback=person)
    script = Scripted([PAY], [("pay_twice", {"amount": 1})])
    await Agent(script.model, name="a", tools=[pay, pay_twice], capabilities=[approvals]).run("go")
    assert till.ran == [("pay", 5), ("pay", 1), ("pay", 1)]
    assert len(person.asked) == 3, "once as a tool, and once for each call from inside another tool"
