"""The controller: what runs, what is asked, what is refused; through its public surface."""

import asyncio
import datetime as dt
import gc
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace
from tests.people import YES

from sayso import (
    ApprovalBlocked,
    ApprovalController,
    ApprovalDecision,
    ApprovalDenied,
    ApprovalMemory,
    ApprovalPresentation,
    ApprovalRequest,
    ApprovalTimeout,
    BlockedError,
    Policy,
    ToolCall,
    Verdict,
)
from sayso.core import audit
from sayso.core.model import Approved, AuditEntry, Denied, Pending
from sayso.errors import ApprovalCancelled, ApprovalPending, NotEntitled, Unattended, UnknownRequest
from sayso.policy.policy import ToolRules
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock, ScriptedChannel

ASKS = Policy({"pay": "required", "read": "none", "wipe": "blocked"}, default="none")
MODES = ["interactive", "prompt", "approve_all", "auto_approve", "auto_deny", "strict", "reject_all", "defer"]


def pay(amount: int = 5, **facts: Any) -> ToolCall:
    return ToolCall(tool="pay", args={"amount": amount}, **facts)


class Till:
    """A tool with an effect that can be counted."""

    def __init__(self) -> None:
        self.paid: list[Any] = []

    async def __call__(self, args: dict[str, Any]) -> str:
        self.paid.append(args)
        return f"paid {args}"


@pytest.fixture
def till() -> Till:
    return Till()


def test_a_controller_is_in_no_ring_so_it_goes_when_nobody_holds_it() -> None:
    controller = ApprovalController(approval_callback=lambda _: YES, policy=ASKS)
    held = weakref.ref(controller)
    gc.disable()
    try:
        del controller
        assert held() is None
    finally:
        gc.enable()


# What happens to a call.


@pytest.mark.proves("R28", "R54", "H1")
@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_needs_no_approval_runs_in_every_mode(mode: str, till: Till) -> None:
    person = ScriptedChannel()
    controller = ApprovalController(mode=mode, policy=ASKS, channels=[person])
    await controller.run(ToolCall(tool="read"), till)
    assert (len(till.paid), person.asked) == (1, [])


@pytest.mark.proves("R28", "R57", "H1")
@pytest.mark.parametrize("mode", MODES)
async def test_a_blocked_call_is_blocked_in_every_mode_and_nobody_is_asked(mode: str, till: Till) -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(mode=mode, policy=ASKS, channels=[person])
    with pytest.raises(BlockedError) as caught:
        await controller.run(ToolCall(tool="wipe"), till)
    assert (caught.value.tool, caught.value.cause) == ("wipe", "blocked")
    assert (till.paid, person.asked) == ([], [])


@pytest.mark.proves("R27", "R28", "R54", "R9")
@pytest.mark.parametrize(
    ("mode", "runs", "asks"),
    [
        ("interactive", True, True),
        ("approve_all", True, False),
        ("auto_approve", True, False),
        ("auto_deny", False, False),
        ("strict", False, False),
        ("reject_all", False, False),
    ],
)
async def test_a_call_that_needs_approval_is_asked_approved_or_denied_by_mode(
    mode: str, runs: bool, asks: bool, till: Till
) -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(mode=mode, policy=ASKS, channels=[person])
    outcome = await controller.settle(pay())
    assert isinstance(outcome, Approved if runs else Denied)
    assert len(person.asked) == int(asks)


async def test_the_person_sees_the_call_the_rule_and_the_scopes(till: Till) -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(policy=ASKS, channels=[person])
    await controller.run(pay(call_id="c1", agent_path=("boss", "clerk")), till)
    request = person.asked[0]
    assert (request.tool_name, request.args, request.tool_call_id) == ("pay", {"amount": 5}, "c1")
    assert request.agent_path == ("boss", "clerk")
    assert str(request.rule) == "policy tools.pay"
    assert [scope.kind for scope in request.scopes] == ["call"]


@pytest.mark.proves("R7", "R14", "R42")
@pytest.mark.parametrize(
    ("metadata", "summary"),
    [
        ({"summary": "s", "reason": "r", "path": "p"}, "s"),
        ({"reason": "r", "path": "p"}, "r"),
        ({"path": "p"}, "p"),
        ({"other": 1}, "Pay Ann"),
    ],
)
async def test_what_a_tool_says_about_its_call_reaches_the_person_unchanged(
    metadata: dict[str, Any], summary: str
) -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(channels=[person])
    shown = ApprovalPresentation(diff="- a\n+ b", language="python", content_type="text/x-diff")
    verdict = Verdict(approval="required", reason="money", description="Pay Ann", metadata=metadata, presentation=shown)
    await controller.settle(pay(), ToolRules(judge=lambda _: verdict))
    request = person.asked[0]
    assert (request.metadata, request.summary, request.description) == (metadata, summary, "Pay Ann")
    assert request.presentation == shown


@pytest.mark.proves("R11", "R2")
@pytest.mark.parametrize("edited", [{"amount": 3}, {}])
async def test_edited_arguments_are_the_ones_that_run_even_if_none_are_left(edited: dict[str, Any], till: Till) -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True, override_args=edited))
    await ApprovalController(policy=ASKS, channels=[person]).run(pay(), till)
    assert till.paid == [edited]


@pytest.mark.proves("H1", "H2")
async def test_edited_arguments_are_judged_again_and_a_blocked_edit_leaves_the_request_open(till: Till) -> None:
    policy = Policy(needs_approval=_limit, default="none")
    controller = ApprovalController(mode="defer", policy=policy)
    pending = await controller.review(pay())
    assert isinstance(pending, Pending)
    with pytest.raises(ApprovalBlocked, match="over the limit"):
        await controller.answer(pending.request.id, ApprovalDecision(approved=True, override_args={"amount": 99}))
    assert [request.id for request in await controller.pending()] == [pending.request.id]


def _limit(call: ToolCall) -> Verdict:
    if call.args["amount"] > 10:
        return Verdict(approval="blocked", reason="over the limit")
    return Verdict(approval="required", reason="money")


@pytest.mark.proves("R12", "H12")
async def test_a_refusal_carries_the_note_and_tells_the_model_not_to_retry() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=False, note="wrong account", who="ann"))
    outcome = await ApprovalController(policy=ASKS, channels=[person]).settle(pay())
    assert isinstance(outcome, Denied)
    assert (outcome.cause, outcome.note) == ("refused", "wrong account")
    assert "ann" in outcome.message
    assert "do not retry this call unchanged" in outcome.message
    assert "wrong account" in outcome.message


async def test_a_refusal_stands_even_if_the_rules_are_loosened() -> None:
    asks = [True]

    def needs_approval(name: str, args: dict[str, Any]) -> bool:
        return asks[0]

    policy = Policy({"pay": {"needs_approval": needs_approval}}, default="none")
    controller = ApprovalController(policy=policy, channels=[ScriptedChannel()])
    call = pay()
    assert isinstance(await controller.settle(call), Denied)
    asks[0] = False
    again = await controller.settle(call)
    assert isinstance(again, Denied)
    assert again.cause == "refused"


