"""`sayso prune`: retention of closed requests and audit entries, with an archive."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from sayso.cli.open_store import (
    CODES_OF_CHAINS,
    BrokenChain,
    Failure,
    epilog,
    json_option,
    own_store_option,
    who_option,
    with_store,
)
from sayso.cli.screen import say, short_path
from sayso.cli.times import read_span
from sayso.client import retention
from sayso.client.archive import Archive
from sayso.core.json_codec import to_json
from sayso.core.ports import Prunable
from sayso.engine.clock import clock_of
from sayso.errors import AuditError

if TYPE_CHECKING:
    from sayso.client.retention import Pruned
    from sayso.core.ports import Store


@click.command(epilog=epilog("sayso prune --closed-for 90d --archive 2026-10.jsonl", CODES_OF_CHAINS))
@own_store_option
@json_option
@who_option
@click.option(
    "--closed-for",
    metavar="TIME",
    required=True,
    callback=read_span,
    help="For how long a request must have been closed: 90d.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A new file for all that is removed; without it, no audit entry is.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def prune(
    where: str | None, *, as_json: bool, who: str, closed_for: float, archive: Path | None, dry_run: bool
) -> None:
    """Remove requests that were closed long ago and, into an archive, the audit of that time.

    Open requests stay, and approvals that nobody used, and the answers that are remembered. The chain still verifies:
    `sayso audit verify --archive FILE` follows it through the archives. Agents and hubs may go on meanwhile.
    """

    async def work(store: Store) -> Pruned:
        if not isinstance(store, Prunable):
            raise Failure("this store cannot be pruned; name the file or the database that holds the requests")
        before = clock_of(store).now() - closed_for
        try:
            if dry_run:
                return await retention.survey(store, before)
            return await _prune(store, before, archive, who)
        except AuditError as error:
            raise BrokenChain(f"the chain is broken, so nothing more is removed: {error}") from None

    _report(with_store(where, work), archive, as_json=as_json, dry_run=dry_run)


async def _prune(store: Prunable, before: float, path: Path | None, who: str) -> Pruned:
    with nullcontext() if path is None else closing(Archive(path)) as archive:
        return await retention.prune(store, before, archive=archive, who=who)


def _report(done: Pruned, archive: Path | None, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        say(to_json({**msgspec.structs.asdict(done), "dry_run": dry_run}, indent=2))
        return
    requests = f"{done.requests} {'request' if done.requests == 1 else 'requests'}"
    entries = f"{done.entries} {'entry' if done.entries == 1 else 'entries'} of the audit"
    if dry_run:
        say(f"{requests} would be removed and, with --archive, {entries}.")
    elif not (done.requests or done.entries):
        say("No request has been closed for that long.")
    elif archive is None:
        say(f"{requests} removed; the audit keeps all of its entries.")
    else:
        say(f"{requests} and {entries} are now in {short_path(str(archive))}, and no longer in the store.")
