"""The SQLite store: the contract, with two handles that are as far apart as two processes, and what files can do."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.children import bounded
from tests.waiting import until

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall
from sayso.client import retention
from sayso.core import audit
from sayso.core.model import Approved, AuditEntry, Denied
from sayso.core.ports import Store
from sayso.errors import ConfigurationError, StoreError
from sayso.stores.sqlite import SqliteStore
from sayso.testing import ScriptedChannel, StoreContract
from sayso.testing.samples import YES, sample_remembered, sample_request


class TestSqliteStore(StoreContract):
    def open_two(self, folder: Path) -> tuple[Store, Store]:
        return SqliteStore(folder / "sayso.db"), SqliteStore(folder / "sayso.db")

    @contextlib.contextmanager
    def held(self, folder: Path) -> Generator[None]:
        """Take the write lock, so that both handles wait for it with their operation in hand."""
        with write_lock(folder / "sayso.db"):
            yield


@contextlib.contextmanager
def write_lock(file: Path) -> Generator[None]:
    holder = sqlite3.connect(file, isolation_level=None)
    with contextlib.closing(holder):
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


@contextlib.contextmanager
def another_process(file: Path) -> Generator[subprocess.Popen[bytes]]:
    """Have a process with the store open, and nothing to do."""
    script = "import sys; from sayso.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1]); print(1); input()"
    command = [sys.executable, "-u", "-c", script, str(file)]
    with bounded(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child


def ask(file: Path, query: str) -> tuple[Any, ...]:
    """Ask the file itself, past the store."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchone()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sayso.db"


# What survives.


@pytest.mark.proves("H16", "R17")
async def test_what_was_acknowledged_is_there_after_the_store_is_opened_again(file: Path) -> None:
    store = SqliteStore(file)
    request, memory = sample_request(args={"path": Path("x")}), sample_remembered()
    await store.open(request)
    await store.close(request.id, "approved", YES, now=1.0, remember=[memory])
    store.record(AuditEntry(at=2.0, step="allowed", about=ToolCall(tool="read")))
    await store.aclose()
    again = SqliteStore(file)
    found = await again.get(request.id)
    assert found is not None
    assert (found.status, found.args, found.decision) == ("approved", {"path": Path("x")}, YES)
    assert await audit.verify(again) == 3
    await again.aclose()


@pytest.mark.proves("H9", "H16")
async def test_always_is_remembered_by_the_next_process_and_session_is_not(file: Path) -> None:
    policy = Policy({"pay": "required"})

    async def asked(*decisions: ApprovalDecision) -> int:
        person = ScriptedChannel(*decisions)
        controller = ApprovalController(policy=policy, channels=[person], store=file)
        for amount in (1, 2):
            await controller.settle(ToolCall(tool="pay", args={"amount": amount}))
        await controller.aclose()
        return len(person.asked)

    forever, session = (ApprovalDecision(approved=True, remember=word) for word in ("always", "session"))
    assert await asked(forever, session) == 2
    assert await asked(session) == 1
    assert await asked(session) == 1


@pytest.mark.proves("H9")
async def test_a_decision_revoked_in_one_process_is_forgotten_by_the_other(file: Path) -> None:
    policy = Policy({"pay": "required"})
    here = ApprovalController(policy=policy, store=file, channels=[ScriptedChannel(_always())])
    there = ApprovalController(policy=policy, store=file, mode="defer")
    call = ToolCall(tool="pay", args={"amount": 1})
    await here.settle(call)
    await until(lambda: len(there.memory.list()), 1, seconds=10)
    assert isinstance(await there.review(ToolCall(tool="pay", args={"amount": 1})), Approved)
    here.memory.clear()
    await until(there.memory.list, [], seconds=10)
    assert not isinstance(await there.review(ToolCall(tool="pay", args={"amount": 1})), Approved)
    await here.aclose()
    await there.aclose()


def _always() -> ApprovalDecision:
    return ApprovalDecision(approved=True, remember="always")


# Another process.