async def test_an_approval_falls_if_the_rules_are_tightened_to_blocked() -> None:
    words = ["required"]
    policy = Policy(needs_approval=lambda call: Verdict(approval=words[0], reason="today's rule"), default="none")  # type: ignore[arg-type]
    controller = ApprovalController(mode="defer", policy=policy)
    call = pay()
    pending = await controller.review(call)
    assert isinstance(pending, Pending)
    await controller.answer(pending.request.id, YES)
    words[0] = "blocked"
    outcome = await controller.review(call, asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "blocked"


async def test_an_open_question_about_a_call_that_is_now_blocked_is_withdrawn() -> None:
    words = ["required"]
    policy = Policy(needs_approval=lambda call: Verdict(approval=words[0], reason="today's rule"), default="none")  # type: ignore[arg-type]
    controller = ApprovalController(mode="defer", policy=policy)
    call = pay()
    pending = await controller.review(call)
    assert isinstance(pending, Pending)
    words[0] = "blocked"
    await controller.review(call, asked=True)
    assert (await controller.wait(pending.request.id)).status == "withdrawn"
    assert await controller.pending() == []


# The three classic holes, each with its own cause.


async def _approved(controller: ApprovalController, call: ToolCall) -> None:
    pending = await controller.review(call)
    assert isinstance(pending, Pending)
    await controller.answer(pending.request.id, YES, who="ann")


@pytest.mark.proves("H2", "H3")
async def test_the_same_approval_used_twice_is_replayed() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    call = pay()
    await _approved(controller, call)
    assert isinstance(await controller.review(call, asked=True), Approved)
    outcome = await controller.review(call, asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "replayed"


@pytest.mark.proves("H2", "H3")
@pytest.mark.parametrize("asked", [True, False])
async def test_arguments_changed_after_approval_are_changed(asked: bool) -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    await _approved(controller, pay(5, call_id="c1"))
    outcome = await controller.review(pay(9000, call_id="c1"), asked=asked)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "changed"
    assert isinstance(await controller.review(pay(5, call_id="c1"), asked=True), Approved)


@pytest.mark.proves("H2")
@pytest.mark.parametrize("change", [{"tool": "read"}, {"schema_hash": "other"}])
async def test_another_tool_or_schema_under_the_same_call_id_is_changed(change: dict[str, str]) -> None:
    controller = ApprovalController(mode="defer", policy=Policy(default="required"))
    await _approved(controller, pay(call_id="c1"))
    facts: dict[str, Any] = {"tool": "pay", "args": {"amount": 5}, "call_id": "c1"} | change
    outcome = await controller.review(ToolCall(**facts), asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "changed"


@pytest.mark.proves("H3")
async def test_an_approval_that_nobody_gave_is_forged() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    outcome = await controller.review(pay(), asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "forged"
    assert await controller.pending() == []


@pytest.mark.proves("H3")
async def test_an_approval_of_another_session_is_forged() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    await _approved(controller, pay(call_id="c1", session="ann's"))
    outcome = await controller.review(pay(call_id="c1", session="eve's"), asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "forged"


async def test_a_claimed_approval_of_an_open_question_still_waits_for_its_answer() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    call = pay()
    await controller.review(call)
    assert isinstance(await controller.review(call, asked=True), Pending)


@pytest.mark.proves("H2")
async def test_a_caller_that_changes_its_arguments_while_the_person_thinks_changes_nothing(till: Till) -> None:
    items = [1]
    args = {"items": items}

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        items.append(9000)
        args["to"] = items
        return YES

    controller = ApprovalController(policy=Policy(default="required"), approval_callback=ask)
    await controller.run(ToolCall(tool="pay", args=args), till)
    assert till.paid == [{"items": [1]}]


@pytest.mark.proves("H2")
async def test_a_callback_cannot_change_the_arguments_in_place(till: Till) -> None:
    def ask(request: ApprovalRequest) -> ApprovalDecision:
        request.args["items"].append(9000)
        return YES

    controller = ApprovalController(policy=Policy(default="required"), approval_callback=ask)
    with pytest.raises(ApprovalCancelled, match="frozen"):
        await controller.run(ToolCall(tool="pay", args={"items": [1]}), till)
    assert till.paid == []


@pytest.mark.proves("H4")
async def test_a_call_that_no_approval_can_be_bound_to_is_refused_and_not_asked() -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(policy=Policy(default="required"), channels=[person])
    outcome = await controller.settle(ToolCall(tool="pay", args={"when": object()}))
    assert isinstance(outcome, Denied)
    assert outcome.cause == "blocked"
    assert "args.when" in outcome.reason
    assert person.asked == []


@pytest.mark.proves("H4")
@pytest.mark.parametrize("where", ["payload", "metadata"])
async def test_what_no_store_could_keep_is_refused_by_every_store(where: str, tmp_path: Path) -> None:
    details: dict[str, Any] = {where: {"score": float("nan")}}
    verdict = Verdict(approval="required", reason="r", **details)
    for store in ("memory:", tmp_path / "sayso.db"):
        controller = ApprovalController(mode="defer", store=store)
        outcome = await controller.review(pay(), ToolRules(judge=lambda _: verdict))
        assert isinstance(outcome, Denied)
        assert f"{where}.score is nan" in outcome.reason
        await controller.aclose()


@pytest.mark.proves("H1", "H4")
async def test_a_remembered_no_to_a_whole_tool_covers_calls_that_nothing_can_be_bound_to() -> None:
    memory = ApprovalMemory()
    policy = Policy({"rm": {"approval": "required", "scope": "tool"}}, default="none")
    no = ApprovalDecision(approved=False, remember="always", scope="tool")
    await ApprovalController(policy=policy, channels=[ScriptedChannel(no)], memory=memory).settle(ToolCall(tool="rm"))
    lax = ApprovalController(mode="approve_all", policy=policy, memory=memory)
    assert isinstance(await lax.review(ToolCall(tool="rm", args={"x": float("inf")})), Denied)


@pytest.mark.proves("H1", "H5")
@pytest.mark.parametrize("word", ["deny", "block", "Blocked", ""])
async def test_a_rule_that_returns_a_word_that_nobody_knows_blocks_in_every_mode(word: Any) -> None:
    def needs_approval(call: ToolCall) -> Verdict:
        return Verdict(approval=word, reason="?")

    policy = Policy(needs_approval=needs_approval, default="none")
    outcome = await ApprovalController(mode="approve_all", policy=policy).review(pay())
    assert isinstance(outcome, Denied)
    assert "must be one of" in outcome.reason


@pytest.mark.proves("H2", "H8")
async def test_a_call_that_cannot_be_described_is_audited_all_the_same_and_stops_nobody(tmp_path: Path) -> None:
    class Number(float):
        pass

    class Key:
        def __str__(self) -> str:
            raise RuntimeError("who called my code?")

    class Zone(dt.tzinfo):
        def utcoffset(self, when: dt.datetime | None) -> dt.timedelta:
            raise RuntimeError("who called my code?")

    odd: list[dict[Any, Any]] = [
        {"a": Number(1)},
        {"a": OrderedDict(b=1)},
        {"a": {10**5000: 1}},
        {Key(): 1},
        {"a": dt.datetime(2024, 1, 1, tzinfo=Zone())},
        {"a": "\ud800"},
    ]
    for store in ("memory:", tmp_path / "sayso.db"):
        controller = ApprovalController(mode="approve_all", store=store)
        for args in odd:
            assert isinstance(await controller.review(ToolCall(tool="t\ud800", args=args)), Approved)
        await controller.flush()
        assert await audit.verify(controller.store) == len(odd)
        await controller.aclose()


@pytest.mark.proves("H8")
async def test_the_audit_of_an_allowed_call_is_not_changed_by_what_its_tool_does_to_the_arguments(till: Till) -> None:
    controller = ApprovalController(mode="approve_all")
    target: OrderedDict[str, str] = OrderedDict(to="eve")
    await controller.review(ToolCall(tool="t", args={"target": target}))
    target["to"] = "ann"
    (entry,) = [entry async for entry in audit.entries(controller.store)]
    assert "ann" not in str(entry["args"])


async def test_a_line_of_the_audit_is_short_however_much_an_agent_passes() -> None:
    controller = ApprovalController(policy=Policy(default="blocked"), mode="defer")
    await controller.review(ToolCall(tool="t", args={"a": [{"b": "x" * 1000}] * 10_000}))
    ((_, line, _),) = await controller.store.audit()
    assert len(line) < 500_000


@pytest.mark.proves("H8")
async def test_a_tools_own_error_reaches_the_caller_even_if_it_cannot_be_put_into_words() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("who called my code?")

    async def fail(args: dict[str, Any]) -> None:
        raise Rude

    controller = ApprovalController(mode="approve_all")
    with pytest.raises(Rude):
        await controller.run(pay(), fail)
    assert [entry["result"] async for entry in audit.entries(controller.store) if entry["step"] == "raised"] == ["Rude"]


# Time.


@pytest.mark.proves("R70", "H5")
async def test_an_unanswered_request_expires_and_a_later_yes_does_not_run_it() -> None:
    clock = FixedClock()
    asked = asyncio.Event()

    async def never(request: ApprovalRequest) -> ApprovalDecision:
        asked.set()
        await asyncio.Event().wait()
        return YES

    controller = ApprovalController(policy=ASKS, approval_callback=never, timeout=30, clock=clock)
    waiting = asyncio.ensure_future(controller.settle(pay()))
    await asked.wait()
    request = (await controller.pending())[0]
    clock.advance(30)
    with anyio.fail_after(10):
        outcome = await waiting
    assert isinstance(outcome, Denied)
    assert outcome.cause == "expired"
    assert isinstance(outcome.error("pay"), ApprovalTimeout)
    assert isinstance(outcome.error("pay"), TimeoutError)
    assert (await controller.answer(request.id, YES)).status == "expired"
    assert await controller.pending() == []


async def test_of_a_rule_and_a_controller_the_shorter_time_counts() -> None:
    clock = FixedClock(now=100.0)
    policy = Policy({"pay": {"approval": "required", "expires": "10m"}}, default="none")
    controller = ApprovalController(mode="defer", policy=policy, timeout=60, clock=clock)
    pending = await controller.review(pay())
    assert isinstance(pending, Pending)
    assert pending.request.expires_at == 160.0


async def test_waiting_for_some_seconds_returns_the_request_as_it_stands() -> None:
    clock = FixedClock()
    controller = ApprovalController(mode="defer", policy=ASKS, clock=clock)
    pending = await controller.review(pay())
    assert isinstance(pending, Pending)
    waiting = asyncio.ensure_future(controller.wait(pending.request.id, timeout=5))
    await anyio.lowlevel.checkpoint()
    clock.advance(5)
    with anyio.fail_after(10):
        assert (await waiting).status == "open"


async def test_a_request_whose_time_is_up_is_not_pending_any_more() -> None:
    clock = FixedClock()
    controller = ApprovalController(mode="defer", policy=ASKS, clock=clock, timeout=5)
    pending = await controller.review(pay())
    assert isinstance(pending, Pending)
    clock.advance(5)
    assert await controller.pending() == []
    assert (await controller.wait(pending.request.id)).status == "expired"


# Several at once, and answers from elsewhere.


@pytest.mark.proves("R16", "R76", "H7")
async def test_parallel_calls_are_all_pending_at_once_and_none_is_mixed_up(till: Till) -> None:
    controller = ApprovalController(policy=ASKS, channels=[Silent()])
    running = [asyncio.ensure_future(controller.run(pay(number), till)) for number in range(20)]
    while len(requests := await controller.pending()) < 20:
        await anyio.lowlevel.checkpoint()
    assert till.paid == []
    for request in reversed(requests):
        even = request.args["amount"] % 2 == 0
        await controller.answer(request.id, ApprovalDecision(approved=even, note=f"about {request.args['amount']}"))
    results = await asyncio.gather(*running, return_exceptions=True)
    assert results[::2] == [f"paid {{'amount': {number}}}" for number in range(0, 20, 2)]
    for number, result in list(enumerate(results))[1::2]:
        assert isinstance(result, ApprovalDenied)
        assert result.note == f"about {number}"
    assert sorted(args["amount"] for args in till.paid) == list(range(0, 20, 2))


class Silent:
    """A channel that only tells: answers come another way."""

    async def announce(self, request: ApprovalRequest) -> None:
        return None


@pytest.mark.proves("H6")
async def test_the_first_answer_wins_and_the_second_sees_what_stands() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    pending = await controller.review(pay())
    assert isinstance(pending, Pending)
    first = await controller.answer(pending.request.id, ApprovalDecision(approved=False), who="ann", channel="web")
    second = await controller.answer(pending.request.id, YES, who="bob")
    assert first == second
    assert second.decision is not None
    assert (second.status, second.decision.who, second.decision.channel) == ("denied", "ann", "web")


async def test_an_answer_to_an_unknown_request_says_so() -> None:
    with pytest.raises(UnknownRequest, match="nobody"):
        await ApprovalController(mode="defer").answer("nobody", YES)


@pytest.mark.proves("H7")
async def test_cancelling_the_run_withdraws_its_question(till: Till) -> None:
    controller = ApprovalController(policy=ASKS, channels=[Silent()])
    running = asyncio.ensure_future(controller.run(pay(), till))
    while not (requests := await controller.pending()):
        await anyio.lowlevel.checkpoint()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    closed = await controller.wait(requests[0].id)
    assert closed.status == "withdrawn"
    assert (await controller.answer(closed.id, YES)).status == "withdrawn"
    assert till.paid == []


@pytest.mark.proves("H7")
async def test_a_run_cancelled_while_its_question_is_being_opened_leaves_none_open() -> None:
    opened = asyncio.Event()

    class Slow(MemoryStore):
        async def open(self, request: ApprovalRequest) -> ApprovalRequest:
            await super().open(request)
            opened.set()
            await asyncio.Event().wait()  # durable, but the run is cancelled before it hears of it
            raise NotImplementedError

    controller = ApprovalController(policy=ASKS, channels=[Silent()], store=Slow())
    running = asyncio.ensure_future(controller.settle(pay()))
    await opened.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await controller.pending() == []


@pytest.mark.proves("H7")
async def test_a_run_cancelled_by_an_anyio_scope_withdraws_its_question_too() -> None:
    controller = ApprovalController(policy=ASKS, channels=[Silent()])
    requests: list[ApprovalRequest] = []
    async with anyio.create_task_group() as group:
        group.start_soon(controller.settle, pay())
        while not requests:
            await anyio.lowlevel.checkpoint()
            requests = await controller.pending()
        group.cancel_scope.cancel()
    assert (await controller.wait(requests[0].id)).status == "withdrawn"


@pytest.mark.proves("H6")
async def test_a_channel_whose_request_was_answered_elsewhere_is_told_to_stop() -> None:
    stopped = asyncio.Event()

    async def prompt(request: ApprovalRequest) -> ApprovalDecision:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return YES

    controller = ApprovalController(policy=ASKS, approval_callback=prompt)
    running = asyncio.ensure_future(controller.settle(pay()))
    while not (requests := await controller.pending()):
        await anyio.lowlevel.checkpoint()
    await controller.answer(requests[0].id, YES)
    assert isinstance(await running, Approved)
    with anyio.fail_after(10):
        await stopped.wait()


def test_an_answer_reaches_a_request_whose_channel_died_with_its_loop() -> None:
    async def never(request: ApprovalRequest) -> ApprovalDecision:
        await asyncio.Event().wait()
        return YES

    controller = ApprovalController(policy=ASKS, approval_callback=never)
    pending = asyncio.run(_review(controller, pay()))
    assert isinstance(pending, Pending)
    assert asyncio.run(_answer(controller, pending.request.id)).status == "approved"


async def _review(controller: ApprovalController, call: ToolCall) -> Approved | Denied | Pending:
    return await controller.review(call)


async def _answer(controller: ApprovalController, request_id: str) -> ApprovalRequest:
    return await controller.answer(request_id, YES)


async def test_one_failing_channel_does_not_take_the_question_from_the_others() -> None:
    class Broken:
        async def announce(self, request: ApprovalRequest) -> None:
            raise OSError("no network")

    asked = asyncio.Event()

    class Slow:
        async def announce(self, request: ApprovalRequest) -> ApprovalDecision:
            await asked.wait()
            return YES

    controller = ApprovalController(policy=ASKS, channels=[Broken(), Slow()])
    waiting = asyncio.ensure_future(controller.settle(pay()))
    while not await controller.pending():
        await anyio.lowlevel.checkpoint()
    asked.set()
    assert isinstance(await waiting, Approved)


async def test_a_question_that_others_may_answer_is_not_withdrawn_because_one_channel_failed() -> None:
    class Broken:
        async def announce(self, request: ApprovalRequest) -> None:
            await told.wait()
            raise OSError("no network")

    class Notifier:
        async def announce(self, request: ApprovalRequest) -> None:
            told.set()

    told = asyncio.Event()
    controller = ApprovalController(policy=ASKS, channels=[Broken(), Notifier()])
    waiting = asyncio.ensure_future(controller.settle(pay()))
    await told.wait()
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    (request,) = await controller.pending()
    await controller.answer(request.id, YES)
    assert isinstance(await waiting, Approved)


@pytest.mark.proves("H2")
async def test_another_call_under_the_same_id_does_not_take_away_the_honest_question() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    honest = await controller.review(pay(5, call_id="c1"))
    assert isinstance(honest, Pending)
    assert isinstance(await controller.review(pay(9000, call_id="c1")), Denied)
    assert [request.id for request in await controller.pending()] == [honest.request.id]


@pytest.mark.proves("H1")
async def test_a_default_that_blocks_yields_only_to_the_owner() -> None:
    marked = ToolRules(marked=True)
    lets_run = ToolRules(judge=lambda _: Verdict(approval="none", reason="harmless"))
    for own in (None, marked, lets_run):
        closed = ApprovalController(mode="approve_all", policy=Policy({"read": "none"}, default="blocked"))
        assert isinstance(await closed.review(ToolCall(tool="rm"), own), Denied)
        assert isinstance(await closed.review(ToolCall(tool="read"), own), Approved)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("policy", [None, Policy(), Policy({"payy": "none"})])
async def test_a_controller_whose_policy_names_neither_tool_nor_default_asks_first(policy: Policy | None) -> None:
    person = ScriptedChannel(YES)
    assert isinstance(await ApprovalController(policy=policy, mode="auto_deny").review(pay()), Denied)
    assert isinstance(await ApprovalController(policy=policy, channels=[person]).settle(pay()), Approved)
    assert "sets no default" in str(person.asked[0].reason)


async def test_a_store_that_was_passed_in_stays_open_for_others() -> None:
    async with ApprovalController(mode="defer", store=MemoryStore(), policy=ASKS) as controller:
        pending = await controller.review(pay())
    assert isinstance(pending, Pending)
    assert await ApprovalController(mode="defer", store=controller.store).pending() == [pending.request]


async def test_a_tool_that_is_not_async_runs_too() -> None:
    def tool(args: dict[str, Any]) -> Any:
        return args["amount"]

    assert await ApprovalController(mode="approve_all").run(pay(), tool) == 5


@pytest.mark.proves("R17")
async def test_a_deferred_call_is_pending_and_the_same_edge_lets_it_run_later(till: Till) -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    call = pay()
    with pytest.raises(ApprovalPending) as caught:
        await controller.run(call, till)
    await controller.answer(caught.value.request.id, YES)
    await controller.run(call, till)
    with pytest.raises(ApprovalDenied, match="already used"):
        await controller.run(call, till)
    assert len(till.paid) == 1


# Memory.


@pytest.mark.proves("R10", "R55", "C8")
async def test_a_remembered_decision_is_applied_without_asking_across_controllers_that_share_it() -> None:
    memory = ApprovalMemory()
    first = ScriptedChannel(ApprovalDecision(approved=True, remember="session"))
    await ApprovalController(policy=ASKS, channels=[first], memory=memory).settle(pay(5))
    second = ScriptedChannel()
    controller = ApprovalController(policy=ASKS, channels=[second], memory=memory)
    assert isinstance(await controller.settle(pay(5)), Approved)
    assert second.asked == []
    assert isinstance(await controller.settle(pay(6)), Denied)
    assert len(second.asked) == 1


@pytest.mark.proves("R24", "R25")
async def test_a_remembered_decision_goes_by_the_payload_if_the_tool_gave_one() -> None:
    def judge(call: ToolCall) -> Verdict:
        return Verdict(approval="required", reason="writes", payload={"path": call.args["path"]})

    person = ScriptedChannel(ApprovalDecision(approved=True, remember="session"))
    controller = ApprovalController(channels=[person])
    for content in ("one", "two"):
        call = ToolCall(tool="write", args={"path": "a", "content": content})
        outcome = await controller.settle(call, ToolRules(judge=judge))
        assert isinstance(outcome, Approved)
        assert outcome.args["content"] == content
    other = await controller.settle(ToolCall(tool="write", args={"path": "b", "content": ""}), ToolRules(judge=judge))
    assert isinstance(other, Denied)
    assert len(person.asked) == 2


@pytest.mark.proves("R26", "R29")
async def test_after_clearing_the_next_identical_call_asks_again() -> None:
    person = ScriptedChannel(*[ApprovalDecision(approved=True, remember="session")] * 2)
    controller = ApprovalController(policy=ASKS, channels=[person])
    await controller.settle(pay())
    assert controller.is_session_approved(ApprovalRequest(tool_name="pay", args={"amount": 5}))
    controller.clear_session_approvals()
    assert not controller.is_session_approved(ApprovalRequest(tool_name="pay", args={"amount": 5}))
    await controller.settle(pay())
    assert len(person.asked) == 2


@pytest.mark.proves("R47")
async def test_once_per_session_asks_once_per_call_and_session() -> None:
    person = ScriptedChannel(YES, YES)
    controller = ApprovalController(policy=Policy({"pay": "once_per_session"}, default="none"), channels=[person])
    for session in ("a", "a", "b", "b"):
        assert isinstance(await controller.settle(pay(session=session)), Approved)
    assert [request.session for request in person.asked] == ["a", "b"]


@pytest.mark.proves("R47")
async def test_once_per_session_covers_the_whole_tool_only_if_the_rule_says_so() -> None:
    person = ScriptedChannel(YES)
    policy = Policy({"pay": {"approval": "once_per_session", "scope": "tool"}}, default="none")
    controller = ApprovalController(policy=policy, channels=[person])
    assert isinstance(await controller.settle(pay(1)), Approved)
    assert isinstance(await controller.settle(pay(2)), Approved)
    assert [scope.kind for scope in person.asked[0].scopes] == ["call", "tool"]


@pytest.mark.proves("H9")
async def test_a_yes_to_the_whole_tool_ends_when_the_rule_no_longer_allows_one() -> None:
    memory = ApprovalMemory()
    lax = Policy({"pay": {"approval": "required", "scope": "tool"}}, default="none")
    whole = ApprovalDecision(approved=True, remember="always", scope="tool")
    await ApprovalController(policy=lax, channels=[ScriptedChannel(whole)], memory=memory).settle(pay(1))
    assert isinstance(await ApprovalController(mode="defer", policy=lax, memory=memory).review(pay(2)), Approved)
    assert isinstance(await ApprovalController(mode="defer", policy=ASKS, memory=memory).review(pay(2)), Pending)


@pytest.mark.proves("H9")
async def test_a_scope_that_was_not_offered_cannot_be_remembered() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    pending = await controller.review(pay())
    assert isinstance(pending, Pending)
    with pytest.raises(ValueError, match="'tool' is not offered"):
        await controller.answer(pending.request.id, ApprovalDecision(approved=True, remember="session", scope="tool"))
    assert (await controller.pending())[0].status == "open"


@pytest.mark.proves("H9")
async def test_a_rule_may_let_nothing_be_remembered() -> None:
    person = ScriptedChannel(*[ApprovalDecision(approved=True, remember="always")] * 2)
    policy = Policy({"pay": {"approval": "required", "remember": False}}, default="none")
    controller = ApprovalController(policy=policy, channels=[person])
    await controller.settle(pay())
    await controller.settle(pay())
    assert len(person.asked) == 2
    assert controller.memory.list() == []


@pytest.mark.proves("H9")
async def test_a_counted_decision_runs_that_many_calls_and_then_asks() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True, remember="session", uses=2), YES)
    controller = ApprovalController(policy=ASKS, channels=[person])
    for _ in range(4):
        assert isinstance(await controller.settle(pay()), Approved)
    assert len(person.asked) == 2


@pytest.mark.proves("H9")
async def test_a_decision_remembered_until_a_time_asks_again_from_then_on() -> None:
    clock = FixedClock(now=100.0)
    person = ScriptedChannel(ApprovalDecision(approved=True, remember="always", until=200.0), YES)
    controller = ApprovalController(policy=ASKS, channels=[person], clock=clock)
    await controller.settle(pay())
    clock.advance(99.9)
    await controller.settle(pay())
    assert len(person.asked) == 1
    clock.advance(0.1)
    await controller.settle(pay())
    assert len(person.asked) == 2


@pytest.mark.proves("H9")
async def test_what_is_remembered_can_be_listed_and_revoked() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True, remember="always", who="ann"))
    controller = ApprovalController(policy=ASKS, channels=[person])
    await controller.settle(pay())
    (remembered,) = controller.memory.list()
    assert (remembered.tool, remembered.decision.who, remembered.session) == ("pay", "ann", None)
    assert controller.memory.revoke(remembered.id)
    assert isinstance(await controller.settle(pay()), Denied)
    assert len(person.asked) == 2


@pytest.mark.proves("H9")
async def test_the_longest_time_of_the_policy_ends_what_was_remembered_for_always() -> None:
    clock = FixedClock(now=100.0)
    person = ScriptedChannel(ApprovalDecision(approved=True, remember="always"))
    policy = Policy({"pay": "required"}, remember_max="30d", default="none")
    controller = ApprovalController(policy=policy, channels=[person], clock=clock)
    await controller.settle(pay())
    assert isinstance(await controller.settle(pay()), Approved)
    clock.advance(30 * 86400)
    assert isinstance(await controller.settle(pay()), Denied)


@pytest.mark.proves("H9")
async def test_the_longest_time_holds_whoever_answers(tmp_path: Path) -> None:
    clock = FixedClock(now=100.0)
    policy = Policy({"pay": "required"}, remember_max="1h", default="none")
    here = ApprovalController(mode="defer", policy=policy, store=tmp_path / "sayso.db", clock=clock)
    there = ApprovalController(mode="defer", store=tmp_path / "sayso.db", clock=clock)
    pending = await here.review(pay())
    assert isinstance(pending, Pending)
    await there.answer(pending.request.id, ApprovalDecision(approved=True, remember="always"))
    (remembered,) = there.memory.list()
    assert remembered.expires_at == 3700.0
    await here.aclose()
    await there.aclose()


@pytest.mark.proves("H9", "H2")
async def test_an_edit_is_not_remembered_for_calls_with_other_arguments() -> None:
    controller = ApprovalController(mode="defer")
    verdict = Verdict(approval="required", reason="r", payload={"path": "a"})
    call = ToolCall(tool="write", args={"path": "a", "content": "1"})
    pending = await controller.review(call, ToolRules(judge=lambda _: verdict))
    assert isinstance(pending, Pending)
    edit = ApprovalDecision(approved=True, remember="session", override_args={"path": "a", "content": "2"})
    with pytest.raises(ValueError, match="only for this exact call"):
        await controller.answer(pending.request.id, edit)


@pytest.mark.proves("H8", "H9")
async def test_a_revocation_is_in_the_audit() -> None:
    controller = ApprovalController(
        policy=ASKS, channels=[ScriptedChannel(ApprovalDecision(approved=True, remember="always"))]
    )
    await controller.settle(pay())
    controller.memory.revoke(controller.memory.list()[0].id, who="bob")
    last = [entry async for entry in audit.entries(controller.store)][-1]
    assert (last["step"], last["tool"]) == ("revoked", "pay")
    assert "revoked by bob" in last["reason"]


@pytest.mark.proves("C5", "H1")
async def test_of_a_mode_and_a_remembered_decision_the_stricter_wins() -> None:
    memory = ApprovalMemory()
    memory.store("pay", {"amount": 5}, ApprovalDecision(approved=True, remember="session"))
    memory.store("pay", {"amount": 6}, ApprovalDecision(approved=False, remember="session", note="never"))
    strict = ApprovalController(mode="auto_deny", policy=ASKS, memory=memory)
    lax = ApprovalController(mode="approve_all", policy=ASKS, memory=memory)
    assert isinstance(await strict.settle(pay(5)), Denied)
    refused = await lax.settle(pay(6))
    assert isinstance(refused, Denied)
    assert refused.note == "never"
    assert isinstance(await lax.settle(pay(7)), Approved)


async def test_a_remembered_edit_runs_the_edited_arguments_again_unless_they_are_blocked_now(till: Till) -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True, remember="session", override_args={"amount": 3}))
    limit = [10]

    def judge(call: ToolCall) -> Verdict:
        approval = "blocked" if call.args["amount"] > limit[0] and call.args["amount"] < 5 else "required"
        return Verdict(approval=approval, reason="the limit")

    controller = ApprovalController(policy=Policy(needs_approval=judge, default="none"), channels=[person])
    await controller.run(pay(), till)
    await controller.run(pay(), till)
    assert (till.paid, len(person.asked)) == ([{"amount": 3}] * 2, 1)
    limit[0] = 2
    with pytest.raises(ApprovalBlocked):
        await controller.run(pay(), till)


