"""Retention: prunes closed requests and old audit entries from a store, after they are archived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from sayso.core import audit
from sayso.core.decide import is_final_since
from sayso.engine.clock import clock_of
from sayso.engine.remembered import ApprovalMemory
from sayso.errors import StoreError

if TYPE_CHECKING:
    from sayso.client.archive import Archive
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Prunable

_BATCH_SIZE = 500  # other writers wait for at most one batch


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """Result of pruning: the numbers of requests and audit entries, and the entry after which the audit now begins."""

    requests: int = 0
    entries: int = 0
    start: int = 0


async def prune(store: Prunable, before: float, *, archive: Archive | None = None, who: str = "") -> Pruned:
    """Delete the requests that were closed before that time and, with an archive, the audit entries up to then.

    Open requests, unused approvals and the requests of remembered decisions stay. A deleted request cannot be replayed:
    a call that refers to it is refused as forged.

    Raises:
        StoreError: the store or the archive cannot be read or written; batches that were not reached stay.
        AuditError: the audit was changed; no request and no audit entry from there on is deleted.
    """
    # The audit first: a missing right or a broken chain is reported before anything is deleted.
    entries = 0 if archive is None else await _archive_audit(store, before, archive)
    requests = 0
    async for batch in _prunable_batches(store, before):
        if archive is not None:
            await asyncio.to_thread(archive.add_requests, batch)
        requests += await store.drop([each.id for each in batch])
    start = (await store.audit_ends())[0][0]
    if requests or entries:
        summary = f"{requests} requests were dropped, and {entries} entries up to {start}"
        await store.append([audit.encode_pruned(clock_of(store).now(), who, summary)])
    return Pruned(requests=requests, entries=entries, start=start)


async def survey(store: Prunable, before: float) -> Pruned:
    """Dry run: return what `prune` with an archive would delete."""
    requests = [len(batch) async for batch in _prunable_batches(store, before)]
    start, _ = await store.audit_ends()
    entries, end = 0, start
    while page := await _old_entries(store, before, end):
        entries, end = entries + len(page), (page[-1][0], page[-1][2])
    return Pruned(requests=sum(requests), entries=entries, start=end[0])


async def _prunable_batches(store: Prunable, before: float) -> AsyncIterator[list[ApprovalRequest]]:
    """Yield prunable requests in batches; ids sort by time, so the first page of young ones is the last."""
    kept = {each.request_id for each in ApprovalMemory(store=store, clock=clock_of(store)).list()}
    after = ""
    while page := await store.oldest(_BATCH_SIZE, after):
        after = page[-1].id
        batch = [each for each in page if is_final_since(each, before) and each.id not in kept]
        if batch:
            yield batch
        elif all(each.asked_at >= before for each in page):
            return


async def _archive_audit(store: Prunable, before: float, archive: Archive) -> int:
    entries = 0
    start, _ = await store.audit_ends()
    await store.cut(start, start)  # deletes nothing: without the right to cut, no archive is created
    while page := await _old_entries(store, before, start):
        await asyncio.to_thread(archive.add_entries, start, page)
        end = page[-1][0], page[-1][2]
        await store.cut(start, end)
        if (await store.audit_ends())[0] != end:
            raise StoreError(
                f"the audit of this store is being pruned by another process too; up to entry {end[0]} it is in "
                f"{archive.path}, see that the other archive has the rest"
            )
        entries, start = entries + len(page), end
    return entries


async def _old_entries(store: Prunable, before: float, start: audit.EntryRef) -> list[audit.SealedEntry]:
    """Return the next entries before the first young one: a chain is pruned without a gap."""
    page = await store.audit(start[0], _BATCH_SIZE)
    young = next((place for place, (_, line, _) in enumerate(page) if audit.time_of(line) >= before), len(page))
    return page[:young]
