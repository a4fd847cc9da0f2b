"""Pins: the definitions of a server's tools as they were when they were trusted, kept in the store or in a file.

Tests: tests/adapters/mcp/test_definitions.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.core.ports import Parking

_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_LONGEST = 300  # characters of a value that a question shows
_BEFORE = 60  # of them, before the first difference


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
    def name(self) -> str:
        """The name of the tool."""
        return str(self.facts["name"])

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return _mapping(self.facts.get("inputSchema"))

    @property
    def annotations(self) -> Mapping[str, Any]:
        """What the server claims that the tool does, such as `readOnlyHint`."""
        return _mapping(self.facts.get("annotations"))

    @property
    def description(self) -> str:
        """What the server tells the model about the tool."""
        return str(self.facts.get("description") or self.facts.get("title") or "")

    def difference(self, before: Definition) -> str:
        """Return in words what has changed since that definition."""
        keys = [key for key in _PINNED if before.facts.get(key) != self.facts.get(key)]
        return "; ".join(_change(key, before.facts.get(key), self.facts.get(key)) for key in keys)


class Pins(Protocol):
    """Where trusted definitions are kept over restarts."""

    async def load(self) -> dict[str, Definition] | None:
        """Return what is trusted, by the names of the tools; None if the server was never seen."""
        ...

    async def save(self, trusted: Mapping[str, Definition]) -> None:
        """Keep what is trusted now."""
        ...


class StoredPins:
    """Pins in the store, for all relays before a server of this name."""

    def __init__(self, server: str, store: Parking) -> None:
        self._name = f"mcp/{server}"
        self._store = store

    async def load(self) -> dict[str, Definition] | None:
        """Return what is parked."""
        kept = await self._store.parked(self._name)
        return None if kept is None else msgspec.json.decode(kept, type=dict[str, Definition])

    async def save(self, trusted: Mapping[str, Definition]) -> None:
        """Park it."""
        await self._store.park(self._name, msgspec.json.encode(trusted))


class PinFile:
    """Pins in a file that its owner reads: written when the server is first seen, and never changed after that."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> dict[str, Definition] | None:
        """Return what the file trusts.

        Raises:
            ConfigurationError: it cannot be read; then nothing is trusted, and nothing runs.
        """
        try:
            tools = msgspec.json.decode(self._path.read_bytes(), type=list[dict[str, Any]])
            found = [Definition.of(each) for each in tools]
            return {each.name: each for each in found}
        except FileNotFoundError:
            return None
        except (OSError, KeyError, msgspec.MsgspecError) as error:
            raise ConfigurationError(
                f"the pins in {str(self._path)!r} cannot be read ({error}); delete the file to pin the server anew"
            ) from None

    async def save(self, trusted: Mapping[str, Definition]) -> None:
        """Write the file, unless there is one: only its owner changes it."""
        lines = msgspec.json.format(msgspec.json.encode([each.facts for each in trusted.values()]), indent=2)
        try:
            with self._path.open("xb") as file:
                file.write(lines + b"\n")
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigurationError(f"the pins cannot be written to {str(self._path)!r}: {error.strerror}") from None


def _mapping(found: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _change(key: str, before: object, now: object) -> str:
    """Return both texts of a key from shortly before their first difference, which may stand far behind."""
    old, new = _text(before), _text(now)
    same = next(
        (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    start = max(0, same - _BEFORE)
    return f"{key} was {_brief(old, start)}, and is {_brief(new, start)}"


def _text(value: object) -> str:
    return "not there" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _brief(text: str, start: int) -> str:
    shown = text[start : start + _LONGEST]
    return f"{'…' if start else ''}{shown}{'…' if start + _LONGEST < len(text) else ''}"
