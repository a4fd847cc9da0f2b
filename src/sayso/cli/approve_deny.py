"""Commands of the inbox: `pending`, `show`, `approve` and `deny`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import click
from msgspec.structs import replace

from sayso.channels.display.blocks import votes_text
from sayso.channels.display.request_lines import RULE
from sayso.cli.completion import complete_request_ids
from sayso.cli.filtering import filter_options, options_text, search_progress
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
    find_requests,
    json_option,
    short_id,
    short_ids,
    store_option,
    who_option,
    with_inbox,
)
from sayso.cli.operators.remembered import validity_text
from sayso.cli.render_request import asking_agent, brief_lines, closed_text, full_lines, one_line
from sayso.cli.screen import bold, page_lines, say, say_lines, visible, width, wrap_text
from sayso.cli.times import read_span
from sayso.client.inbox import AnswerResult, SearchPage, search_history
from sayso.core import json_codec
from sayso.core.filters import RequestFilter
from sayso.core.model import ApprovalDecision, ApprovalRequest, Remember, ScopeKind
from sayso.errors import StillOpen, StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.client.inbox import Inbox

_CHANNEL = "command line"
_KINDS = get_args(ScopeKind)
_NEWEST = 100  # of the history, unless --limit is given
_JUDGED_AGAIN = (
    "The edited arguments were not judged here: the policy and the tool judge them again where the call runs, and may "
    "still refuse them."
)


ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_request_ids)


# --- pending and show --------------------------------------------------------------------------------


@click.command(epilog=epilog("sayso pending --tool 'git_*' --since 2h", CODES_OF_READING))
@store_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Also those that are closed, newest last.")
@count_option("--limit", "How many at most: the oldest that wait, or with --all the newest; 100 of these if not given.")
@filter_options
def pending(where: str | None, *, as_json: bool, everything: bool, limit: int | None, **criteria: Any) -> None:  # noqa: ANN401 - options
    """List the requests that wait for an answer, oldest first.

    Each has the end of its id, which is enough to name it: ids begin with the time, so their starts look alike. Of
    several filters all have to match; upper and lower case are the same.
    """
    wanted = RequestFilter(status="all" if everything else "pending", **criteria)

    async def work(inbox: Inbox) -> tuple[list[ApprovalRequest], str]:
        if everything:
            most = limit or _NEWEST
            with search_progress() as show:
                page = await search_history(inbox, wanted, most, show)
            _warn_of_cut_search(page, most)
            return page.found[::-1], _nothing_found_text(wanted, page.searched)
        found = await inbox.pending(wanted)
        if limit is not None and len(found) > limit:
            more = len(found) - limit
            say(f"{more} more {'waits' if more == 1 else 'wait'}; --limit {limit} shows the oldest.", err=True)
            return found[:limit], ""
        return found, "" if found else _nothing_waits_text(wanted, len(await inbox.pending()))

    found, otherwise = with_inbox(where, work)
    if as_json:
        say(json_codec.to_json([json_codec.request_to_dict(each) for each in found], indent=2))
        return
    names = short_ids(each.id for each in found)
    for each in found:
        say_lines(brief_lines(each, names[each.id], time.time()))
    if not found:
        say_lines(wrap_text(otherwise))


def _nothing_waits_text(wanted: RequestFilter, others: int) -> str:
    if not others:
        return "Nothing waits for an answer."
    waiting = "1 other waits" if others == 1 else f"{others} others wait"
    return f"Nothing that waits matches {options_text(wanted)}; {waiting}."


def _nothing_found_text(wanted: RequestFilter, searched: int) -> str:
    given = options_text(wanted)
    return f"No request matches {given}; {searched:,} were searched." if given else "Nobody was asked anything yet."


def _warn_of_cut_search(page: SearchPage, limit: int) -> None:
    if page.following is not None and len(page.found) < limit:
        say(f"Only the newest {page.searched:,} requests were searched; look further back with --until.", err=True)


@click.command(epilog=epilog("sayso show 4f2a91 --store sayso.db", CODES_OF_IDS))
@store_option
@json_option
@click.option("--conversation", is_flag=True, help="Also the messages before the call, in the agent's words.")
@click.option("--no-pager", is_flag=True, help="Print all of it at once, also on a terminal.")
@ids_argument
def show(ids: tuple[str, ...], where: str | None, *, as_json: bool, conversation: bool, no_pager: bool) -> None:
    """Show everything about one request, or about several.

    ID is the start or the end of an id, 4 characters or more. Characters that nobody can see, or that a terminal acts
    on, are shown as their codes. What does not fit on the terminal opens in $PAGER. With --json, several ids give a
    list.
    """
    requests = with_inbox(where, lambda inbox: find_requests(inbox, ids))
    if as_json:
        facts = [json_codec.request_to_dict(each) for each in requests]
        say(json_codec.to_json(facts if len(ids) > 1 else facts[0], indent=2))
        return
    lines: list[str] = []
    for number, request in enumerate(requests):
        lines += [] if number == 0 else ["", RULE * width(), ""]
        lines += full_lines(request, time.time(), conversation=conversation)
    (say_lines if no_pager else page_lines)(lines)


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
    ids_argument,
)


@click.command(epilog=epilog("sayso approve 4f2a91 --for 30m -m 'only today'", CODES_OF_ANSWERS))
@_answer_options
@click.option(
    *("--args", "edited"),
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Run it with these arguments: JSON or YAML, - for the input.",
)
def approve(
    ids: tuple[str, ...],
    where: str | None,
    *,
    edited: str | None,
    as_json: bool,
    who: str,
    **how: Any,  # noqa: ANN401 - options
) -> None:
    """Say yes to a request: the call may run once, with exactly the arguments that it shows.

    ID is the start or the end of its id, 4 characters or more. Several requests are answered one by one; if one ID fits
    none or several, nothing is answered. Without one of --for, --uses, --scope, --session and --always nothing is
    remembered; with them it is for the session that asks, or for every session with --always.
    """
    if edited is not None and len(ids) > 1:
        raise click.UsageError("--args are the arguments of one call; name one ID with it")
    args = None if edited is None else _read_edited_args(edited)
    _submit_and_report(ids, where, _decision(approved=True, who=who, args=args, **how), as_json=as_json)


def _read_edited_args(name: str) -> Mapping[str, Any]:
    from sayso.cli.edited import read_edited  # noqa: PLC0415 - YAML loads slowly, and only this option needs it

    return read_edited(name)


@click.command(epilog=epilog("sayso deny 4f2a91 -m 'not on a Friday'", CODES_OF_ANSWERS))
@_answer_options
def deny(ids: tuple[str, ...], where: str | None, *, as_json: bool, who: str, **how: Any) -> None:  # noqa: ANN401 - options
    """Say no to a request: the call does not run, and the agent gets your note.

    ID is the start or the end of its id, 4 characters or more. Several requests are answered one by one; if one ID fits
    none or several, nothing is answered. A no can be remembered as a yes can.
    """
    _submit_and_report(ids, where, _decision(approved=False, who=who, args=None, **how), as_json=as_json)


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


class _Given(NamedTuple):
    """An answer that was given: its result, and why it was not taken, if it was not."""

    result: AnswerResult
    problem: Failure | None = None


def _submit_and_report(ids: tuple[str, ...], where: str | None, decision: ApprovalDecision, *, as_json: bool) -> None:
    def report(given: _Given) -> None:
        if not as_json:
            _report(given, decision, several=len(ids) > 1)

    given = with_inbox(where, lambda inbox: _submit_answers(inbox, ids, decision, report))
    if as_json:
        facts = [_outcome_facts(each) for each in given]
        say(json_codec.to_json(facts if len(ids) > 1 else facts[0], indent=2))
    failures = [each.problem for each in given if each.problem is not None]
    if failures and len(ids) == 1:
        raise failures[0]
    if failures:  # the first gives the exit code
        words = "was" if len(failures) == 1 else "were"
        raise type(failures[0])(f"{len(failures)} of {len(given)} answers {words} not taken")


async def _submit_answers(
    inbox: Inbox, ids: tuple[str, ...], decision: ApprovalDecision, report: Callable[[_Given], None]
) -> list[_Given]:
    """Find all requests first, so that a wrong id answers nothing; then answer them one by one."""
    requests = await find_requests(inbox, ids)
    if sys.stderr.isatty():
        for each in requests:
            if each.status == "open":
                say(one_line(each, width()), err=True)
    given: list[_Given] = []
    for each in requests:
        answered = await _submit_answer(inbox, each, decision)
        if each.status == "open" and _is_covered(answered.result.request, given):
            answered = _Given(replace(answered.result, accepted=True))
        given.append(answered)
        report(answered)
    return given


def _is_covered(request: ApprovalRequest, given: list[_Given]) -> bool:
    """Whether an earlier answer of this command was remembered, and has closed this request too."""
    now = request.decision
    earlier = [each.result.request.decision for each in given if each.problem is None and each.result.remembered]
    return now is not None and any(
        each is not None and (each.who, each.approved, each.note) == (now.who, now.approved, now.note)
        for each in earlier
    )


async def _submit_answer(inbox: Inbox, request: ApprovalRequest, decision: ApprovalDecision) -> _Given:
    untaken = AnswerResult(request=request, accepted=False)
    try:
        result = await inbox.answer(request, decision)
    except UnknownRequest as error:  # pruned a moment ago
        return _Given(untaken, UnknownId(str(error)))
    except StillOpen as error:
        return _Given(untaken, Failure(f"{error}; the request is still open"))
    except StoreError as error:
        return _Given(untaken, Failure(str(error)))
    return _Given(result, None if result.accepted else _not_taken(result.request))


def _not_taken(request: ApprovalRequest) -> Failure:
    decision = request.decision
    note = f", with the note {decision.note!r}" if decision is not None and decision.note else ""
    kind = NoLongerOpen if request.status in {"expired", "withdrawn"} or decision is None else AlreadyAnswered
    return kind(f"your answer was not taken: the request {closed_text(request)}{note}")


def _report(given: _Given, decision: ApprovalDecision, *, several: bool) -> None:
    """Print the result of an answer; one of several behind its id, and one that was not taken as well."""
    name = f"{short_id(given.result.request.id)}  " if several else ""
    if given.problem is None:
        say_lines(_result_lines(given.result, decision, name))
    elif several:  # a single one is the error of the command
        say_lines(wrap_text(given.problem.message, head=bold(name), indent=len(name)))


def _result_lines(outcome: AnswerResult, decision: ApprovalDecision, name: str = "") -> Iterator[str]:
    yield from wrap_text(_result_text(outcome.request, decision), head=bold(name), indent=len(name))
    if decision.override_args is not None:
        yield from wrap_text(_JUDGED_AGAIN)
    for each in outcome.remembered:
        yield from wrap_text(f"Remembered {validity_text(each)}: {each.scope.label}")
        yield f"  (sayso remembered revoke {short_id(each.id)} revokes it)"
    if outcome.also_answered:
        names = ", ".join(short_ids(outcome.also_answered).values())
        yield from wrap_text(f"The same answer was given to what is open and alike: {visible(names)}")


def _result_text(request: ApprovalRequest, decision: ApprovalDecision) -> str:
    call = f"{request.tool_name} of {asking_agent(request)}"
    if request.status == "open":
        return f"Your yes counts: {votes_text(request)}; {call} still waits."
    if not decision.approved:
        return f"Denied: {call} does not run."
    if decision.override_args is None:
        return f"Approved: {call} may run once, with exactly the arguments that were shown."
    return f"Approved with edited arguments: {call} may run once, with exactly these."


def _outcome_facts(given: _Given) -> dict[str, Any]:
    outcome = given.result
    return {
        "taken": outcome.accepted,
        "request": json_codec.request_to_dict(outcome.request),
        "remembered": [json_codec.remembered_to_dict(each) for each in outcome.remembered],
        "alike": outcome.also_answered,
        "problem": None if given.problem is None else given.problem.message,
    }
