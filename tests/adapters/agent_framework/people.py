"""People who answer, and what a model was told, in the tests of the adapter for Agent Framework."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, Content, Message
from packaging.version import Version
from tests.adapters.agent_framework.driver import agent_of
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import YES, Toolbox

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.agent_framework import Approvals
from sayso.core.model import ApprovalRequest

PAY: list[Response] = [[Call("pay", {"amount": 5})], "done"]


def person(
    decision: ApprovalDecision = YES, policy: Policy | None = None
) -> tuple[ApprovalController, list[ApprovalRequest]]:
    """Return a controller whose person always gives this answer, and what they were asked."""
    asked: list[ApprovalRequest] = []
    return ApprovalController(approval_callback=lambda each: asked.append(each) or decision, policy=policy), asked


def guarded(tools: Toolbox, controller: ApprovalController, responses: Sequence[Response] = PAY) -> Agent[Any]:
    """Return an agent behind `Approvals`."""
    return agent_of(responses, [tools.pay()], Approvals(controller))


def needs(release: str, otherwise: str) -> pytest.MarkDecorator:
    """Leave out a test with older releases of the framework, where something of its own is otherwise."""
    installed = Version(version("agent-framework-core"))
    return pytest.mark.skipif(installed < Version(release), reason=otherwise)


async def answer(controller: ApprovalController, decision: ApprovalDecision) -> None:
    """Answer all open questions."""
    for request in await controller.pending():
        await controller.answer(request.id, decision)


def copy_of(session: AgentSession, before: str = "", after: str = "") -> AgentSession:
    """Return a session as another process reads it, perhaps with other arguments."""
    return AgentSession.from_dict(json.loads(json.dumps(session.to_dict()).replace(before, after)))


def answers_to(response: Any, *, approved: bool = True, **properties: Any) -> Message:
    """Return an answer to everything for which a run has stopped, as a front end gives it."""
    said: list[Content] = []
    for each in response.user_input_requests:
        content = each.to_function_approval_response(approved=approved)
        content.additional_properties = {**content.additional_properties, **properties}
        said.append(content)
    return Message("user", said)


def told(response: Any) -> str:
    """Return all that the model was told about its calls."""
    contents = [each for message in response.messages for each in message.contents]
    return " ".join(str(each.result) for each in contents if each.type == "function_result")
