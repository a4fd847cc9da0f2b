"""Holes of AdalFlow's own permission manager, each shown on it first, and then refused by sayso's."""

# AdalFlow has no types of its own.
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false

import asyncio
from typing import Any

import pytest
from adalflow.apps import permission_manager as shipped
from adalflow.apps.cli_permission_handler import AutoApprovalHandler
from adalflow.apps.fastapi_permission_handler import ApprovalResponse as RestAnswer
from adalflow.apps.fastapi_permission_handler import FastAPIPermissionHandler
from adalflow.components.agent.runner import Runner
from adalflow.core.func_tool import FunctionTool
from adalflow.core.types import Function
from tests.adapters.adalflow.scripted import Till, agent_of, manager, run

from sayso import ApprovalDecision
from sayso.adapters.adalflow import (
    ApprovalOutcome,
    ApprovalResponse,
    ApprovalRunner,
    PermissionManager,
    RESTPermissionManager,
)
from sayso.errors import ConfigurationError

PAY = ("pay", {"amount": 5})
PAID = [("pay", 5, "ann")]


def settle(till: Till, permission_manager: Any, *steps: Any, tools: Any = None) -> list[tuple[Any, ...]]:
    """Run an agent under a manager, and return what its tools did."""
    till.ran.clear()
    agent, _ = agent_of(tools or till.tools(), *(steps or [PAY]))
    run(Runner(agent, permission_manager=permission_manager), "call")
    return list(till.ran)


async def always(_: Any) -> shipped.ApprovalOutcome:
    return shipped.ApprovalOutcome.PROCEED_ALWAYS


async def once(_: Any) -> shipped.ApprovalOutcome:
    return shipped.ApprovalOutcome.PROCEED_ONCE


@pytest.mark.proves("H5")
def test_with_nobody_to_ask_nothing_runs(till: Till) -> None:
    assert settle(till, shipped.PermissionManager()) == PAID, "the hole: no callback means yes"

    with pytest.raises(ConfigurationError, match="nobody to ask"):
        PermissionManager()
    assert settle(till, PermissionManager(mode="auto_deny")) == []


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    "theirs", [AutoApprovalHandler, shipped.PermissionManager, lambda: shipped.PermissionManager(once)]
)
def test_a_blocked_tool_does_not_run_whatever_people_say(theirs: Any, till: Till) -> None:
    lax = theirs()
    lax.add_to_blocked("pay")
    assert settle(till, lax) == PAID, "the hole: blocked merely asks"

    assert settle(till, manager(once, {"pay": "blocked"})) == []
    assert settle(till, manager(once, {"pay": "blocked"}, approval_mode="auto_approve")) == []


@pytest.mark.proves("H1")
def test_no_mode_passes_a_block(till: Till) -> None:
    lax = shipped.PermissionManager(approval_mode="yolo")
    lax.add_to_blocked("pay")
    assert settle(till, lax) == PAID, "the hole: a mode that passes everything"

    with pytest.raises(ConfigurationError, match="approval_mode is 'yolo'"):
        PermissionManager(approval_mode="yolo")


def test_a_mode_that_does_not_exist_is_an_error(till: Till) -> None:
    assert shipped.PermissionManager(approval_mode="strcit").approval_mode == "strcit", "the hole: any word will do"

    with pytest.raises(ConfigurationError, match="unknown mode 'strcit'"):
        PermissionManager(mode="strcit")
    with pytest.raises(ConfigurationError, match="approval_mode is 'strcit'"):
        PermissionManager(approval_mode="strcit")


def test_a_tool_that_nobody_registered_asks(till: Till) -> None:
    def added_later(permission_manager: Any) -> list[tuple[Any, ...]]:
        till.ran.clear()
        agent, _ = agent_of([], PAY)
        runner = Runner(agent, permission_manager=permission_manager)
        agent.tool_manager.context["pay"] = till.tools()[0]
        run(runner, "call")
        return list(till.ran)

    async def no(_: Any) -> ApprovalOutcome:
        return ApprovalOutcome.CANCEL

    assert added_later(shipped.PermissionManager(no)) == PAID, "the hole: what it does not know may run"
    assert added_later(manager(no)) == []


@pytest.mark.proves("H9", "R63")
def test_always_to_one_call_is_no_always_to_another(till: Till) -> None:
    asked: list[Any] = []

    async def always_once(request: Any) -> Any:
        asked.append(request.tool.kwargs["amount"])
        return shipped.ApprovalOutcome.PROCEED_ALWAYS if len(asked) == 1 else shipped.ApprovalOutcome.CANCEL

    steps = [PAY, ("pay", {"amount": 9000})]
    assert settle(till, shipped.PermissionManager(always_once), *steps) == [*PAID, ("pay", 9000, "ann")], "the hole"
    assert asked == [5]

    asked.clear()
    assert settle(till, manager(always_once), *steps) == PAID
    assert asked == [5, 9000]


