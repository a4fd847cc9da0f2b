"""The inbox on the whole screen of this terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sayso.cli.open_store import CODES_OF_READING, epilog, shorts, store_option, who_option, with_inbox
from sayso.cli.render_request import answered_by
from sayso.core.json_codec import state
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.errors import StillOpen, StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.channels.terminal.watch_app import Told
    from sayso.client.inbox import Inbox


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
    from sayso.channels.terminal.channel import unfit  # noqa: PLC0415
    from sayso.channels.terminal.keys import Interrupted  # noqa: PLC0415

    problem = unfit()
    if problem is not None:
        raise click.UsageError(f"{problem}; or use `sayso pending`")
    try:
        with_inbox(where, lambda inbox: _watch(inbox, who))
    except (Interrupted, EOFError):
        raise click.Abort from None


async def _watch(inbox: Inbox, who: str) -> None:
    from sayso.channels.terminal.watch_app import Means, Watch  # noqa: PLC0415 - as above

    async def answer(request: ApprovalRequest, decision: ApprovalDecision) -> Told:
        return await _give(inbox, request, decision)

    await Watch(Means(who=who, inbox=inbox, answer=answer, names=shorts)).run()


async def _give(inbox: Inbox, request: ApprovalRequest, decision: ApprovalDecision) -> Told:
    """Answer a request, and say what came of it."""
    from sayso.channels.display.phrases import named  # noqa: PLC0415
    from sayso.channels.terminal.dialog import told  # noqa: PLC0415
    from sayso.channels.terminal.watch_app import Told  # noqa: PLC0415 - as above

    try:
        given = await inbox.answer(request, decision)
    except UnknownRequest:
        return Told("Your answer was not taken: the request is there no more.", ())
    except (StillOpen, StoreError) as error:
        raise StillOpen(f"Not answered: {error}.") from None
    if not given.taken:
        return Told(f"Your answer was not taken: {_how_it_stands(given.request)}.", ())
    alike = len(given.alike)
    too = f" The same went to {alike} that {'is' if alike == 1 else 'are'} alike." if alike else ""
    return Told(f"{told(decision)} ({named(request)}){too}", [request.id, *given.alike])


def _how_it_stands(request: ApprovalRequest) -> str:
    decision = request.decision
    if request.status in {"expired", "withdrawn"} or decision is None:
        return f"it is {state(request)}"
    return f"it was already {'approved' if decision.approved else 'denied'} by {answered_by(decision)}"
