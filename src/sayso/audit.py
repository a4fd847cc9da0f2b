"""The audit: one line per step, secrets removed, each line sealed by a hash over itself and the line before."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

import msgspec

from sayso.errors import AuditError, CanonicalError
from sayso.model import AuditEntry, Denied

if TYPE_CHECKING:
    from sayso.model import ApprovalDecision, ApprovalRequest, Approved, Step, Verdict
    from sayso.ports import Store

START = "0" * 64
REDACTED = "[redacted]"
_LONGEST = 2000
_PAGE = 1000

_SECRET_KEY = re.compile(
    r"passw|passphrase|secret|token|api[_-]?key|apikey|authorization|credential|private[_-]?key|cookie|session[_-]?key",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"
    r"|\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abposr]-[A-Za-z0-9-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^/\s:@]{1,256}:[^/\s@]{1,256}(?=@)"
    r"|(?i:(?<=password=)|(?<=passwd=)|(?<=token=)|(?<=secret=)|(?<=api_key=)|(?<=apikey=))[^\s&\"']+",
    re.DOTALL,
)


def of_request(request: ApprovalRequest, step: Step, at: float) -> AuditEntry:
    """Return the entry for a step in the life of a request."""
    return AuditEntry(at=at, step=step, call=request.call(), request=request)


def redact(value: object) -> Any:  # noqa: ANN401 - JSON of any shape
    """Copy a value as JSON with secrets removed, long texts cut and foreign objects named, never called."""
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else hex(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else repr(value)
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {_text(str(key)): REDACTED if _is_secret(key) else redact(item) for key, item in entries.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact(item) for item in cast("Iterable[object]", value)]
    if isinstance(value, PurePath) or type(value).__module__ in {"datetime", "uuid"}:
        return _text(str(value))
    if isinstance(value, bytes):
        return f"<{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:16]}>"
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _is_secret(key: object) -> bool:
    return _SECRET_KEY.search(str(key)) is not None


def _text(value: str) -> str:
    shown = value
    if len(value) > _LONGEST:
        digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:16]
        shown = f"{value[:_LONGEST]}… ({len(value)} characters, sha256 {digest})"
    return _SECRET_TEXT.sub(REDACTED, shown).encode(errors="backslashreplace").decode()


def body(entry: AuditEntry) -> bytes:
    """Return the line that is written for an entry: JSON, without what is not known."""
    outcome = entry.outcome
    facts: dict[str, Any] = {
        "at": entry.at,
        "step": entry.step,
        "tool": _text(entry.call.tool),
        "call_id": _text(entry.call.call_id),
        "session": _text(entry.call.session),
        "agent_path": [_text(name) for name in entry.call.agent_path],
        "request_id": None if outcome is None else outcome.request_id,
        "seconds": entry.seconds,
        "result": redact(entry.result),
    }
    if entry.step not in {"returned", "raised"}:
        facts |= _about(entry)
    return msgspec.json.encode({key: value for key, value in facts.items() if value not in (None, "", [])})


def _about(entry: AuditEntry) -> dict[str, Any]:
    facts: dict[str, Any] = {"args": redact(entry.call.args)}
    if entry.verdict is not None:
        facts |= _why(entry.verdict)
    if entry.outcome is not None:
        facts |= _what(entry.outcome)
    if entry.request is None:
        return facts | {"digest": _digest(entry)}
    request = entry.request
    return facts | _why(request) | {"request_id": request.id, "digest": request.digest} | _answer(request.decision)


def _why(source: Verdict | ApprovalRequest) -> dict[str, Any]:
    return {"approval": source.approval, "because": _text(source.reason), "rule": str(source.rule or "")}


def _what(outcome: Approved | Denied) -> dict[str, Any]:
    facts: dict[str, Any] = {"reason": _text(outcome.reason)}
    if isinstance(outcome, Denied):
        return facts | {"cause": outcome.cause, "note": outcome.note and _text(outcome.note)}
    facts |= {"by": outcome.by, **_answer(outcome.decision)}
    if outcome.remembered is not None:
        facts |= {"remembered_id": outcome.remembered.id, "scope": _text(outcome.remembered.scope.label)}
    return facts


def _digest(entry: AuditEntry) -> str:
    try:
        return entry.call.digest()
    except CanonicalError as error:
        return f"none: {_text(str(error))}"


def _answer(decision: ApprovalDecision | None) -> dict[str, Any]:
    if decision is None:
        return {}
    return {
        "who": decision.who and _text(decision.who),
        "channel": decision.channel and _text(decision.channel),
        "note": decision.note and _text(decision.note),
        "remember": None if decision.remember == "none" else decision.remember,
        "final_args": None if decision.override_args is None else redact(decision.override_args),
        "decided_at": decision.decided_at,
    }


def seal(previous: str, number: int, line: bytes) -> str:
    """Return the hash that binds this line to its place and to everything before it."""
    return hashlib.sha256(f"{previous}:{number}:".encode() + line).hexdigest()


async def entries(store: Store) -> AsyncIterator[dict[str, Any]]:
    """Yield every entry of a store's audit, oldest first, as plain data."""
    async for number, line, _ in _lines(store):
        yield {"number": number, **msgspec.json.decode(line)}


async def verify(store: Store, *, known: tuple[int, str] | None = None) -> int:
    """Check the whole chain and return the number of its last entry.

    `known` is a number and hash noted earlier, outside the store: with it, even a chain that somebody rewrote from
    start to end is found out.

    Raises:
        AuditError: names the first entry that was changed, dropped or moved.
    """
    (number, previous), (last, last_hash) = await store.audit_ends()
    async for found, line, written in _lines(store):
        if number == last:
            break  # written after this check began
        number += 1
        if found != number:
            raise AuditError(f"audit entry {number} is missing: entry {found} follows entry {number - 1}")
        if seal(previous, number, line) != written:
            raise AuditError(f"audit entry {number} was changed, or moved here: its hash does not fit")
        if known is not None and number == known[0] and written != known[1]:
            raise AuditError(f"audit entry {number} is not the one that was noted: the chain was rewritten")
        previous = written
    if (number, previous) != (last, last_hash):
        raise AuditError(
            f"audit entry {number + 1} is missing: the chain should end with entry {last}, but ends with {number}"
        )
    if known is not None and known[0] > last:
        raise AuditError(f"audit entry {known[0]} is missing: it was noted, but the chain ends with entry {last}")
    return last


async def _lines(store: Store) -> AsyncIterator[tuple[int, bytes, str]]:
    after = 0
    while page := await store.audit(after, _PAGE):
        for line in page:
            yield line
        after = page[-1][0]
