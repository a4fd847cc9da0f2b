"""The parts that all adapters share, each by itself; what they do together, the conformance suite shows."""

import asyncio
import contextlib
import contextvars
import threading
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sayso import ApprovalController, ApprovalDecision, ApprovalPending, Policy, requires_approval
from sayso.adapters.kit import (
    Gate,
    GuardedRun,
    Pause,
    WebUser,
    add_feedback,
    build_call,
    build_controller,
    call_text,
    check_start,
    content_id,
    fill_defaults,
    forget_suspended,
    give_answer,
    has_feedback,
    is_suspended,
    park,
    resume_suspended,
    resuming,
    rules_from_schema,
    schema_hash,
    suspend,
)
from sayso.core.model import Approved, AuditEntry, Denied, ToolCall
from sayso.engine import context
from sayso.errors import ApprovalBlocked, ConfigurationError, StoreError, UnknownRequest
from sayso.policy.policy import ToolRules
from sayso.stores.memory import MemoryStore

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer"},
        "to": {"type": "string", "default": "bob"},
        "memo": {"default": None},
    },
    "required": ["amount"],
}


def allowing(store: MemoryStore | None = None, **rules: str) -> ApprovalController:
    return ApprovalController(mode="auto_deny", policy=Policy(rules, default="required"), store=store)


def run_of(controller: ApprovalController, tool: str = "pay", **args: Any) -> GuardedRun:
    """Return the run of an allowed call."""
    gate = Gate(controller)
    call = build_call(tool, args)
    outcome = gate.decide_sync(call)
    assert isinstance(outcome, Approved)
    return GuardedRun(gate, call, outcome)


# Controllers.


