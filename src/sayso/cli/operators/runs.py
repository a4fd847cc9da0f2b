"""Commands of parked runs, which are suspended until their requests are answered: list, and drop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sayso.channels.display.durations import format_rough_duration
from sayso.cli.main import Commands
from sayso.cli.open_store import (
    CODES_OF_IDS,
    epilog,
    find_by_id,
    json_option,
    short_ids,
    store_option,
    who_option,
    with_records,
)
from sayso.cli.render_request import one_line
from sayso.cli.screen import bold, say, say_lines, width, wrap_text
from sayso.core import json_codec

if TYPE_CHECKING:
    from sayso.client.records import Records
    from sayso.core.model import ApprovalRequest, ParkedRun

_UNKNOWN = "no run is parked under the id {!r}; see `sayso runs`"


@click.group(cls=Commands, invoke_without_command=True, epilog=epilog("sayso runs --store sayso.db", CODES_OF_IDS))
@store_option
@json_option
@click.pass_context
def runs(context: click.Context, where: str | None, *, as_json: bool) -> None:
    """List the runs that are parked until their requests are answered, oldest first; drop one.

    An agent's program resumes them: with `resume_answered` or `keep_resuming`, see docs/pydantic-ai.md.
    """
    if context.invoked_subcommand is not None:
        return
    found = with_records(where, _runs_with_requests)
    if as_json:
        say(json_codec.to_json([_facts(run, asked) for run, asked in found], indent=2))
        return
    names = short_ids(run.id for run, _ in found)
    for run, asked in found:
        say_lines(_lines(run, asked, names[run.id]))
    if not found:
        say("No run is parked.")


@runs.command(epilog=epilog("sayso runs drop 4f2a91 --store sayso.db", CODES_OF_IDS))
@store_option
@json_option
@who_option
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def drop(ids: tuple[str, ...], where: str | None, *, as_json: bool, who: str) -> None:
    """Drop runs that nobody will resume; the requests that they wait for are withdrawn.

    ID is the start or the end of an id, 4 characters or more. If one ID names nothing, nothing is dropped.
    """

    async def work(records: Records) -> list[ParkedRun]:
        known = await records.runs()
        chosen = {each.id: each for each in (find_by_id(known, part, _UNKNOWN, _agent) for part in ids)}
        return [each for each in chosen.values() if await records.drop_run(each, who)]

    gone = with_records(where, work)
    if as_json:
        say(json_codec.to_json([json_codec.run_to_dict(each) for each in gone], indent=2))
        return
    for each in gone:
        say(f"dropped  {each.id[-6:]} of {_agent(each)}")
    if not gone:
        say("There was nothing to drop.")


async def _runs_with_requests(records: Records) -> list[tuple[ParkedRun, list[ApprovalRequest]]]:
    """Return the parked runs, each with the requests that still exist."""
    found: list[tuple[ParkedRun, list[ApprovalRequest]]] = []
    for run in await records.runs():
        rows = [await records.request(each) for each in run.requests]
        found.append((run, [row for row in rows if row is not None]))
    return found


def _is_open(request: ApprovalRequest) -> bool:
    return request.status == "open" and (request.expires_at is None or time.time() < request.expires_at)


def _facts(run: ParkedRun, asked: list[ApprovalRequest]) -> dict[str, object]:
    waits_for = [each.id for each in asked if _is_open(each)]
    return {**json_codec.run_to_dict(run), "waits_for": waits_for, "can_resume": not waits_for and not run.calls}


def _lines(run: ParkedRun, asked: list[ApprovalRequest], name: str) -> Iterator[str]:
    waiting = [each for each in asked if _is_open(each)]
    age = format_rough_duration(time.time() - run.parked_at)
    yield from wrap_text(
        f"{_agent(run)}, parked {age} ago: {_state(run, waiting)}", head=bold(name), indent=len(name) + 2
    )
    for each in waiting:
        yield f"{' ' * len(name)}  {one_line(each, width() - len(name) - 2)}"


def _state(run: ParkedRun, waiting: list[ApprovalRequest]) -> str:
    if waiting:
        return f"waits for {len(waiting)} of {len(run.requests)} answers"
    if run.calls:
        return f"waits for results from outside ({len(run.calls)})"
    state = "answered" if run.requests else "broken off"
    return f"{state}; it can be resumed, unless a process is resuming it now"


def _agent(run: ParkedRun) -> str:
    name = run.agent or "an agent without a name"
    return f"{name} ({run.parked_by})" if run.parked_by else name
