"""Retention: what is over leaves the store for an archive, what may still be used stays, and the chain is whole."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from sayso import ApprovalRequest, ToolCall
from sayso.client import archive, retention
from sayso.client.archive import Archive
from sayso.client.retention import Pruned
from sayso.core import audit
from sayso.core.model import AuditEntry
from sayso.core.ports import Prunable
from sayso.engine.clock import SystemClock
from sayso.errors import AuditError, StoreError
from sayso.server.services.audit_check import AuditCheck
from sayso.stores.postgres import PostgresStore
from sayso.stores.sqlite import SqliteStore
from sayso.testing.samples import NO, YES, sample_remembered, sample_request

LATER = 100.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "s.db") if request.param == "sqlite" else request.getfixturevalue("database")


def opened(place: str) -> Prunable:
    return PostgresStore(place) if place.startswith("postgresql") else SqliteStore(place, synchronous="NORMAL")


@pytest.fixture
async def store(place: str) -> AsyncGenerator[Prunable]:
    store = await asyncio.to_thread(opened, place)
    yield store
    await store.aclose()


async def used(store: Prunable, **facts: Any) -> ApprovalRequest:
    """Ask, answer and use, long ago: three entries of the audit."""
    facts = {"asked_at": 1.0, **facts}
    request = await store.open(sample_request(**facts))
    await store.close(request.id, "approved", YES, now=2.0)
    assert await store.claim(request.id, now=3.0)
    return request


async def steps(store: Prunable) -> list[str]:
    await audit.verify(store)
    return [entry["step"] async for entry in audit.entries(store)]


@pytest.mark.proves("H6")
async def test_only_what_is_over_for_long_enough_goes_and_the_audit_stays_without_an_archive(store: Prunable) -> None:
    gone = [await used(store), await store.open(sample_request(asked_at=1.0))]
    await store.close(gone[1].id, "denied", NO, now=2.0)
    waiting, unused, remembered, young = [await store.open(sample_request(asked_at=1.0)) for _ in range(4)]
    await store.close(unused.id, "approved", YES, now=2.0)
    standing = replace(sample_remembered(), request_id=remembered.id)
    await store.close(remembered.id, "denied", NO, now=2.0, remember=[standing])
    await store.close(young.id, "approved", YES, now=2.0)
    await store.claim(young.id, now=LATER)
    told = await retention.survey(store, LATER)
    before = await store.audit_ends()
    assert (told.requests, [each.id for each in await store.oldest(9)][:2]) == (2, [each.id for each in gone])
    assert await retention.prune(store, LATER, who="ann") == Pruned(requests=2)
    assert [await store.get(each.id) for each in gone] == [None, None]
    kept = [each.id for each in (waiting, unused, remembered, young)]
    assert [each.id for each in await store.oldest(9)] == kept
    assert [each.id for each in await store.pending()] == [waiting.id]
    assert (await store.audit_ends())[0] == before[0]
    assert (await steps(store))[-1] == "pruned"
    assert await store.drop(kept[:2]) == 0, "whoever asks for it"


@pytest.mark.proves("H6", "H17")
async def test_what_goes_is_in_an_archive_and_the_chain_goes_on_from_there_into_the_store(
    store: Prunable, place: str, tmp_path: Path
) -> None:
    first = [await used(store, args={"text": f"é\n{number}"}) for number in range(3)]
    store.record(AuditEntry(at=LATER, step="allowed", about=ToolCall(tool="read")))
    _, noted = await store.audit_ends()
    one, two = Archive(tmp_path / "one.jsonl"), Archive(tmp_path / "two.jsonl")
    assert await retention.prune(store, LATER, archive=one, who="ann") == Pruned(requests=3, entries=9, start=9)
    assert await steps(store) == ["allowed", "pruned"]
    assert await audit.verify(store, known=noted) == 11
    await used(store)
    assert (await retention.prune(store, LATER + 1, archive=two)).entries == 1, "the next entry is younger"
    for each in (one, two):
        each.close()
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o600
    told = [json.loads(line) for line in one.path.read_text().splitlines()]
    assert [each["request"]["id"] for each in told if "request" in each] == [each.id for each in first]
    assert [json.loads(each["line"])["step"] for each in told if "line" in each] == ["asked", "approved", "claimed"] * 3
    for paths in ([one.path, two.path], [two.path, one.path]):
        archive.join(paths, (await store.audit_ends())[0])
    with pytest.raises(AuditError, match="ends with audit entry 9, but the store goes on after entry 10"):
        archive.join([one.path], (await store.audit_ends())[0])
    again = await asyncio.to_thread(opened, place)
    assert await again.audit_ends() == await store.audit_ends()
    await again.aclose()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('\\"asked\\"', '\\"denied\\"', "entry 1 was changed"),
        ('"number":2,', '"number":3,', "entry 2 is missing"),
        ('{"after":[0', '{"before":[0', "does not say what audit entry 1 comes after"),
        ('{"archive":1}', '{"archive":9}', "no archive that this sayso can read"),
        ('{"request"', '{"request', "is no line of an archive"),
    ],
)
async def test_an_archive_that_was_changed_is_found_out(tmp_path: Path, old: str, new: str, problem: str) -> None:
    store, file = SqliteStore(tmp_path / "s.db"), Archive(tmp_path / "a.jsonl")
    await used(store)
    await retention.prune(store, LATER, archive=file)
    file.close()
    content = file.path.read_text()
    file.path.write_text(content + '{"number":4,"line')
    assert archive.verify(file.path) == ((0, audit.START), (await store.audit_ends())[0]), "what was cut off is no part"
    assert old in content
    file.path.write_text(content.replace(old, new, 1))
    with pytest.raises(StoreError, match=problem):
        archive.verify(file.path)
    await store.aclose()


@pytest.mark.proves("H5")
async def test_what_cannot_be_archived_is_not_dropped(store: Prunable, tmp_path: Path) -> None:
    request = await used(store)
    taken = tmp_path / "there.jsonl"
    taken.touch()
    for path, problem in ((taken, "is there already"), (tmp_path / "no" / "a.jsonl", "No such file")):
        with pytest.raises(StoreError, match=problem):
            await retention.prune(store, LATER, archive=Archive(path))
    with pytest.raises(StoreError, match=r"archive /dev/full cannot be written .* still in the store"):
        await retention.prune(store, LATER, archive=_Full(tmp_path / "full"))
    assert await store.get(request.id) is not None
    assert await steps(store) == ["asked", "approved", "claimed"]


class _Full(Archive):
    """An archive on a disk without room."""

    def __init__(self, path: Path) -> None:
        super().__init__(Path("/dev/full"))
        self._file = os.open("/dev/full", os.O_WRONLY)
        assert path


async def test_an_audit_that_somebody_has_changed_is_not_cut(tmp_path: Path) -> None:
    store = _Changed(tmp_path / "s.db")
    request = await used(store)
    file = Archive(tmp_path / "a.jsonl")
    with pytest.raises(AuditError, match="entry 2 was changed"):
        await retention.prune(store, LATER, archive=file)
    file.close()
    assert (await store.audit_ends())[0] == (0, audit.START)
    assert await store.get(request.id) is not None
    await store.aclose()


class _Changed(SqliteStore):
    async def audit(self, after: int = 0, limit: int = 1000) -> list[audit.SealedEntry]:
        page = await super().audit(after, limit)
        return [(number, line.replace(b"approved", b"denied"), sealed) for number, line, sealed in page]


@pytest.mark.proves("H6")
async def test_agents_go_on_while_the_store_is_pruned(store: Prunable, place: str, tmp_path: Path) -> None:
    for _ in range(5):
        await used(store)
    agent = await asyncio.to_thread(opened, place)
    waiting = await agent.open(sample_request(asked_at=1.0))
    file, answered = Archive(tmp_path / "a.jsonl"), asyncio.ensure_future(agent.closed(waiting.id))
    async with asyncio.TaskGroup() as group:
        group.create_task(retention.prune(store, LATER, archive=file))
        for _ in range(10):
            group.create_task(used(agent, asked_at=LATER))
    file.close()
    await store.close(waiting.id, "approved", YES, now=LATER)
    with anyio.fail_after(20):
        assert (await answered).status == "approved"
    archive.join([file.path], (await store.audit_ends())[0])
    told = await steps(store)
    assert told.count("claimed") >= 10
    assert len(await store.oldest(100)) == 11
    await agent.aclose()


async def test_two_who_prune_at_once_are_told_and_lose_nothing(store: Prunable, tmp_path: Path) -> None:
    await used(store)
    start, end = (await store.audit_ends())[0], (await store.audit(1, 1))[0]
    await store.cut(start, (end[0], end[2]))
    await store.cut(start, (await store.audit_ends())[1])
    assert (await store.audit_ends())[0] == (2, end[2]), "the second did not know where the audit begins"
    assert await steps(store) == ["claimed"]
    with pytest.raises(StoreError, match="pruned by another process too"):
        await retention.prune(_Behind(store), LATER, archive=Archive(tmp_path / "a.jsonl"))  # pyright: ignore - enough


class _Behind:
    """A store whose cut comes too late."""

    def __init__(self, store: Prunable) -> None:
        self.audit, self.audit_ends, self.oldest, self.drop = store.audit, store.audit_ends, store.oldest, store.drop
        self.attach, self.append = store.attach, store.append

    async def cut(self, start: audit.EntryRef, end: audit.EntryRef) -> None:
        assert start <= end


async def test_who_checks_the_chain_while_it_is_cut_sees_no_fault(tmp_path: Path) -> None:
    store = _CutWhileRead(tmp_path / "s.db")
    for _ in range(2):
        await used(store)
    assert await audit.verify(store) == 6
    store.is_cut = False
    assert (await AuditCheck(store, SystemClock()).state())["problem"] is None
    await store.aclose()


class _CutWhileRead(SqliteStore):
    """A store that somebody prunes between two looks of a reader."""

    is_cut = False

    async def audit(self, after: int = 0, limit: int = 1000) -> list[audit.SealedEntry]:
        if not self.is_cut:
            self.is_cut = True
            start, _ = await self.audit_ends()
            first = (await super().audit(start[0], 1))[0]
            await self.cut(start, (first[0], first[2]))
        return await super().audit(after, limit)