ANSWERS = """
import asyncio, sys
from sayso import ApprovalController, ApprovalDecision

async def main():
    controller = ApprovalController(mode="defer", store=sys.argv[1])
    for request in await controller.pending():
        await controller.answer(request.id, ApprovalDecision(approved=True), who="the other process")
    await controller.aclose()

asyncio.run(main())
"""


@pytest.mark.proves("R76")
async def test_an_answer_from_another_process_wakes_the_waiting_call(file: Path) -> None:
    controller = ApprovalController(policy=Policy(default="required"), store=file)
    waiting = asyncio.ensure_future(controller.settle(ToolCall(tool="pay")))
    while not await controller.pending():
        await anyio.lowlevel.checkpoint()
    await anyio.run_process([sys.executable, "-c", ANSWERS, str(file)])
    with anyio.fail_after(10):
        outcome = await waiting
    assert isinstance(outcome, Approved)
    assert outcome.reason == "approved by the other process"
    await controller.aclose()


@pytest.mark.proves("H6")
async def test_a_prompt_ends_when_another_controller_on_the_file_has_answered(file: Path) -> None:
    asked, stopped = asyncio.Event(), asyncio.Event()

    async def prompt(request: ApprovalRequest) -> ApprovalDecision:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return YES

    here = ApprovalController(policy=Policy(default="required"), store=file, approval_callback=prompt)
    there = ApprovalController(mode="defer", store=file)
    waiting = asyncio.ensure_future(here.settle(ToolCall(tool="pay")))
    await asked.wait()
    for request in await there.pending():
        await there.answer(request.id, YES)
    with anyio.fail_after(10):
        assert isinstance(await waiting, Approved)
        await stopped.wait()
    await here.aclose()
    await there.aclose()


async def test_without_a_doorbell_the_poll_still_wakes_the_waiting_call(file: Path) -> None:
    file.with_name("sayso.db-bells").write_text("a file where the bells would hang")
    one, two = SqliteStore(file), SqliteStore(file)
    request = await one.open(sample_request())
    waiting = asyncio.ensure_future(one.closed(request.id))
    await two.close(request.id, "approved", YES, now=1.0)
    with anyio.fail_after(10):
        assert (await waiting).status == "approved"
    await one.aclose()
    await two.aclose()


async def test_a_doorbell_works_beside_a_database_with_a_very_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    one, two = SqliteStore(folder / "sayso.db"), SqliteStore(folder / "sayso.db")
    assert len(list((folder / "sayso.db-bells").iterdir())) == 2
    request = await one.open(sample_request())
    waiting = asyncio.ensure_future(one.closed(request.id))
    await two.close(request.id, "denied", None, now=1.0)
    with anyio.fail_after(10):
        assert (await waiting).status == "denied"
    await one.aclose()
    await two.aclose()
    assert not (folder / "sayso.db-bells").exists()


async def test_a_bell_that_a_killed_process_left_behind_is_taken_down(file: Path) -> None:
    with another_process(file) as child:
        child.send_signal(signal.SIGKILL)
    bells = file.with_name("sayso.db-bells")
    assert len(list(bells.iterdir())) == 1
    store = SqliteStore(file)
    await store.open(sample_request())
    assert len(list(bells.iterdir())) == 1
    await store.aclose()