def test_a_policy_alone_defers_and_one_with_somebody_to_ask_waits() -> None:
    made = build_controller(Policy({"pay": "required"}), {})
    asked = build_controller(Policy(), {"approval_callback": lambda _: ApprovalDecision(approved=True)})
    assert (made and made.mode, asked and asked.mode) == ("defer", "interactive")
    assert build_controller(None, {}) is None


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: build_controller(allowing(), {"session": "x"}), "the controller has its own session"),
        (lambda: build_controller("sayso.yaml", {}), "policy"),  # type: ignore[arg-type]
        (lambda: build_controller(Policy(), {"mode": "defer"}, stops="CrewAI"), "a run of CrewAI cannot stop"),
    ],
)
def test_wrong_settings_get_one_sentence(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        build()


# The gate.


def test_a_gate_without_a_controller_asks_the_active_one_and_else_says_what_is_missing() -> None:
    active = allowing()
    with active.activated():
        assert Gate().controller is active
    with pytest.raises(ConfigurationError, match="there is nobody to ask"):
        _ = Gate().controller


def test_a_nested_gate_asks_the_outer_controller_and_only_tightens_it() -> None:
    outer, inner = allowing(helper="none", pay="none"), Gate(allowing(pay="blocked"))
    with run_of(outer, "helper"):
        assert inner.controller is outer
        assert inner.hides("pay")
        refused = inner.decide_sync(build_call("pay", {"amount": 1}))
    assert isinstance(refused, Denied)
    assert (refused.cause, Gate(outer).hides("pay")) == ("blocked", False)


async def test_a_call_waits_in_place_though_the_controller_defers_where_it_cannot_stop() -> None:
    controller = ApprovalController(mode="defer")
    gate, call = Gate(controller), build_call("pay", {"amount": 1})
    with pytest.raises(ApprovalPending):
        await gate.decide(build_call("pay", {"amount": 2}))
    waiting = asyncio.create_task(gate.decide(call, inline=True))
    while not (rows := [each for each in await controller.pending() if each.tool_call_id == call.call_id]):
        await asyncio.wait([waiting], timeout=0.01)
    await controller.answer(rows[0].id, ApprovalDecision(approved=True, who="ann"))
    assert isinstance(await waiting, Approved)


async def test_a_question_is_opened_without_being_used() -> None:
    controller = ApprovalController(mode="defer", policy=Policy({"look": "none"}))
    call, adapter = build_call("pay", {"amount": 1}, call_id="c1", run="r"), controller.adapter
    assert await adapter.ask(build_call("look", {})) is None
    first, again = await adapter.ask(call), await adapter.ask(call)
    assert first is not None
    assert again is not None
    assert first.request.id == again.request.id
    await controller.answer(first.request.id, ApprovalDecision(approved=True, who="ann"))
    assert await adapter.ask(call) is None
    assert isinstance(await adapter.review(call, asked=True), Approved)
    refused = await adapter.review(call, asked=True)
    assert isinstance(refused, Denied)
    assert refused.cause == "replayed"


async def test_a_caller_that_cannot_tell_finds_the_refusal_of_an_earlier_process(tmp_path: Path) -> None:
    call = build_call("pay", {"amount": 1}, call_id="c1", run="r", session="s")
    async with ApprovalController(mode="defer", store=tmp_path / "a.db") as controller:
        asked = await controller.adapter.ask(call)
        assert asked is not None
        await controller.answer(asked.request.id, ApprovalDecision(approved=False, note="no", who="ann"))
    async with ApprovalController(mode="defer", store=tmp_path / "a.db", policy=Policy({"pay": "none"})) as loose:
        refused = await Gate(loose).decide(call, asked=None)
        assert isinstance(refused, Denied)
        assert refused.note == "no"


# Runs.


def test_a_run_is_audited_once_by_whatever_ends_it_first() -> None:
    steps: list[AuditEntry] = []
    controller = ApprovalController(mode="auto_deny", policy=Policy(default="none"), hooks=[steps.append])
    run = run_of(controller, amount=1).begin()
    run.returned("paid")
    run.raised(OSError("late"))
    run.suspend()
    assert [each.step for each in steps] == ["allowed", "returned"]


def test_a_run_can_end_in_another_context_than_it_began_in() -> None:
    run = run_of(allowing(pay="none"), amount=1)
    elsewhere = contextvars.copy_context()
    elsewhere.run(run.begin)
    run.returned("paid")
    assert context.current_call() is None


def test_a_run_begins_once() -> None:
    steps: list[AuditEntry] = []
    controller = ApprovalController(mode="auto_deny", policy=Policy(default="none"), hooks=[steps.append])
    run = run_of(controller, amount=1).begin()
    with pytest.raises(ApprovalBlocked, match="begun before"):
        run.begin()
    run.returned("paid")
    with pytest.raises(ApprovalBlocked, match="begun before"):
        run.begin()
    assert ([each.step for each in steps], context.current_call()) == (["allowed", "returned"], None)


def test_a_nested_call_is_in_the_session_of_the_outer_one() -> None:
    gate = Gate(allowing(helper="none"))
    call = build_call("helper", {}, session="thread 7")
    outcome = gate.decide_sync(call)
    assert isinstance(outcome, Approved)
    with GuardedRun(gate, call, outcome):
        assert Gate().session_for("another") == "thread 7"
    assert gate.session_for("another") == "another"


# The backstop.


def test_the_approved_tool_starts_once_with_the_approved_arguments() -> None:
    with run_of(allowing(pay="none"), amount=1):
        check_start("pay", {"amount": 1})
        with pytest.raises(ApprovalBlocked, match="a second time"):
            check_start("pay", {"amount": 1})
    with run_of(allowing(pay="none"), amount=1), pytest.raises(ApprovalBlocked, match="were changed"):
        check_start("pay", {"amount": True})


def test_of_two_threads_that_start_a_tool_at_the_same_moment_at_most_one_does() -> None:
    barrier, started = threading.Barrier(2), list[bool]()

    class Slow(UserDict[str, Any]):
        def keys(self) -> Any:  # both threads are in the middle of the check
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait(5)
            return super().keys()

    def start() -> None:
        with contextlib.suppress(ApprovalBlocked):
            check_start("pay", Slow(amount=1))
            started.append(True)

    with run_of(allowing(pay="none"), amount=1):
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(start,)) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len(started) <= 1


