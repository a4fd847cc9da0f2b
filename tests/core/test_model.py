"""The records: frozen, keyword-only, and impossible to read in two ways; and the errors that they become."""

import copy
import inspect
import math
import pickle
from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec
import pytest
from tests.people import YES

from sayso import (
    ApprovalBlocked,
    ApprovalDecision,
    ApprovalDenied,
    ApprovalError,
    ApprovalPresentation,
    ApprovalRequest,
    ApprovalTimeout,
    BlockedError,
    ToolCall,
    Verdict,
    errors,
)
from sayso.core import model
from sayso.core.model import (
    Approved,
    Ask,
    AuditEntry,
    Cause,
    Denied,
    ParkedRun,
    Pending,
    Preview,
    Remembered,
    Rule,
    Scope,
)
from sayso.errors import (
    ApprovalCancelled,
    ApprovalPending,
    AuditError,
    CanonicalError,
    ConfigurationError,
    StoreError,
    ToolError,
    UnknownRequest,
)

CALL = ToolCall(tool="pay", args={"amount": 5})
REQUEST = ApprovalRequest(tool_name="pay", args={"amount": 5})
SCOPE = Scope(kind="call", key="k", label="this call")
RECORDS: list[msgspec.Struct] = [
    Rule(source="policy", key="tools.pay"),
    ApprovalPresentation(title="t"),
    Preview(basis="b"),
    CALL,
    SCOPE,
    Verdict(approval="required", reason="r"),
    YES,
    REQUEST,
    Remembered(id="i", tool="pay", scope=SCOPE, decision=YES, session=None, remembered_at=0.0),
    ParkedRun(id="i"),
    Approved(args={}, by="policy", reason="r"),
    Denied(cause="refused", reason="r"),
    Ask(),
    Pending(request=REQUEST),
    AuditEntry(at=0.0, step="asked", about=CALL),
]
ids = [type(record).__name__ for record in RECORDS]


def defined_records() -> list[type[msgspec.Struct]]:
    """Every public record that the module defines."""
    classes = [each for _, each in inspect.getmembers(model, inspect.isclass) if each.__module__ == model.__name__]
    return [each for each in classes if issubclass(each, msgspec.Struct) and not each.__name__.startswith("_")]


def test_every_record_of_the_model_is_tested_here() -> None:
    assert {type(record) for record in RECORDS} == set(defined_records())


@pytest.mark.proves("H2")
@pytest.mark.parametrize("record", RECORDS, ids=ids)
def test_a_record_cannot_be_changed_once_it_is_made(record: msgspec.Struct) -> None:
    for field in record.__struct_fields__:
        before = getattr(record, field)
        with pytest.raises(AttributeError):
            setattr(record, field, None)
        with pytest.raises(AttributeError):
            delattr(record, field)
        assert getattr(record, field) is before
    with pytest.raises(AttributeError):
        record.anything = 1  # pyright: ignore[reportAttributeAccessIssue] - which is the point


@pytest.mark.parametrize("record", RECORDS, ids=ids)
def test_every_field_of_a_record_is_given_by_name(record: msgspec.Struct) -> None:
    parameters = inspect.signature(type(record)).parameters.values()
    assert {each.kind for each in parameters} <= {inspect.Parameter.KEYWORD_ONLY}
    make = cast("Any", type(record))
    with pytest.raises(TypeError):
        make("pay")


@pytest.mark.parametrize("record", RECORDS, ids=ids)
def test_a_record_survives_copy_and_pickle(record: msgspec.Struct) -> None:
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301 - our own bytes


# Fields that the seeds name.


@pytest.mark.proves("R1", "R22")
def test_a_request_shows_call_id_tool_args_metadata_summary_description_payload_and_presentation() -> None:
    request = ApprovalRequest(
        tool_call_id="c1",
        tool_name="write_file",
        args={"path": "a", "content": "b"},
        metadata={"why": "because"},
        summary="write a",
        description="Write to a",
        payload={"path": "a"},
        presentation=ApprovalPresentation(title="Write a"),
    )
    assert (request.tool_call_id, request.tool_name, request.tool) == ("c1", "write_file", "write_file")
    assert isinstance(request.args, Mapping)
    assert (request.args, request.payload) == ({"path": "a", "content": "b"}, {"path": "a"})
    assert request.tool_args == request.args
    assert (request.metadata, request.summary, request.description) == ({"why": "because"}, "write a", "Write to a")
    assert request.presentation == ApprovalPresentation(title="Write a")


