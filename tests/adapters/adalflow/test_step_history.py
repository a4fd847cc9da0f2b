"""What an AdalFlow agent was asked and did before a call, as its approver reads it."""

# AdalFlow has no types of its own.
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false

from typing import Any

import pytest
from adalflow.components.agent.runner import Runner
from adalflow.components.memory.memory import ConversationMemory
from adalflow.core.func_tool import FunctionTool
from tests.adapters.adalflow.scripted import Till, agent_of, run

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.adalflow import ApprovalRunner, PermissionManager

WAYS = ["call", "acall", "astream"]
STEPS = [("look", {"what": "bill"}), ("pay", {"amount": 5})]


class Person:
    """Somebody who keeps what they read before each call, and says yes."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        self.read.append([f"{each.role}: {each.text}" for each in request.conversation])
        return ApprovalDecision(approved=True)


def manager_of(person: Person, **settings: Any) -> PermissionManager:
    policy = Policy({"pay": "required"}, default="none", **settings)
    return PermissionManager(controller=ApprovalController(policy=policy, approval_callback=person))


@pytest.mark.parametrize("way", WAYS)
def test_the_query_and_the_steps_before_are_shown_and_no_thought(way: str) -> None:
    person, till = Person(), Till()
    runner = ApprovalRunner(agent_of(till.tools(), *STEPS)[0], permission_manager=manager_of(person))
    run(runner, way)
    assert person.read == [["user: go", 'agent: calls look(what="bill")', "tool: look: saw bill"]]
    assert till.ran == [("look", "bill"), ("pay", 5, "ann")]


def test_the_turns_of_a_conversation_memory_are_shown_before_the_query() -> None:
    person, till = Person(), Till()
    memory = ConversationMemory()
    manager = manager_of(person, conversation={"messages": 20})
    for _ in range(2):
        agent = agent_of(till.tools(), ("pay", {"amount": 5}))[0]
        run(ApprovalRunner(agent, permission_manager=manager, conversation_memory=memory), "call")
    assert person.read == [["user: go"], ["user: go", "agent: done", "user: go"]]


def test_secrets_in_steps_are_not_shown_and_the_limit_holds() -> None:
    person, till = Person(), Till()

    def login(password: str) -> dict[str, str]:
        """Log in."""
        return {"token": "abcdefghijklmnop"}

    tools = [*till.tools(), FunctionTool(login)]
    steps = [("login", {"password": "hunter2"}), ("pay", {"amount": 5})]
    run(ApprovalRunner(agent_of(tools, *steps)[0], permission_manager=manager_of(person)), "call")
    assert person.read == [
        ["user: go", 'agent: calls login(password="[redacted]")', 'tool: login: {"token": "[redacted]"}']
    ]
    nothing = manager_of(person, conversation="none")
    run(ApprovalRunner(agent_of(tools, *steps)[0], permission_manager=nothing), "call")
    assert person.read[-1] == []


@pytest.mark.parametrize("way", ["call", "acall"])
def test_an_agent_inside_a_tool_shows_its_own_query_as_that_of_its_caller(way: str) -> None:
    person, till = Person(), Till()
    manager = manager_of(person)

    def ask() -> str:
        """Ask another agent."""
        inner = ApprovalRunner(agent_of(till.tools(), ("pay", {"amount": 7}))[0], permission_manager=manager)
        return str(inner.call({"input_str": "pay at once"}).answer)

    runner = ApprovalRunner(agent_of([FunctionTool(ask)], ("ask", {}))[0], permission_manager=manager)
    run(runner, way)
    assert person.read == [["caller: pay at once"]]


def test_adalflows_own_runner_shows_nothing_for_it_tells_nothing() -> None:
    person, till = Person(), Till()
    run(Runner(agent_of(till.tools(), *STEPS)[0], permission_manager=manager_of(person)), "acall")
    assert person.read == [[]]