@pytest.mark.proves("R10")
async def test_an_answer_that_is_remembered_answers_what_is_open_and_alike() -> None:
    controller = ApprovalController(policy=ASKS, channels=[Silent()])
    running = [asyncio.ensure_future(controller.settle(pay(amount))) for amount in (5, 5, 5, 6)]
    while len(requests := await controller.pending()) < 4:
        await anyio.lowlevel.checkpoint()
    await controller.answer(requests[0].id, ApprovalDecision(approved=True, remember="session"))
    assert [isinstance(outcome, Approved) for outcome in await asyncio.gather(*running[:3])] == [True] * 3
    (left,) = await controller.pending()
    assert left.args == {"amount": 6}
    running[3].cancel()


async def test_an_answer_to_what_is_alike_covers_no_more_than_it_would_a_moment_later() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    for schema in ("old", "new"):
        await controller.review(pay(schema_hash=schema))
    first, other = await controller.pending()
    await controller.answer(first.id, ApprovalDecision(approved=True, remember="session"))
    assert (await controller.wait(other.id, timeout=0.001)).status == "open"
    third = await controller.review(pay(schema_hash="third"))
    assert isinstance(third, Pending)
    await controller.answer(other.id, ApprovalDecision(approved=True, remember="session", until=1.0))
    assert [request.id for request in await controller.pending()] == [third.request.id]


