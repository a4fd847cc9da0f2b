"""Calls of an agent of the Claude Agent SDK pass the controller: the real Claude Code, with a scripted model."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_agent_sdk import ClaudeSDKClient, create_sdk_mcp_server, tool
from tests.adapters.claude_agent.agent_lab import SECONDS, AgentLab
from tests.clients.loopback_model import ModelCall

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.claude_agent import Approvals
from sayso.core import audit
from sayso.errors import ConfigurationError

YES = ApprovalDecision(approved=True, who="ann")
NO = ApprovalDecision(approved=False, note="not today", who="ann")
RULES: dict[str, Any] = {
    "default": "required",
    "shell": {
        "default": "required",
        "rules": [{"pattern": "echo free", "approval": "none"}, {"pattern": "echo bad", "approval": "blocked"}],
    },
    "sandbox": {"zones": {"work": {"root": ".", "approval": {"write": "none"}}}},
}


class Person:
    """Gives the same answer to each question, and notes what was asked."""

    def __init__(self, answer: ApprovalDecision = YES) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        return self.answer


def approvals(lab: AgentLab, person: Person, **settings: Any) -> Approvals:
    return Approvals(Policy.from_dict(RULES, base=lab.project), approval_callback=person, **settings)


async def test_what_the_policy_settles_asks_nobody(lab: AgentLab) -> None:
    person = Person()
    note = ModelCall("Write", {"file_path": str(lab.project / "note.txt"), "content": "x"})
    free = ModelCall("Bash", {"command": "echo free", "description": "a test"})
    await lab.run(approvals(lab, person).guard(lab.options()), [free], [lab.shell("bad")], [note])
    assert (lab.ran, person.asked) == ([], [])
    assert "free" in lab.told
    assert "blocked" in lab.told
    assert (lab.project / "note.txt").read_text() == "x"


async def test_an_approved_call_runs_once_as_it_was_shown_and_is_recorded(lab: AgentLab) -> None:
    person = Person()
    guard = approvals(lab, person)
    await lab.run(guard.guard(lab.options()), [lab.shell("asked")])
    (asked,) = person.asked
    assert (asked.tool_name, dict(asked.args)) == ("shell", {"command": "echo asked >> ran.txt"})
    assert lab.ran == ["asked"]
    await guard.controller.flush()
    steps = [each["step"] async for each in audit.entries(guard.controller.store)]
    assert steps == ["asked", "approved", "claimed", "returned"]


async def test_a_refusal_with_its_note_is_told_to_the_model(lab: AgentLab) -> None:
    await lab.run(approvals(lab, Person(NO)).guard(lab.options()), [lab.shell("asked")])
    assert lab.ran == []
    assert "not today" in lab.told


async def test_an_edit_runs_in_the_place_of_the_call_and_the_model_is_told(lab: AgentLab) -> None:
    edit = ApprovalDecision(approved=True, override_args={"command": "echo edited >> ran.txt"}, note="mine", who="ann")
    await lab.run(approvals(lab, Person(edit)).guard(lab.options()), [lab.shell("asked")])
    assert lab.ran == ["edited"]
    assert "A person changed this call before it ran" in lab.told
    assert "mine" in lab.told


async def test_a_tool_in_this_process_is_named_by_its_server(lab: AgentLab) -> None:
    paid: list[int] = []

    @tool("pay", "Pay somebody.", {"amount": int})
    async def pay(args: dict[str, Any]) -> dict[str, Any]:
        paid.append(args["amount"])
        return {"content": [{"type": "text", "text": "paid"}]}

    person = Person()
    servers: Any = {"bank": create_sdk_mcp_server("bank", tools=[pay])}
    options = lab.options(mcp_servers=servers, allowed_tools=["mcp__bank__pay"])
    await lab.run(approvals(lab, person).guard(options), [ModelCall("mcp__bank__pay", {"amount": 5})])
    assert [(each.tool_name, dict(each.args)) for each in person.asked] == [("bank.pay", {"amount": 5})]
    assert paid == [5]


async def test_a_rule_that_fails_is_a_refusal(lab: AgentLab) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("out of order")

    guard = Approvals(Policy({"shell": {"needs_approval": broken}}), approval_callback=Person())
    await lab.run(guard.guard(lab.options()), [lab.shell("asked")])
    assert lab.ran == []
    assert "Not executed" in lab.told


async def test_a_deferred_call_stops_the_run_and_runs_once_when_it_is_resumed(lab: AgentLab, tmp_path: Path) -> None:
    def controller() -> ApprovalController:
        return ApprovalController(
            mode="defer", policy=Policy.from_dict(RULES, base=lab.project), store=tmp_path / "s.db"
        )

    async with controller() as first:
        stopped = await lab.run(Approvals(first).guard(lab.options()), [lab.shell("asked")])
    assert (stopped.stop_reason, lab.ran) == ("tool_deferred", [])
    async with controller() as second:
        (request,) = await second.pending()
        await second.answer(request.id, YES)
        resumed = Approvals(second).guard(lab.options(resume=stopped.session_id))
        await lab.run(resumed, prompt="")
        assert lab.ran == ["asked"]
        answered = await second.store.get(request.id)
        assert answered is not None
        assert answered.state == "used, returned"


async def test_a_question_ends_with_the_agent_that_asked(lab: AgentLab, tmp_path: Path) -> None:
    controller = ApprovalController(policy=Policy.from_dict(RULES, base=lab.project), store=tmp_path / "s.db")
    lab.model.script.turns = [[lab.shell("asked")]]
    asked: list[str] = []
    with anyio.fail_after(SECONDS):
        async with ClaudeSDKClient(Approvals(controller).guard(lab.options())) as client:
            await client.query("go")
            asked.append((await first_question(controller)).id)
        closed = await controller.wait(asked[0], timeout=SECONDS)
    assert (closed.status, lab.ran) == ("withdrawn", [])
    await controller.aclose()


async def first_question(controller: ApprovalController) -> ApprovalRequest:
    while True:
        cursor, _ = await controller.store.changes()
        if found := await controller.pending():
            return found[0]
        await controller.store.changed(cursor)


def test_a_time_to_wait_has_to_be_one() -> None:
    with pytest.raises(ConfigurationError, match="hold"):
        Approvals(Policy({}), hold=0)
