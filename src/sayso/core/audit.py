"""The audit: one line per step, without secrets, each sealed by a hash over itself and the line before."""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sayso.core.canonical import FrozenDict
from sayso.core.model import AuditEntry, Denied, ToolCall
from sayso.core.redaction import redact, text
from sayso.errors import AuditError, CanonicalError

if TYPE_CHECKING:
    from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Step, Verdict
    from sayso.core.ports import Audit

End = tuple[int, str]  # the number and the hash of an entry
Entry = tuple[int, bytes, str]  # its number, its line and its hash

START = "0" * 64
_PAGE = 1000
_ENCODER = msgspec.json.Encoder()


class Line(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is written of an entry: JSON, without what is not known."""

    at: float
    step: str
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
    error: str | None = None  # why there is nothing else


class _Time(msgspec.Struct):
    at: float


class _Needed(_Time):
    """What readers rely on."""

    agent_path: list[str] = []


def of_request(request: ApprovalRequest, step: Step, at: float) -> AuditEntry:
    """Return the entry for a step in the life of a request."""
    return AuditEntry(at=at, step=step, about=request)


def prepare(entry: AuditEntry) -> AuditEntry | bytes:
    """Return the entry to be written down later or, where that could be costly or too late, its line at once.

    What is heavy must not pile up in a queue, and what could not be frozen may have changed by then.
    """
    args = entry.about.args
    return entry if type(args) is FrozenDict and args.light else body(entry)


def body(entry: AuditEntry) -> bytes:
    """Return the line that is written for an entry; there is one for every entry, whatever is in it."""
    try:
        return _body(entry)
    except Exception as error:  # noqa: BLE001 - a step that cannot be described must still be told, and stop nobody
        return _ENCODER.encode(
            {"at": entry.at, "step": entry.step, "error": f"could not be described: {type(error).__name__}"}
        )


def _body(entry: AuditEntry) -> bytes:
    about = entry.about
    line = Line(
        at=entry.at,
        step=entry.step,
        tool=text(about.tool),
        call_id=text(about.call_id),
        session=text(about.session),
        run=text(about.run),
        agent_path=[text(name) for name in about.agent_path] if about.agent_path else [],
        seconds=entry.seconds,
        result=None if entry.result is None else redact(entry.result),
    )
    if entry.outcome is not None:
        line.request_id = entry.outcome.request_id
    if entry.step not in {"returned", "raised"}:
        _describe(line, entry)
    return _ENCODER.encode(line)


def _describe(line: Line, entry: AuditEntry) -> None:
    about = entry.about
    if entry.verdict is not None:
        _tell_why(line, entry.verdict)
    if entry.outcome is not None:
        _tell_what(line, entry.outcome)
    if isinstance(about, ToolCall):
        line.args, line.digest = redact(about.args), _digest(about)
        return
    line.project, line.asked_by = text(about.project), text(about.asked_by)
    _tell_why(line, about)
    _tell_answer(line, about.votes[-1] if entry.step == "voted" else about.decision)
    line.request_id, line.digest = about.id, about.digest
    if entry.step == "asked" or line.final_args is not None:
        line.args = redact(about.args)  # once, or beside what they were changed to; else the digest stands for them


def _tell_why(line: Line, source: Verdict | ApprovalRequest) -> None:
    line.approval, line.because = source.approval, text(source.reason)
    line.rule = text(str(source.rule)) if source.rule else ""


def _tell_what(line: Line, outcome: Approved | Denied) -> None:
    line.reason = text(outcome.reason)
    if isinstance(outcome, Denied):
        line.cause, line.note = outcome.cause, _maybe(outcome.note)
        return
    line.by = outcome.by
    _tell_answer(line, outcome.decision)
    if outcome.remembered is not None:
        line.remembered_id, line.scope = outcome.remembered.id, outcome.remembered.scope.kind


def _tell_answer(line: Line, decision: ApprovalDecision | None) -> None:
    if decision is None:
        return
    line.who, line.channel, line.note = _maybe(decision.who), _maybe(decision.channel), _maybe(decision.note)
    line.remember, line.decided_at = decision.remember, decision.decided_at
    if decision.override_args is not None:
        line.final_args = redact(decision.override_args)


def _maybe(value: str | None) -> str | None:
    return None if value is None else text(value)


def _digest(call: ToolCall) -> str:
    try:
        return call.digest()
    except CanonicalError as error:
        return f"none: {text(str(error))}"


def seal(previous: str, number: int, line: bytes) -> str:
    """Return the hash that binds this line to its place and to everything before it."""
    return hashlib.sha256(f"{previous}:{number}:".encode() + line).hexdigest()


def follow(end: End, page: Sequence[Entry]) -> End:
    """Check that these entries follow one that is known, and return the last of them.

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


def compare(entry: End, known: End | None) -> None:
    """Check an entry that was noted earlier against the one that is there under its number.

    Raises:
        AuditError: it is another one.
    """
    if known is not None and entry[0] == known[0] and entry != known:
        raise AuditError(f"audit entry {known[0]} is not the one that was noted: the chain was rewritten")


def pruned(at: float, who: str, reason: str) -> bytes:
    """Return the line that tells of what has left the store."""
    return _ENCODER.encode(Line(at=at, step="pruned", who=text(who), reason=text(reason)))


def time_of(line: bytes) -> float:
    """Return when the step was that a line tells of; one that cannot be read is of no time, so it is never old."""
    try:
        return msgspec.json.decode(line, type=_Time).at
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return math.inf


async def entries(store: Audit, after: int = 0) -> AsyncIterator[dict[str, Any]]:
    """Yield the entries that came after that number, oldest first, as plain data."""
    async for row in _lines(store, after):
        yield told(*row)


def told(number: int, line: bytes, sealed: str) -> dict[str, Any]:
    """Return an entry as plain data, also one that somebody has made unreadable: `verify` says so too."""
    try:
        known = msgspec.json.decode(line, type=dict[str, Any])
        msgspec.convert(known, _Needed)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        known = {"at": 0.0, "error": "this entry cannot be read"}
    return {**known, "number": number, "hash": sealed}


async def verify(store: Audit, *, known: End | None = None) -> int:
    """Check the whole chain and return the number of its last entry.

    `known` is a number and hash noted earlier, outside the store: with it, even a chain that somebody rewrote from
    start to end is found out.

    Raises:
        AuditError: names the first entry that was changed, dropped or moved.
    """
    while True:
        start, end = await store.audit_ends()
        try:
            return await _verify(store, start, end, known)
        except AuditError:
            if (await store.audit_ends())[0] == start:
                raise  # else what was just looked at has been pruned


async def _verify(store: Audit, start: End, end: End, known: End | None) -> int:
    checked, (last, last_hash) = start, end
    compare(start, known)
    async for entry in _lines(store):
        if checked[0] == last:
            if (await store.audit_ends())[1] == end:
                raise AuditError(f"audit entry {entry[0]} was put behind the end of the chain, which is entry {last}")
            break  # written after this check began
        checked = follow(checked, [entry])
        compare(checked, known)
    if checked[0] != last:
        missing = f"the chain should end with entry {last}, but ends with {checked[0]}"
        raise AuditError(f"audit entry {checked[0] + 1} is missing: {missing}")
    if checked[1] != last_hash:
        raise AuditError(f"audit entry {last} was changed: it is not the one that the chain ends with")
    if known is not None and known[0] > last:
        raise AuditError(f"audit entry {known[0]} is missing: it was noted, but the chain ends with entry {last}")
    if known is not None and known[0] < start[0]:
        raise AuditError(
            f"audit entry {known[0]} was noted, but what is kept here begins after entry {start[0]}; "
            "name the archive that has it"
        )
    return last


async def _lines(store: Audit, after: int = 0) -> AsyncIterator[Entry]:
    while page := await store.audit(after, _PAGE):
        for line in page:
            yield line
        after = page[-1][0]
