"""The audit: what is written down, what is left out, and that no change of it goes unnoticed."""

import asyncio
import contextlib
import datetime as dt
import json
import sqlite3
import uuid
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso import ApprovalDecision, ApprovalMemory, ApprovalRequest, ToolCall, Verdict
from sayso.core import audit, redaction
from sayso.core.model import Approved, AuditEntry, Denied, Remembered, Rule
from sayso.errors import AuditError, StoreError
from sayso.policy import scopes
from sayso.stores.memory import MemoryStore
from sayso.stores.sqlite import SqliteStore

LENGTH = 5


def entry(args: Mapping[Any, Any] | None = None, **facts: Any) -> AuditEntry:
    call = ToolCall(tool="pay", args=args or {}, call_id="c1", session="s1", agent_path=("main", "sub"))
    given: dict[str, Any] = {"at": 1.0, "step": "allowed", "about": call, **facts}
    return AuditEntry(**given)


def written(entry: AuditEntry) -> dict[str, Any]:
    return json.loads(audit.encode(entry))


# What is written down.


@pytest.mark.proves("H8")
def test_a_decision_is_written_with_call_verdict_rule_reason_and_digest() -> None:
    verdict = Verdict(approval="none", reason="harmless", rule=Rule(source="sayso.yaml", key="tools.pay", line=3))
    facts = entry({"amount": 5}, verdict=verdict, outcome=Approved(args={}, by="policy", reason="the owner says so"))
    assert written(facts) == {
        "at": 1.0,
        "step": "allowed",
        "tool": "pay",
        "call_id": "c1",
        "session": "s1",
        "agent_path": ["main", "sub"],
        "by": "policy",
        "reason": "the owner says so",
        "args": {"amount": 5},
        "approval": "none",
        "because": "harmless",
        "rule": "sayso.yaml:3 tools.pay",
        "digest": facts.call.digest(),
    }


@pytest.mark.proves("H8")
def test_an_answer_is_written_with_who_channel_note_and_both_versions_of_the_arguments() -> None:
    decision = ApprovalDecision(
        approved=True,
        note="less",
        override_args={"amount": 1},
        remember="session",
        who="ann",
        channel="terminal",
        decided_at=2.0,
    )
    request = ApprovalRequest(
        id="r1", tool_name="pay", args={"amount": 5}, digest="d", reason="asks", status="approved", decision=decision
    )
    facts = written(audit.request_entry(request, "approved", at=2.0))
    assert (facts["step"], facts["request_id"], facts["digest"]) == ("approved", "r1", "d")
    assert (facts["who"], facts["channel"], facts["note"], facts["remember"]) == ("ann", "terminal", "less", "session")
    assert (facts["args"], facts["final_args"], facts["decided_at"]) == ({"amount": 5}, {"amount": 1}, 2.0)
    assert (facts["approval"], facts["because"]) == ("required", "asks")


@pytest.mark.proves("H8")
def test_a_result_is_written_with_its_time_and_an_edit_to_no_arguments_is_not_left_out() -> None:
    outcome = Approved(args={"amount": 5}, by="answer", reason="approved by ann", request_id="r1")
    facts = written(entry({"amount": 5}, step="returned", outcome=outcome, result="done", seconds=0.25))
    assert (facts["step"], facts["request_id"], facts["result"], facts["seconds"]) == ("returned", "r1", "done", 0.25)
    assert written(entry(step="returned", result=0))["result"] == 0
    decision = ApprovalDecision(approved=True, override_args={})
    request = ApprovalRequest(tool_name="pay", args={"amount": 5}, decision=decision)
    assert written(audit.request_entry(request, "approved", at=2.0))["final_args"] == {}


@pytest.mark.proves("H8")
def test_a_remembered_decision_is_written_with_its_id_scope_and_decider() -> None:
    facts = written(entry({"amount": 5}, outcome=by_memory({"amount": 5})))
    assert (facts["remembered_id"], facts["who"], facts["remember"]) == ("m1", "ann", "always")
    assert (facts["by"], bool(facts["scope"])) == ("memory", True)


