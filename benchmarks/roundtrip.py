"""P5: round trip in one process: ask, answer and resume, with an approver that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks import peers
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, interleave, repeat_async
from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall

ARGS: dict[str, Any] = {"to": "team@example.org", "subject": "the report", "text": "forty characters of text .."}
POLICY = Policy({"send_mail": "required"})
YES = ApprovalDecision(approved=True)
OTHERS = 1_000


async def send_mail(to: str, subject: str, text: str) -> str:  # noqa: ARG001 - a minimal tool
    return "sent"


async def approve(_: ApprovalRequest) -> ApprovalDecision:
    return YES


class Inbox:
    """A channel that only queues requests; the approver answers through the controller."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[str] = asyncio.Queue()

    async def announce(self, request: ApprovalRequest) -> None:
        self.asked.put_nowait(request.id)


def asking(controller: ApprovalController) -> Callable[[], Awaitable[object]]:
    return lambda: controller.settle(ToolCall(tool="send_mail", args=ARGS))


async def with_pending(others: int) -> ApprovalController:
    """Return a controller with an approver task, and `others` open requests without an answer."""
    inbox = Inbox()
    controller = ApprovalController(policy=POLICY, channels=[inbox])
    for _ in range(others):
        await controller.review(ToolCall(tool="send_mail", args=ARGS))
    for _ in range(others):
        await inbox.asked.get()
    answering.add(asyncio.create_task(_answer(controller, inbox)))
    return controller


answering: set[asyncio.Task[None]] = set()


async def _answer(controller: ApprovalController, inbox: Inbox) -> None:
    while True:
        await controller.answer(await inbox.asked.get(), YES)


async def _future() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bool] = loop.create_future()
    loop.call_soon(future.set_result, True)  # noqa: FBT003 - the result of a future
    await future


async def ask_and_resume(effort: Effort) -> list[Row]:
    """Measure both paths of an answer, and whether other open requests slow one down."""
    callback = ApprovalController(policy=POLICY, approval_callback=approve)
    alone, crowded = await with_pending(0), await with_pending(OTHERS)
    seconds = await interleave(
        {
            "limit": repeat_async(_future),
            "callback": repeat_async(asking(callback), then=callback.store.audit_ends),
            "alone": repeat_async(asking(alone), then=alone.store.audit_ends),
            "crowded": repeat_async(asking(crowded), then=crowded.store.audit_ends),
            "peer": repeat_async(await peers.asked(send_mail, ARGS)),
        },
        effort,
    )
    return [
        row(
            "P5",
            "ask, async callback, resume",
            seconds["callback"],
            limit=compare(seconds["callback"], seconds["limit"], at_most(6)),
            peer=compare(seconds["callback"], seconds["peer"]),
        ),
        row(
            "P5",
            "ask, controller.answer, resume",
            seconds["alone"],
            limit=compare(seconds["alone"], seconds["limit"], at_most(6)),
        ),
        row(
            "P5",
            f"… {OTHERS:,} others open ÷ none",
            seconds["crowded"],
            limit=compare(seconds["crowded"], seconds["alone"], at_most(1.1)),
        ),
    ]


MEASUREMENTS = (ask_and_resume,)
