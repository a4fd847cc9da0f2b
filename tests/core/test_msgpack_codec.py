"""The stored form: everything comes back as it was, and what cannot be read is said to be unreadable."""

import contextlib
import datetime as dt
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso import ApprovalDecision, ApprovalPresentation, ApprovalRequest, ConversationMessage
from sayso.core.approvers import Approvers, Escalation, Seen
from sayso.core.canonical import FrozenDict, FrozenList
from sayso.core.model import Remembered, Rule, Scope
from sayso.core.msgpack_codec import pack_remembered, pack_request, unpack_remembered, unpack_request
from sayso.errors import CanonicalError, StoreError

ARGS: dict[str, Any] = {
    "text": "é\n\x00",
    "numbers": [0, -1, 2**64 - 1, 2**70, -(2**70), 1.0, -0.0, 1e300],
    "others": [None, True, b"\x00\xff", (1, [2, (3,)]), {"a", ("b", 1)}, frozenset({1, 2})],
    "path": Path("a/b"),
    "times": [
        dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
        dt.date(2024, 1, 2),
        dt.time(1, 2),
        dt.timedelta(days=-1, microseconds=3),
    ],
    "id": uuid.UUID(int=7),
    "nested": {"": {"deep": [{"x": []}]}},
}
SCOPES = (Scope(kind="call", key="k", label="this call"), Scope(kind="tool", key="tool:pay", label="every call"))
DECISION = ApprovalDecision(
    approved=True,
    note="fine",
    override_args=ARGS,
    remember="always",
    scope="call",
    uses=3,
    until=9.5,
    who="ann",
    channel="terminal",
    decided_at=2.0,
)
FULL = ApprovalRequest(
    tool_name="pay",
    args=ARGS,
    description="Pay",
    described_by="policy",
    payload={"path": Path("a")},
    presentation=ApprovalPresentation(
        title="t", content="c", content_type="text/plain", language="en", diff="-\n+", type="text", metadata={"a": (1,)}
    ),
    metadata={"pair": (1, 2)},
    summary="s",
    tool_call_id="c1",
    id="r1",
    session="s1",
    run="r1",
    agent_path=("main", "sub"),
    schema_hash="h",
    parameters="{}",
    digest="d",
    reason="asks",
    rule=Rule(source="sayso.yaml", key="tools.pay", line=12),
    approval="once_per_session",
    scopes=SCOPES,
    remember_max=60.0,
    approvers=Approvers(count=2, roles=("ops",), remind=5.0, escalate=Escalation(role="lead", after=9.0)),
    project="shop",
    asked_by="builder",
    asked_at=1.5,
    expires_at=2.5,
    status="used",
    conversation=(ConversationMessage(role="user", text="pay é\nnow", gap=True),),
    seen=(Seen(who="ann", channel="page", at=1.75),),
    votes=(DECISION,),
    decision=DECISION,
    used_at=2.25,
    result="raised",
)
KEPT = Remembered(
    id="m1",
    tool="pay",
    scope=SCOPES[1],
    decision=DECISION,
    session="s1",
    remembered_at=1.0,
    expires_at=2.0,
    uses_left=3,
    schema_hash="h",
    request_id="r1",
    project="shop",
)


def types(value: object) -> object:
    """The shape of a value: the exact type of every part of it."""
    if isinstance(value, FrozenDict):
        return FrozenDict, {key: types(item) for key, item in value.items()}
    if isinstance(value, FrozenList):
        return FrozenList, [types(item) for item in value]
    return type(value)


@pytest.mark.proves("H16", "R17")
@pytest.mark.parametrize(
    "request_", [FULL, ApprovalRequest(tool_name="t"), ApprovalRequest(tool_name="", payload={}, metadata={}, args={})]
)
def test_a_request_comes_back_as_it_was_down_to_the_types_of_its_arguments(request_: ApprovalRequest) -> None:
    found = unpack_request(pack_request(request_))
    assert found == request_
    assert found.call().digest() == request_.call().digest()
    assert (found.payload, found.metadata) == (request_.payload, request_.metadata)
    assert types(found.args) == types(request_.args)
    for vote, same in zip(found.votes, request_.votes, strict=True):
        assert types(vote.override_args) == types(same.override_args)
    if request_.decision is not None:
        assert found.decision is not None
        assert types(found.decision.override_args) == types(request_.decision.override_args)


@pytest.mark.parametrize("record", [FULL, KEPT, DECISION], ids=["request", "remembered", "decision"])
def test_every_field_is_set_in_the_records_of_these_tests(record: msgspec.Struct) -> None:
    unset = [each.name for each in msgspec.structs.fields(record) if getattr(record, each.name) == each.default]
    assert unset in ([], ["unattended"])  # which goes only with a no


def test_a_withdrawal_for_want_of_a_person_comes_back_as_one() -> None:
    decision = ApprovalDecision(approved=False, note="nobody can be asked: there is no terminal", unattended=True)
    request = msgspec.structs.replace(FULL, status="withdrawn", decision=decision)
    assert unpack_request(pack_request(request)).decision == decision
    with pytest.raises(TypeError, match="never goes with a yes"):
        ApprovalDecision(approved=True, unattended=True)


@pytest.mark.proves("H16")
@pytest.mark.parametrize(
    "kept",
    [
        KEPT,
        Remembered(
            id="i",
            tool="t",
            scope=SCOPES[0],
            decision=ApprovalDecision(approved=False, remember="session"),
            session=None,
            remembered_at=0.0,
        ),
    ],
)
def test_a_remembered_decision_comes_back_as_it_was(kept: Remembered) -> None:
    found = unpack_remembered(pack_remembered(kept))
    assert found == kept
    assert types(found.decision.override_args) == types(kept.decision.override_args)