async def test_what_was_approved_is_kept_however_many_others_are_over() -> None:
    controller = ApprovalController(mode="defer", policy=ASKS)
    call = pay()
    await _approved(controller, call)
    for number in range(10_050):
        request = await controller.store.open(_a_row(number))
        await controller.store.close(request.id, "denied", None, now=1.0)
    assert isinstance(await controller.review(call, asked=True), Approved)


def _a_row(number: int) -> ApprovalRequest:
    return ApprovalRequest(tool_name="pay", id=f"r{number}", tool_call_id=f"c{number}", session="s")


class Nobody:
    """A channel at which no person is."""

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        raise Unattended("nobody can be asked: it is night")


async def test_where_nobody_can_be_asked_that_is_the_cause_and_no_person_is_named() -> None:
    async with ApprovalController(channels=[Nobody()], policy=ASKS) as controller:
        outcome = await controller.settle(pay())
        assert isinstance(outcome, Denied)
        assert (outcome.cause, outcome.reason) == ("unattended", "nobody can be asked: it is night")
        assert "Nobody has decided" in outcome.message
        with pytest.raises(ApprovalDenied, match="'pay' did not run: nobody can be asked: it is night"):
            raise outcome.error("pay")
        entries = [entry async for entry in audit.entries(controller.store)]
        assert [(entry["step"], entry.get("who")) for entry in entries][:2] == [("asked", None), ("withdrawn", None)]
        assert entries[1]["cause"] == "unattended"