@pytest.mark.proves("H8", "R57")
def test_a_refusal_is_written_with_its_cause_reason_note_and_request() -> None:
    outcome = Denied(cause="blocked", reason="blocked by policy: never", note="sorry", request_id="r1")
    facts = written(entry({"amount": 5}, step="stopped", outcome=outcome))
    assert (facts["step"], facts["cause"], facts["request_id"]) == ("stopped", "blocked", "r1")
    assert (facts["reason"], facts["note"]) == ("blocked by policy: never", "sorry")


def by_memory(payload: dict[str, Any]) -> Approved:
    decision = ApprovalDecision(approved=True, remember="always", who="ann")
    scope = scopes.call_scope("pay", {}, payload)
    kept = Remembered(id="m1", tool="pay", scope=scope, decision=decision, session=None, remembered_at=0.0)
    return Approved(args={}, by="memory", reason="remembered", remembered=kept, decision=decision)


# What is left out.


@pytest.mark.proves("H8")
@pytest.mark.parametrize(
    "key",
    [
        "password", "PASSWORD", "db_passwd", "passphrase", "secret", "client_secret", "token", "accessToken", "api_key",
        "api-key", "apiKey", "APIKEY", "Authorization", "credentials", "private_key", "privateKey", "Cookie",
        "session_key",
    ],
)  # fmt: skip
def test_the_value_of_a_secret_key_is_never_written_wherever_it_stands(key: str) -> None:
    hidden = "hunter2"
    args = {key: hidden, "deep": {"list": [{key: hidden}], key: {"a": hidden}, "shown": 1}}
    decision = ApprovalDecision(approved=True, override_args=args)
    request = ApprovalRequest(tool_name="pay", args=args, decision=decision)
    for each in (entry(args), entry(step="returned", result=args), audit.request_entry(request, "approved", at=1.0)):
        assert hidden.encode() not in audit.encode(each)
    facts = written(entry(args))
    assert facts["args"][key] == facts["args"]["deep"]["list"][0][key] == redaction.REDACTED
    assert facts["args"]["deep"]["shown"] == 1


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJlLW9mLWFubg"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    pytest.param("key sk-proj-" + "a1B2" * 8, "a1B2a1B2", id="OpenAI"),
    pytest.param("sk-ant-api03-" + "a1B2" * 8, "a1B2a1B2", id="Anthropic"),
    pytest.param("sk_live_" + "a1B2" * 8, "a1B2a1B2", id="Stripe"),
    pytest.param("rk_live_" + "a1B2" * 8, "a1B2a1B2", id="Stripe, restricted"),
    pytest.param("ghp_" + "a1B2" * 9, "a1B2a1B2", id="GitHub, personal"),
    pytest.param("ghs_" + "a1B2" * 9, "a1B2a1B2", id="GitHub, server"),
    pytest.param("github_pat_" + "a1B2" * 9, "a1B2a1B2", id="GitHub, fine-grained"),
    pytest.param("glpat-" + "a1B2" * 5, "a1B2a1B2", id="GitLab"),
    pytest.param("xoxb-" + "1234-5678-" + "a1B2" * 6, "a1B2a1B2", id="Slack"),
    pytest.param("AKIA" + "ABCD2345" * 2, "ABCD2345", id="AWS"),
    pytest.param("ASIA" + "ABCD2345" * 2, "ABCD2345", id="AWS, temporary"),
    pytest.param("AIza" + "a1B2-_c" * 5, "a1B2-_c", id="Google"),
    pytest.param(f"jwt {JWT} end", "c2lnbmF0dXJl", id="JWT"),
    pytest.param("Authorization: Bearer abc.def-ghi_123", "def-ghi", id="Bearer"),
    pytest.param("curl -H 'authorization: bearer abcdefgh12345678'", "abcdefgh", id="bearer"),
    pytest.param("postgres://ann:hunter2@db/main", "hunter2", id="URL"),
    pytest.param("redis://:hunter2@cache:6379/0", "hunter2", id="URL without a user"),
    pytest.param("mysql --password=hunter2 -u ann", "hunter2", id="password="),
    pytest.param("PASSWORD=hunter2", "hunter2", id="PASSWORD="),
    pytest.param("mysql --password='hunter2'", "hunter2", id="password in quotes"),
    pytest.param('export API_KEY="hunter2"', "hunter2", id="API_KEY in double quotes"),
    pytest.param('{"user": "ann", "password": "hunter2"}', "hunter2", id="password in JSON text"),
    pytest.param("https://x.test/?token=hunter2&page=1", "hunter2", id="token="),
    pytest.param("api_key=hunter2", "hunter2", id="api_key="),
    pytest.param(f"here: {PEM} bye", "MIIEowIBAAKCAQEA7bq", id="private key"),
    pytest.param(PEM[:50], "MIIEowIBAAK", id="private key, cut short"),
]


