"""The server's tools: listed before a call is decided about, filtered in the answers that the client gets.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from sayso.adapters.kit import rules_from_schema
from sayso.adapters.mcp import messages
from sayso.adapters.mcp.definitions import Definition, Definitions
from sayso.core.model import ToolCall, Verdict
from sayso.errors import ToolError
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    from sayso.adapters.kit import Gate

_SECONDS = 20.0
_MOST_PAGES = 200
_PROTOCOL = "io.modelcontextprotocol/"
_UNNAMED = Verdict(approval="required", reason="no rule names this tool of an MCP server")


AskServer = Callable[[str, bytes], Coroutine[Any, Any, bytes]]  # of an id and a request, to the response


class Listing:
    """What the server lists, for the relay and for the client."""

    def __init__(self, gate: Gate, name: str, ask_server: AskServer) -> None:
        self._gate = gate
        self._name = name
        self._ask_server = ask_server
        self._turn = asyncio.Lock()
        self.definitions = Definitions(name, gate.controller.store)
        self.is_current = False

    async def definition(self, tool: str, meta: Mapping[str, Any]) -> Definition | None:
        """Return the definition of a tool, after a look at the server's list if that may have changed."""
        async with self._turn:
            if not self.is_current:
                await self._read(meta)
        return self.definitions.listed.get(tool)

    def arguments_of(self, tool: str) -> Collection[str]:
        """Return the names of a tool's arguments."""
        properties = self.definitions.listed[tool].schema.get("properties")
        return cast("dict[str, Any]", properties) if isinstance(properties, dict) else ()

    def rules(self, tool: str) -> ToolRules:
        """Return the rules that a tool brings along; one that the server has changed asks, whatever the policy says."""
        definition, change = self.definitions.listed[tool], self.definitions.change_of(tool)
        rules = rules_from_schema(definition.schema, description=definition.description)
        rules = replace(rules, judge=_asks)  # a default of `none` is not meant for servers that come later
        if not change:
            return rules
        asks = Policy({"*": {"approval": "required", "reason": change, "remember": False}})
        return replace(rules, tightening=(asks,))

    async def filtered(self, line: bytes) -> bytes:
        """Return a listing of the server without the tools that are blocked for all arguments."""
        response = json.loads(line)
        tools = _tools_of(response)
        await self.definitions.learn(tools)
        shown = [each for each in tools if not self._gate.hides(f"{self._name}.{each.get('name')}")]
        if len(shown) == len(tools):
            return line
        result = {**response["result"], "tools": shown}
        if "cacheScope" in result:
            result["cacheScope"] = "private"  # others may be shown other tools
        return messages.encode({**response, "result": result})

    async def _read(self, meta: Mapping[str, Any]) -> None:
        """Read all pages of the list; what is no longer listed is forgotten."""
        cursor: object = None
        self.is_current, self.definitions.listed = True, {}  # a change that is told meanwhile counts
        shared = {key: value for key, value in meta.items() if key.startswith(_PROTOCOL)}
        try:
            for _ in range(_MOST_PAGES):
                cursor = await self._read_page(shared, cursor)
                if cursor is None:
                    break
        except BaseException:
            self.is_current = False
            raise
        await self.definitions.trust_first()
        self._gate.know_tools([f"{self._name}.{each}" for each in self.definitions.listed])

    async def _read_page(self, meta: Mapping[str, Any], cursor: object) -> object:
        key = f"sayso-{secrets.token_hex(16)}"
        params = {**({} if cursor is None else {"cursor": cursor}), **({"_meta": meta} if meta else {})}
        request = {"jsonrpc": "2.0", "id": key, "method": "tools/list", **({"params": params} if params else {})}
        try:
            async with asyncio.timeout(_SECONDS):
                response = json.loads(await self._ask_server(json.dumps(key), messages.encode(request)))
        except TimeoutError:
            raise ToolError(f"the server has not listed its tools in {_SECONDS:g} seconds") from None
        if not isinstance(response.get("result"), dict):
            raise ToolError(f"the server does not list its tools: {json.dumps(response.get('error'))[:300]}")
        await self.definitions.learn(_tools_of(response))
        return response["result"].get("nextCursor")


def _tools_of(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tools = messages.part(response, "result", "tools")
    return [each for each in cast("list[Any]", tools) if isinstance(each, dict)] if isinstance(tools, list) else []


def _asks(_: ToolCall) -> Verdict:
    return _UNNAMED