async def test_where_one_channel_has_nobody_the_other_still_asks() -> None:
    async with ApprovalController(channels=[Nobody(), ScriptedChannel(YES)], policy=ASKS) as controller:
        assert isinstance(await controller.settle(pay()), Approved)


# The names of the original documents.


@pytest.mark.proves("R30", "R24")
async def test_a_tool_can_ask_by_itself_with_a_request_of_its_own() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True, remember="session", note="fine"))
    controller = ApprovalController(channels=[person])
    request = ApprovalRequest(tool_name="my_tool", description="Process a.txt", payload={"path": "a.txt"})
    decision = await controller.request_approval(request)
    assert (decision.approved, decision.note) == (True, "fine")
    assert person.asked[0].description == "Process a.txt"
    assert controller.is_session_approved(request)
    assert (await controller.request_approval(request)).approved
    assert len(person.asked) == 1


@pytest.mark.proves("R30", "R57")
async def test_a_tool_that_asks_by_itself_is_told_no_by_a_decision_and_blocked_by_an_error() -> None:
    controller = ApprovalController(
        policy=ASKS, channels=[ScriptedChannel(ApprovalDecision(approved=False, note="no"))]
    )
    decision = await controller.request_approval(ApprovalRequest(tool_name="pay", payload={}))
    assert (decision.approved, decision.note) == (False, "no")
    with pytest.raises(BlockedError):
        await controller.request_approval(ApprovalRequest(tool_name="wipe", payload={}))