@pytest.mark.proves("H8")
@pytest.mark.parametrize(("text", "hidden"), SECRETS)
def test_what_looks_like_a_secret_is_never_written_whatever_holds_it(text: str, hidden: str) -> None:
    decision = ApprovalDecision(approved=True, note=text, who=text, channel=text, override_args={"a": text})
    request = ApprovalRequest(tool_name="t", args={"a": [text], text: 1}, reason=text, decision=decision)
    verdict = Verdict(approval="none", reason=text)
    for each in (
        entry({"command": text, "list": [{"x": (text,)}], text: 1}),
        entry(verdict=verdict, outcome=Denied(cause="refused", reason=text, note=text)),
        entry(outcome=Approved(args={}, by="answer", reason=text, decision=decision)),
        entry(step="raised", result=text),
        audit.request_entry(request, "approved", at=1.0),
    ):
        line = audit.encode(each)
        assert hidden.encode() not in line
        assert redaction.REDACTED.encode() in line


@pytest.mark.proves("H8")
def test_text_around_a_secret_stays_readable() -> None:
    assert (
        redaction.redact("psql postgres://ann:hunter2@db/main -c x")
        == f"psql postgres://{redaction.REDACTED}@db/main -c x"
    )
    assert redaction.redact("no secret here: sk- AKIA token") == "no secret here: sk- AKIA token"


@pytest.mark.proves("H8", "R24")
@pytest.mark.parametrize("key", ["password", "api_key", "token"])
def test_the_scope_of_a_remembered_decision_does_not_give_its_secrets_away(key: str) -> None:
    facts = entry(outcome=by_memory({"service": "web", key: "hunter2"}))
    assert b"hunter2" not in audit.encode(facts)


@pytest.mark.proves("H8", "R24")
async def test_forgetting_a_decision_does_not_give_its_secrets_away() -> None:
    store = MemoryStore()
    memory = ApprovalMemory(store=store)
    remembered = by_memory({"service": "web", "password": "hunter2"}).remembered
    assert remembered is not None
    memory.add(remembered)
    memory.clear()
    lines = await store.audit()
    assert len(lines) == 1
    assert b"hunter2" not in lines[0][1]


@pytest.mark.proves("H8")
def test_the_digest_is_over_the_full_arguments_that_the_line_does_not_show() -> None:
    one, two = (entry({"password": each, "text": "x" * 5000 + each}) for each in ("hunter2", "hunter3"))
    assert written(one)["args"]["password"] == written(two)["args"]["password"] == redaction.REDACTED
    assert written(one)["digest"] == one.call.digest()
    assert written(one)["digest"] != written(two)["digest"]


@pytest.mark.proves("H8")
def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    cut = redaction.redact("x" * 5000)
    assert len(cut) < 2100
    assert cut.startswith("x" * 2000 + "… (5000 characters, sha256 ")
    assert redaction.redact("x" * 2000) == "x" * 2000
    assert redaction.redact("x" * 4999 + "a") != redaction.redact("x" * 4999 + "b")


@pytest.mark.proves("H8")
@pytest.mark.parametrize("before", range(1970, 2001, 5))
def test_a_secret_across_the_cut_is_removed_too(before: int) -> None:
    token = "sk-" + "a1B2" * 8
    assert "a1B2" not in redaction.redact("x" * (before - 1) + " " + token + " " + "y" * 3000)
    assert "eyJhbGci" not in redaction.redact("x" * (before - 60) + " " + JWT + " " + "y" * 3000)


