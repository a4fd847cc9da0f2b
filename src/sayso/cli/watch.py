"""`sayso watch`: opens the full-screen inbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from sayso.cli.filtering import agent_option, text_option, tool_option
from sayso.cli.open_store import CODES_OF_READING, epilog, short_ids, store_option, who_option, with_inbox
from sayso.cli.render_request import closed_text
from sayso.core.filters import RequestFilter
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.errors import StillOpen, StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.channels.terminal.watch_app import AnswerReport
    from sayso.client.inbox import Inbox


@click.command(epilog=epilog("sayso watch --tool 'git_*'", CODES_OF_READING))
@store_option
@who_option
@tool_option
@agent_option
@text_option
def watch(where: str | None, *, who: str, **criteria: Any) -> None:  # noqa: ANN401 - options
    """Watch what waits for an answer, live and on the whole screen, and answer it with single keys.

    The keys are those of the prompt: y allow once, a allow for…, e edit, n deny, m deny with a note, v view all, r the
    rule. j and k move, space scrolls, / filters the list, ? tells all of them, q leaves. While a filter is set, the
    title says how many others wait.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("`sayso watch` needs a terminal; without one, use `sayso pending`")
    # Imported late: help should not wait for the screen to load.
    from sayso.channels.terminal.channel import unsupported_reason  # noqa: PLC0415
    from sayso.channels.terminal.keys import Interrupted  # noqa: PLC0415

    problem = unsupported_reason()
    if problem is not None:
        raise click.UsageError(f"{problem}; or use `sayso pending`")
    try:
        with_inbox(where, lambda inbox: _watch(inbox, who, RequestFilter(**criteria)))
    except (Interrupted, EOFError):
        raise click.Abort from None


async def _watch(inbox: Inbox, who: str, wanted: RequestFilter) -> None:
    from sayso.channels.terminal.watch_app import Watch, WatchContext  # noqa: PLC0415 - as above

    async def answer(request: ApprovalRequest, decision: ApprovalDecision) -> AnswerReport:
        return await _submit_answer(inbox, request, decision)

    await Watch(WatchContext(who=who, inbox=inbox, answer=answer, short_ids=short_ids, wanted=wanted)).run()


async def _submit_answer(inbox: Inbox, request: ApprovalRequest, decision: ApprovalDecision) -> AnswerReport:
    """Submit an answer, and report the result as a sentence."""
    from sayso.channels.display.blocks import votes_text  # noqa: PLC0415
    from sayso.channels.display.phrases import request_title  # noqa: PLC0415
    from sayso.channels.terminal.dialog import answer_text  # noqa: PLC0415
    from sayso.channels.terminal.watch_app import AnswerReport  # noqa: PLC0415 - as above

    try:
        given = await inbox.answer(request, decision)
    except UnknownRequest:
        return AnswerReport("Your answer was not taken: the request was deleted.", [request.id])
    except (StillOpen, StoreError) as error:
        raise StillOpen(f"Not answered: {error}.") from None
    if not given.accepted:
        return AnswerReport(f"Your answer was not taken: it {closed_text(given.request)}.", [request.id])
    if given.request.status == "open":
        return AnswerReport(f"Your yes counts: {votes_text(given.request)}.", (), given.request)
    alike = len(given.also_answered)
    also = f" The same answer was given to {alike} more open request{'' if alike == 1 else 's'}." if alike else ""
    return AnswerReport(f"{answer_text(decision)} ({request_title(request)}){also}", [request.id, *given.also_answered])