@pytest.mark.proves("R43")
async def test_the_owner_may_let_a_tool_run_that_would_ask_by_itself() -> None:
    controller = ApprovalController(mode="auto_deny", policy=ASKS)
    assert (await controller.request_approval(ApprovalRequest(tool_name="read", payload={}))).approved


@pytest.mark.proves("R29", "R30", "R18")
def test_the_callback_that_a_controller_hands_out_honours_mode_and_memory() -> None:
    asked: list[ApprovalRequest] = []

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(approved=True, remember="session")

    controller = ApprovalController(mode="interactive", approval_callback=ask)
    request = ApprovalRequest(tool_name="t", description="d", payload={"a": 1})
    assert controller.approval_callback(request).approved
    assert controller.approval_callback(request).approved
    assert len(asked) == 1
    assert not ApprovalController(mode="strict").approval_callback(request).approved
    assert ApprovalController(mode="approve_all").approval_callback(request).approved


@pytest.mark.parametrize("asks_through_a_controller", [False, True], ids=["directly", "as a callback"])
@pytest.mark.proves("R18", "R29")
async def test_a_decision_of_a_mode_does_not_pass_for_a_persons(*, asks_through_a_controller: bool) -> None:
    steps: list[AuditEntry] = []

    def through(inner: ApprovalController) -> ApprovalController:
        if not asks_through_a_controller:
            return inner
        return ApprovalController(approval_callback=inner.approval_callback, hooks=[steps.append])

    yes = await through(ApprovalController(mode="approve_all")).request_approval(ApprovalRequest(tool_name="t"))
    assert (yes.approved, yes.who) == (True, "the mode approve_all")
    allowed = ApprovalController(mode="auto_deny", policy=Policy({"t": "none"}))
    by_policy = await through(allowed).request_approval(ApprovalRequest(tool_name="t"))
    assert (by_policy.approved, by_policy.who) == (True, "the policy")
    no = await through(ApprovalController(mode="strict")).request_approval(ApprovalRequest(tool_name="t"))
    assert (no.approved, no.unattended) == (False, True)
    assert no.note == "refused by the mode auto_deny, because somebody would have to be asked"
    answers = [(each.step, each.request.decision) for each in steps if each.request and each.request.decision]
    said = [(step, given.who, given.unattended) for step, given in answers if step not in {"claimed", "returned"}]
    expected = [
        ("approved", "the mode approve_all", False),
        ("approved", "the policy", False),
        ("withdrawn", None, True),
    ]
    assert said == (expected if asks_through_a_controller else [])


