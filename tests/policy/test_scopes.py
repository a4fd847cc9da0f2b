"""Scopes: which calls one remembered decision covers, and which never."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso import ApprovalRequest, ToolCall, Verdict
from sayso.errors import CanonicalError
from sayso.policy import scopes

ASKS = Verdict(approval="required", reason="r")


def keys(args: dict[str, Any], payload: dict[str, Any] | None = None, tool: str = "pay") -> tuple[str, ...]:
    verdict = Verdict(approval="required", reason="r", payload=payload)
    return scopes.keys(ToolCall(tool=tool, args=args), verdict)


@pytest.mark.proves("R4", "R55")
def test_the_narrow_key_is_of_the_tool_and_all_arguments_in_any_order() -> None:
    assert keys({"a": 1, "b": [2, {"x": 1, "y": 2}]}) == keys({"b": [2, {"y": 2, "x": 1}], "a": 1})
    assert keys({"a": 1})[0] != keys({"a": 2})[0]
    assert keys({"a": 1})[0] != keys({"a": 1}, tool="read")[0]
    assert keys({"a": 1})[0] != keys({"a": 1, "b": None})[0]


@pytest.mark.proves("R5", "H4")
@pytest.mark.parametrize(("left", "right"), [(1, True), (1, "1"), (1, 1.0), (Path("a"), "a"), (b"a", "a"), ((1,), [1])])
def test_arguments_of_different_types_never_share_a_key(left: object, right: object) -> None:
    assert keys({"a": left})[0] != keys({"a": right})[0]


@pytest.mark.proves("R24")
def test_calls_of_one_payload_share_a_key_whatever_their_other_arguments() -> None:
    first = keys({"path": "a", "content": "x"}, {"path": "a"})
    assert first == keys({"path": "a", "content": "y"}, {"path": "a"})
    assert first[0] != keys({"path": "a", "content": "x"}, {"path": "b"})[0]
    assert first[0] != keys({"path": "a", "content": "x"})[0]
    assert keys({"a": 1}, {})[0] != keys({"a": 1})[0]


@pytest.mark.proves("H9")
def test_only_this_exact_call_is_offered_unless_the_rule_allows_the_whole_tool() -> None:
    call = ToolCall(tool="rm", args={"path": "a"})
    narrow = scopes.offered(call, ASKS)
    assert [each.kind for each in narrow] == ["call"]
    broad = scopes.offered(call, Verdict(approval="required", reason="r", scope="tool"))
    assert [each.kind for each in broad] == ["call", "tool"]
    assert broad[0] == narrow[0]
    other = scopes.offered(
        ToolCall(tool="rm", args={"path": "b"}), Verdict(approval="required", reason="r", scope="tool")
    )
    assert (other[0].key != broad[0].key, other[1].key == broad[1].key) == (True, True)


@pytest.mark.proves("H9")
def test_nothing_is_offered_where_the_rule_forbids_remembering() -> None:
    verdict = Verdict(approval="required", reason="r", remember=False, scope="tool")
    assert scopes.offered(ToolCall(tool="rm"), verdict) == ()


@pytest.mark.proves("H9")
def test_every_offered_scope_is_found_again_by_the_keys_of_the_same_call() -> None:
    verdict = Verdict(approval="required", reason="r", scope="tool", payload={"path": "a"})
    call = ToolCall(tool="write", args={"path": "a", "content": "x"}, schema_hash="s")
    assert [each.key for each in scopes.offered(call, verdict)] == list(scopes.keys(call, verdict))


def test_a_label_tells_a_person_what_the_scope_covers() -> None:
    call = ToolCall(tool="write", args={"path": "a"})
    verdict = Verdict(approval="required", reason="r", scope="tool", payload={"path": "a", "mode": 1})
    assert [each.label for each in scopes.offered(call, verdict)] == [
        "calls of write with path='a', mode=1",
        "every call of write, whatever its arguments",
    ]
    assert scopes.offered(call, ASKS)[0].label == "this exact call of write"


def test_a_request_made_by_hand_has_the_keys_of_its_call() -> None:
    call = ToolCall(tool="write", args={"path": "a", "content": "x"}, schema_hash="s")
    verdict = Verdict(approval="required", reason="r", payload={"path": "a"})
    request = ApprovalRequest(tool_name="write", args=call.args, payload=verdict.payload, schema_hash="s")
    assert scopes.request_keys(request) == scopes.keys(call, verdict)
    plain = ApprovalRequest(tool_name="write", args=call.args, schema_hash="s")
    assert scopes.request_keys(plain) == scopes.keys(call, ASKS)


@pytest.mark.proves("R5", "H4")
def test_what_cannot_be_canonicalised_has_no_key_but_that_of_its_tool() -> None:
    assert len(keys({"a": object()})) == len(keys({"a": 1}, {"a": object()})) == 1
    assert keys({"a": object()})[0] == keys({"a": 1})[-1]


@pytest.mark.proves("H9")
def test_exact_arguments_and_the_same_facts_as_a_payload_are_two_keys() -> None:
    assert keys({"path": "a"})[0] != keys({"path": "a", "content": "evil"}, {"path": "a"})[0]


class Rude:
    """An object of somebody else's, whose code must not be run."""

    def __repr__(self) -> str:
        raise RuntimeError("who called my code?")


@pytest.mark.proves("R5", "H5")
def test_a_payload_that_cannot_be_canonicalised_is_refused_before_it_is_put_into_words() -> None:
    with pytest.raises(CanonicalError, match=r"args\.a is a .*Rude"):
        scopes.call_scope("t", {}, {"a": Rude()})


@pytest.mark.proves("H9")
@settings(deadline=None)
@given(
    tool=st.text(max_size=70),
    other=st.text(max_size=70),
    args=st.dictionaries(st.text("ab", max_size=2), st.integers()),
)
def test_the_key_of_a_whole_tool_is_never_the_key_of_a_call(tool: str, other: str, args: dict[str, int]) -> None:
    assert scopes.tool_key(tool) != scopes.call_key(other, args)
    assert (scopes.tool_key(tool) == scopes.tool_key(other)) == (tool == other)
