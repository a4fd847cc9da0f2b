"""The inbox on the whole screen of this terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sayso.cli.requests import answered_by
from sayso.cli.store import CODES_OF_READING, epilog, shorts, store_option, who_option, with_store
from sayso.controller import ApprovalController
from sayso.errors import ApprovalBlocked, StoreError, UnknownRequest
from sayso.model import ApprovalDecision, ApprovalRequest, AuditEntry
from sayso.plain import state

if TYPE_CHECKING:
    from sayso.channels.inbox import Given
    from sayso.ports import Store


@click.command(epilog=epilog("sayso watch --store sayso.db", CODES_OF_READING))
@store_option
@who_option
def watch(where: str | None, *, who: str) -> None:
    """Watch what waits for an answer, live and on the whole screen, and answer it with single keys.

    The keys are those of the prompt: y allow once, a allow for…, e edit, n deny, m deny with a note, v view all, r the
    rule. j and k move, space scrolls, ? tells all of them, q leaves.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("`sayso watch` needs a terminal; without one, use `sayso pending`")
    # Nobody who only asks for help should wait for the screen to load.
    from sayso.channels.keys import Interrupted  # noqa: PLC0415

    try:
        with_store(where, lambda store: _watch(store, who))
    except (Interrupted, EOFError):
        raise click.Abort from None


async def _watch(store: Store, who: str) -> None:
    from sayso.channels.inbox import Means  # noqa: PLC0415 - as above
    from sayso.channels.watching import Watch  # noqa: PLC0415

    steps: list[AuditEntry] = []
    controller = ApprovalController(mode="defer", store=store, hooks=[steps.append])

    async def answer(request: ApprovalRequest, decision: ApprovalDecision) -> Given:
        return await _give(controller, request, decision, steps)

    await Watch(Means(who=who, store=store, answer=answer, expire=controller.pending, names=shorts)).run()


async def _give(
    controller: ApprovalController, request: ApprovalRequest, decision: ApprovalDecision, steps: list[AuditEntry]
) -> Given:
    """Answer a request, and say what came of it."""
    from sayso.channels.inbox import Given, StillOpen  # noqa: PLC0415
    from sayso.channels.question import named  # noqa: PLC0415 - as above
    from sayso.channels.sheet import told  # noqa: PLC0415

    steps.clear()
    try:
        closed = await controller.answer(request.id, decision)
    except UnknownRequest:
        return Given("Your answer was not taken: the request is there no more.", ())
    except ApprovalBlocked as error:
        raise StillOpen(f"Not answered: {error.reason}.") from None
    except (ValueError, StoreError) as error:
        raise StillOpen(f"Not answered: {error}.") from None
    moved = [each.about.id for each in steps if isinstance(each.about, ApprovalRequest) and each.step != "expired"]
    if closed.id not in moved:
        return Given(f"Your answer was not taken: {_how_it_stands(closed)}.", ())
    alike = len(moved) - 1
    too = f" The same went to {alike} that {'is' if alike == 1 else 'are'} alike." if alike else ""
    return Given(f"{told(decision)} ({named(request)}){too}", moved)


def _how_it_stands(request: ApprovalRequest) -> str:
    decision = request.decision
    if request.status in {"expired", "withdrawn"} or decision is None:
        return f"it is {state(request)}"
    return f"it was already {'approved' if decision.approved else 'denied'} by {answered_by(decision)}"
