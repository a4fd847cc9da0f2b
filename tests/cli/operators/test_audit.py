"""`sayso audit`: the record can be searched, checked and handed on."""

import csv
import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.children import bounded
from tests.cli.questions import STORE, ask, in_store, sayso

from sayso.core.model import AuditEntry, ToolCall
from sayso.core.ports import Store

PROGRAM = [sys.executable, "-m", "sayso"]


def entries(*arguments: str) -> list[dict[str, Any]]:
    done = sayso("audit", "list", "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(number: int, **facts: Any) -> None:
    """Write that many entries, one a second since 1970."""

    async def work(store: Store) -> None:
        for each in range(number):
            call = ToolCall(tool=facts.get("tool", "pay"), args=facts.get("args", {"amount": each}), session="s")
            store.record(AuditEntry(at=float(each), step="allowed", about=call))
        await store.flush()

    in_store(work)


def change(statement: str) -> None:
    """Be somebody who changes the file by other means."""
    with closing(sqlite3.connect(STORE)) as connection, connection:
        connection.execute(statement)


# --- list and show -----------------------------------------------------------------------------------


def test_the_newest_entries_are_listed_newest_last() -> None:
    record(60)
    told = sayso("audit", "list").stdout.splitlines()
    assert (len(told), told[0].split()[0], told[-1].split()[0]) == (50, "11", "60")
    assert [each["number"] for each in entries("--limit", "2")] == [59, 60]
    assert "allowed    pay" in told[-1]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        (["--tool", "pay"], [1, 2, 4]),
        (["--tool", "pay", "--limit", "1"], [4]),
        (["--step", "asked"], [1, 3]),
        (["--step", "denied", "--tool", "mail"], []),
        (["--who", "ann"], [2]),
        (["--agent", "payer"], [1, 2, 3]),
        (["--since", "1h"], [1, 2, 3]),
        (["--until", "2000-01-01"], [4]),
        (["--since", "1999-01-01", "--until", "2000-01-01"], []),
        (["--request", "REQUEST"], [1, 2]),
    ],
)
def test_filters_choose_entries(filters: list[str], numbers: list[int]) -> None:
    request = ask()
    assert sayso("approve", request.id, "--who", "ann").exit_code == 0
    ask({"to": "bob"}, tool="mail")
    record(1)
    wanted = [request.id[-8:] if each == "REQUEST" else each for each in filters]
    assert [each["number"] for each in entries(*wanted)] == numbers
    done = sayso("audit", "export", *(each for each in wanted if each not in {"--limit", "1"}))
    assert [json.loads(line)["number"] for line in done.stdout.splitlines()][-1:] == numbers[-1:]


@pytest.mark.parametrize("filters", [["--since", "yesterday"], ["--step", "guessed"], ["--limit", "0"]])
def test_a_filter_that_means_nothing_is_wrong_usage(filters: list[str]) -> None:
    record(1)
    assert sayso("audit", "list", *filters).exit_code == 2


def test_one_entry_is_shown_in_full_with_its_hash() -> None:
    ask({"text": "a\x1b[2J\nb" * 30})
    shown = sayso("audit", "show", "1").stdout
    assert shown.startswith("1  asked  pay\n")
    assert "\x1b" not in shown
    entry = json.loads(sayso("audit", "show", "1", "--json").stdout)
    assert entry == entries()[0]
    assert entry["hash"] in shown
    assert sayso("audit", "show", "2").exit_code == 3
    assert sayso("audit", "show", "0").exit_code == 2


@pytest.mark.parametrize("line", ["x'00'", "'[1]'", "'{}'", """'{"at": "x"}'""", """'{"at": 1, "agent_path": 5}'"""])
def test_an_entry_that_cannot_be_read_hides_no_other(line: str) -> None:
    record(2)
    change(f"UPDATE audit SET line = CAST({line} AS BLOB) WHERE number = 1")  # noqa: S608 - our own
    assert [each.get("error") for each in entries()] == ["this entry cannot be read", None]
    for command in (["list", "--since", "2000-01-01"], ["show", "1"], ["export"], ["export", "--format", "csv"]):
        assert sayso("audit", *command).exit_code == 0


# --- verify ------------------------------------------------------------------------------------------


