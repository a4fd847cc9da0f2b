"""msgpack codec of the records, for the stores; the first byte is the format version."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from sayso.core.canonical import restore, storable
from sayso.core.model import ApprovalDecision, ApprovalPresentation, ApprovalRequest, ParkedRun, Remembered
from sayso.core.tokens import Token
from sayso.errors import CanonicalError, StoreError

_LOG = logging.getLogger("sayso")
_VERSION = b"\x01"
_ENCODER = msgspec.msgpack.Encoder()
_REQUEST = msgspec.msgpack.Decoder(ApprovalRequest, ext_hook=restore)
_TOKEN = msgspec.msgpack.Decoder(Token)
_REMEMBERED = msgspec.msgpack.Decoder(Remembered, ext_hook=restore)
_RUN = msgspec.msgpack.Decoder(ParkedRun)

T = TypeVar("T")


def pack_request(request: ApprovalRequest) -> bytes:
    """Encode a request without loss: arguments keep their types."""
    args, decision = storable(request.args), request.decision
    edited = decision is not None and decision.override_args is not None
    plain = request.payload is None and request.metadata is None and request.presentation is None and not request.votes
    if args is request.args and not edited and plain:
        return _pack(request)  # the common case: no value needs conversion
    return _pack(
        replace(
            request,
            args=args,
            payload=_storable_or_none(request.payload),
            metadata=_storable_or_none(request.metadata),
            presentation=_storable_presentation(request.presentation),
            votes=tuple(_storable_decision(vote) for vote in request.votes),
            decision=None if decision is None else _storable_decision(decision),
        )
    )


def unpack_request(data: bytes) -> ApprovalRequest:
    """Decode a request."""
    return _unpack(data, _REQUEST)


def unpack_requests_leniently(
    rows: Iterable[Any], unpack: Callable[[Any], ApprovalRequest] = unpack_request
) -> list[ApprovalRequest]:
    """Decode the rows, and skip those that cannot be decoded: one bad row must not hide the others."""
    found: list[ApprovalRequest] = []
    for each in rows:
        try:
            found.append(unpack(each))
        except StoreError as error:
            _LOG.warning("a request is left out: %s", error)
    return found


def pack_remembered(remembered: Remembered) -> bytes:
    """Encode a remembered decision."""
    return _pack(replace(remembered, decision=_storable_decision(remembered.decision)))


def unpack_remembered(data: bytes) -> Remembered:
    """Decode a remembered decision."""
    return _unpack(data, _REMEMBERED)


def pack_token(token: Token) -> bytes:
    """Encode a token."""
    return _pack(token)


def unpack_token(data: bytes) -> Token:
    """Decode a token."""
    return _unpack(data, _TOKEN)


def pack_run(run: ParkedRun) -> bytes:
    """Encode the listing of a parked run."""
    return _pack(run)


def unpack_run(data: bytes) -> ParkedRun:
    """Decode the listing of a parked run."""
    return _unpack(data, _RUN)


def unpack_runs(rows: Iterable[bytes]) -> list[ParkedRun]:
    """Decode the list of parked runs, and sort it by id, and so by time."""
    return sorted(map(unpack_run, rows), key=attrgetter("id"))


def _storable_decision(decision: ApprovalDecision) -> ApprovalDecision:
    return replace(decision, override_args=_storable_or_none(decision.override_args))


def _storable_presentation(shown: ApprovalPresentation | None) -> ApprovalPresentation | None:
    return None if shown is None else replace(shown, metadata=storable(shown.metadata))


def _storable_or_none(values: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if values is None else storable(values)


def _pack(record: object) -> bytes:
    try:
        return _VERSION + _ENCODER.encode(record)
    except UnicodeEncodeError as error:
        raise CanonicalError(
            "a text of the request contains half a character (a lone surrogate); nobody could be shown it"
        ) from error


def _unpack(data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    if data[:1] != _VERSION:
        raise StoreError(f"a stored record has the form {data[:1]!r}, which this sayso cannot read; upgrade sayso")
    try:
        return decoder.decode(data[1:])
    except (msgspec.MsgspecError, LookupError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise StoreError(f"a stored record cannot be read: {error}") from error
