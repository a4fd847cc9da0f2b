"""Headers of MCP over HTTP agree with the body, as the SDK's own functions see it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound

from sayso.adapters.mcp import mcp_headers
from sayso.adapters.mcp.messages import MessageError


@given(st.text())
def test_every_name_survives_the_way_through_a_header(name: str) -> None:
    message = {"method": "tools/call", "params": {"name": name}}
    sent = mcp_headers.routing(message)["mcp-name"]
    assert inbound.decode_header_value(sent) == name
    mcp_headers.check({"mcp-name": inbound.encode_header_value(name)}, message)


@given(st.dictionaries(st.sampled_from("abc"), st.none() | st.booleans() | st.integers() | st.text()))
def test_mirrored_arguments_are_those_that_the_sdk_expects(args: dict[str, object]) -> None:
    inner = {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "C"}}}
    schema = {"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string"}, "in": inner}}
    arguments = {**args, "in": args}
    message = {"method": "tools/call", "params": {"name": "pay", "arguments": arguments}}
    wanted = inbound.mcp_param_headers(inbound.x_mcp_header_map(schema), arguments)
    got = {name: value for name, value in mcp_headers.routing(message, schema).items() if "param" in name}
    assert got == {name.lower(): value for name, value in wanted.items()}


@pytest.mark.parametrize("value", ["=?base64?!?=", "Pay", "pay2"])
def test_a_header_that_says_another_name_is_refused(value: str) -> None:
    with pytest.raises(MessageError, match="mcp-name"):
        mcp_headers.check({"mcp-name": value}, {"method": "tools/call", "params": {"name": "pay"}})


def test_a_header_that_says_another_version_is_refused() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    with pytest.raises(MessageError, match="version"):
        mcp_headers.check({"mcp-protocol-version": "2025-11-25"}, {"method": "ping", "params": {"_meta": meta}})