@pytest.mark.proves("R22")
def test_a_request_of_only_a_tool_name_is_complete() -> None:
    request = ApprovalRequest(tool_name="t")
    assert (request.args, request.payload, request.presentation, request.metadata) == ({}, None, None, None)
    assert (request.status, request.approval, request.decision) == ("open", "required", None)


@pytest.mark.proves("H2")
@pytest.mark.parametrize("field", ["args", "payload", "metadata"])
def test_what_a_request_shows_does_not_follow_the_callers_dict(field: str) -> None:
    given: dict[str, Any] = {"list": [1]}
    fields: dict[str, Any] = {field: given}
    request = ApprovalRequest(tool_name="t", **fields)
    given["list"].append(2)
    given["new"] = 1
    assert getattr(request, field) == {"list": [1]}


@pytest.mark.proves("R23")
def test_a_presentation_carries_diff_language_and_content_type() -> None:
    shown = ApprovalPresentation(
        title="Edit a.py", content="x = 1", content_type="text/x-python", language="python", diff="-x\n+y"
    )
    assert (shown.diff, shown.language, shown.content_type) == ("-x\n+y", "python", "text/x-python")
    assert (shown.title, shown.content) == ("Edit a.py", "x = 1")


def test_a_presentation_of_another_library_keeps_its_type_and_its_metadata_and_a_diff_is_one() -> None:
    facts: dict[str, Any] = {"lines": [1]}
    shown = ApprovalPresentation(type="diff", content="-x\n+y", language="python", metadata=facts)
    facts["lines"].append(2)
    assert (shown.type, shown.content, shown.diff, shown.metadata) == ("diff", "-x\n+y", "-x\n+y", {"lines": [1]})
    plain = ApprovalPresentation(type="command", content="ls")
    assert (plain.diff, plain.metadata) == (None, {})


@pytest.mark.proves("R2")
def test_a_decision_shows_approved_note_override_args_and_remember() -> None:
    decision = ApprovalDecision(approved=True, note="fine", override_args={"a": 1}, remember="session")
    assert (decision.approved, decision.note, decision.remember) == (True, "fine", "session")
    assert decision.override_args == {"a": 1}
    assert get_args(model.Remember) == ("none", "session", "always")
    plain = ApprovalDecision(approved=False)
    assert (plain.note, plain.override_args, plain.remember) == (None, None, "none")


@pytest.mark.proves("R11", "H2")
def test_edited_arguments_are_kept_frozen_and_none_is_not_no_arguments() -> None:
    edited = {"list": [1]}
    decision = ApprovalDecision(approved=True, override_args=edited)
    edited["list"].append(2)
    assert decision.override_args == {"list": [1]}
    assert ApprovalDecision(approved=True, override_args={}).override_args == {}


@pytest.mark.proves("H5", "R2")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"approved": 1}, "`approved` must be True or False, not 1", id="approved is one"),
        pytest.param({"approved": "yes"}, "`approved` must be True or False", id="approved is text"),
        pytest.param({"approved": None}, "`approved` must be True or False", id="approved is nothing"),
        pytest.param({"remember": "forever"}, "'none', 'session' or 'always', not 'forever'", id="unknown remember"),
        pytest.param({"remember": True}, "'none', 'session' or 'always', not True", id="remember is a boolean"),
        pytest.param({"remember": "always", "scope": "world"}, "`scope` must be one of", id="unknown scope"),
        pytest.param({"uses": 3}, "set `remember` to 'session' or 'always' too", id="uses without remember"),
        pytest.param({"until": 9.0}, "set `remember` to 'session' or 'always' too", id="until without remember"),
        pytest.param({"scope": "tool"}, "set `remember` to 'session' or 'always' too", id="scope without remember"),
        pytest.param({"remember": "session", "uses": 0}, "whole number from 1 up, not 0", id="no uses"),
        pytest.param({"remember": "session", "uses": -1}, "whole number from 1 up", id="negative uses"),
        pytest.param({"remember": "session", "uses": 10**30}, "no more than 1000000000", id="uses beyond counting"),
        pytest.param({"remember": "session", "uses": True}, "whole number from 1 up", id="uses is a boolean"),
        pytest.param({"remember": "session", "uses": 1.5}, "whole number from 1 up", id="uses is a fraction"),
        pytest.param({"remember": "session", "until": math.inf}, "seconds since the epoch", id="until for ever"),
        pytest.param({"remember": "session", "until": math.nan}, "seconds since the epoch", id="until NaN"),
    ],
)
def test_a_decision_that_could_be_read_in_two_ways_is_refused(fields: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"approved": True, **fields}
    with pytest.raises(TypeError, match="ApprovalDecision: ") as refusal:
        ApprovalDecision(**given)
    assert says in str(refusal.value)


