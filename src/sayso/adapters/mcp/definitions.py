"""Definitions of a server's tools, pinned: a tool that changes, or appears later, is asked about.

A definition is text of the server. It is trusted when it is seen first, and after that once a person has allowed a call
of the changed tool; until then every call of it asks, and the question shows what was changed.

Tests: tests/adapters/mcp/test_definitions.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from sayso.core.ports import Parking

_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_LONGEST = 300  # characters of a value that a question shows


class Definition(msgspec.Struct, frozen=True):
    """What a server says of one tool."""

    facts: dict[str, Any]
    hash: str

    @classmethod
    def of(cls, tool: Mapping[str, Any]) -> Definition:
        """Return the definition in a listing."""
        facts = {key: tool[key] for key in _PINNED if key in tool}
        return cls(facts, hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16])

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        schema = self.facts.get("inputSchema")
        return cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else {}

    @property
    def description(self) -> str:
        """What the server tells the model about the tool."""
        return str(self.facts.get("description") or self.facts.get("title") or "")


class Definitions:
    """The tools of one server, as it lists them now, and as they were when they were trusted."""

    def __init__(self, server: str, store: Parking) -> None:
        self._name = f"mcp/{server}"
        self._store = store
        self._trusted: dict[str, Definition] | None = None  # None: the store was not asked yet
        self._is_new = False
        self.listed: dict[str, Definition] = {}

    async def learn(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Note the tools of a listing; those of a server that was never seen before are trusted."""
        found = [Definition.of(each) for each in tools if isinstance(each.get("name"), str)]
        self.listed |= {each.facts["name"]: each for each in found}
        if self._trusted is None:
            kept = await self._store.parked(self._name)
            self._is_new = kept is None
            self._trusted = {} if kept is None else msgspec.json.decode(kept, type=dict[str, Definition])

    async def trust_first(self) -> None:
        """Trust what is listed, if nothing of this server has been trusted before; call it at the end of a listing."""
        if self._is_new:
            self._trusted, self._is_new = dict(self.listed), False
            await self._save()

    async def trust(self, tool: str) -> None:
        """Trust a tool as it is listed now: a person has allowed a call of it."""
        if self._trusted is not None and self.change_of(tool):
            self._trusted[tool] = self.listed[tool]
            await self._save()

    def change_of(self, tool: str) -> str:
        """Return what the server has changed of a tool since it was trusted, or an empty text."""
        now, before = self.listed.get(tool), (self._trusted or {}).get(tool)
        if now is None or (before is not None and before.hash == now.hash):
            return ""
        if before is None:
            return "this tool is new: the server did not have it before"
        keys = [key for key in _PINNED if before.facts.get(key) != now.facts.get(key)]
        changes = (f"{key} was {_brief(before.facts.get(key))}, and is {_brief(now.facts.get(key))}" for key in keys)
        return "the server has changed this tool: " + "; ".join(changes)

    async def _save(self) -> None:
        await self._store.park(self._name, msgspec.json.encode(self._trusted))


def _brief(value: object) -> str:
    text = "not there" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
