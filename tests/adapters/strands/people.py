"""People who answer, and what a model was told, in the tests of the adapter for Strands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strands import Agent
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import YES, Toolbox
from tests.adapters.strands.driver import agent_of, session_in

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.strands import Approvals
from sayso.core.model import ApprovalRequest

PAY: list[Response] = [[Call("pay", {"amount": 5})], "done"]


def person(
    decision: ApprovalDecision = YES, policy: Policy | None = None
) -> tuple[ApprovalController, list[ApprovalRequest]]:
    """Return a controller whose person always gives this answer, and what they were asked."""
    asked: list[ApprovalRequest] = []
    return ApprovalController(approval_callback=lambda each: asked.append(each) or decision, policy=policy), asked


def guarded(tools: Toolbox, folder: Path, controller: ApprovalController, responses: Sequence[Response] = PAY) -> Agent:
    """Return an agent behind `Approvals`, with a session in a folder."""
    return agent_of(responses, [tools.pay()], Approvals(controller), session_manager=session_in(folder))


async def answer(controller: ApprovalController, decision: ApprovalDecision) -> None:
    """Answer all open questions."""
    for request in await controller.pending():
        await controller.answer(request.id, decision)


def told(agent: Agent) -> str:
    """Return all that the model was told about its calls."""
    blocks: list[Any] = [block for message in agent.messages for block in message["content"]]
    results = [block["toolResult"]["content"] for block in blocks if "toolResult" in block]
    return " ".join(str(part.get("text")) for content in results for part in content)
