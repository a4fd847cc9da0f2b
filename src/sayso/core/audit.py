"""Audit log: one redacted line per step, in a hash chain."""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sayso.core.canonical import FrozenDict
from sayso.core.model import AuditEntry, Denied, ToolCall
from sayso.core.redaction import redact, redact_text
from sayso.errors import AuditError, CanonicalError, StoreError

if TYPE_CHECKING:
    from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Step, Verdict
    from sayso.core.ports import AuditLog

EntryRef = tuple[int, str]  # the number and the hash of an entry
SealedEntry = tuple[int, bytes, str]  # the number, the line and the hash of an entry

START = "0" * 64
_PAGE = 1000
_ENCODER = msgspec.json.Encoder()


class EntryBody(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """JSON form of an entry; unknown values are omitted."""

    at: float
    step: str
    agent_at: float | None = None  # by the clock of a remote agent, where the hub has set `at`
    tool: str = ""
    project: str = ""
    asked_by: str = ""
    call_id: str = ""
    session: str = ""
    run: str = ""
    agent_path: list[str] = []
    request_id: str | None = None
    args: Any = None
    digest: str | None = None
    approval: str | None = None
    because: str | None = None
    rule: str = ""
    by: str | None = None
    cause: str | None = None
    reason: str | None = None
    who: str | None = None
    channel: str | None = None
    note: str | None = None
    remember: str = "none"
    final_args: Any = None
    decided_at: float | None = None
    remembered_id: str | None = None
    scope: str | None = None
    result: Any = None
    seconds: float | None = None
    error: str | None = None  # why the other fields are missing


class _Time(msgspec.Struct):
    at: float


class _Needed(_Time):
    """The fields that readers rely on."""

    agent_path: list[str] = []


def request_entry(request: ApprovalRequest, step: Step, at: float) -> AuditEntry:
    """Return the entry for a step in the life of a request."""
    return AuditEntry(at=at, step=step, about=request)


def encode_early_if_needed(entry: AuditEntry) -> AuditEntry | bytes:
    """Return the entry, to be encoded later, or its line if it has to be encoded at once.

    Large arguments must not pile up in a queue, and arguments that could not be frozen may change meanwhile.
    """
    args = entry.about.args
    return entry if type(args) is FrozenDict and args.small else encode(entry)


def encode(entry: AuditEntry) -> bytes:
    """Return the line of an entry; never raises, so that every step is recorded."""
    try:
        return _encode(entry)
    except Exception as error:  # noqa: BLE001 - a step that cannot be described must still be recorded
        return _ENCODER.encode(
            {"at": entry.at, "step": entry.step, "error": f"could not be described: {type(error).__name__}"}
        )


def _encode(entry: AuditEntry) -> bytes:
    about = entry.about
    line = EntryBody(
        at=entry.at,
        step=entry.step,
        tool=redact_text(about.tool),
        call_id=redact_text(about.call_id),
        session=redact_text(about.session),
        run=redact_text(about.run),
        agent_path=[redact_text(name) for name in about.agent_path] if about.agent_path else [],
        seconds=entry.seconds,
        result=None if entry.result is None else redact(entry.result),
    )
    if entry.outcome is not None:
        line.request_id = entry.outcome.request_id
    if entry.step not in {"returned", "raised"}:
        _add_details(line, entry)
    return _ENCODER.encode(line)


def _add_details(line: EntryBody, entry: AuditEntry) -> None:
    about = entry.about
    if entry.verdict is not None:
        _add_verdict(line, entry.verdict)
    if entry.outcome is not None:
        _add_outcome(line, entry.outcome)
    if isinstance(about, ToolCall):
        line.args, line.digest = redact(about.args), _digest(about)
        return
    line.project, line.asked_by = redact_text(about.project), redact_text(about.asked_by)
    _add_verdict(line, about)
    _add_decision(line, about.votes[-1] if entry.step == "voted" else about.decision)
    line.request_id, line.digest = about.id, about.digest
    if entry.step == "asked" or line.final_args is not None:
        line.args = redact(about.args)  # once, or next to the edited ones; elsewhere the digest is enough


def _add_verdict(line: EntryBody, source: Verdict | ApprovalRequest) -> None:
    line.approval, line.because = source.approval, redact_text(source.reason)
    line.rule = redact_text(str(source.rule)) if source.rule else ""


def _add_outcome(line: EntryBody, outcome: Approved | Denied) -> None:
    line.reason = redact_text(outcome.reason)
    if isinstance(outcome, Denied):
        line.cause, line.note = outcome.cause, _redacted(outcome.note)
        return
    line.by = outcome.by
    _add_decision(line, outcome.decision)
    if outcome.remembered is not None:
        line.remembered_id, line.scope = outcome.remembered.id, outcome.remembered.scope.kind


def _add_decision(line: EntryBody, decision: ApprovalDecision | None) -> None:
    if decision is None:
        return
    line.who, line.channel, line.note = _redacted(decision.who), _redacted(decision.channel), _redacted(decision.note)
    line.remember, line.decided_at = decision.remember, decision.decided_at
    if decision.unattended:
        line.cause = "unattended"
    if decision.override_args is not None:
        line.final_args = redact(decision.override_args)


def _redacted(value: str | None) -> str | None:
    return None if value is None else redact_text(value)


def _digest(call: ToolCall) -> str:
    try:
        return call.digest()
    except CanonicalError as error:
        return f"none: {redact_text(str(error))}"


def seal(previous: str, number: int, line: bytes) -> str:
    """Return the hash that binds this line to its number and to all entries before it."""
    return hashlib.sha256(f"{previous}:{number}:".encode() + line).hexdigest()


def verify_page(end: EntryRef, page: Sequence[SealedEntry]) -> EntryRef:
    """Check that these entries follow a known one, and return the last of them.

    Raises:
        AuditError: names the first entry that was changed, dropped or moved.
    """
    number, previous = end
    for found, line, written in page:
        number += 1
        if found != number:
            raise AuditError(f"audit entry {number} is missing: entry {found} follows entry {number - 1}")
        if seal(previous, number, line) != written:
            raise AuditError(f"audit entry {number} was changed, or moved here: its hash does not fit")
        previous = written
    return number, previous


def check_known_entry(entry: EntryRef, known: EntryRef | None) -> None:
    """Compare an entry with the known one of the same number, if it has that number.

    Raises:
        AuditError: the two differ.
    """
    if known is not None and entry[0] == known[0] and entry != known:
        raise AuditError(f"audit entry {known[0]} is not the one that was noted: the chain was rewritten")


def encode_pruned(at: float, who: str, reason: str) -> bytes:
    """Return the line that records a deletion from the store."""
    return _ENCODER.encode(EntryBody(at=at, step="pruned", who=redact_text(who), reason=redact_text(reason)))


def time_of(line: bytes) -> float:
    """Return the time of a line's step; infinity for an unreadable line, so that it is never pruned as old."""
    try:
        return msgspec.json.decode(line, type=_Time).at
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return math.inf


async def entries(store: AuditLog, after: int = 0) -> AsyncIterator[dict[str, Any]]:
    """Yield the entries after that number, oldest first, as plain data."""
    async for row in _read_entries(store, after):
        yield as_dict(*row)


def as_dict(number: int, line: bytes, sealed: str) -> dict[str, Any]:
    """Return an entry as plain data; an unreadable one has an `error`, and `verify` reports it too."""
    try:
        known = msgspec.json.decode(line, type=dict[str, Any])
        msgspec.convert(known, _Needed)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        known = {"at": 0.0, "error": "this entry cannot be read"}
    return {**known, "number": number, "hash": sealed}


async def verify(store: AuditLog, *, known: EntryRef | None = None) -> int:
    """Check the whole chain and return the number of its last entry.

    `known` is a number and hash that were noted earlier outside the store: they reveal even a chain that was rewritten
    from start to end.

    Raises:
        AuditError: names the first entry that was changed, dropped or moved.
        StoreError: the chain is whole, but the known entry was pruned.
    """
    while True:
        start, end = await store.audit_ends()
        try:
            return await _verify(store, start, end, known)
        except AuditError:
            if (await store.audit_ends())[0] == start:
                raise  # otherwise the checked entries were pruned meanwhile


async def _verify(store: AuditLog, start: EntryRef, end: EntryRef, known: EntryRef | None) -> int:
    checked, (last, last_hash) = start, end
    check_known_entry(start, known)
    async for entry in _read_entries(store):
        if checked[0] == last:
            if (await store.audit_ends())[1] == end:
                raise AuditError(f"audit entry {entry[0]} was put behind the end of the chain, which is entry {last}")
            break  # appended after this check began
        checked = verify_page(checked, [entry])
        check_known_entry(checked, known)
    if checked[0] != last:
        missing = f"the chain should end with entry {last}, but ends with {checked[0]}"
        raise AuditError(f"audit entry {checked[0] + 1} is missing: {missing}")
    if checked[1] != last_hash:
        raise AuditError(f"audit entry {last} was changed: it is not the one that the chain ends with")
    if known is not None and known[0] > last:
        raise AuditError(f"audit entry {known[0]} is missing: it was noted, but the chain ends with entry {last}")
    if known is not None and known[0] < start[0]:
        raise StoreError(f"audit entry {known[0]} was pruned; name the archive that has it with --archive")
    return last


async def _read_entries(store: AuditLog, after: int = 0) -> AsyncIterator[SealedEntry]:
    while page := await store.audit(after, _PAGE):
        for line in page:
            yield line
        after = page[-1][0]
