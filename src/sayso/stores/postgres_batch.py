"""What a PostgreSQL store writes in one transaction: the jobs, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec

from sayso.errors import UnknownRequest
from sayso.model import AuditEntry
from sayso.stores.postgres_group import Group, Need
from sayso.stores.postgres_server import Row
from sayso.stores.waiting import Settled

Work = Callable[[Group], Any]


class Job(msgspec.Struct, gc=False):
    """Something to do inside a group, with the rows that it needs; with a future, somebody waits for it."""

    work: Work
    needs: tuple[Need, ...] = ()
    future: asyncio.Future[Any] | Future[Any] | None = None
    size: int = 0  # about how many bytes it writes


Item = Job | AuditEntry | bytes  # a line that was written out beforehand is bytes


class Outcome(msgspec.Struct):
    """What a group comes to: whom to tell what, the group if it changed anything, what is remembered if that did."""

    settled: Settled = []
    group: Group | None = None
    known: Row | None = None


class Batch(msgspec.Struct):
    """What is written in one transaction.

    Each attempt has a number, by which the next one knows, after a lost connection, whether it was written after all.
    """

    items: list[Item]
    outcome: Outcome
    sent: dict[int, Outcome]  # by number: the attempts of which nobody knows what became of them


def run(items: list[Item], group: Group) -> tuple[Settled, tuple[Job, Exception] | None]:
    """Do these jobs; return whom to tell what, and the first one that failed."""
    settled: Settled = []
    for item in items:
        if not isinstance(item, Job):
            group.record(item)
            continue
        try:
            result = item.work(group)
        except UnknownRequest as error:
            result = error
        except Exception as error:  # noqa: BLE001 - whoever waits for it must hear of it, and nobody else
            return settled, (item, error)
        if item.future is not None:
            settled.append((item.future, result))
    return settled, None


def unwaited(items: list[Item]) -> list[Item]:
    """Return what nobody waits for."""
    return [each for each in items if not isinstance(each, Job) or each.future is None]