@pytest.mark.proves("H9")
def test_a_decision_may_say_for_how_long_how_often_and_how_widely_it_is_remembered() -> None:
    decision = ApprovalDecision(approved=True, remember="always", uses=1, until=9.0, scope="tool")
    assert (decision.uses, decision.until, decision.scope) == (1, 9.0, "tool")


def test_a_call_without_an_id_gets_one_that_sorts_by_time() -> None:
    ids = [ToolCall(tool="t").call_id for _ in range(100)]
    assert len(set(ids)) == 100
    assert ids == sorted(ids)


def test_a_request_gives_back_the_call_that_it_asks_about() -> None:
    call = ToolCall(tool="t", args={"a": 1}, call_id="c", session="s", agent_path=("main", "sub"), schema_hash="h")
    request = ApprovalRequest(
        tool_name="t", args=call.args, tool_call_id="c", session="s", agent_path=("main", "sub"), schema_hash="h"
    )
    assert request.call() == call


@pytest.mark.parametrize(
    ("status", "result", "state"),
    [
        ("open", None, "open"),
        ("approved", None, "approved"),
        ("used", None, "used, result unknown"),
        ("used", "returned", "used, returned"),
        ("used", "raised", "used, raised"),
    ],
)
def test_the_state_in_words_says_when_a_result_never_came(status: Any, result: Any, state: str) -> None:
    assert ApprovalRequest(tool_name="t", status=status, result=result).state == state


def test_a_rule_reads_as_its_place_in_its_source() -> None:
    assert str(Rule(source="sayso.yaml", key="tools.shell", line=12)) == "sayso.yaml:12 tools.shell"
    assert str(Rule(source="policy", key="default")) == "policy default"


@pytest.mark.parametrize(
    ("approval", "asks"), [("none", False), ("required", True), ("blocked", False), ("once_per_session", True)]
)
def test_a_verdict_says_whether_a_person_has_to_be_asked(approval: model.Approval, asks: bool) -> None:
    assert Verdict(approval=approval, reason="r").asks is asks


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    ("session", "expires_at", "now", "covered"),
    [
        ("s1", None, 0.0, True),
        ("s2", None, 0.0, False),
        (None, None, 0.0, True),
        ("s1", 10.0, 9.999, True),
        ("s1", 10.0, 10.0, False),
        (None, 10.0, 11.0, False),
    ],
)
def test_a_remembered_decision_covers_its_session_until_it_ends(
    session: str | None,
    expires_at: float | None,
    now: float,
    covered: bool,
) -> None:
    remembered = Remembered(
        id="i", tool="t", scope=SCOPE, decision=YES, session=session, remembered_at=0.0, expires_at=expires_at
    )
    assert remembered.covers("s1", now) is covered


# What the edge says.


@pytest.mark.proves("H5")
@pytest.mark.parametrize("outcome", [each for each in RECORDS if type(each) in {Approved, Denied, Ask, Pending}])
def test_an_outcome_is_never_read_as_true_or_false(outcome: object) -> None:
    with pytest.raises(TypeError, match="use isinstance"):
        bool(outcome)


@pytest.mark.proves("H12")
def test_the_model_is_told_that_a_person_refused_that_nothing_ran_and_not_to_retry() -> None:
    message = Denied(cause="refused", reason="refused by ann", note="use the staging account").message
    assert message == (
        "Not executed: refused by ann. This is a decision, not a failure of the tool; "
        "do not retry this call unchanged. Their note: use the staging account"
    )
    assert "note" not in Denied(cause="refused", reason="refused by ann").message


@pytest.mark.proves("H12")
def test_the_model_is_not_told_that_nothing_ran_when_an_approval_was_used_before() -> None:
    assert Denied(cause="replayed", reason="it was used").message.startswith("Not executed again: it was used.")


