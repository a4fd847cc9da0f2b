"""Tools for files inside the zones of a policy: what was judged and shown is what is read, written or deleted.

A path is resolved once, and the place that it leads to is opened from a handle of its zone, following no link. The tool
runs only if that very place was judged and, where a person was asked, only if the file is still what they were shown.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from sayso import context
from sayso.adapters.function import guard
from sayso.errors import ConfigurationError, ToolError
from sayso.model import ApprovalPresentation, Approved, Preview
from sayso.policy.tools import Policy
from sayso.policy.zones import Zone
from sayso.tools import previews
from sayso.tools.handles import Found, Root

TRASH = ".sayso-trash"
_OWN = ".sayso-"  # what begins so in a folder is sayso's: the trash, and files that are being written
_NOTHING = "nothing is there"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a tool reads, writes or lists at once."""

    read_bytes: int = 1_000_000
    write_bytes: int = 10_000_000
    names: int = 2_000


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is handed to a model as it is."""

    name: str
    media_type: str
    data: bytes


class _Place(NamedTuple):
    """Where a path leads: a zone, the way inside it, and the real path, which is what was judged."""

    zone: Zone
    root: Root
    way: str
    real: str


class FileTools:
    """Files in the zones of a policy; `functions` are the tools, for `guard` or for an agent with `Approvals`."""

    def __init__(self, policy: Policy, *, limits: Limits | None = None) -> None:
        """Hold the zones' folders open.

        Args:
            policy: the one that the controller has, or the one that is under it; with a `sandbox`.
            limits: the most that is read, written or listed.
        """
        if policy.zones is None:
            raise ConfigurationError("the policy has no `sandbox`, so there is no folder that file tools could work in")
        self._zones = policy.zones
        self._limits = limits or Limits()
        self._roots = {zone.name: Root(zone.root) for zone in self._zones.zones}

    def __enter__(self) -> Self:
        """Use the tools for a while."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        self.close()

    def close(self) -> None:
        """Let go of the zones' folders."""
        for root in self._roots.values():
            root.close()

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The tools, each behind the controller that it runs under."""
        return [
            guard(self.read_file, name="read_file", preview=_aside(self._preview_read)),
            guard(self.write_file, name="write_file", payload=["path"], preview=_aside(self._preview_write)),
            guard(self.edit_file, name="edit_file", payload=["path"], preview=_aside(self._preview_edit)),
            guard(self.delete_file, name="delete_file", preview=_aside(self._preview_delete)),
            guard(self.list_files, name="list_files"),
        ]

    @property
    def attach(self) -> Callable[[str], Attachment]:
        """The tool that reads a file for an attachment, behind the controller that it runs under."""
        return guard(self.attach_file, name="attach_file", preview=_aside(self._preview_attach))

    # The tools. What they say to the model is their docstring.

    def read_file(self, path: str, first_line: int = 1, lines: int | None = None) -> str:
        """Read a text file.

        Args:
            path: the name of a zone and the way inside it, such as /docs/notes.txt.
            first_line: the first line to return, counted from 1.
            lines: how many lines to return; all if left out.
        """
        with self._judged(path) as (place, terms):
            found = place.root.read(place.way, self._limits.read_bytes)
            _check_links(place, found, terms)
            self._check(terms, place, found)
        text = _decoded(path, found.data)
        if first_line == 1 and lines is None:
            return text
        if first_line < 1 or (lines is not None and lines < 1):
            raise ToolError(f"lines are counted from 1, not from {min(first_line, lines or first_line)}")
        return "".join(text.splitlines(keepends=True)[first_line - 1 :][:lines])

    def write_file(self, path: str, content: str) -> str:
        """Write a text file as a whole, in the place of one that may be there; missing folders are made.

        Args:
            path: the name of a zone and the way inside it, such as /output/report.md.
            content: all of the new text.
        """
        with self._judged(path, content=content) as (place, terms):
            return self._write(place, terms, self._found(place), _encoded(path, content))

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace one passage of a text file.

        Args:
            path: the name of a zone and the way inside it, such as /output/report.md.
            old: the passage as it stands in the file; it must be there exactly once.
            new: what to put in its place.
        """
        with self._judged(path, old=old, new=new) as (place, terms):
            found = self._there(path, place)
            return self._write(place, terms, found, _edited(path, found.data, old, new))

    def delete_file(self, path: str) -> str:
        """Delete a file.

        Args:
            path: the name of a zone and the way inside it, such as /output/report.md.
        """
        with self._judged(path) as (place, terms):
            found = self._there(path, place)
            self._check(terms, place, found)
            kept = place.root.delete(place.way, facts=found.facts, trash=TRASH if place.zone.trash else None)
        return f"deleted {path}" + ("" if kept is None else f"; it can be had back from /{place.zone.name}/{kept}")

    def list_files(self, path: str) -> str:
        """List a folder, one name on each line; names of folders end with a slash.

        Args:
            path: the name of a zone and the way inside it, such as /docs.
        """
        with self._judged(path) as (place, _):
            found = place.root.names(place.way, self._limits.names)
        marks = {"folder": "/", "link": "@", "other": "?", "file": ""}
        names = [f"{each.name}{marks[each.kind]}" for each in found if not each.name.startswith(_OWN)]
        return "\n".join(names) or "the folder is empty"

    def attach_file(self, path: str) -> Attachment:
        """Read a file for an attachment.

        Args:
            path: the name of a zone and the way inside it, such as /docs/plan.pdf.
        """
        with self._judged(path) as (place, terms):
            found = place.root.read(place.way, self._limits.write_bytes)
            _check_links(place, found, terms)
            self._check(terms, place, found)
        name = path.rpartition("/")[2]
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Attachment(name=name, media_type=kind, data=found.data)

    # What people are shown before.

    def _preview_read(self, path: str, first_line: int = 1, lines: int | None = None) -> Preview:
        part = "" if first_line == 1 else f" from line {first_line} on"
        many = "" if lines is None else f", {lines} lines of it"
        with self._at(path) as place:
            found = place.root.read(place.way, self._limits.read_bytes)
            return _preview(f"Read {path}{part}{many}", previews.content(path, found.data), place, found)

    def _preview_attach(self, path: str) -> Preview:
        with self._at(path) as place:
            found = place.root.read(place.way, self._limits.write_bytes)
            return _preview(f"Hand on {path} as it is", previews.content(path, found.data), place, found)

    def _preview_write(self, path: str, content: str) -> Preview:
        with self._at(path) as place:
            return _preview_change("Write", path, place, self._found(place), _encoded(path, content))

    def _preview_edit(self, path: str, old: str, new: str) -> Preview:
        with self._at(path) as place:
            found = self._there(path, place)
            return _preview_change("Edit", path, place, found, _edited(path, found.data, old, new))

    def _preview_delete(self, path: str) -> Preview:
        with self._at(path) as place:
            return _preview_change("Delete", path, place, self._there(path, place), None)

    # How a path becomes a place, and what has to be true before it is touched.

    @contextmanager
    def _judged(self, path: str, **others: object) -> Generator[tuple[_Place, Approved]]:
        """Hold the place of a call that was decided about with these arguments, and with this place."""
        terms = context.terms(path=path, **others)
        if terms is None:
            raise ConfigurationError("file tools run only behind a controller; use those of `FileTools.functions`")
        with self._at(path) as place:
            if place.real not in terms.places:
                raise ToolError(f"{path!r} leads elsewhere than when it was judged; nothing was done")
            yield place, terms

    @contextmanager
    def _at(self, path: str) -> Generator[_Place]:
        """Hold the place that a path leads to; errors name it as the caller does."""
        place = self._place(path)
        try:
            yield place
        except ToolError as error:
            raise ToolError(str(error).replace(repr(place.way), repr(path), 1)) from error

    def _place(self, path: str) -> _Place:
        try:
            zone, real = self._zones.locate(path)
        except OSError as error:
            raise ToolError(f"{path!r} cannot be used: {error.strerror or error}") from error
        return _Place(zone, self._roots[zone.name], real.removeprefix(zone.root).removeprefix("/"), real)

    def _found(self, place: _Place) -> Found | None:
        facts = place.root.look(place.way)
        return None if facts is None else place.root.read(place.way, self._limits.write_bytes)

    def _there(self, path: str, place: _Place) -> Found:
        found = self._found(place)
        if found is None:
            raise ToolError(f"{path!r} does not exist")
        return found

    def _check(self, terms: Approved, place: _Place, found: Found | None) -> None:
        if terms.basis is not None and terms.basis != _basis(place, found):
            raise ToolError("the file was changed after it was approved; nothing was done")

    def _write(self, place: _Place, terms: Approved, found: Found | None, data: bytes) -> str:
        self._check(terms, place, found)
        facts = None if found is None else found.facts
        place.root.write(place.way, data, instead_of=facts, most=self._limits.write_bytes)
        return f"{'created' if found is None else 'changed'} /{place.zone.name}/{place.way}: {len(data)} bytes"