def verified(*arguments: str) -> str:
    done = sayso("audit", "verify", *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_whole_chain_is_said_so_with_its_end_to_note_down() -> None:
    record(3)
    note = verified()
    assert note == f"3:{entries()[-1]['hash']}"
    record(1)
    assert verified("--known", note).startswith("4:")
    told = json.loads(sayso("audit", "verify", "--json").stdout)
    assert (told["whole"], told["last"]["number"]) == (True, 4)


def test_an_empty_audit_is_whole() -> None:
    record(0)
    assert verified().startswith("0:")


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE audit SET line = replace(line, 'pay', 'bay') WHERE number = 2", "entry 2 was changed"),
        ("DELETE FROM audit WHERE number = 2", "entry 2 is missing"),
        ("DELETE FROM audit WHERE number = 3", "entry 3 is missing"),
    ],
)
def test_a_chain_that_was_changed_has_its_own_code_and_names_the_entry(statement: str, sentence: str) -> None:
    record(3)
    change(statement.replace("replace(line, 'pay', 'bay')", "CAST(replace(line, 'pay', 'bay') AS BLOB)"))
    done = sayso("audit", "verify")
    assert (done.exit_code, sentence in done.stderr, done.stdout) == (7, True, "")
    assert json.loads(sayso("audit", "verify", "--json").stdout)["whole"] is False


def test_a_chain_that_was_rewritten_is_found_out_by_a_note() -> None:
    record(3)
    note = verified()
    Path(STORE).unlink()
    record(3, tool="bay")
    assert sayso("audit", "verify").exit_code == 0
    done = sayso("audit", "verify", "--known", note)
    assert (done.exit_code, "entry 3 is not the one that was noted" in done.stderr) == (7, True)


@pytest.mark.parametrize("note", ["3", "3:abc", "x:" + "0" * 64, ":" + "0" * 64])
def test_a_note_that_is_none_is_wrong_usage(note: str) -> None:
    record(1)
    assert sayso("audit", "verify", "--known", note).exit_code == 2


# --- export ------------------------------------------------------------------------------------------


def test_every_entry_is_exported_in_order() -> None:
    record(2500)
    for arguments in ([], ["--format", "jsonl"], ["--json"]):
        lines = sayso("audit", "export", *arguments).stdout.splitlines()
        assert [json.loads(line)["number"] for line in lines] == list(range(1, 2501))
    rows = list(csv.DictReader(io.StringIO(sayso("audit", "export", "--format", "csv").stdout)))
    assert [int(row["number"]) for row in rows] == list(range(1, 2501))
    assert (rows[7]["tool"], rows[7]["args"], rows[7]["hash"]) == (
        "pay",
        '{"amount": 7}',
        entries("--limit", "2493")[0]["hash"],
    )


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"])
def test_no_cell_of_a_table_is_a_formula(start: str) -> None:
    record(1, tool=f'{start}HYPERLINK("http://evil","x")')
    row = next(csv.DictReader(io.StringIO(sayso("audit", "export", "--format", "csv").stdout)))
    assert row["tool"][0] in {"'", "\\", "⟨"}
    assert "HYPERLINK" in row["tool"]
    assert row["number"] == "1"


def test_a_file_is_written_privately_and_never_over_another() -> None:
    record(2)
    assert sayso("audit", "export", "-o", "audit.jsonl").exit_code == 0
    assert len(Path("audit.jsonl").read_text().splitlines()) == 2
    assert Path("audit.jsonl").stat().st_mode & 0o777 == 0o600
    for name in ("audit.jsonl", STORE):
        done = sayso("audit", "export", "-o", name)
        assert (done.exit_code, "is there already" in done.stderr) == (1, True)
    assert sayso("audit", "export", "-o", "nowhere/audit.csv").exit_code == 1
    assert sayso("audit", "export", "--json", "--format", "csv").exit_code == 2
    assert len(entries()) == 2


def test_memory_does_not_grow_with_the_audit() -> None:
    record(100, args={"text": "x" * 4000})
    small = peak_memory()
    record(10_000, args={"text": "x" * 4000})
    assert peak_memory() - small < 20_000_000  # the entries alone are 40 MB


def peak_memory() -> int:
    """Export everything, and return the most memory that it took, in bytes."""
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, done.returncode)\n"
    )
    command = [sys.executable, "-c", script, *PROGRAM, "audit", "export", "--store", STORE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    memory, code = map(int, done.stdout.split())
    assert code == 0
    return memory


def test_a_reader_that_leaves_ends_it_without_a_traceback() -> None:
    record(5000)
    command = [*PROGRAM, "audit", "export", "--store", STORE]
    with bounded(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
