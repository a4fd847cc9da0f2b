"""Temporal, in whose workflows the guard cannot decide; its server is a download, so only its mark is here."""

import sys
from types import ModuleType
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.toolsets import FunctionToolset
from tests.adapters.pydantic_ai.scripted import Scripted, Till
from tests.people import YES, Person

from sayso import Policy
from sayso.adapters.pydantic_ai import Approvals, ApprovalToolset


@pytest.mark.parametrize("guard", ["capability", "toolset"])
async def test_a_run_in_a_temporal_workflow_ends_with_the_sentence_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, till: Till, guard: str
) -> None:
    workflow: Any = ModuleType("temporalio.workflow")
    workflow.in_workflow = lambda: True
    monkeypatch.setitem(sys.modules, "temporalio.workflow", workflow)
    person, model = Person(YES), Scripted([("pay", {"amount": 5})]).model
    if guard == "capability":
        approvals = Approvals(Policy({"pay": "required"}), approval_callback=person)
        agent = Agent(model, tools=till.tools, capabilities=[approvals])
    else:
        agent = Agent(model, toolsets=[ApprovalToolset(FunctionToolset(till.tools), person)])
    with pytest.raises(UserError, match="cannot ask inside a Temporal workflow"):
        await agent.run("go")
    assert (till.ran, person.asked) == ([], [])