@pytest.mark.proves("R29", "H9")
async def test_a_refusal_by_a_mode_ends_the_question_for_all_channels_and_is_not_remembered() -> None:
    class Told:
        """Somebody who is told, and could still answer elsewhere."""

        async def announce(self, request: ApprovalRequest) -> None:
            return None

    strict = ApprovalController(mode="strict").approval_callback

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        return replace(strict(request), remember="session")

    controller = ApprovalController(approval_callback=ask, channels=[Told()])
    with anyio.fail_after(5):
        outcome = await controller.settle(ToolCall(tool="t"))
    assert isinstance(outcome, Denied)
    assert (outcome.cause, "a person" in outcome.message, len(controller.memory)) == ("unattended", False, 0)


@pytest.mark.proves("R18", "R28")
async def test_a_persons_no_through_another_controller_stays_a_persons() -> None:
    def ask(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(approved=False, note="not on Mondays", who="ann")

    inner = ApprovalController(approval_callback=ask)
    outcome = await ApprovalController(approval_callback=inner.approval_callback).settle(ToolCall(tool="t"))
    assert isinstance(outcome, Denied)
    assert (outcome.cause, outcome.note) == ("refused", "not on Mondays")


@pytest.mark.proves("R30")
def test_asking_synchronously_through_an_async_callback_is_an_explicit_error() -> None:
    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        raise NotImplementedError

    controller = ApprovalController(approval_callback=ask)
    with pytest.raises(ValueError, match="await `request_approval`"):
        controller.request_approval_sync(ApprovalRequest(tool_name="t"))
    nobody_is_asked = ApprovalController(mode="approve_all", approval_callback=ask)
    assert nobody_is_asked.request_approval_sync(ApprovalRequest(tool_name="t")).approved


# Hooks and audit.


@pytest.mark.proves("R59", "H8")
async def test_hooks_are_told_of_every_step_in_order_and_cannot_change_the_decision(till: Till) -> None:
    steps: list[str] = []

    def broken(entry: AuditEntry) -> None:
        raise RuntimeError("no metrics today")

    controller = ApprovalController(
        policy=ASKS,
        channels=[ScriptedChannel(YES)],
        hooks=[broken, lambda entry: steps.append(entry.step)],
    )
    await controller.run(pay(), till)
    await controller.run(ToolCall(tool="read"), till)
    with pytest.raises(ApprovalBlocked):
        await controller.run(ToolCall(tool="wipe"), till)
    assert steps == ["asked", "approved", "claimed", "returned", "allowed", "returned", "stopped"]


@pytest.mark.proves("H8", "R57")
async def test_the_audit_tells_who_decided_what_with_which_arguments_and_what_came_of_it() -> None:
    async def fail(args: dict[str, Any]) -> None:
        raise ValueError("the till is empty")

    person = ScriptedChannel(ApprovalDecision(approved=True, who="ann", override_args={"amount": 3}, note="less"))
    controller = ApprovalController(policy=ASKS, channels=[person])
    with pytest.raises(ValueError, match="the till is empty"):
        await controller.run(pay(), fail)
    entries = [entry async for entry in audit.entries(controller.store)]
    approved = next(entry for entry in entries if entry["step"] == "approved")
    assert (approved["who"], approved["note"], approved["rule"]) == ("ann", "less", "policy tools.pay")
    assert (approved["args"], approved["final_args"]) == ({"amount": 5}, {"amount": 3})
    assert approved["digest"] == pay().digest()
    assert entries[-1]["step"] == "raised"
    assert entries[-1]["result"] == "ValueError: the till is empty"
    assert entries[-1]["seconds"] >= 0
    assert [entry["step"] for entry in entries] == ["asked", "approved", "claimed", "raised"]


@pytest.mark.proves("H8")
async def test_the_entry_of_a_call_is_there_before_its_tool_runs() -> None:
    seen: list[str] = []
    controller = ApprovalController(policy=ASKS, channels=[ScriptedChannel(YES)])

    async def look(args: dict[str, Any]) -> None:
        seen.extend([entry["step"] async for entry in audit.entries(controller.store)])

    await controller.run(ToolCall(tool="read"), look)
    await controller.run(pay(), look)
    assert seen == ["allowed", "allowed", "returned", "asked", "approved", "claimed"]


# Bad input.


@pytest.mark.proves("H5", "R54")
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mode": "yolo"}, r"unknown mode 'yolo'; use one of 'interactive'"),
        ({"mode": None}, r"unknown mode None"),
        ({}, r"mode 'interactive' has nobody to ask: pass approval_callback"),
        ({"approval_callback": "input"}, r"approval_callback is 'input'; pass a function"),
        ({"mode": "strict", "timeout": -1}, r"timeout is -1; use a positive number of seconds"),
        ({"mode": "strict", "timeout": 0}, r"timeout is 0; use a positive"),
        ({"mode": "strict", "timeout": float("nan")}, r"timeout is nan; use a positive"),
        ({"mode": "strict", "timeout": "soon"}, r"timeout is 'soon'; use a positive"),
        ({"mode": "strict", "store": "mysql://x"}, r"the store 'mysql://x' cannot be opened; use 'memory:'"),
        ({"mode": "strict", "store": "sqlite:///"}, r"cannot be opened; use"),
        ({"mode": "strict", "store": ""}, r"cannot be opened; use"),
        (
            {"mode": "strict", "store": 5},
            r"the store 5 cannot be opened; use .* all that `sayso.core.ports.Store` names",
        ),
        ({"mode": "strict", "audit": "loose"}, r"audit is 'loose'; use 'queued' or 'strict'"),
        (
            {"mode": "strict", "policy": {"pay": "required"}},
            r"^a mapping is not a Policy; pass policy=Policy\({…}\)$",
        ),
        (
            {"mode": "strict", "policy": {"version": 1, "default": "none"}},
            r"^a mapping is not a Policy; pass policy=Policy\.from_dict\({…}\)$",
        ),
        (
            {"mode": "strict", "policy": "sayso.yaml"},
            r"^'sayso.yaml' is not a Policy; pass policy=load_policy\('sayso.yaml'\)$",
        ),
        (
            {"mode": "strict", "policy": Path("a") / "b.yaml"},
            r"is not a Policy; pass policy=load_policy\('a/b.yaml'\)$",
        ),
        ({"mode": "strict", "policy": "ask"}, r"^'ask' is not a Policy; pass policy=Policy\(default='ask'\)$"),
        ({"mode": "strict", "policy": "default: none\n"}, r"pass policy=load_policy\(…\), with the path of a file"),
        ({"mode": "strict", "policy": 5}, r"^5 is not a Policy; pass a Policy$"),
        ({"mode": "strict", "channels": [print]}, r"is not a channel"),
        ({"mode": "strict", "hooks": [5]}, r"5 is not a hook"),
        ({"mode": "strict", "memory": {}}, r"memory is {}; pass an ApprovalMemory"),
        ({"mode": "strict", "session": 5}, r"session is 5; pass a str"),
    ],
)
def test_a_wrong_setting_gets_one_sentence_that_says_what_to_do(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        ApprovalController(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.proves("H5")
async def test_an_id_that_is_no_text_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    for store in ("memory:", tmp_path / "sayso.db"):
        controller = ApprovalController(mode="defer", policy=ASKS, store=store)
        outcome = await controller.review(pay(call_id=5))
        assert isinstance(outcome, Denied)
        assert "call_id is 5, and only a text can be stored" in outcome.reason
        assert await controller.pending() == []
        await controller.aclose()


async def test_waiting_for_a_negative_time_is_refused() -> None:
    with pytest.raises(ValueError, match="timeout is -1"):
        await ApprovalController(mode="defer").wait("any", timeout=-1)


# Threads and loops.


@pytest.mark.proves("H7")
async def test_a_controller_serves_several_event_loops_at_once(till: Till) -> None:
    controller = ApprovalController(policy=ASKS, channels=[Silent()])

    def elsewhere() -> str:
        return asyncio.run(controller.run(pay(), till))

    running = asyncio.ensure_future(asyncio.to_thread(elsewhere))
    while not (requests := await controller.pending()):
        await anyio.lowlevel.checkpoint()
    await controller.answer(requests[0].id, YES)
    with anyio.fail_after(10):
        assert await running == "paid {'amount': 5}"


@pytest.mark.proves("R67")
def test_a_synchronous_call_that_would_wait_on_a_thread_that_runs_a_loop_is_refused_with_a_clear_error() -> None:
    channel = ScriptedChannel(ApprovalDecision(approved=False))
    controller = ApprovalController(channels=[channel])
    request = ApprovalRequest(tool_name="t")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="await the async form, or call it from a worker thread"):
            controller.request_approval_sync(request)
        assert (channel.asked, await controller.pending()) == ([], [])
        assert not (await asyncio.to_thread(controller.request_approval_sync, request)).approved

    asyncio.run(main())


@pytest.mark.proves("R67")
async def test_a_synchronous_call_for_which_nobody_is_waited_runs_on_a_thread_that_runs_a_loop() -> None:
    request = ApprovalRequest(tool_name="t", args={"a": 1})
    assert ApprovalController(mode="approve_all").request_approval_sync(request).approved
    assert not ApprovalController(mode="strict").request_approval_sync(request).approved
    allows = ApprovalController(channels=[ScriptedChannel()], policy=Policy({"t": "none"}))
    assert allows.request_approval_sync(request).approved
    blocks = ApprovalController(mode="approve_all", policy=Policy({"t": "blocked"}))
    with pytest.raises(ApprovalBlocked):
        blocks.request_approval_sync(request)
    remembers = ApprovalController(channels=[ScriptedChannel()])
    for approved in (True, False):
        answer = ApprovalDecision(approved=approved, remember="session")
        remembers.memory.store(ApprovalRequest(tool_name="t", args={"a": approved}), answer)
        assert (
            remembers.request_approval_sync(ApprovalRequest(tool_name="t", args={"a": approved})).approved is approved
        )


@pytest.mark.proves("R67", "H5")
async def test_a_rule_that_has_to_wait_decides_nothing_on_a_thread_that_runs_a_loop() -> None:
    async def slow(call: ToolCall) -> Verdict:
        await anyio.lowlevel.checkpoint()
        return Verdict(approval="none", reason="")

    controller = ApprovalController(mode="approve_all", policy=Policy(needs_approval=slow))
    with pytest.raises(RuntimeError, match="await the async form"):
        controller.request_approval_sync(ApprovalRequest(tool_name="t"))


LARGE = {"approval": "required", "when": {"args.amount": {"gt": 1000}}}


@pytest.mark.proves("H2")
@pytest.mark.parametrize("approvers", [{"role": "treasurer"}, {"count": 2}])
async def test_an_edit_does_not_get_past_the_people_whom_the_edited_arguments_need(
    tmp_path: Path, approvers: dict[str, Any]
) -> None:
    policy = Policy({"pay": {**LARGE, "approvers": approvers}})
    controller = ApprovalController(policy=policy, mode="defer", store=tmp_path / "state.db")
    async with controller:
        call = ToolCall(tool="pay", args={"amount": 50})
        pending = await controller.review(call)
        assert isinstance(pending, Pending)
        edited = ApprovalDecision(approved=True, override_args={"amount": 5000})
        with pytest.raises(NotEntitled, match="the edited arguments need"):
            await controller.answer(pending.request.id, edited, who="ann", roles=["cashier"])
        assert [each.status for each in await controller.pending()] == ["open"]
        await controller.answer(pending.request.id, ApprovalDecision(approved=True), who="ann", roles=["cashier"])
        assert isinstance(await controller.review(call, asked=True), Approved)


async def test_a_controller_with_another_policy_shares_all_else(tmp_path: Path) -> None:
    steps: list[str] = []
    controller = ApprovalController(
        approval_callback=lambda _: YES,
        policy=ASKS,
        store=tmp_path / "s.db",
        hooks=[lambda each: steps.append(each.step)],
    )
    other = controller.with_policy(Policy({"pay": "blocked", "read": "required"}, default="none"))
    assert isinstance(await other.settle(ToolCall(tool="pay")), Denied)
    assert isinstance(await controller.settle(ToolCall(tool="pay")), Approved)
    assert isinstance(await other.settle(ToolCall(tool="read")), Approved)
    assert (other.session, other.memory, other.store) == (controller.session, controller.memory, controller.store)
    assert steps == ["stopped", "asked", "approved", "claimed", "asked", "approved", "claimed"]
    await other.aclose()  # which leaves the store to the first
    assert await controller.pending() == []
    await controller.aclose()


async def test_a_controller_with_another_policy_protects_the_files_of_its_store(tmp_path: Path) -> None:
    zones = {"default": "none", "sandbox": {"zones": {"work": {"root": str(tmp_path), "approval": {"write": "none"}}}}}
    controller = ApprovalController(mode="auto_deny", store=tmp_path / "s.db")
    other = controller.with_policy(Policy.from_dict(zones, base=tmp_path))
    assert isinstance(await other.settle(ToolCall(tool="write_file", args={"path": "/work/a.txt"})), Approved)
    assert isinstance(await other.settle(ToolCall(tool="write_file", args={"path": "/work/s.db"})), Denied)
    await controller.aclose()