@pytest.mark.parametrize("kind", ["folder", "link"])
async def test_the_bells_folder_of_somebody_else_loses_nothing(tmp_path: Path, file: Path, kind: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("id_rsa", "1234-0123abcd"):
        (mine / name).write_text("precious")
    bells = file.with_name("sayso.db-bells")
    if kind == "link":
        bells.symlink_to(mine)
    else:
        mine.rename(bells)
        mine = bells
    store = SqliteStore(file)
    await store.open(sample_request())
    await store.aclose()
    assert {"id_rsa", "1234-0123abcd"} <= {each.name for each in mine.iterdir()}


class ScriptedBell:
    """A bell that is heard when a test says so."""

    def __init__(self) -> None:
        self.rings: SimpleQueue[list[str] | None] = SimpleQueue()

    def wait_for_ring(self, seconds: float) -> list[str] | None:
        return self.rings.get()

    def ring(self, request_ids: list[str]) -> None:
        """Nobody else is there."""

    def wake(self) -> None:
        self.rings.put(None)

    def close(self) -> None:
        """Nothing to take down."""


@pytest.mark.proves("H6")
async def test_a_ring_that_is_heard_late_wakes_its_waiter_all_the_same(file: Path) -> None:
    waits, answers = SqliteStore(file), SqliteStore(file)
    first, bell = waits._bell, ScriptedBell()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - to order the rings
    waits._bell = bell  # type: ignore[assignment]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    first.wake()
    requests = [await waits.open(sample_request()) for _ in range(2)]
    waiting = [asyncio.ensure_future(waits.closed(request.id)) for request in requests]
    await waits.flush()
    for request in requests:
        await answers.close(request.id, "approved", YES, now=1.0)
    for request in requests:  # both were committed before the first ring is heard
        bell.rings.put([request.id])
    with anyio.fail_after(10):
        assert [(await each).status for each in waiting] == ["approved", "approved"]
    await waits.aclose()
    await answers.aclose()
    first.close()


REVOKES = """
import os, signal, sys
from sayso import ApprovalController
controller = ApprovalController(mode="defer", store=sys.argv[1])
assert controller.memory.revoke(controller.memory.list()[0].id)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.proves("H9", "H16")
async def test_a_revocation_that_was_acknowledged_survives_a_kill(file: Path) -> None:
    controller = ApprovalController(
        policy=Policy({"pay": "required"}), store=file, channels=[ScriptedChannel(_always())]
    )
    await controller.settle(ToolCall(tool="pay"))
    await controller.aclose()
    killed = await anyio.run_process([sys.executable, "-c", REVOKES, str(file)], check=False)
    assert killed.returncode == -signal.SIGKILL
    again = ApprovalController(mode="defer", store=file)
    assert again.memory.list() == []
    await again.aclose()


async def test_work_that_comes_while_a_store_is_closing_is_refused_and_not_lost(file: Path) -> None:
    store = SqliteStore(file)
    with write_lock(file):
        opening = asyncio.ensure_future(store.open(sample_request()))
        await anyio.lowlevel.checkpoint()
        closing = asyncio.ensure_future(store.aclose())
        while not store._closing.is_set():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - until it has begun
            await anyio.lowlevel.checkpoint()
        refused = await _refused(store)
    assert "is closed" in refused
    assert (await opening).status == "open"
    await closing


async def _refused(store: SqliteStore) -> str:
    """Return the sentence of the first refusal, once the store has begun to close."""
    with anyio.fail_after(10):
        while True:
            try:
                store.record(AuditEntry(at=1.0, step="allowed", about=ToolCall(tool="t")))
            except StoreError as error:
                return str(error)
            await anyio.lowlevel.checkpoint()


@pytest.mark.proves("H6")
async def test_a_wait_ends_when_its_store_is_closed(file: Path) -> None:
    store = SqliteStore(file)
    request = await store.open(sample_request())
    waiting = asyncio.ensure_future(store.closed(request.id))
    await anyio.lowlevel.checkpoint()
    await store.aclose()
    with anyio.fail_after(10), pytest.raises(StoreError, match="is closed"):
        await waiting


async def test_a_request_closed_elsewhere_is_found_closed_even_if_no_ring_told_of_it(file: Path) -> None:
    file.with_name("sayso.db-bells").write_text("a file where the bells would hang")
    opens, answers = SqliteStore(file), SqliteStore(file)
    request = await opens.open(sample_request())
    await answers.close(request.id, "denied", None, now=1.0)
    with anyio.fail_after(10):
        assert (await opens.closed(request.id)).status == "denied"
    await opens.aclose()
    await answers.aclose()


async def test_a_peer_that_does_not_listen_holds_up_nobody(file: Path) -> None:
    with another_process(file) as child:
        child.send_signal(signal.SIGSTOP)
        store = SqliteStore(file)
        with anyio.fail_after(20):  # each of these took a second while the peer's queue was full
            for _ in range(300):
                await store.open(sample_request())
        child.kill()
    await store.aclose()


@pytest.mark.proves("H9")
async def test_a_decision_that_this_process_has_not_heard_of_can_be_revoked_all_the_same(file: Path) -> None:
    file.with_name("sayso.db-bells").write_text("no bells: it hears of nothing for a second")
    here, there = ApprovalController(mode="defer", store=file), ApprovalController(mode="defer", store=file)
    remembered = sample_remembered()
    there.memory.add(remembered)
    assert here.memory.revoke(remembered.id)
    assert ask(file, "SELECT count(*) FROM remembered") == (0,)
    assert not here.memory.revoke("nothing")
    await here.aclose()
    await there.aclose()


async def test_many_processes_may_make_the_same_new_file_at_once(file: Path) -> None:
    script = "import sys; from sayso.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    for number in range(3):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                target = str(file.with_name(f"new-{number}.db"))
                group.start_soon(anyio.run_process, [sys.executable, "-c", script, target])


async def test_a_remembered_decision_of_a_newer_form_refuses_work_and_undoes_nothing(file: Path) -> None:
    store = SqliteStore(file)
    with contextlib.closing(sqlite3.connect(file)) as newer:
        newer.execute("INSERT INTO remembered VALUES ('x', ?)", (b"\x02future",))
        newer.commit()
    request = await store.open(sample_request())
    closed = await store.close(request.id, "approved", YES, now=1.0, remember=[sample_remembered()])
    assert closed.status == "approved"
    with pytest.raises(StoreError, match="upgrade sayso"):
        store.record(AuditEntry(at=1.0, step="allowed", about=ToolCall(tool="t")))
    await store.aclose()
    assert ask(file, "SELECT count(*) FROM remembered") == (2,)


async def test_several_processes_write_one_unbroken_audit_and_lose_no_request(file: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from sayso.testing.samples import sample_request\n"
        "from sayso.stores.sqlite import SqliteStore\n"
        "async def main():\n"
        "    store = SqliteStore(sys.argv[1])\n"
        "    await asyncio.gather(*[store.open(sample_request()) for _ in range(50)])\n"
        "    await store.aclose()\n"
        "asyncio.run(main())\n"
    )
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(anyio.run_process, [sys.executable, "-c", script, str(file)])
    store = SqliteStore(file)
    assert len(await store.pending()) == 200
    assert await audit.verify(store) == 200
    await store.aclose()


def test_a_store_used_after_a_fork_says_so(file: Path) -> None:
    script = (
        "import asyncio, os, sys\n"
        "from sayso.errors import StoreError\n"
        "from sayso.stores.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: asyncio.run(store.pending())\n"
        "    except StoreError as error: os._exit(0 if 'before a fork' in str(error) else 1)\n"
        "    os._exit(2)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(file)], check=True, timeout=20)


def test_what_is_queued_is_written_when_the_process_ends_without_closing(file: Path) -> None:
    script = (
        "import sys\n"
        "from sayso import ApprovalController, Policy, guard\n"
        "controller = ApprovalController(policy=Policy({'read': 'none'}), mode='auto_deny', store=sys.argv[1])\n"
        "guarded = guard(lambda n: n, controller, name='read')\n"
        "for n in range(100): guarded(n)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(file)], check=True, timeout=20)
    assert ask(file, "SELECT count(*) FROM audit") == (200,)


@pytest.mark.proves("H6")
async def test_old_closed_requests_can_be_pruned_and_what_is_gone_cannot_be_replayed(file: Path) -> None:
    store = SqliteStore(file)
    controller = ApprovalController(mode="defer", policy=Policy(default="required"), store=store)
    rows = [await store.open(sample_request(call_id=f"c{n}", asked_at=float(n))) for n in range(3)]
    for row in rows[:2]:
        await store.close(row.id, "approved", YES, now=5.0)
    await store.claim(rows[0].id, now=6.0)
    assert (await retention.prune(store, before=10.0)).requests == 1
    assert [await store.get(row.id) is None for row in rows] == [True, False, False]
    outcome = await controller.review(rows[0].call(), asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "forged"
    assert await audit.verify(store) > 0
    await store.aclose()


# What can be wrong with a file.


def test_a_new_file_is_private_to_its_owner(file: Path) -> None:
    store = SqliteStore(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    asyncio.run(store.aclose())


def test_a_folder_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no/sayso\.db cannot be opened: No such file or directory; choose a file"):
        SqliteStore(tmp_path / "no" / "sayso.db")


def test_a_directory_in_place_of_the_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open database file; check the rights of the file and its folder"):
        SqliteStore(tmp_path)


@contextlib.contextmanager
def as_ordinary_user() -> Generator[None]:
    """Give up root for a moment, as nothing is read-only for root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that another user can get into, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="sayso-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
        Path(name).chmod(0o755)


def test_a_read_only_folder_is_said(folder: Path) -> None:
    folder.chmod(0o555)
    with as_ordinary_user(), pytest.raises(StoreError, match="cannot be opened: Permission denied; choose"):
        SqliteStore(folder / "sayso.db")


async def test_a_read_only_file_is_said_and_keeps_what_it_has(folder: Path) -> None:
    file = folder / "sayso.db"
    store = SqliteStore(file)
    await store.open(sample_request())
    await store.aclose()
    file.chmod(0o444)
    folder.chmod(0o555)
    with as_ordinary_user(), pytest.raises(StoreError, match=r"cannot be written: .*; check the rights of the file"):
        SqliteStore(file)
    folder.chmod(0o755)
    file.chmod(0o600)
    again = SqliteStore(file)
    assert len(await again.pending()) == 1
    await again.aclose()


@pytest.mark.proves("H16")
@pytest.mark.parametrize("content", [b"not a database at all, but long enough to look like one" * 20, b"x"])
def test_a_file_that_is_no_database_is_said_and_left_untouched(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged or not a SQLite file.*left it untouched"):
        SqliteStore(file)
    assert file.read_bytes() == content


@pytest.mark.proves("H16")
async def test_a_file_damaged_in_the_middle_gives_a_clear_error_and_no_answer(file: Path) -> None:
    store = SqliteStore(file)
    for _ in range(50):
        await store.open(sample_request(args={"text": "x" * 500}))
    await store.aclose()
    data = bytearray(file.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(StoreError, match=r"damaged|cannot be read"):
        await read_everything(file)


async def read_everything(file: Path) -> None:
    store = SqliteStore(file)
    try:
        await store.pending()
        await audit.verify(store)
    finally:
        await store.aclose()


def test_a_database_of_another_program_is_said_and_left_untouched(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
        other.commit()
    before = file.read_bytes()
    with pytest.raises(StoreError, match="a database of another program; choose another file"):
        SqliteStore(file)
    assert file.read_bytes() == before


async def test_a_newer_form_is_said_and_left_untouched(file: Path) -> None:
    await SqliteStore(file).aclose()
    with contextlib.closing(sqlite3.connect(file)) as newer:
        newer.execute("PRAGMA user_version = 99")
        newer.commit()
    with pytest.raises(StoreError, match=r"has the form 99 of a newer sayso.*upgrade sayso"):
        SqliteStore(file)


async def test_the_requests_of_a_call_id_are_found_without_looking_at_all_of_them(file: Path) -> None:
    await SqliteStore(file).aclose()
    look = "SELECT packed FROM requests WHERE session = 's' AND framework_id = 'c' ORDER BY id DESC LIMIT 100"
    plan = ask(file, f"EXPLAIN QUERY PLAN {look}")
    assert "USING INDEX requests_framework_id (session=? AND framework_id=?)" in plan[3]


async def test_an_older_form_is_brought_up_to_date(file: Path) -> None:
    """An empty file is the form 0; the form 1 had no parked runs, and the form 2 no feed."""
    file.touch()
    store = SqliteStore(file)
    request = await store.open(sample_request())
    await store.aclose()
    with contextlib.closing(sqlite3.connect(file)) as older:
        older.execute("DROP TABLE parked")
        older.execute("DROP TABLE runs")
        older.execute("DROP TABLE tokens")
        older.execute("DROP TABLE receipts")
        older.execute("DROP INDEX requests_changed")
        older.execute("DROP INDEX requests_framework_id")
        for column in ("change", "framework_id"):
            older.execute(f"ALTER TABLE requests DROP COLUMN {column}")
        for column in ("request_changes", "start_number", "start_hash"):
            older.execute(f"ALTER TABLE facts DROP COLUMN {column}")
        older.execute("PRAGMA user_version = 1")
        older.commit()
    store = SqliteStore(file)
    await store.park("a run", b"state")
    assert (await store.parked("a run"), await store.get(request.id)) == (b"state", request)
    assert ask(file, "PRAGMA user_version") == (9,)
    point, _ = await store.changes()
    await store.close(request.id, "denied", None, now=1.0)
    assert [each.id for each in (await store.changes(point))[1]] == [request.id]
    await store.aclose()


@pytest.mark.proves("H16", "H5")
async def test_a_full_disk_is_said_loses_nothing_acknowledged_and_lets_nothing_run(file: Path) -> None:
    store = SqliteStore(file)
    controller = ApprovalController(policy=Policy({"pay": "required", "read": "none"}), store=store, mode="defer")
    kept = await store.open(sample_request())
    store._writer._connection.execute("PRAGMA max_page_count = 1")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - SQLite's own full disk
    big = {"text": "x" * 100_000}
    with pytest.raises(StoreError, match="the disk is full; make room"):
        await controller.review(ToolCall(tool="pay", args=big))
    # An allowed call is only queued; once that could not be written, the next one is refused.
    allowed = await allow_until_refused(controller, big)
    with pytest.raises(StoreError, match="the disk is full"):
        await controller.review(ToolCall(tool="read"))
    store._writer._connection.execute("PRAGMA max_page_count = 1000000")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    await store.flush()
    await controller.review(ToolCall(tool="read"))
    await store.aclose()
    again = SqliteStore(file)
    assert [request.id for request in await again.pending()] == [kept.id]
    assert await audit.verify(again) == 1 + allowed + 1
    await again.aclose()


async def allow_until_refused(controller: ApprovalController, args: dict[str, Any]) -> int:
    for allowed in range(1000):
        try:
            await controller.review(ToolCall(tool="read", args=args))
            await controller.flush()
        except StoreError as error:
            assert "the disk is full" in str(error)  # noqa: PT017 - which call is refused is not known beforehand
            return allowed + 1  # the last one ran, and its entry is owed
    raise AssertionError("the disk never was full")


async def test_a_file_that_somebody_holds_for_too_long_is_said(file: Path) -> None:
    store = SqliteStore(file)
    store._writer._connection.execute("PRAGMA busy_timeout = 10")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - not ten seconds
    with write_lock(file), pytest.raises(StoreError, match="held by another process for too long"):
        await store.open(sample_request())
    await store.open(sample_request())
    await store.aclose()


async def test_a_closed_store_says_so(file: Path) -> None:
    store = SqliteStore(file)
    await store.aclose()
    with pytest.raises(StoreError, match="is closed"):
        await store.pending()


def test_an_unknown_way_to_be_durable_is_refused(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="synchronous is 'OFF'; use 'FULL' or 'NORMAL'"):
        SqliteStore(file, synchronous="OFF")  # type: ignore[arg-type]


@pytest.mark.proves("H8")
async def test_a_strict_audit_waits_until_the_entry_of_an_allowed_call_is_durable(file: Path) -> None:
    controller = ApprovalController(mode="auto_deny", policy=Policy({"read": "none"}), store=file, audit="strict")
    seen: list[int] = []

    async def look(args: dict[str, Any]) -> None:
        seen.append(ask(file, "SELECT count(*) FROM audit")[0])

    await controller.run(ToolCall(tool="read"), look)
    assert seen == [1]
    await controller.aclose()
