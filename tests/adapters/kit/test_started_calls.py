"""Results of calls that another program runs, recorded by a later process."""

from __future__ import annotations

from sayso import ApprovalController, ApprovalDecision, ToolCall
from sayso.adapters.kit import Gate, StartedCalls
from sayso.core.model import Approved, Pending

CALL = ToolCall(tool="pay", args={"to": ["ann"]}, call_id="1", session="s")


async def approved(controller: ApprovalController) -> Approved:
    outcome = await controller.review(CALL)
    assert isinstance(outcome, Pending)
    await controller.answer(outcome.request.id, ApprovalDecision(approved=True, who="ann"))
    outcome = await controller.review(CALL, asked=True)
    assert isinstance(outcome, Approved)
    return outcome


async def test_the_first_end_of_a_call_is_its_result() -> None:
    controller = ApprovalController(mode="defer")
    started, outcome = StartedCalls(Gate(controller), "s"), await approved(controller)
    await started.begin("t1", outcome)
    assert not await StartedCalls(Gate(controller), "other").end("t1", CALL, "paid", "", None)
    assert await started.end("t1", CALL, None, "no money", 0.5)
    assert not await started.end("t1", CALL, "paid", "", None)
    assert outcome.request_id is not None
    request = await controller.store.get(outcome.request_id)
    assert request is not None
    assert request.result == "raised"


async def test_a_call_that_nobody_was_asked_about_is_not_noted() -> None:
    controller = ApprovalController(mode="approve_all")
    outcome = await controller.review(CALL)
    assert isinstance(outcome, Approved)
    started = StartedCalls(Gate(controller), "s")
    await started.begin("t1", outcome)
    assert not await started.end("t1", CALL, "paid", "", None)