@pytest.mark.proves("R11")
def test_an_edit_to_no_arguments_comes_back_as_one() -> None:
    request = ApprovalRequest(tool_name="t", decision=ApprovalDecision(approved=True, override_args={}))
    found = unpack_request(pack_request(request)).decision
    assert found is not None
    assert found.override_args == {}


@pytest.mark.proves("H2")
def test_what_comes_back_is_frozen() -> None:
    found = unpack_request(pack_request(FULL))
    for value in (found.args["nested"][""]["deep"], found.args["others"][3][1]):
        with pytest.raises(TypeError, match="frozen"):
            value.append(1)


@pytest.mark.proves("H4")
@pytest.mark.parametrize("field", ["tool_name", "description", "summary", "reason", "session"])
def test_half_a_character_in_a_text_is_refused_and_not_written(field: str) -> None:
    fields: dict[str, Any] = {"tool_name": "t", field: "\ud800"}
    with pytest.raises(CanonicalError, match="lone surrogate"):
        pack_request(ApprovalRequest(**fields))


@pytest.mark.proves("H4")
@pytest.mark.parametrize("field", ["args", "payload", "metadata"])
def test_a_value_without_a_canonical_form_is_refused_and_not_written(field: str) -> None:
    fields: dict[str, Any] = {"tool_name": "t", field: {"a": object()}}
    with pytest.raises(CanonicalError, match=r"args\.a"):
        pack_request(ApprovalRequest(**fields))


# What cannot be read.

READERS: list[Callable[[bytes], object]] = [unpack_request, unpack_remembered]


@pytest.mark.proves("H5", "H16")
@pytest.mark.parametrize("version", [b"\x00", b"\x02", b"\xff"])
def test_a_record_of_another_version_is_not_guessed_at(version: bytes) -> None:
    for read, packed in ((unpack_request, pack_request(FULL)), (unpack_remembered, pack_remembered(KEPT))):
        with pytest.raises(StoreError, match="which this sayso cannot read; upgrade sayso"):
            read(version + packed[1:])


def with_args(**args: Any) -> bytes:
    return b"\x01" + msgspec.msgpack.encode({"tool_name": "t", "args": args})


@pytest.mark.proves("H5", "H16")
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x01", id="only a version"),
        pytest.param(b"\x01\xc1", id="no MessagePack"),
        pytest.param(b"\x01\x80", id="no fields"),
        pytest.param(b"\x01" + msgspec.msgpack.encode([1, 2]), id="another type"),
        pytest.param(b"\x01" + msgspec.msgpack.encode({"tool_name": 5}), id="a field of another type"),
        pytest.param(b"\x01" + msgspec.msgpack.encode({"tool_name": "t", "status": "maybe"}), id="unknown status"),
        pytest.param(
            b"\x01" + msgspec.msgpack.encode({"tool_name": "t", "decision": {"approved": 1}}), id="a decision of one"
        ),
        pytest.param(with_args(a=msgspec.msgpack.Ext(99, b"")), id="unknown extension"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(1, b"xyz")), id="an integer that is none"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(2, b"\xc1")), id="a tuple that is none"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(2, b"\x01")), id="a tuple of a number"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(3, b"\x91\x90")), id="a set of a list"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(5, b"\xff")), id="a path that is no text"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(8, b"yesterday")), id="a datetime that is none"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(11, b"9" * 30)), id="a timedelta beyond all times"),
        pytest.param(with_args(a=msgspec.msgpack.Ext(12, b"x")), id="a UUID that is none"),
        pytest.param(with_args(a=0)[:-1] + b"\x91" * 100_000 + b"\x00", id="nested without end"),
    ],
)
def test_a_record_that_cannot_be_read_is_a_store_error(read: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(StoreError):
        read(data)


@pytest.mark.proves("H5", "H16")
@settings(deadline=None)
@given(st.binary(max_size=64), st.sampled_from(READERS))
def test_garbage_is_a_store_error_and_nothing_else(garbage: bytes, read: Callable[[bytes], object]) -> None:
    with pytest.raises(StoreError):
        read(garbage)
    with pytest.raises(StoreError):
        read(b"\x01" + garbage)


PACKED = pack_request(FULL)


@pytest.mark.proves("H5", "H16")
@settings(deadline=None, max_examples=300)
@given(place=st.integers(0, len(PACKED) - 1), change=st.integers(1, 255))
def test_a_damaged_record_is_another_record_or_a_store_error_and_never_a_crash(place: int, change: int) -> None:
    data = bytearray(PACKED)
    data[place] ^= change
    with contextlib.suppress(StoreError):
        assert type(unpack_request(bytes(data))) is ApprovalRequest


@pytest.mark.proves("H5", "H16")
def test_a_record_that_was_cut_short_is_a_store_error() -> None:
    for length in range(len(PACKED)):
        with pytest.raises(StoreError):
            unpack_request(PACKED[:length])


def test_a_request_without_messages_is_packed_as_an_older_sayso_packs_it_and_unknown_fields_are_passed_over() -> None:
    plain = pack_request(ApprovalRequest(tool_name="t"))
    assert b"conversation" not in plain
    assert unpack_request(plain).conversation == ()
    newer = {**msgspec.msgpack.decode(plain[1:]), "unheard_of": [{"role": "user"}]}  # as an older one sees a new field
    assert unpack_request(plain[:1] + msgspec.msgpack.encode(newer)) == ApprovalRequest(tool_name="t")