@pytest.mark.proves("H2")
def test_whoever_is_asked_cannot_change_the_arguments_behind_the_question(till: Till) -> None:
    async def meddle(request: Any) -> Any:
        request.tool.kwargs["amount"] = 9000
        return shipped.ApprovalOutcome.PROCEED_ONCE

    assert settle(till, shipped.PermissionManager(meddle)) == [("pay", 9000, "ann")], "the hole: never shown, and run"
    assert settle(till, manager(meddle)) == PAID


@pytest.mark.proves("H7")
def test_a_callback_that_is_no_coroutine_is_heard(till: Till) -> None:
    def plain(_: Any) -> Any:
        return shipped.ApprovalOutcome.PROCEED_ONCE

    assert settle(till, shipped.PermissionManager(plain)) == [], "the hole: its yes becomes a silent no"  # pyright: ignore[reportArgumentType]
    assert settle(till, manager(plain)) == PAID


@pytest.mark.proves("R64")
def test_modify_is_an_answer(till: Till) -> None:
    async def modify(_: Any) -> ApprovalResponse:
        return ApprovalResponse(ApprovalOutcome.MODIFY, kwargs={"amount": 1})

    assert settle(till, shipped.PermissionManager(modify)) == [], "the hole: dropped, and taken for a no"  # pyright: ignore[reportArgumentType]
    assert settle(till, manager(modify)) == [("pay", 1, "ann")]


@pytest.mark.proves("H12")
def test_the_note_of_a_refusal_reaches_the_model(till: Till) -> None:
    async def no(_: Any) -> shipped.ApprovalResponse:
        return shipped.ApprovalResponse(shipped.ApprovalOutcome.CANCEL, "ask bob first")

    agent, script = agent_of(till.tools(), PAY)
    run(Runner(agent, permission_manager=shipped.PermissionManager(no)), "call")
    assert "ask bob first" not in script.last, "the hole: the model reads 'cancelled by user'"

    agent, script = agent_of(till.tools(), PAY)
    run(ApprovalRunner(agent, permission_manager=manager(no)), "call")
    assert "ask bob first" in script.last


@pytest.mark.proves("H6")
async def test_a_no_is_recorded_as_a_no(till: Till, tmp_path: Any) -> None:
    theirs = FastAPIPermissionHandler()
    theirs.register_tool("pay")
    routes: list[Any] = list(theirs.app.routes)
    approve = next(route.endpoint for route in routes if route.path.endswith("/approve"))
    running = asyncio.create_task(theirs.check_permission(Function(id="1", name="pay", kwargs={"amount": 5})))
    while not theirs.approval_queue.pending_requests:
        await asyncio.wait({running}, timeout=0.01)
    (request_id,) = theirs.approval_queue.pending_requests
    await approve(request_id, RestAnswer(request_id=request_id, outcome="cancel"))
    assert (await running)[0] is False
    assert theirs.approval_queue.request_metadata[request_id].status == "approved", "the hole"

    agent, _ = agent_of(till.tools(), PAY)
    ours = RESTPermissionManager(store=tmp_path / "sayso.db")
    store = ours.controller.store
    try:
        asked = asyncio.create_task(ApprovalRunner(agent, permission_manager=ours).acall({"input_str": "go"}))
        await store.changed((await store.changes())[0])
        (request,) = await store.pending()
        await ours.controller.answer(request.id, ApprovalDecision(approved=False, who="ann"))
        await asked
        found = await store.get(request.id)
        assert found is not None
        assert (found.status, till.ran) == ("denied", [])
    finally:
        await ours.controller.aclose()


def test_the_shipped_one_lets_a_model_call_what_is_no_tool(till: Till) -> None:
    """Whatever lies in the tool manager's context has a `call`, and runs; here only tools do."""

    def reached(permission_manager: Any) -> list[tuple[Any, ...]]:
        till.ran.clear()
        agent, _ = agent_of(till.tools(), ("backdoor", {"amount": 1}))
        hidden = FunctionTool(
            lambda amount: till.ran.append(("backdoor", amount)), definition=till.tools()[0].definition
        )
        agent.tool_manager.context["backdoor"] = type("Component", (), {"call": staticmethod(hidden.call)})()
        run(Runner(agent, permission_manager=permission_manager), "call")
        return list(till.ran)

    assert reached(shipped.PermissionManager(once)) == [("backdoor", 1)], "the hole"
    assert reached(manager(once)) == []