def test_what_a_run_has_left_behind_starts_its_tool_no_more() -> None:
    with run_of(allowing(pay="none"), amount=1):
        left = contextvars.copy_context()
    with pytest.raises(ApprovalBlocked):
        left.run(check_start, "pay", {"amount": 1})


def test_a_tool_that_no_gate_has_seen_starts_only_where_the_policy_lets_it_run() -> None:
    with run_of(allowing(helper="none", look="none"), "helper"):
        check_start("look", {"what": "x"})
        for args in ({"amount": 1}, None):
            with pytest.raises(ApprovalBlocked, match="without having passed `Approvals`"):
                check_start("pay", args)
    check_start("pay", {"amount": 1})  # outside any run, there is nothing to compare with


# Suspended calls.


async def test_a_call_that_stopped_inside_its_tool_resumes_for_one_caller() -> None:
    store = MemoryStore()
    controller = ApprovalController(mode="defer", store=store)
    gate, call = Gate(controller), build_call("ask_helper", {"prompt": "pay"}, call_id="c1", run="r")
    asked = await controller.adapter.ask(call)
    assert asked is not None
    await controller.answer(asked.request.id, ApprovalDecision(approved=True, who="ann"))
    outcome = await gate.decide(call, asked=True)
    assert isinstance(outcome, Approved)
    request = await controller.adapter.find_request(call)
    assert not await is_suspended(request, call, controller)
    with GuardedRun(gate, call, outcome) as run:
        await suspend(run, call, controller)
    assert await is_suspended(request, call, controller)
    assert (await store.parked_size("waiting/"))[0] == 1
    again = [await resume_suspended(call, ToolRules(), gate) for _ in range(2)]
    assert [isinstance(each, Approved) for each in again] == [True, False]
    assert not await is_suspended(request, call, controller)


async def test_a_call_that_came_to_its_end_though_it_had_stopped_does_not_resume() -> None:
    controller = ApprovalController(approval_callback=lambda _: ApprovalDecision(approved=True, who="ann"))
    gate, call = Gate(controller), build_call("ask_helper", {"prompt": "pay"}, call_id="c1", run="r")
    outcome = await gate.decide(call)
    assert isinstance(outcome, Approved)
    with GuardedRun(gate, call, outcome) as run:
        await suspend(run, call, controller)
    await forget_suspended(call, controller)
    assert not await is_suspended(await controller.adapter.find_request(call), call, controller)
    assert isinstance(await resume_suspended(call, ToolRules(), gate), Denied)


async def test_a_call_that_needed_nobody_leaves_no_mark_when_it_stops() -> None:
    store = MemoryStore()
    controller = allowing(store, look="none")
    call = build_call("look", {}, call_id="c1", run="r", session="s")
    outcome = Gate(controller).decide_sync(call)
    assert isinstance(outcome, Approved)
    with GuardedRun(Gate(controller), call, outcome) as run:
        await suspend(run, call, controller)
    assert await store.parked_size("waiting/") == (0, 0)


# Calls, rules and words.


def test_a_call_is_built_from_a_mapping_or_strictly_from_json() -> None:
    assert dict(build_call("pay", '{"amount": 1}').args) == dict(build_call("pay", {"amount": 1}).args) == {"amount": 1}
    for wrong in ('{"amount": 1, "amount": 2}', "[1]", '{"amount": NaN}', "{"):
        with pytest.raises(ValueError, match=r"."):
            build_call("pay", wrong)


def test_defaults_are_filled_in_and_none_is_no_default() -> None:
    assert fill_defaults({"amount": 1}, SCHEMA) == {"amount": 1, "to": "bob"}
    assert fill_defaults({"amount": 1, "to": "eve"}, SCHEMA) == {"amount": 1, "to": "eve"}
    assert fill_defaults({}, {"properties": {"odd": True}}) == fill_defaults({}, {}) == {}


