"""What the processes of a run do: agents that ask and run, people who answer, hubs between them."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from tests.faults.history import Recorder, Word, meaning, plain, word_of

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall
from sayso.client.hub_inbox import HubInbox
from sayso.client.inbox import Inbox, StoreInbox
from sayso.core.canonical import thaw
from sayso.errors import ApprovalError, StillOpen, StoreError, UnknownRequest
from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.server.serve import bind, create_server
from sayso.server.services.throttle import Throttle
from sayso.stores.postgres import PostgresStore, connection, follower, writer
from sayso.stores.remote import RemoteStore

Role = Literal["agent", "person", "hub"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to do."""

    name: str
    store: str  # the address of a database or of a hub
    token: str = ""
    session: str = ""
    calls: int = 1_000_000  # until it is told to stop
    at_once: int = 8
    timeout: float | None = None  # until a question expires
    patience: float = 5.0
    clock_ahead: float = 0.0  # by how much this machine's clock is wrong
    hurry: bool = False  # give up on silent connections sooner than people would want to
    port: int = 0
    seed: int = 0
    ignores: str = "nobody"  # whose questions this person does not answer
    fatal: int = 0  # the line of its history after which this process dies


def play(role: Role, plan: Plan, file: Path, bell: Connection) -> None:
    """Be that process, until the work is done or somebody ends it."""
    if plan.clock_ahead:
        right = time.time
        time.time = lambda: right() + plan.clock_ahead
    if plan.hurry:
        _hurry()
    recorder = Recorder(file, f"{plan.name}:{file.stem}", _bell(bell), fatal=plan.fatal)
    asyncio.run(_ROLES[role](plan, recorder))


def _hurry() -> None:
    """Let all that is waited for take a tenth of what it may take."""
    connection.__dict__.update(CONNECT_SECONDS=1.0, COMMAND_SECONDS=1.2)
    follower.__dict__.update(_POLL_SECONDS=0.5)
    limits = {name: value.replace("s", "00ms") for name, value in writer.__dict__["_LIMITS"].items()}
    writer.__dict__.update(_LIMITS=limits)


# Writing down what is done to the store.


def _open(plan: Plan) -> PostgresStore | RemoteStore:
    if plan.store.startswith("http"):
        return RemoteStore(plan.store, token=plan.token, patience=plan.patience)
    return PostgresStore(plan.store, patience=plan.patience)


async def _opened(plan: Plan) -> PostgresStore | RemoteStore:
    """Open the store as soon as that can be done: whoever starts a process starts it again."""
    while True:
        try:
            return await asyncio.to_thread(_open, plan)
        except StoreError:
            await _a_moment()


async def _a_moment() -> None:
    with anyio.move_on_after(0.1):
        await anyio.sleep_forever()


def _record(store: PostgresStore | RemoteStore, recorder: Recorder, *, all_of_it: bool) -> None:
    """Have a store write down what is done to it; a hub does for others what these write down themselves."""
    opens, closes, claims = store.open, store.close, store.claim

    async def open_(request: ApprovalRequest) -> ApprovalRequest:
        facts = {"call": request.args["call"], "request": request.id}
        return await recorder.during("open", opens(request), word_of, **facts)

    async def close(request_id: str, status: Any, decision: ApprovalDecision | None, **more: Any) -> ApprovalRequest:
        facts = {"request": request_id, "meant": meaning(status, decision)}
        return await recorder.during("close", closes(request_id, status, decision, **more), word_of, **facts)

    async def claim(request_id: str, **more: Any) -> bool:
        return await recorder.during("claim", claims(request_id, **more), bool, request=request_id)

    recorded: dict[str, Callable[..., Awaitable[object]]] = {"close": close}
    if all_of_it:
        recorded |= {"open": open_, "claim": claim}
    for name, method in recorded.items():
        setattr(store, name, method)


# Agents.


async def _agent(plan: Plan, recorder: Recorder) -> None:
    store = await _opened(plan)
    _record(store, recorder, all_of_it=True)
    policy = Policy(default="required")
    controller = ApprovalController(store=store, policy=policy, session=plan.session or plan.name, timeout=plan.timeout)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    numbers = itertools.takewhile(lambda _: not stopping.is_set(), range(plan.calls))
    await asyncio.gather(*(_work(controller, recorder, numbers) for _ in range(plan.at_once)))
    while True:  # what is owed of the audit is written before a good agent ends
        with contextlib.suppress(StoreError):
            await store.flush()
            break
    await store.aclose()