@pytest.mark.proves("R57", "H12")
@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("blocked", ApprovalBlocked),
        ("refused", ApprovalDenied),
        ("expired", ApprovalTimeout),
        ("withdrawn", ApprovalCancelled),
        ("replayed", ApprovalDenied),
        ("changed", ApprovalDenied),
        ("forged", ApprovalDenied),
    ],
)
def test_each_cause_becomes_its_own_error_with_tool_reason_and_note(cause: Cause, kind: type[ApprovalError]) -> None:
    error = Denied(cause=cause, reason="so it is", note="sorry").error("pay")
    assert isinstance(error, ApprovalError)
    assert type(error) is kind
    assert (error.tool, error.cause, error.note) == ("pay", cause, "sorry")
    assert str(error) == "'pay' did not run: so it is (note: sorry)"
    assert str(Denied(cause=cause, reason="so it is").error("pay")) == "'pay' did not run: so it is"


def test_the_table_of_causes_above_is_complete() -> None:
    for cause in get_args(Cause):
        kind = ToolError if cause == "failed" else ApprovalError
        assert isinstance(Denied(cause=cause, reason="r").error("t"), kind)


def test_what_would_fail_is_told_as_a_failure_that_can_be_corrected() -> None:
    failed = Denied(cause="failed", reason="it could not be done: no such file")
    assert "This is a decision" not in failed.message
    assert "correct the call" in failed.message
    assert str(failed.error("read_file")) == "it could not be done: no such file"


# The error tree.


@pytest.mark.proves("R33", "R57")
@pytest.mark.parametrize(
    ("kind", "parents"),
    [
        (ApprovalError, [PermissionError]),
        (ApprovalDenied, [ApprovalError, PermissionError]),
        (ApprovalBlocked, [ApprovalError, PermissionError]),
        (ApprovalTimeout, [ApprovalError, PermissionError, TimeoutError]),
        (ApprovalCancelled, [ApprovalError, PermissionError]),
        (ApprovalPending, [ApprovalError, PermissionError]),
        (ConfigurationError, [ValueError]),
        (CanonicalError, [ValueError]),
        (StoreError, [RuntimeError]),
        (AuditError, [StoreError]),
        (UnknownRequest, [LookupError]),
    ],
)
def test_each_error_is_caught_by_the_standard_error_that_a_stranger_would_catch(
    kind: type[Exception], parents: list[type[Exception]]
) -> None:
    for parent in parents:
        assert issubclass(kind, parent)
    assert (errors.__doc__ or "").count(kind.__name__) >= 1


@pytest.mark.proves("R57")
def test_a_block_is_no_denial_and_has_two_names() -> None:
    assert BlockedError is ApprovalBlocked
    assert not issubclass(ApprovalBlocked, ApprovalDenied)
    error = BlockedError("rm", "never on production")
    assert (error.tool, error.reason) == ("rm", "never on production")
    assert str(error) == "'rm' did not run: never on production"


@pytest.mark.parametrize(
    "error",
    [
        ApprovalDenied("pay", "refused by ann", cause="refused", note="no"),
        BlockedError("rm", "never"),
        ApprovalTimeout("pay", "nobody answered", cause="expired"),
        ApprovalCancelled("pay", "withdrawn"),
        ApprovalPending.for_request(ApprovalRequest(tool_name="pay", id="r1", args={"list": [1]})),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickle_with_all_it_knows(error: ApprovalError) -> None:
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(twin) is type(error)
    assert (str(twin), vars(twin)) == (str(error), vars(error))


def test_a_pending_error_carries_the_request_that_can_be_answered() -> None:
    request = ApprovalRequest(tool_name="pay", id="r1")
    error = ApprovalPending.for_request(request)
    assert (error.request, error.tool, error.cause) == (request, "pay", "pending")
    assert "r1" in str(error)


@pytest.mark.proves("R1")
def test_a_request_reads_as_the_call_that_it_asks_about() -> None:
    request = ApprovalRequest(tool_name="write", args={"path": "a\x1b[2J\u202e", "content": "x" * 1000})
    assert str(request).startswith(r"write(path='a\x1b[2J\u202e', content='xxx")
    assert str(request).endswith("x…)")
    assert len(str(request)) < 200


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"who": 5}, "`who` must be a text, not 5"),
        ({"note": ["x"]}, "`note` must be a text"),
        ({"override_args": [1]}, "`override_args` must be a mapping of all arguments"),
    ],
)
def test_an_answer_that_no_store_could_keep_is_refused_when_it_is_made(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        ApprovalDecision(approved=True, **given)
