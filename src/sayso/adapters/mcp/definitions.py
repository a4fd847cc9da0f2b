"""Definitions of a server's tools, pinned: a tool that changes, or appears later, is asked about.

A definition is text of the server. It is trusted when it is seen first, and after that once a person has allowed a call
of the changed tool; until then every call of it asks, and the question shows what was changed. A server that shows one
definition to the relay and another to the client has changed it, too: one that was seen in between is not forgotten.

Tests: tests/adapters/mcp/test_definitions.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sayso.adapters.mcp.pins import Definition
from sayso.errors import ToolError

if TYPE_CHECKING:
    from sayso.adapters.mcp.pins import Pins

_MOST_TOOLS = 10_000  # at once, and of those that are not trusted


class Definitions:
    """The tools of one server, as it lists them now, and as they were when they were trusted."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._trusted: dict[str, Definition] | None = None  # None: the pins were not loaded yet
        self._is_new = False
        self._first: dict[str, Definition] = {}  # each tool as it was first seen, of a server that is new
        self._strange: dict[str, Definition] = {}  # seen since, and not trusted
        self.listed: dict[str, Definition] = {}

    async def learn(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Note the tools of a listing; those of a server that was never seen before are trusted."""
        if self._trusted is None:
            kept = await self._pins.load()
            self._trusted, self._is_new = kept or {}, kept is None
        for tool in tools:
            if isinstance(tool.get("name"), str):
                self._note(Definition.of(tool))

    def _note(self, found: Definition) -> None:
        if max(len(self.listed), len(self._strange)) >= _MOST_TOOLS:
            raise ToolError(f"the server has listed more than {_MOST_TOOLS} tools")
        self.listed[found.name] = found
        trusted = (self._trusted or {}).get(found.name)
        before = self._first.setdefault(found.name, found) if self._is_new else trusted
        if before is None or before.hash != found.hash:
            self._strange[found.name] = found

    async def trust_first(self) -> None:
        """Trust what is listed, if nothing of this server has been trusted before; call it at the end of a listing."""
        if self._is_new:
            self._trusted, self._first, self._is_new = self._first, {}, False
            await self._pins.save(self._trusted)

    async def trust(self, definition: Definition) -> None:
        """Trust a tool as it was shown: a person has allowed a call of it."""
        if self._trusted is not None and self.change_of(definition.name):
            self._trusted[definition.name] = definition
            self._strange.pop(definition.name, None)
            await self._pins.save(self._trusted)

    def change_of(self, tool: str) -> str:
        """Return what the server has changed of a tool since it was trusted, or an empty text."""
        now, before = self._strange.get(tool), (self._trusted or {}).get(tool)
        if now is None:
            return ""
        if before is None:
            return "this tool is new: the server did not have it before"
        return f"the server has changed this tool: {now.difference(before)}"