async def _work(controller: ApprovalController, recorder: Recorder, numbers: Iterator[int]) -> None:
    for number in numbers:
        name = f"{controller.session}-{number}"
        call = ToolCall(tool="pay", args={"call": name, "amount": number}, call_id=name)

        async def pay(args: dict[str, Any], name: str = name) -> None:
            await recorder.during("run", checkpoint(), _nothing, call=name, meant=Word("used", args=plain(args)))

        await _attempt(controller, recorder, call, pay)


async def _attempt(
    controller: ApprovalController, recorder: Recorder, call: ToolCall, pay: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Try until it is known what becomes of the call: as an agent does that is told that the store is away."""
    while True:
        try:
            await controller.run(call, pay)
        except ApprovalError as error:
            recorder.note("refused", call=call.call_id, said=error.cause)
        except StoreError:
            await _a_moment()
            continue
        return


def _nothing(_: object) -> None:
    return None


# People.


async def _person(plan: Plan, recorder: Recorder) -> None:
    inbox: Inbox
    if plan.store.startswith("http"):
        inbox = HubInbox(plan.store, plan.token)
    else:
        store = await _opened(plan)
        _record(store, recorder, all_of_it=True)
        inbox = StoreInbox(store)
    while True:
        with contextlib.suppress(StoreError, TimeoutError):
            await _answer_all(plan, recorder, inbox)


async def _answer_all(plan: Plan, recorder: Recorder, inbox: Inbox) -> None:
    """Answer what is open, until nothing is; then wait for more, or a moment."""
    point, _ = await inbox.changes()
    while found := [each for each in await inbox.pending() if each.session != plan.ignores]:
        answering = [_answer(plan, recorder, inbox, each) for each in found[: plan.at_once]]
        for each in await asyncio.gather(*answering, return_exceptions=True):
            if isinstance(each, BaseException) and not isinstance(each, StoreError | StillOpen | UnknownRequest):
                raise each
    async with asyncio.timeout(0.5):
        await inbox.changed(point)


async def _answer(plan: Plan, recorder: Recorder, inbox: Inbox, request: ApprovalRequest) -> None:
    decision = decision_for(plan, request)
    answering = inbox.answer(request, decision)
    if not isinstance(inbox, HubInbox):
        await answering  # which its store writes down
        return
    meant = meaning("approved" if decision.approved else "denied", decision)
    facts = {"request": request.id, "meant": meant}
    await recorder.during("close", answering, lambda given: word_of(given.request), **facts)


def decision_for(plan: Plan, request: ApprovalRequest) -> ApprovalDecision:
    """Return what this person says to a call, today and in a run with the same seed."""
    name: str = request.args["call"]
    chance = random.Random(f"{plan.seed} {plan.name} {name}").random()  # noqa: S311 - no secret
    if chance < 0.25:
        return ApprovalDecision(approved=False, who=plan.name, note="no")
    edited = thaw(request.args) | {"amount": 1000} if chance < 0.5 else None
    return ApprovalDecision(approved=True, who=plan.name, override_args=edited)


# Hubs.


async def _hub(plan: Plan, recorder: Recorder) -> None:
    store = await _opened(plan)
    assert isinstance(store, PostgresStore)
    _record(store, recorder, all_of_it=False)
    hub = Hub(store, throttle=Throttle(answers=1_000_000))
    taken = bind("127.0.0.1", plan.port)
    recorder.note("ready")
    await create_server(create_app(hub), hub).serve(sockets=[taken])


def _bell(bell: Connection) -> Callable[[], None]:
    """Return what tells the test that there is something new to read."""
    os.set_blocking(bell.fileno(), False)

    def ring() -> None:
        with contextlib.suppress(BlockingIOError):  # it has rung often enough
            os.write(bell.fileno(), b".")

    return ring


_ROLES: dict[Role, Callable[[Plan, Recorder], Coroutine[Any, Any, None]]] = {
    "agent": _agent,
    "person": _person,
    "hub": _hub,
}
