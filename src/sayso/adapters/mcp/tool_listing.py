"""The server's tools: listed before a call is decided about, filtered in the answers that the client gets.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from sayso.adapters.function import first_line
from sayso.adapters.kit import rules_from_schema
from sayso.adapters.mcp import messages
from sayso.adapters.mcp.definitions import Definitions
from sayso.core.model import ApprovalPresentation, ToolCall, Verdict
from sayso.errors import ToolError
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    from sayso.adapters.kit import Gate
    from sayso.adapters.mcp.pins import Definition, Pins

_SECONDS = 20.0
_MOST_PAGES = 200
_HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
_UNNAMED = Verdict(approval="required", reason="no rule names this tool of an MCP server")

AskServer = Callable[[Mapping[str, Any]], Coroutine[Any, Any, bytes]]  # of a request, to the response


class Listing:
    """What the server lists, for the relay and for the client."""

    def __init__(
        self, gate: Gate, name: str, pins: Pins, *, lasts: float = math.inf, believes_annotations: bool = False
    ) -> None:
        """List for a gate.

        Args:
            gate: the gate of the relay.
            name: what policies call the server.
            pins: the definitions that are trusted.
            lasts: after how many seconds the list is read anew, though no change was told.
            believes_annotations: whether conditions may look at what the server claims of its tools.
        """
        self._gate = gate
        self._name = name
        self._lasts = lasts
        self._believes_annotations = believes_annotations
        self._turn = asyncio.Lock()
        self._end = -math.inf  # until when the list is current
        self._whose = ""
        self._rules: dict[str, ToolRules] = {}  # by the hashes of definitions
        self.definitions = Definitions(pins)

    def expire(self) -> None:
        """Read the list anew before the next call: the server says that it has changed, or a client saw a change."""
        self._end = -math.inf

    async def definition(
        self, tool: str, meta: Mapping[str, Any], ask: AskServer, whose: str = ""
    ) -> Definition | None:
        """Return the definition of a tool, after a look at the server's list if that may have changed.

        `whose` tells apart callers to whom the server may list other tools.
        """
        async with self._turn:
            if time.monotonic() > self._end or whose != self._whose:
                await self._read(meta, ask)
                self._whose = whose
            return self.definitions.listed.get(tool)

    def rules(self, definition: Definition) -> ToolRules:
        """Return the rules that a tool brings along; one that the server has changed asks, whatever the policy says."""
        change, rules = self.definitions.change_of(definition.name), self._rules.get(definition.hash)
        if rules is None:
            rules = rules_from_schema(definition.schema, description=definition.description)
            rules = replace(rules, judge=_asks)  # a default of `none` is not meant for servers that come later
            self._rules[definition.hash] = rules
        return _with_change(rules, definition, change) if change else rules

    def believed(self, definition: Definition) -> Mapping[str, Any]:
        """Return the annotations that conditions may look at; what is left out is what the protocol says it means."""
        if not self._believes_annotations or self.definitions.change_of(definition.name):
            return {}
        return {name: definition.annotations.get(name, left_out) for name, left_out in _HINTS.items()}

    async def filtered(self, line: bytes) -> bytes:
        """Return a listing of the server without the tools that are blocked for all arguments.

        Raises:
            MessageError: it cannot be read.
        """
        response = messages.read_object(line)
        if not response:
            raise messages.MessageError("its listing cannot be read")
        tools = _tools_of(response)
        await self.definitions.learn(tools)
        shown = [each for each in tools if not self._gate.hides(f"{self._name}.{each.get('name')}")]
        if len(shown) == len(tools):
            return line
        result = {**response["result"], "tools": shown}
        if "cacheScope" in result:
            result["cacheScope"] = "private"  # others may be shown other tools
        return messages.encode({**response, "result": result})

    async def _read(self, meta: Mapping[str, Any], ask: AskServer) -> None:
        """Read all pages of the list; what is no longer listed is forgotten."""
        self._end, self.definitions.listed = (
            time.monotonic() + self._lasts,
            {},
        )  # a change that is told meanwhile counts
        self._rules.clear()
        shared = {key: value for key, value in meta.items() if key.startswith(messages.PROTOCOL)}
        try:
            async with asyncio.timeout(_SECONDS):
                await self._read_pages(shared, ask)
        except TimeoutError:
            self.expire()
            raise ToolError(f"the server has not listed its tools in {_SECONDS:g} seconds") from None
        except BaseException:
            self.expire()
            raise
        await self.definitions.trust_first()
        self._gate.know_tools([f"{self._name}.{each}" for each in self.definitions.listed])

    async def _read_pages(self, meta: Mapping[str, Any], ask: AskServer) -> None:
        cursor: object = None
        for _ in range(_MOST_PAGES):
            cursor = await self._read_page(meta, cursor, ask)
            if cursor is None:
                return
        raise ToolError(f"the server lists more than {_MOST_PAGES} pages of tools")

    async def _read_page(self, meta: Mapping[str, Any], cursor: object, ask: AskServer) -> object:
        params = {**({} if cursor is None else {"cursor": cursor}), **({"_meta": meta} if meta else {})}
        request = {"jsonrpc": "2.0", "id": f"sayso-{secrets.token_hex(16)}", "method": messages.LIST}
        response = messages.read_object(await ask({**request, **({"params": params} if params else {})}))
        if not isinstance(response.get("result"), dict):
            raise ToolError(f"the server does not list its tools: {messages.shown(response.get('error'))}")
        await self.definitions.learn(_tools_of(response))
        return response["result"].get("nextCursor")


def argument_names(definition: Definition) -> Collection[str]:
    """Return the names of a tool's arguments."""
    properties = definition.schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else ()


def _tools_of(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tools = messages.part(response, "result", "tools")
    return [each for each in cast("list[Any]", tools) if isinstance(each, dict)] if isinstance(tools, list) else []


def _with_change(rules: ToolRules, definition: Definition, change: str) -> ToolRules:
    """Return the rules of a tool that asks whatever the policy says, and shows why, whichever rule asks first."""
    shown = Verdict(
        approval="required",
        reason=change,
        description=first_line(definition.description),
        presentation=ApprovalPresentation(title="a tool that is not trusted yet", content=change),
    )
    asks = Policy({"*": {"approval": "required", "reason": change, "remember": False}})

    def details(_: ToolCall) -> Verdict:
        return shown

    return replace(rules, details=details, tightening=(asks,))


def _asks(_: ToolCall) -> Verdict:
    return _UNNAMED
