"""Sandbox mounts: maps the zones to bind mounts, read-only or writable, and freezes files that steer programs.

Tests: tests/tools/test_shell.py
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sayso.core.realpath import resolve
from sayso.errors import ToolError
from sayso.policy.protected_names import protected_among
from sayso.policy.zones import Zone, Zones
from sayso.tools.exec.confine import Mount

_MOST_NAMES = 300_000  # in a writable zone


class SandboxView(NamedTuple):
    """Sandbox view: mounts, paths hidden in them, and read-only paths inside writable mounts."""

    mounts: list[Mount]
    hidden: list[str]
    frozen: list[str]


def sandbox_view(zones: Zones | None, own_files: Iterable[str]) -> SandboxView:
    """Return the view of a line: a zone with blocked reading is hidden, one with blocked writing is read-only."""
    if zones is None:
        return SandboxView([], [], [])
    seen = [zone for zone in zones.zones if zone.read != "blocked"]
    mounts = [Mount(zone.root, _is_writable(zone)) for zone in seen]
    own = dict.fromkeys((*zones.own_files, *own_files))
    shut = [zone.root for zone in zones.zones if zone.read == "blocked"]
    hidden = [path for path in (*own, *shut) if os.path.lexists(path) and _is_beneath(path, mounts)]
    frozen = [path for zone in seen if _is_writable(zone) for path in _protected_paths(zone.root)]
    return SandboxView(mounts, hidden, [path for path in dict.fromkeys(frozen) if path not in hidden])


def _is_writable(zone: Zone) -> bool:
    return zone.mode == "rw" and zone.write != "blocked"


def _is_beneath(path: str, mounts: Iterable[Mount]) -> bool:
    return any(path != mount.path and path.startswith(f"{mount.path.rstrip('/')}/") for mount in mounts)


def _protected_paths(root: str) -> Iterator[str]:
    """Yield every protected path in a zone, with everything below it."""
    count = 0
    for folder, names, files in os.walk(root):
        count += len(names) + len(files)
        if count > _MOST_NAMES:
            raise ToolError(f"{root!r} holds too many files to be confined; make the zone smaller")
        every = (*(f"{name}/" for name in names), *files)
        found = [name.rstrip("/") for name in protected_among(folder.removeprefix(root), every)]
        names[:] = [name for name in names if name not in found]
        for name in found:
            yield from _frozen(f"{folder}/{name}", root)


def _frozen(path: str, root: str) -> Iterator[str]:
    """Yield the path to freeze: of a link, its target, if that is in the zone."""
    try:
        real = resolve(path)
    except OSError:
        return
    if os.path.lexists(real) and real.startswith(f"{root.rstrip('/')}/"):
        yield real
