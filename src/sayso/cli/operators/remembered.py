"""Commands of remembered decisions: list and revoke."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sayso.channels.display.durations import format_rough_duration
from sayso.cli.completion import complete_remembered_ids
from sayso.cli.filtering import filter_options, options_text
from sayso.cli.main import CODES_OF_GROUPS, Commands
from sayso.cli.open_store import (
    CODES_OF_IDS,
    CODES_OF_READING,
    epilog,
    find_by_id,
    json_option,
    short_ids,
    store_option,
    who_option,
    with_records,
)
from sayso.cli.render_request import answered_by, one_line
from sayso.cli.screen import bold, say, say_lines, width, wrap_text
from sayso.core import json_codec
from sayso.core.filters import RequestFilter

if TYPE_CHECKING:
    from sayso.client.records import Records
    from sayso.core.model import ApprovalRequest, Remembered


@click.group(cls=Commands, epilog=epilog("sayso remembered list --store sayso.db", CODES_OF_GROUPS))
def remembered() -> None:
    """List remembered decisions, and revoke them."""


@remembered.command("list", epilog=epilog("sayso remembered list --tool shell --text git", CODES_OF_READING))
@store_option
@json_option
@filter_options
def list_remembered(where: str | None, *, as_json: bool, **criteria: Any) -> None:  # noqa: ANN401 - options
    """List what is remembered, oldest first.

    Words and agents are also looked for in the request that was answered, if it is still there. Of several filters all
    have to match; upper and lower case are the same.
    """
    wanted = RequestFilter(**criteria)
    everything = with_records(where, _remembered_with_requests)
    known = [(each, request) for each, request in everything if wanted.matches_remembered(each, request)]
    if as_json:
        say(json_codec.to_json([json_codec.remembered_to_dict(each) for each, _ in known], indent=2))
        return
    names = short_ids(each.id for each, _ in known)
    for each, request in known:
        say_lines(_lines(each, request, names[each.id]))
    if not known:
        say_lines(wrap_text(_nothing_text(wanted, len(everything))))


def _nothing_text(wanted: RequestFilter, others: int) -> str:
    if not others:
        return "Nothing is remembered."
    return (
        f"Nothing that is remembered matches {options_text(wanted)}; {others} other{' is' if others == 1 else 's are'}."
    )


@remembered.command(epilog=epilog("sayso remembered revoke 4f2a91 --store sayso.db", CODES_OF_IDS))
@store_option
@json_option
@who_option
@click.option("--all", "everything", is_flag=True, help="Revoke all of them.")
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=complete_remembered_ids)
def revoke(ids: tuple[str, ...], where: str | None, *, as_json: bool, who: str, everything: bool) -> None:
    """Revoke remembered decisions: the next such call asks again.

    ID is the start or the end of an id, 4 characters or more. If one ID names nothing, nothing is taken back.
    """
    if everything == bool(ids):
        raise click.UsageError("name what to revoke: one ID or more, or --all")

    async def work(records: Records) -> list[Remembered]:
        known = await records.remembered()
        unknown = "nothing is remembered under the id {!r}; see `sayso remembered list`"
        named = [find_by_id(known, part, unknown, lambda each: f"{each.tool}: {each.scope.label}") for part in ids]
        chosen = {each.id: each for each in (known if everything else named)}
        return [each for each in chosen.values() if await records.revoke(each.id, who)]

    gone = with_records(where, work)
    if as_json:
        say(json_codec.to_json([json_codec.remembered_to_dict(each) for each in gone], indent=2))
        return
    for each in gone:
        say_lines(wrap_text(f"{each.tool}: {each.scope.label}", head="revoked", indent=9))
    if not gone:
        say("Nothing was remembered, so nothing was revoked.")


async def _remembered_with_requests(records: Records) -> list[tuple[Remembered, ApprovalRequest | None]]:
    """Return the remembered decisions, each with the request it answered, if that still exists."""
    known = await records.remembered()
    return [(each, await records.request(each.request_id) if each.request_id else None) for each in known]


def _lines(each: Remembered, request: ApprovalRequest | None, name: str) -> Iterator[str]:
    word = "yes" if each.decision.approved else "no"
    yield from wrap_text(f"{word} to {each.tool}: {each.scope.label}", head=bold(name), indent=len(name) + 2)
    if request is not None:
        yield f"{' ' * len(name)}  {one_line(request, width() - len(name) - 2)}"
    yield from wrap_text(f"{validity_text(each)}; by {answered_by(each.decision)}", indent=len(name) + 2)
    if each.decision.note:
        yield from wrap_text(f"note: {each.decision.note}", indent=len(name) + 2)


def validity_text(each: Remembered) -> str:
    """Describe session, lifetime and remaining uses of a remembered decision."""
    parts = ["in every session" if each.session is None else f"in the session {each.session}"]
    if each.expires_at is not None:
        parts.append(f"for another {format_rough_duration(each.expires_at - time.time())}")
    if each.uses_left is not None:
        parts.append("once more" if each.uses_left == 1 else f"{each.uses_left} times more")
    return ", ".join(parts)
