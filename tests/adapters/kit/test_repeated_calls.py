"""Calls that are alike: the same call finds its question, calls at once have one each, a later call is a new one."""

import asyncio

from sayso import ApprovalController, ApprovalDecision, ToolCall
from sayso.adapters.kit import Gate
from sayso.adapters.kit.repeated_calls import RepeatedCalls
from sayso.core.model import Approved, Denied, Pending
from sayso.stores.memory import MemoryStore

YES = ApprovalDecision(approved=True, who="ann")


def call(amount: int = 5) -> ToolCall:
    return ToolCall(tool="pay", args={"amount": amount}, session="s", run="r")


def deferring(store: MemoryStore | None = None) -> ApprovalController:
    return ApprovalController(mode="defer", store=store or MemoryStore())


async def ask(controller: ApprovalController, calls: RepeatedCalls, amount: int = 5) -> Approved | str:
    """Make a call once; return the approval, or the id of the question that is open about it."""
    async with calls.numbered(call(amount)) as named:
        outcome = await controller.adapter.review(named, asked=None)
    assert isinstance(outcome, Approved | Pending)
    return outcome if isinstance(outcome, Approved) else outcome.request.id


async def test_the_same_call_finds_its_question_and_its_answer_once() -> None:
    controller = deferring()
    calls = RepeatedCalls(Gate(controller))
    first = await ask(controller, calls)
    assert isinstance(first, str)
    assert await ask(controller, calls) == first
    await controller.answer(first, YES)
    assert isinstance(await ask(controller, calls), Approved)
    assert await ask(controller, calls) != first
    assert len(await controller.pending()) == 1


async def test_a_process_that_begins_later_finds_it_too() -> None:
    store = MemoryStore()
    first = await ask(deferring(store), RepeatedCalls(Gate(deferring(store))))
    other = deferring(store)
    assert await ask(other, RepeatedCalls(Gate(other))) == first


async def test_calls_at_once_have_a_question_each() -> None:
    controller = deferring()
    calls, inside = RepeatedCalls(Gate(controller)), asyncio.Barrier(3)

    async def make() -> str:
        async with calls.numbered(call()) as named:
            await inside.wait()
            return named.call_id

    assert len(set(await asyncio.gather(make(), make(), make()))) == 3


async def test_a_refused_call_that_is_made_again_is_a_new_question() -> None:
    controller = deferring()
    calls = RepeatedCalls(Gate(controller))
    first = await ask(controller, calls)
    assert isinstance(first, str)
    await controller.answer(first, ApprovalDecision(approved=False))
    assert await ask(controller, calls) != first


async def test_a_refusal_is_found_once_by_a_client_that_was_told_to_come_back() -> None:
    controller = deferring()
    calls = RepeatedCalls(Gate(controller))
    first = await ask(controller, calls)
    assert isinstance(first, str)
    await calls.expect_return((await controller.pending())[0])
    await controller.answer(first, ApprovalDecision(approved=False, note="no"))
    async with calls.numbered(call()) as named:
        outcome = await controller.adapter.review(named, asked=None)
    assert isinstance(outcome, Denied)
    assert (outcome.note, outcome.request_id) == ("no", first)
    assert await ask(controller, calls) != first


async def test_other_arguments_are_another_call() -> None:
    controller = deferring()
    calls = RepeatedCalls(Gate(controller))
    assert await ask(controller, calls, 1) != await ask(controller, calls, 2)


async def test_an_id_is_free_again_if_the_store_fails() -> None:
    class Failing(MemoryStore):
        fails = True

        async def find(self, session: str, key: str):  # noqa: ANN202 - as its base
            if self.fails:
                raise OSError("gone")
            return await super().find(session, key)

    store = Failing()
    controller = deferring(store)
    calls = RepeatedCalls(Gate(controller))
    try:
        await ask(controller, calls)
    except OSError:
        store.fails = False
    async with calls.numbered(call()) as named:
        assert named.call_id.endswith("-0")