@pytest.mark.proves("H8")
def test_bytes_are_summed_up_and_dates_paths_and_numbers_written_as_text_or_number() -> None:
    assert redaction.redact(b"\x00secret") == "<7 bytes>"
    values = [Path("a/b"), uuid.UUID(int=1), dt.date(2024, 1, 2), 2**70, float("nan"), float("-inf"), None, True]
    assert redaction.redact(values) == [
        "a/b",
        "00000000-0000-0000-0000-000000000001",
        "2024-01-02",
        hex(2**70),
        "nan",
        "-inf",
        None,
        True,
    ]


class Rude:
    """An object of somebody else's, whose code must not be run."""

    def __repr__(self) -> str:
        raise RuntimeError("who called my code?")

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return repr(self)


class RudeMapping(Mapping[str, int]):
    def __getitem__(self, _: str) -> int:
        raise RuntimeError("who called my code?")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("who called my code?")

    def __len__(self) -> int:
        raise RuntimeError("who called my code?")


class RudeList(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("who called my code?")


class RudeDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("who called my code?")


class RudeText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("who called my code?")


class RudePath(type(Path())):
    def __str__(self) -> str:
        raise RuntimeError("who called my code?")


@pytest.mark.proves("H8", "H5")
@pytest.mark.parametrize("kind", [Rude, RudeMapping, RudeList, RudeDict, RudeText, RudePath])
def test_a_foreign_object_is_named_and_none_of_its_code_is_called(kind: type[object]) -> None:
    facts = written(entry({"a": [kind()]}))
    assert kind.__qualname__ in facts["args"]["a"][0]
    assert facts["digest"].startswith("none: args.a[0] is a ")
    assert kind.__qualname__ in written(entry(step="returned", result=kind()))["result"]


@pytest.mark.proves("H8", "H5")
def test_a_foreign_key_is_named_and_none_of_its_code_is_called() -> None:
    key: Any = Rude()
    assert b"Rude" in audit.encode(entry({key: 1}))
    assert "Rude" in json.dumps(redaction.redact({key: 1}))


@pytest.mark.proves("H8")
def test_half_a_character_is_written_as_its_code() -> None:
    facts = written(entry({"a": "\ud800", "\udfff": 1}))
    assert facts["args"] == {"a": "\\ud800", "\\udfff": 1}
    assert facts["digest"].startswith("none: ")


# The chain.


def steps(count: int) -> list[AuditEntry]:
    return [entry({"n": number}) for number in range(1, count + 1)]


async def a_memory_store(count: int = LENGTH) -> MemoryStore:
    store = MemoryStore()
    for each in steps(count):
        store.record(each)
    return store


@pytest.mark.proves("H8")
async def test_an_untouched_chain_is_sound_and_can_be_exported() -> None:
    store = await a_memory_store(2500)
    assert await audit.verify(store) == 2500
    exported = [each async for each in audit.entries(store)]
    assert [(each["number"], each["args"]["n"]) for each in exported] == [(n, n) for n in range(1, 2501)]
    assert await audit.verify(MemoryStore()) == 0


@pytest.mark.proves("H8")
async def test_what_is_written_while_a_chain_is_checked_is_no_fault() -> None:
    class Busy(MemoryStore):
        async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
            ends = await super().audit_ends()
            self.record(entry({"n": "meanwhile"}))
            return ends

    store = Busy()
    for each in steps(LENGTH):
        store.record(each)
    assert await audit.verify(store) >= LENGTH


@pytest.mark.proves("H8")
async def test_a_noted_entry_stays_valid_as_the_chain_grows() -> None:
    store = await a_memory_store()
    _, noted = await store.audit_ends()
    store.record(entry({"n": "more"}))
    assert await audit.verify(store, known=noted) == LENGTH + 1


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A real store with a chain of five, closed."""
    path = tmp_path / "sayso.db"
    store = SqliteStore(path)
    for each in steps(LENGTH):
        store.record(each)
    await store.aclose()
    return path


@contextlib.contextmanager
def tampering(path: Path) -> Generator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@contextlib.asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        await store.aclose()


async def fault(path: Path, known: tuple[int, str] | None = None) -> str:
    """What is said about a chain that somebody touched."""
    async with opened(path) as store:
        with pytest.raises(AuditError) as found:
            await audit.verify(store, known=known)
    return str(found.value)


CHANGE = "UPDATE audit SET line = CAST(replace(CAST(line AS TEXT), '\"n\":', '\"n\":9') AS BLOB) WHERE number = {}"
SWAP = """
    CREATE TEMP TABLE two AS SELECT * FROM audit WHERE number = 2;
    UPDATE audit SET (line, hash) = (SELECT line, hash FROM audit WHERE number = 3) WHERE number = 2;
    UPDATE audit SET (line, hash) = (SELECT line, hash FROM two) WHERE number = 3;
"""
INSERT = """
    UPDATE audit SET number = -(number + 1) WHERE number >= 3;
    UPDATE audit SET number = -number WHERE number < 0;
    INSERT INTO audit SELECT 3, line, hash FROM audit WHERE number = 2;
"""


@pytest.mark.proves("H8")
@pytest.mark.parametrize(
    ("statements", "says"),
    [
        pytest.param(CHANGE.format(1), "audit entry 1 was changed", id="first changed"),
        pytest.param(CHANGE.format(3), "audit entry 3 was changed", id="middle changed"),
        pytest.param(CHANGE.format(5), "audit entry 5 was changed", id="last changed"),
        pytest.param(
            "UPDATE audit SET line = CAST(line || 'x' AS BLOB) WHERE number = 2",
            "audit entry 2 was changed",
            id="longer",
        ),
        pytest.param("UPDATE audit SET hash = 'x' WHERE number = 4", "audit entry 4 was changed", id="hash changed"),
        pytest.param("DELETE FROM audit WHERE number = 1", "audit entry 1 is missing", id="first dropped"),
        pytest.param("DELETE FROM audit WHERE number = 3", "audit entry 3 is missing", id="middle dropped"),
        pytest.param("DELETE FROM audit WHERE number IN (2, 3)", "audit entry 2 is missing", id="two dropped"),
        pytest.param("DELETE FROM audit WHERE number = 5", "audit entry 5 is missing", id="last dropped"),
        pytest.param("DELETE FROM audit WHERE number > 2", "audit entry 3 is missing", id="tail dropped"),
        pytest.param("DELETE FROM audit", "audit entry 1 is missing", id="all dropped"),
        pytest.param(SWAP, "audit entry 2 was changed, or moved here", id="reordered"),
        pytest.param(INSERT, "audit entry 3 was changed, or moved here", id="inserted"),
        pytest.param("UPDATE audit SET number = 9 WHERE number = 2", "audit entry 2 is missing", id="renumbered"),
        pytest.param("UPDATE audit SET number = 9 WHERE number = 5", "audit entry 5 is missing", id="last renumbered"),
        pytest.param(
            "DELETE FROM audit WHERE number = 2; UPDATE audit SET number = number - 1 WHERE number > 2",
            "audit entry 2 was changed, or moved here",
            id="dropped and closed up",
        ),
    ],
)
async def test_whatever_is_done_to_an_entry_of_the_file_is_found_and_named(
    file: Path, statements: str, says: str
) -> None:
    with tampering(file) as connection:
        connection.executescript(statements)
    assert (await fault(file)).startswith(says)


def rewrite(path: Path, change: int, *, head: bool, last: int = LENGTH) -> None:
    """Change one entry and seal everything from there on again, as somebody would who knows how."""
    with tampering(path) as connection:
        previous = audit.START
        for number, line in connection.execute("SELECT number, line FROM audit ORDER BY number").fetchall():
            forged = line.replace(b'"n":', b'"n":9') if number == change else line
            previous = audit.seal(previous, number, forged)
            connection.execute("UPDATE audit SET line = ?, hash = ? WHERE number = ?", (forged, previous, number))
        if head:
            connection.execute("UPDATE facts SET chain_number = ?, chain_hash = ?", (last, previous))


async def noted_end(path: Path) -> tuple[int, str]:
    async with opened(path) as store:
        return (await store.audit_ends())[1]


@pytest.mark.proves("H8")
async def test_a_chain_that_was_sealed_again_does_not_fit_its_head(file: Path) -> None:
    rewrite(file, 3, head=False)
    await fault(file)


@pytest.mark.proves("H8")
async def test_a_last_entry_that_was_changed_and_sealed_again_is_the_one_that_is_named(file: Path) -> None:
    rewrite(file, LENGTH, head=False)
    assert (await fault(file)).startswith("audit entry 5 ")


@pytest.mark.proves("H8")
@pytest.mark.parametrize("change", [1, 3, 5])
async def test_a_chain_rewritten_with_its_head_is_found_out_by_what_was_noted_outside(file: Path, change: int) -> None:
    noted = await noted_end(file)
    rewrite(file, change, head=True)
    async with opened(file) as store:
        assert await audit.verify(store) == LENGTH  # nothing inside the file can tell
    assert "audit entry 5 is not the one that was noted: the chain was rewritten" in await fault(file, known=noted)


@pytest.mark.proves("H8")
async def test_a_chain_cut_short_together_with_its_head_is_found_out_by_what_was_noted_outside(file: Path) -> None:
    noted = await noted_end(file)
    with tampering(file) as connection:
        connection.execute("DELETE FROM audit WHERE number > 3")
        connection.execute("UPDATE facts SET chain_number = 3, chain_hash = (SELECT hash FROM audit WHERE number = 3)")
    async with opened(file) as store:
        assert await audit.verify(store) == 3
    assert "audit entry 5 is missing: it was noted" in await fault(file, known=noted)


@pytest.mark.proves("H8")
async def test_an_entry_put_behind_the_end_is_found_and_named(file: Path) -> None:
    _, last = await noted_end(file)
    line = audit.encode(entry({"n": "forged"}))
    with tampering(file) as connection:
        connection.execute("INSERT INTO audit VALUES (6, ?, ?)", (line, audit.seal(last, 6, line)))
    assert (await fault(file)).startswith("audit entry 6 ")


class Tampered(MemoryStore):
    """A store whose lines somebody else keeps."""

    def __init__(self, lines: list[tuple[int, bytes, str]], last: tuple[int, str]) -> None:
        super().__init__()
        self.kept, self.last = lines, last

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        return [line for line in self.kept if line[0] > after][:limit]

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        return (0, audit.START), self.last


async def sound_lines() -> tuple[list[tuple[int, bytes, str]], tuple[int, str]]:
    store = await a_memory_store()
    return await store.audit(), (await store.audit_ends())[1]


@pytest.mark.proves("H8")
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_any_change_of_any_single_byte_of_any_line_is_found_and_named(data: st.DataObject) -> None:
    lines, last = asyncio.run(sound_lines())
    at = data.draw(st.integers(0, LENGTH - 1), "line")
    number, line, sealed = lines[at]
    place = data.draw(st.integers(0, len(line) + len(sealed) - 1), "byte")
    whole = bytearray(line + sealed.encode())
    whole[place] ^= data.draw(st.integers(1, 255) if place < len(line) else st.integers(1, 15), "change")
    lines[at] = (number, bytes(whole[: len(line)]), whole[len(line) :].decode())
    with pytest.raises(AuditError, match=f"audit entry {number} was changed"):
        asyncio.run(audit.verify(Tampered(lines, last)))


@pytest.mark.proves("H8")
@settings(deadline=None)
@given(st.permutations(range(LENGTH)), st.integers(0, LENGTH))
def test_any_other_order_or_any_part_of_the_lines_is_found(order: list[int], kept: int) -> None:
    lines, last = asyncio.run(sound_lines())
    others = [(number + 1, *lines[at][1:]) for number, at in enumerate(order[:kept])]
    if others != lines:
        with pytest.raises(AuditError, match=r"audit entry \d was changed|audit entry \d is missing"):
            asyncio.run(audit.verify(Tampered(others, last)))


@pytest.mark.proves("H8")
async def test_a_note_that_cannot_be_compared_is_not_taken_for_confirmed() -> None:
    store = MemoryStore()
    store.record(entry())
    for note in ((0, "rubbish"), (-1, "rubbish"), (1, "rubbish"), (2, "rubbish")):
        with pytest.raises(StoreError):
            await audit.verify(store, known=note)
    (number, _, sealed) = (await store.audit())[0]
    assert await audit.verify(store, known=(number, sealed)) == 1
