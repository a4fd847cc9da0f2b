"""Messages of a client that could be read in two ways do not reach a server; all others pass as they came."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.adapters.mcp import messages
from sayso.adapters.mcp.messages import MessageError, read_client_message

CALL = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pay", "arguments": {}}}'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"[{CALL}]", "batch"),
        ('"tools/call"', "no object"),
        ("{", "no JSON"),
        ("\ufeff" + CALL, "no JSON"),
        (CALL + CALL, "no JSON"),
        (CALL.replace('"id": 1', '"id": 1, "id": 2'), "twice"),
        (CALL.replace('"method"', '"method": "ping", "method"'), "twice"),
        (CALL.replace('"name"', '"name": "look", "name"'), "twice"),
        (CALL.replace('"method"', '"method": "ping", "Method"'), "'Method', which some readers take for 'method'"),
        (CALL.replace('"params"', '"param\u017f"'), "take for 'params'"),  # a long s, which Go reads as an s
        (CALL.replace('"name"', '"name": "look", "NAME"'), "take for 'name'"),
        (CALL.replace("tools/call", "Tools/Call"), "write 'tools/call'"),
        (CALL.replace("tools/call", " tools/call "), "write 'tools/call'"),
        (CALL.replace('"tools/call"', '["tools/call"]'), "method is no text"),
        (CALL.replace('"id": 1', '"id": 1.0'), "neither a text nor a whole number"),
        (CALL.replace('"id": 1', '"id": true'), "neither a text nor a whole number"),
        (CALL.replace('"id": 1', '"id": [1]'), "neither a text nor a whole number"),
        (CALL.replace('"pay"', "7"), "names no tool"),
        (CALL.replace("{}", "[1]"), "arguments are no object"),
        (CALL.replace("{}", '{"amount": NaN}'), "no number"),
        ('{"method": "tools/call", "id": 1}', "without params"),
        ("[" * 100_000, "no JSON"),
        ('{"id": ' + "9" * 5000 + ', "method": "ping"}', "no JSON"),
    ],
)
def test_a_message_that_could_be_read_in_two_ways_is_refused(line: str, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        read_client_message(line.encode() + b"\n")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(MessageError, match="no JSON"):
        read_client_message(b'{"method": "ping", "params": {"x": "\xff"}}\n')


def test_a_call_may_be_spelled_with_escapes() -> None:
    message, _ = read_client_message(CALL.replace("tools/call", "t\\u006fols\\/call").encode())
    assert message["method"] == messages.CALL


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("line", ['{ "method" : "ping",  "id":1e3 }', CALL, '{"result": {"a": 1.10}, "id": "x"}'])
def test_other_messages_pass_byte_for_byte(line: str, end: str) -> None:
    given = (line + end).encode()
    assert read_client_message(given)[1] == given


INNER = '{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "wipe"}}'


@pytest.mark.parametrize("separator", ["\r", "\u2028", "\u2029", "\x85"])
def test_no_reader_finds_a_call_inside_another_message(separator: str) -> None:
    """Node's readline ends a line at U+2028, and Python's text files at a carriage return."""
    hidden = separator + INNER + separator
    if separator == "\r":
        line = f'{{"method": "ping", "params": [{hidden}]}}'
    else:
        line = json.dumps({"method": "ping", "params": {"x": hidden}}, ensure_ascii=False)
    message, passed = read_client_message(line.encode() + b"\n")
    assert json.loads(passed) == message
    assert passed.decode().splitlines() == [passed.decode().removesuffix("\n")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON), st.sampled_from(["ping", "resources/read", "x"]), st.booleans())
def test_what_is_passed_on_says_the_same_in_one_line(params: Any, method: str, ascii_only: bool) -> None:
    line = json.dumps({"method": method, "params": params}, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    try:
        message, passed = read_client_message(line + b"\n")
    except MessageError:
        assert not ascii_only  # a lone surrogate has no bytes
        return
    assert json.loads(passed) == message == {"method": method, "params": params}
    assert len(passed.decode().splitlines()) == 1 or passed == line + b"\n"


def test_a_number_and_a_text_are_two_ids() -> None:
    assert messages.id_text(1) != messages.id_text("1")
    assert [messages.id_text(each) for each in (True, None, 1.5)] == [None, None, None]


def test_the_head_of_a_response_is_read_and_a_request_is_none() -> None:
    def read(line: bytes) -> str | None:
        head = messages.read_server_head(line)
        return None if head is None else messages.response_id(head)

    assert read(b'{"id": "a", "result": {"id": "b", "method": "c"}}') == '"a"'
    assert read(b'{"id": 5, "method": "sampling/createMessage"}') is None
    assert read(b'{"id": null, "error": {}}') is None
    assert read(b"hello") is None


@pytest.mark.parametrize("given", [{"o": {"path": 1, "Path": 2}}, {"o": [[{"a": 1, "A": 2}]]}, {"a": 1, "A": 2}])
def test_keys_that_differ_in_case_only_are_refused_at_any_depth(given: dict[str, object]) -> None:
    with pytest.raises(messages.MessageError, match="which some readers take for"):
        messages.refuse_ambiguous(given)
    messages.refuse_ambiguous({"o": {"path": 1}, "O2": [{"Path": 1}]})
