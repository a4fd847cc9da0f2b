"""File tools for the zones of a policy, safe against TOCTOU: only the file that was judged and shown is used.

A path is resolved once, and the real path is opened from a descriptor of its zone, following no link. The tool runs
only if that very path was judged and, where a person was asked, only if the file still is the one in the preview.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import msgspec

from sayso.adapters.function import guard
from sayso.core.model import ApprovalPresentation, Deed, Preview
from sayso.engine import context
from sayso.engine.context import Grant
from sayso.engine.settings import check_policy
from sayso.errors import ConfigurationError, ToolError
from sayso.policy.policy import Policy
from sayso.policy.protected_names import TRASH
from sayso.policy.vocabulary import Operation
from sayso.policy.zones import Zone
from sayso.tools import previews
from sayso.tools.fs.directory import FileStat, OpenDirectory

_OWN = ".sayso-"  # prefix of sayso's own names: the trash, and temporary files


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a file tool: bytes to read or write, and names to list."""

    read_bytes: int = 1_000_000
    write_bytes: int = 10_000_000
    names: int = 2_000


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is passed to a model unchanged."""

    name: str
    media_type: str
    data: bytes


class _FileSnapshot(NamedTuple):
    """Snapshot of an existing file: its stat, and its content unless that is too long to show."""

    stat: FileStat
    data: bytes | None


class _ZonePath(NamedTuple):
    """Resolved path: the zone, the relative path inside it, and the real path, which is the one that was judged."""

    zone: Zone
    directory: OpenDirectory
    relative_path: str
    real: str


class FileTools(AbstractContextManager["FileTools"]):
    """File tools for the zones of a policy; `functions` are the tools, for `guard` or an agent with `Approvals`."""

    def __init__(self, policy: Policy, *, limits: Limits | None = None) -> None:
        """Hold the zones' folders open.

        Args:
            policy: the controller's, or the one below it; with a `sandbox`.
            limits: of bytes to read or write, and of names to list.
        """
        policy = check_policy(policy, prefix="")
        if policy.zones is None:
            raise ConfigurationError("the policy has no `sandbox`, so there is no folder that file tools could work in")
        self._zones, self._zone_layers = policy.zones, policy.zone_layers
        self._limits = limits or Limits()
        self._directories = {zone.name: OpenDirectory(zone.root) for zone in self._zones.zones}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the zones' folders."""
        for directory in self._directories.values():
            directory.close()

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The tools, each guarded by the active controller."""
        tools = [
            guard(self.read_file, name="read_file", preview=in_thread(self._preview_read)),
            guard(self.write_file, name="write_file", preview=in_thread(self._preview_write)),
            guard(self.edit_file, name="edit_file", preview=in_thread(self._preview_edit)),
            guard(self.delete_file, name="delete_file", preview=in_thread(self._preview_delete)),
            guard(self.list_files, name="list_files"),
        ]
        return [self._with_zones_in_doc(tool) for tool in tools]

    @property
    def attach(self) -> Callable[[str], Attachment]:
        """The tool that reads a file for an attachment, guarded by the active controller."""
        return guard(self.attach_file, name="attach_file", preview=in_thread(self.preview_attach))

    def _with_zones_in_doc(self, tool: Callable[..., Any]) -> Callable[..., Any]:
        """Add the names of the zones to the tool's description for the model."""
        zones = ", ".join(f"/{each.name}{' (read-only)' if each.mode == 'ro' else ''}" for each in self._zones.zones)
        first, _, rest = (tool.__doc__ or "").partition("\n")
        tool.__doc__ = f"{first} Paths begin with one of: {zones}.\n{rest}"
        return tool

    # The tools. Their docstrings are their descriptions for the model.

    def read_file(self, path: str, first_line: int = 1, lines: int | None = None) -> str:
        """Read a text file.

        Args:
            path: the name of a zone and the way inside it, such as /docs/notes.txt.
            first_line: the first line to return, counted from 1.
            lines: how many lines to return; all if left out.
        """
        if first_line < 1 or (lines is not None and lines < 1):
            raise ToolError(f"lines are counted from 1, so there is no line {first_line}, or no {lines} lines")
        with self._approved_path("read", path) as (place, grant):
            text = _decoded(path, self._read_approved(place, grant, self._limits.read_bytes))
        return "".join(previews.lines(text)[first_line - 1 :][:lines])

    def write_file(self, path: str, content: str) -> str:
        """Write a text file as a whole, in the place of one that may be there; missing folders are made.

        Args:
            path: the name of a zone and the way inside it, such as /output/report.md.
            content: all of the new text.
        """
        with self._approved_path("write", path, content=content) as (place, grant):
            return self._write(place, grant, self._snapshot(place), _encoded(path, content))

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace one passage of a text file.

        Args:
            path: the name of a zone and the way inside it, such as /output/report.md.
            old: the passage as it stands in the file; it must be there exactly once.
            new: what to put in its place.
        """
        with self._approved_path("write", path, old=old, new=new) as (place, grant):
            found = self._existing_snapshot(path, place)
            return self._write(place, grant, found, self._apply_edit(path, found, old, new))

    def delete_file(self, path: str) -> str:
        """Delete a file.

        Args:
            path: the name of a zone and the way inside it, such as /output/report.md.
        """
        with self._approved_path("delete", path) as (place, grant):
            found = self._existing_snapshot(path, place)
            _check_unchanged(grant, place, found)
            held = [layer.innermost_zone(place.real) for layer in self._zone_layers]
            trash = TRASH if any(zone is not None and zone.trash for zone in held) else None
            kept = place.directory.delete(place.relative_path, facts=found.stat, trash=trash)
        return f"deleted {path}" + ("" if kept is None else f"; it can be had back from /{place.zone.name}/{kept}")

    def list_files(self, path: str) -> str:
        """List a folder, one name on each line; names of folders end with a slash.

        Args:
            path: the name of a zone and the way inside it, such as /docs.
        """
        with self._approved_path("list", path) as (place, _):
            found = place.directory.list_entries(place.relative_path, self._limits.names)
        marks = {"folder": "/", "link": "@", "other": "?", "file": ""}
        shown = [each for each in found if not each.name.startswith(_OWN)]
        names = [f"{each.name if each.name.isprintable() else ascii(each.name)}{marks[each.kind]}" for each in shown]
        return "\n".join(names) or "the folder is empty"

    def attach_file(self, path: str) -> Attachment:
        """Read a file for an attachment.

        Args:
            path: the name of a zone and the way inside it, such as /docs/plan.pdf.
        """
        with self._approved_path("read", path) as (place, grant):
            data = self._read_approved(place, grant, self._limits.write_bytes)
        name = path.rpartition("/")[2]
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Attachment(name=name, media_type=kind, data=data)

    # Previews.

    def _preview_read(self, path: str, first_line: int = 1, lines: int | None = None) -> Preview:
        part = "" if first_line == 1 else f" from line {first_line} on"
        many = "" if lines is None else f", {lines} lines of it"
        with self._resolved_path(path) as place:
            found = place.directory.read(place.relative_path, self._limits.read_bytes)
            _decoded(path, found.data)
            return _preview_read("Read", f"{part}{many}", path, place, _FileSnapshot(found.stat, found.data))

    def preview_attach(self, path: str) -> Preview:
        """Return the preview of a file that is to be attached."""
        with self._resolved_path(path) as place:
            found = place.directory.read(place.relative_path, self._limits.write_bytes)
            return _preview_read("Hand on", " as it is", path, place, _FileSnapshot(found.stat, found.data))

    def _preview_write(self, path: str, content: str) -> Preview:
        with self._resolved_path(path) as place:
            found, data = self._snapshot(place), _encoded(path, content)
            place.directory.check_write(
                place.relative_path, data, instead_of=found and found.stat, most=self._limits.write_bytes
            )
            return _preview_change("Write", path, place, found, data)

    def _preview_edit(self, path: str, old: str, new: str) -> Preview:
        with self._resolved_path(path) as place:
            found = self._existing_snapshot(path, place)
            data = self._apply_edit(path, found, old, new)
            place.directory.check_write(place.relative_path, data, instead_of=found.stat, most=self._limits.write_bytes)
            return _preview_change("Edit", path, place, found, data)

    def _preview_delete(self, path: str) -> Preview:
        with self._resolved_path(path) as place:
            return _preview_change("Delete", path, place, self._existing_snapshot(path, place), None)

    # Resolution of a path, and the checks before it is used.

    @contextmanager
    def _approved_path(self, operation: Operation, path: str, **others: object) -> Generator[tuple[_ZonePath, Grant]]:
        """Resolve the path of an approved call, bound to this operation, real path and arguments; else refuse."""
        if context.current_grant(path=path, **others) is None:
            raise ConfigurationError("file tools run only behind a controller; use those of `FileTools.functions`")
        with self._resolved_path(path) as place:
            grant = context.current_grant(Deed(operation, place.real))
            if grant is None:
                raise ToolError(f"{path!r} leads elsewhere than when it was judged, or nobody has judged this of it")
            yield place, grant

    @contextmanager
    def _resolved_path(self, path: str) -> Generator[_ZonePath]:
        """Resolve a path; errors name it as the caller does."""
        place = self._resolve_path(path)
        try:
            yield place
        except ToolError as error:
            raise ToolError(str(error).replace(repr(place.relative_path), repr(path), 1)) from error

    def _resolve_path(self, path: str) -> _ZonePath:
        try:
            zone, real = self._zones.locate(path)
            facts = os.lstat(zone.root)
        except OSError as error:
            raise ToolError(f"{path!r} cannot be used: {error.strerror or error}") from error
        directory = self._directories[zone.name]
        if (facts.st_dev, facts.st_ino) != directory.identity:  # the path leads to another folder than the open one
            raise ToolError(f"the folder of the zone {zone.name!r} is no longer the one that it was; nothing was done")
        return _ZonePath(zone, directory, real.removeprefix(zone.root).removeprefix("/"), real)

    def _read_approved(self, place: _ZonePath, grant: Grant, most: int) -> bytes:
        found = place.directory.read(place.relative_path, most)
        if found.stat.links > 1 and grant.outcome.by == "policy":
            raise ToolError(
                f"{place.relative_path!r} has {found.stat.links} names (hard links), so it may be a file of another "
                "folder; it is read only where the policy asks about reading it"
            )
        _check_unchanged(grant, place, _FileSnapshot(found.stat, found.data))
        return found.data

    def _snapshot(self, place: _ZonePath) -> _FileSnapshot | None:
        facts = place.directory.stat(place.relative_path)
        if facts is None or (facts.kind == "file" and facts.size > self._limits.write_bytes):
            return None if facts is None else _FileSnapshot(facts, None)
        found = place.directory.read(place.relative_path, self._limits.write_bytes)
        return _FileSnapshot(found.stat, found.data)

    def _existing_snapshot(self, path: str, place: _ZonePath) -> _FileSnapshot:
        found = self._snapshot(place)
        if found is None:
            raise ToolError(f"{path!r} does not exist")
        return found

    def _apply_edit(self, path: str, found: _FileSnapshot, old: str, new: str) -> bytes:
        if found.data is None:
            raise ToolError(f"{path!r} has {found.stat.size} bytes, and {self._limits.write_bytes} is the most to edit")
        return _replace_passage(path, found.data, old, new)

    def _write(self, place: _ZonePath, grant: Grant, found: _FileSnapshot | None, data: bytes) -> str:
        _check_unchanged(grant, place, found)
        place.directory.write(place.relative_path, data, instead_of=found and found.stat, most=self._limits.write_bytes)
        return (
            f"{'created' if found is None else 'changed'} /{place.zone.name}/{place.relative_path}: {len(data)} bytes"
        )


def in_thread(preview: Callable[..., Preview]) -> Callable[..., Awaitable[Preview]]:
    """Run the preview in a thread, off the event loop: it reads files and compares them."""

    async def preview_in_thread(**args: Any) -> Preview:  # noqa: ANN401 - those of the tool
        return await asyncio.to_thread(preview, **args)

    return preview_in_thread


def _check_unchanged(grant: Grant, place: _ZonePath, found: _FileSnapshot | None) -> None:
    if not grant.rest_on(_basis(place, found)):
        raise ToolError("the file was changed after it was approved; nothing was done")


def _basis(place: _ZonePath, found: _FileSnapshot | None) -> str:
    if found is None:
        return previews.fingerprint(place.real, "nothing is there")
    if found.data is None:  # too long to hash each time; any write changes its stat
        return previews.fingerprint(place.real, "facts", repr(found.stat))
    return previews.fingerprint(place.real, "content", found.data)


def _elsewhere(path: str, place: _ZonePath) -> str:
    return "" if path == f"/{place.zone.name}/{place.relative_path}" else f", which is {place.real}"


def _preview_read(verb: str, how: str, path: str, place: _ZonePath, found: _FileSnapshot) -> Preview:
    names = f"; it has {found.stat.links} names (hard links)" if found.stat.links > 1 else ""
    return Preview(
        description=previews.line(f"{verb} {path}{how}{_elsewhere(path, place)}{names}"),
        presentation=previews.content(path, found.data or b""),
        basis=_basis(place, found),
    )


def _preview_change(verb: str, path: str, place: _ZonePath, found: _FileSnapshot | None, new: bytes | None) -> Preview:
    if found is not None and found.data is None:
        shown = ApprovalPresentation(
            title=previews.line(f"{verb} {path}"),
            content=f"before: {found.stat.size:,} bytes\nafter: {previews.summary(new)}",
            content_type="text/plain",
        )
    else:
        shown = previews.change(path, None if found is None else found.data, new)
    description = previews.line(f"{verb} {path}{_elsewhere(path, place)}")
    return Preview(description=description, presentation=shown, basis=_basis(place, found))


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


def _replace_passage(path: str, data: bytes, old: str, new: str) -> bytes:
    text = _decoded(path, data)
    times = text.count(old) if old else 0
    if times != 1:
        problem = "is empty" if not old else "is not in the file" if times == 0 else f"is in the file {times} times"
        raise ToolError(f"the passage to replace in {path!r} {problem}; give one that is there exactly once")
    return _encoded(path, text.replace(old, new, 1))
