"""Commands of the inbox: `pending`, `show`, `approve` and `deny`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast, get_args

import click

from sayso.channels.display.blocks import votes_text
from sayso.cli.completion import complete_request_ids
from sayso.cli.open_store import (
    CODES_OF_ANSWERS,
    CODES_OF_IDS,
    CODES_OF_READING,
    AlreadyAnswered,
    Failure,
    NoLongerOpen,
    UnknownId,
    combine_options,
    count_option,
    epilog,
    find_request,
    json_option,
    short_id,
    short_ids,
    store_option,
    who_option,
    with_inbox,
)
from sayso.cli.remembered import validity_text
from sayso.cli.render_request import asking_agent, brief_lines, closed_text, full_lines, one_line
from sayso.cli.screen import page_lines, say, say_lines, visible, width, wrap_text
from sayso.cli.times import read_span
from sayso.client.inbox import AnswerResult
from sayso.core import json_codec
from sayso.core.model import ApprovalDecision, ApprovalRequest, Remember, ScopeKind
from sayso.errors import StillOpen, UnknownRequest

if TYPE_CHECKING:
    from sayso.client.inbox import Inbox

_CHANNEL = "command line"
_KINDS = get_args(ScopeKind)
_JUDGED_AGAIN = (
    "The edited arguments were not judged here: the policy and the tool judge them again where the call runs, and may "
    "still refuse them."
)


# --- pending and show --------------------------------------------------------------------------------


@click.command(epilog=epilog("sayso pending --store sayso.db", CODES_OF_READING))
@store_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Also those that are closed, newest last.")
@count_option("--limit", "With --all, how many of the newest; 100 if not given.", default=100)
def pending(where: str | None, *, as_json: bool, everything: bool, limit: int) -> None:
    """List the requests that wait for an answer, oldest first.

    Each has the end of its id, which is enough to name it: ids begin with the time, so their starts look alike.
    """

    async def work(inbox: Inbox) -> list[ApprovalRequest]:
        found = await inbox.pending()
        return (await inbox.recent(limit))[::-1] if everything else found

    found = with_inbox(where, work)
    if as_json:
        say(json_codec.to_json([json_codec.request_to_dict(each) for each in found], indent=2))
        return
    names = short_ids(each.id for each in found)
    for each in found:
        say_lines(brief_lines(each, names[each.id], time.time()))
    if not found:
        say("Nothing waits for an answer." if not everything else "Nobody was asked anything yet.")


@click.command(epilog=epilog("sayso show 4f2a91 --store sayso.db", CODES_OF_IDS))
@store_option
@json_option
@click.option("--no-pager", is_flag=True, help="Print all of it at once, also on a terminal.")
@click.argument("part", metavar="ID", shell_complete=complete_request_ids)
def show(part: str, where: str | None, *, as_json: bool, no_pager: bool) -> None:
    """Show everything about one request.

    ID is the start or the end of its id, 4 characters or more. Characters that nobody can see, or that a terminal acts
    on, are shown as their codes. What does not fit on the terminal opens in $PAGER.
    """
    request = with_inbox(where, lambda inbox: find_request(inbox, part))
    if as_json:
        say(json_codec.to_json(json_codec.request_to_dict(request), indent=2))
        return
    (say_lines if no_pager else page_lines)(full_lines(request, time.time()))


# --- approve and deny --------------------------------------------------------------------------------


_answer_options = combine_options(
    click.option("-m", "--note", help="A note, which the agent gets."),
    who_option,
    click.option("--for", "seconds", metavar="SPAN", callback=read_span, help="Remember it for this long: 30m, 7d."),
    count_option("--uses", "Remember it for this many calls after this one."),
    click.option(
        "--scope",
        type=click.Choice(_KINDS),
        metavar="KIND",
        help=f"Remember it for these calls: {', '.join(_KINDS)}.",
    ),
    click.option("--session", "in_session", is_flag=True, help="Remember it in the session that asks."),
    click.option("--always", is_flag=True, help="Remember it in every session."),
    store_option,
    json_option,
    click.argument("part", metavar="ID", shell_complete=complete_request_ids),
)


@click.command(epilog=epilog("sayso approve 4f2a91 --for 30m -m 'only today'", CODES_OF_ANSWERS))
@_answer_options
@click.option(
    *("--args", "edited"),
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Run it with these arguments: JSON or YAML, - for the input.",
)
def approve(part: str, where: str | None, *, edited: str | None, as_json: bool, who: str, **how: Any) -> None:  # noqa: ANN401 - options
    """Say yes to a request: the call runs once, with exactly the arguments that it shows.

    ID is the start or the end of its id, 4 characters or more; if several fit, none is answered. Without one of --for,
    --uses, --scope, --session and --always nothing is remembered; with them it is for the session that asks, or for
    every session with --always.
    """
    args = None if edited is None else _read_edited_args(edited)
    _submit_and_report(part, where, _decision(approved=True, who=who, args=args, **how), as_json=as_json)


def _read_edited_args(name: str) -> Mapping[str, Any]:
    from sayso.cli.edited import read_edited  # noqa: PLC0415 - YAML loads slowly, and only this option needs it

    return read_edited(name)


@click.command(epilog=epilog("sayso deny 4f2a91 -m 'not on a Friday'", CODES_OF_ANSWERS))
@_answer_options
def deny(part: str, where: str | None, *, as_json: bool, who: str, **how: Any) -> None:  # noqa: ANN401 - options
    """Say no to a request: the call does not run, and the agent gets your note.

    ID is the start or the end of its id, 4 characters or more; if several fit, none is answered. A no can be remembered
    as a yes can.
    """
    _submit_and_report(part, where, _decision(approved=False, who=who, args=None, **how), as_json=as_json)


def _decision(
    *,
    approved: bool,
    who: str,
    args: Mapping[str, Any] | None,
    note: str | None,
    seconds: float | None,
    uses: int | None,
    scope: str | None,
    in_session: bool,
    always: bool,
) -> ApprovalDecision:
    if in_session and always:
        raise click.UsageError("--session and --always exclude each other; use one of them")
    kept = in_session or always or seconds is not None or uses is not None or scope is not None
    remember: Remember = "always" if always else "session" if kept else "none"
    return ApprovalDecision(
        approved=approved,
        note=note,
        override_args=args,
        remember=remember,
        scope=cast("ScopeKind | None", scope),
        uses=uses,
        until=None if seconds is None else time.time() + seconds,
        who=who,
        channel=_CHANNEL,
    )


def _submit_and_report(part: str, where: str | None, decision: ApprovalDecision, *, as_json: bool) -> None:
    outcome = with_inbox(where, lambda inbox: _submit_answer(inbox, part, decision))
    if as_json:
        say(json_codec.to_json(_outcome_facts(outcome), indent=2))
    if not outcome.accepted:
        _raise_not_taken(outcome.request)
    if not as_json:
        say_lines(_result_lines(outcome, decision))


async def _submit_answer(inbox: Inbox, part: str, decision: ApprovalDecision) -> AnswerResult:
    request = await find_request(inbox, part)
    if request.status == "open" and sys.stderr.isatty():
        say(one_line(request, width()), err=True)
    try:
        return await inbox.answer(request, decision)
    except UnknownRequest as error:  # pruned a moment ago
        raise UnknownId(str(error)) from None
    except StillOpen as error:
        raise Failure(f"{error}; the request is still open") from None


def _raise_not_taken(request: ApprovalRequest) -> NoReturn:
    decision = request.decision
    note = f", with the note {decision.note!r}" if decision is not None and decision.note else ""
    kind = NoLongerOpen if request.status in {"expired", "withdrawn"} or decision is None else AlreadyAnswered
    raise kind(f"your answer was not taken: the request {closed_text(request)}{note}")


def _result_lines(outcome: AnswerResult, decision: ApprovalDecision) -> Iterator[str]:
    request = outcome.request
    call = f"{request.tool_name} of {asking_agent(request)}"
    if request.status == "open":
        yield from wrap_text(f"Your yes counts: {votes_text(request)}; {call} still waits.")
    elif not decision.approved:
        yield from wrap_text(f"Denied: {call} does not run.")
    elif decision.override_args is None:
        yield from wrap_text(f"Approved: {call} runs once, with exactly the arguments that were shown.")
    else:
        yield from wrap_text(f"Approved with edited arguments: {call} runs once, with exactly these.")
        yield from wrap_text(_JUDGED_AGAIN)
    for each in outcome.remembered:
        yield from wrap_text(f"Remembered {validity_text(each)}: {each.scope.label}")
        yield f"  (sayso remembered revoke {short_id(each.id)} revokes it)"
    if outcome.also_answered:
        names = ", ".join(short_ids(outcome.also_answered).values())
        yield from wrap_text(f"The same answer was given to what is open and alike: {visible(names)}")


def _outcome_facts(outcome: AnswerResult) -> dict[str, Any]:
    return {
        "taken": outcome.accepted,
        "request": json_codec.request_to_dict(outcome.request),
        "remembered": [json_codec.remembered_to_dict(each) for each in outcome.remembered],
        "alike": outcome.also_answered,
    }
