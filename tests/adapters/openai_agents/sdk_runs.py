"""Runs, people and states in the tests of the adapter for the OpenAI Agents SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agents import Agent, Runner, RunState
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import YES, Toolbox
from tests.adapters.openai_agents.driver import agent_of

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.openai_agents import Approvals
from sayso.core.model import ApprovalRequest

PAY: list[Response] = [[Call("pay", {"amount": 5})], "done"]


def person(
    decision: ApprovalDecision = YES, policy: Policy | None = None
) -> tuple[ApprovalController, list[ApprovalRequest]]:
    """Return a controller whose person always gives this answer, and what they were asked."""
    asked: list[ApprovalRequest] = []
    return ApprovalController(approval_callback=lambda each: asked.append(each) or decision, policy=policy), asked


def payer(tools: Toolbox, responses: Sequence[Response] = PAY, **marks: Any) -> Agent[Any]:
    """Return a bare agent that can pay."""
    return agent_of(responses, [tools.pay()], **marks)


def guarded(
    tools: Toolbox, controller: ApprovalController | None, responses: Sequence[Response] = PAY, **settings: Any
) -> Agent[Any]:
    """Return an agent behind `Approvals` that can pay."""
    return Approvals(controller, **settings).guard(payer(tools, responses))


async def answer(controller: ApprovalController, decision: ApprovalDecision = YES) -> None:
    """Answer all open questions."""
    for request in await controller.pending():
        await controller.answer(request.id, decision)


async def restored(agent: Agent[Any], state: Any, *, approve: bool = True, **how: Any) -> Any:
    """Return a state from its JSON, with a decision of the SDK's own about everything it waits for."""
    found = await RunState.from_json(agent, json.loads(json.dumps(state)))
    for each in found.get_interruptions():
        if approve:
            found.approve(each, **how)
        else:
            found.reject(each, **how)
    return found


async def stopped(agent: Agent[Any]) -> Any:
    """Run an agent until it stops; return the JSON of its state."""
    result = await Runner.run(agent, "go")
    assert result.interruptions
    return result.to_state().to_json()


def told(result: Any) -> str:
    """Return all that the model was told about its calls."""
    items = [each for each in result.to_input_list() if str(each.get("type")).endswith("call_output")]
    return " ".join(str(each["output"]) for each in items)