def test_ids_and_hashes_follow_the_content() -> None:
    assert content_id("pay", {"amount": 1}) == content_id("pay", {"amount": 1}) != content_id("pay", {"amount": True})
    assert schema_hash(SCHEMA) == schema_hash(dict(SCHEMA)) != schema_hash({**SCHEMA, "required": []})


def test_an_edit_that_does_not_fit_the_schema_is_refused_in_words() -> None:
    rules = rules_from_schema(SCHEMA, description="Pay somebody.\nAnd more.")
    assert rules.misfit is not None
    assert rules.misfit({"amount": 1}) is None
    assert "amount" in (rules.misfit({"amount": "a lot"}) or "")


def test_the_mark_of_a_function_counts() -> None:
    @requires_approval
    def pay() -> None:
        """Pay."""

    assert rules_from_schema(SCHEMA, function=pay).marked
    assert not rules_from_schema(SCHEMA, function=print).marked


def test_the_model_is_told_of_edits_and_notes_of_a_person_only() -> None:
    decision = ApprovalDecision(approved=True, note="less", override_args={"amount": 3})
    outcome = Approved(args={"amount": 3}, by="answer", reason="", decision=decision)
    told = add_feedback("paid 3", outcome, call_text("pay", outcome.args))
    assert told == (
        "A person changed the arguments: it ran as pay(amount=3). Result: paid 3\n"
        "Note of the person who allowed it: less"
    )
    assert not has_feedback(msgspec.structs.replace(outcome, by="memory"))


# Pauses and answers.


async def test_a_pause_is_resumed_when_it_is_answered_and_by_one_process(tmp_path: Path) -> None:
    async with ApprovalController(mode="defer", store=tmp_path / "a.db") as controller:
        asked = await controller.adapter.ask(build_call("pay", {"amount": 1}, session="s"))
        assert asked is not None
        pause = Pause(session="s", state=msgspec.Raw(b'{"at": 1}'), requests=(asked.request.id,), agent="boss")
        parked = await park(pause, controller, framework="test")
        (listed,) = await controller.parked_runs()
        assert (listed.agent, listed.framework, listed.requests) == ("boss", "test", (asked.request.id,))
        with pytest.raises(ApprovalPending):
            async with resuming(parked, controller, framework="test"):
                pytest.fail("it must not go on")
        await controller.answer(asked.request.id, ApprovalDecision(approved=True, who="ann"))
        async with resuming(parked, controller, framework="test") as held:
            assert (context.current_session(), bytes(held.pause.state)) == ("s", b'{"at": 1}')
            await held.end()
        with pytest.raises(UnknownRequest):
            async with resuming(parked, controller, framework="test"):
                pytest.fail("it has ended")


async def test_a_pause_that_was_changed_in_the_store_is_refused(tmp_path: Path) -> None:
    async with ApprovalController(mode="defer", store=tmp_path / "a.db") as controller:
        parked = await park(Pause(session="s", state=msgspec.Raw(b"[5]")), controller, framework="test")
        packed = await controller.store.parked(parked)
        assert packed is not None
        await controller.store.park(parked, packed.replace(b"[5]", b"[9]"))
        with pytest.raises(StoreError, match="not as it was parked"):
            async with resuming(parked, controller, framework="test"):
                pytest.fail("it must not go on")


async def test_an_answer_that_does_not_count_leaves_the_question_open() -> None:
    controller = ApprovalController(mode="defer", policy=Policy({"pay": "required"}))
    asked = await controller.adapter.ask(ToolCall(tool="pay", args={"amount": 1}))
    assert asked is not None
    wide = ApprovalDecision(approved=True, remember="always", scope="folder")
    await give_answer(controller, asked.request, wide, WebUser("ann"))
    assert [each.id for each in await controller.pending()] == [asked.request.id]
    await give_answer(controller, asked.request, ApprovalDecision(approved=False), WebUser("ann"))
    row = await controller.store.get(asked.request.id)
    assert row is not None
    assert (row.status, row.decision and row.decision.who) == ("denied", "ann")