def _aside(preview: Callable[..., Preview]) -> Callable[..., Awaitable[Preview]]:
    """Return the preview off the event loop: it reads files and compares them."""

    async def later(**args: Any) -> Preview:  # noqa: ANN401 - those of the tool
        return await asyncio.to_thread(preview, **args)

    return later


def _basis(place: _Place, found: Found | None) -> str:
    return previews.fingerprint(place.real, _NOTHING if found is None else b"file" + found.data)


def _preview(description: str, presentation: ApprovalPresentation, place: _Place, found: Found | None) -> Preview:
    return Preview(description=description, presentation=presentation, basis=_basis(place, found))


def _preview_change(verb: str, path: str, place: _Place, found: Found | None, new: bytes | None) -> Preview:
    old = None if found is None else found.data
    elsewhere = "" if path == f"/{place.zone.name}/{place.way}" else f", which is {place.real}"
    return _preview(f"{verb} {path}{elsewhere}", previews.change(path, old, new), place, found)


def _check_links(place: _Place, found: Found, terms: Approved) -> None:
    """Refuse to read unasked what may as well be a file of elsewhere."""
    if found.facts.links > 1 and terms.by == "policy":
        raise ToolError(
            f"{place.way!r} has {found.facts.links} names (hard links), so it may be a file of another folder; it is "
            "read only where the policy asks about reading it"
        )


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path!r} is not UTF-8 text (byte {error.start} is {data[error.start]:#04x})") from error


def _encoded(path: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the text for {path!r} has half a character (a lone surrogate) at {error.start}") from error


def _edited(path: str, data: bytes, old: str, new: str) -> bytes:
    text = _decoded(path, data)
    times = text.count(old) if old else 0
    if times != 1:
        problem = "is empty" if not old else "is not in the file" if times == 0 else f"is in the file {times} times"
        raise ToolError(f"the passage to replace in {path!r} {problem}; give one that is there exactly once")
    return _encoded(path, text.replace(old, new, 1))
