"""`sayso prune`: what is long over leaves the store, and what is said of it is true."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.questions import ask, in_store, sayso, stored

from sayso.client import retention
from sayso.client.archive import Archive
from sayso.testing import FixedClock
from sayso.testing.samples import NO

OLD = time.time() - 100 * 86400


@pytest.fixture(autouse=True)
def closed() -> list[str]:
    """Two requests that were denied a hundred days ago, and one that was asked then and still waits."""
    ids = [ask({"amount": number}, clock=FixedClock(OLD)).id for number in range(2)]
    for each in ids:
        in_store(lambda store, each=each: store.close(each, "denied", NO, now=OLD))
    return ids


def test_what_would_go_is_said_and_nothing_goes() -> None:
    waiting = ask()
    told = sayso("prune", "--closed-for", "90d", "--dry-run", "--archive", "a.jsonl")
    assert told.stdout == "2 requests would be removed and, with --archive, 4 entries of the audit.\n"
    told = sayso("prune", "--closed-for", "90d", "--dry-run", "--json")
    assert json.loads(told.stdout) == {"requests": 2, "entries": 4, "start": 4, "dry_run": True}
    assert not Path("a.jsonl").exists()
    assert (len(json.loads(sayso("pending", "--all", "--json").stdout)), stored(waiting).status) == (3, "open")


def test_requests_go_and_the_audit_stays() -> None:
    told = sayso("prune", "--closed-for", "90d", "--who", "ann")
    assert (told.exit_code, told.stdout) == (0, "2 requests removed; the audit keeps all of its entries.\n")
    assert sayso("prune", "--closed-for", "90d").stdout == "No request has been closed for that long.\n"
    assert json.loads(sayso("pending", "--all", "--json").stdout) == []
    last = json.loads(sayso("audit", "show", "5", "--json").stdout)
    assert (last["step"], last["who"], last["reason"]) == (
        "pruned",
        "ann",
        "2 requests were dropped, and 0 entries up to 0",
    )
    assert "  pruned     by ann: 2 requests were dropped, and 0" in sayso("audit", "list").stdout.splitlines()[-1]


@pytest.mark.proves("H6")
def test_an_archive_takes_both_and_the_chain_is_followed_through_it() -> None:
    ask()
    told = sayso("prune", "--closed-for", "90d", "--archive", "a.jsonl")
    assert told.stdout == "2 requests and 4 entries of the audit are now in a.jsonl, and no longer in the store.\n"
    told = sayso("audit", "verify").stdout.replace("\n", " ")
    assert told.startswith(
        "The chain is whole from entry 5 to 6. Entries 1 to 4 were pruned and not checked: name their"
    )
    assert json.loads(sayso("audit", "verify", "--json").stdout)["first"] == 5
    told = sayso("audit", "verify", "--archive", "a.jsonl")
    assert (told.exit_code, told.stdout.startswith("The chain is whole: 6 entries.")) == (0, True)
    assert [json.loads(line)["number"] for line in sayso("audit", "list", "--json").stdout.splitlines()] == [5, 6]
    archive = Path("a.jsonl")
    archive.write_text(archive.read_text().replace('\\"denied\\"', '\\"asked\\"', 1))
    told = sayso("audit", "verify", "--archive", "a.jsonl")
    assert (told.exit_code, "audit entry 3 was changed" in told.stderr) == (7, True)


def test_a_note_is_compared_with_the_archive_that_has_the_entry_by_now() -> None:
    notes = [(each["number"], each["hash"]) for each in map(json.loads, sayso("audit", "export").stdout.splitlines())]
    assert sayso("prune", "--closed-for", "90d", "--archive", "a.jsonl").exit_code == 0
    last = json.loads(sayso("audit", "verify", "--json").stdout)["last"]
    for number, sealed in [(0, "0" * 64), *notes, (last["number"], last["hash"])]:
        told = sayso("audit", "verify", "--archive", "a.jsonl", "--known", f"{number}:{sealed}")
        assert (told.exit_code, told.stderr) == (0, "")
        told = sayso("audit", "verify", "--archive", "a.jsonl", "--known", f"{number}:{'f' * 64}")
        assert (told.exit_code, f"entry {number} is not the one that was noted" in told.stderr) == (7, True)
    told = sayso("audit", "verify", "--known", f"{notes[1][0]}:{notes[1][1]}")
    assert told.exit_code == 1, "nothing is broken"
    assert told.stderr.replace("\n", " ").endswith("entry 2 was pruned; name the archive that has it with --archive ")
    assert "broken" not in told.stderr
    told = sayso("audit", "verify", "--archive", "a.jsonl", "--known", f"9:{'f' * 64}")
    assert (told.exit_code, "entry 9 is missing: it was noted" in told.stderr) == (7, True)


def test_a_note_of_a_pruned_entry_hides_no_broken_chain() -> None:
    note = json.loads(sayso("audit", "show", "2", "--json").stdout)["hash"]
    ask()
    assert sayso("prune", "--closed-for", "90d", "--archive", "a.jsonl").exit_code == 0
    with sqlite3.connect("state.db") as database:
        database.execute("UPDATE audit SET line = CAST(replace(line, 'asked', 'acted') AS BLOB) WHERE number = 5")
    told = sayso("audit", "verify", "--known", f"2:{note}")
    assert (told.exit_code, "the chain is broken: audit entry 5 was changed" in told.stderr) == (7, True)


def test_archives_may_be_named_in_any_order() -> None:
    assert sayso("prune", "--closed-for", "90d", "--archive", "a.jsonl").exit_code == 0

    async def prune_all(store: Any) -> None:
        with closing(Archive(Path("b.jsonl"))) as archive:
            await retention.prune(store, time.time() + 60, archive=archive)

    in_store(prune_all)
    for order in (("a", "b"), ("b", "a"), ("b", "a", "b")):
        named = [part for each in order for part in ("--archive", f"{each}.jsonl")]
        told = sayso("audit", "verify", *named)
        assert (told.exit_code, told.stdout.startswith("The chain is whole: 6 entries.")) == (0, True), order
    told = sayso("audit", "verify", "--archive", "a.jsonl")
    assert (told.exit_code, "a.jsonl ends with audit entry 4" in told.stderr) == (7, True)


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ((), 2, "Missing option '--closed-for'"),
        (("--closed-for", "soon"), 2, "is 'soon'; use a positive number"),
        (("--closed-for", "1d", "--store", "no.db"), 1, "there is no store no.db"),
        (("--closed-for", "1d", "--archive", "state.db"), 1, "state.db is there already; name another file"),
        (("--closed-for", "1d", "--archive", "no/a.jsonl"), 1, "no/a.jsonl cannot be written (No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_and_nothing_goes(
    arguments: tuple[str, ...], code: int, problem: str, closed: list[str]
) -> None:
    told = sayso("prune", *arguments)
    assert told.exit_code == code
    assert problem in told.stderr
    assert all(sayso("show", each).exit_code == 0 for each in closed)


def test_no_archive_is_no_part_of_a_chain() -> None:
    told = sayso("audit", "verify", "--archive", "no.jsonl")
    assert (told.exit_code, told.stdout) == (1, "")
    assert "the archive no.jsonl cannot be read" in told.stderr
