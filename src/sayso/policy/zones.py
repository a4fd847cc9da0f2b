"""Path rules: folders ("zones") and the operations that are allowed in each.

A path is judged by its real path: links and `..` are resolved first, by a function that is passed in. The strictest of
all zones that contain the real path decides. A path in no zone, a path that leads out of its zone (traversal) and one
that cannot be resolved are blocked; so is every change to a file that would run code, steer an agent or loosen these
rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, cast, get_args

import msgspec

from sayso.core.model import Approval, Deed, Rule, Verdict
from sayso.core.realpath import may_exist
from sayso.errors import PathEscape
from sayso.policy.protected_names import (
    TRASH,
    consent_reason,
    fold,
    joins_protected_name,
    protected_name,
    repository_folders,
)
from sayso.policy.vocabulary import STRICTNESS, Operation, reject, suggest

_CHANGES = {"write": "written", "delete": "deleted"}
_MOST_BYTES = 4000
_SHORT = 100
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_ZONES = Rule(source="sayso", key="zones")
_PROTECTED = Rule(source="sayso", key="protected")
_STORE_SUFFIXES = ("", "-wal", "-shm", "-journal", "-bells")


class Resolve(Protocol):
    """Resolver of real paths; raises `PathEscape` if the path is not beneath, and OSError if it cannot be resolved."""

    def __call__(self, path: str, *, beneath: str | None = None) -> str:
        """Return the absolute real path of `path`, which is relative to `beneath` if that is given."""
        ...


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A zone: a folder, the operations that are possible in it (`mode`), and the approval that each needs."""

    name: str
    root: str
    mode: Literal["ro", "rw"] = "rw"
    read: Approval = "none"
    write: Approval = "required"
    delete: Approval = "required"
    trash: bool = True  # deleted files can be restored
    rule: Rule

    def __post_init__(self) -> None:
        """Refuse a root that no real path could match, and unknown words."""
        if not self.name or "/" in self.name or self.name in {".", ".."} or _FORBIDDEN.search(self.name):
            reject(f"{self.rule} has the name {self.name!r}; use a name that can stand between two slashes")
        if not _may_be_real(self.root):
            reject(f"{self.rule} has the root {self.root!r}; use an absolute path without links, '.' and '..'")
        if self.mode not in {"ro", "rw"}:
            reject(f"{self.rule} has the mode {self.mode!r}; use 'ro' or 'rw'")
        for word in (self.read, self.write, self.delete):
            if word not in STRICTNESS:
                reject(f"{self.rule} has the approval {word!r}; use one of {get_args(Approval)}")


class Zones:
    """Judge of paths: an operation on a path runs, is asked about or is blocked; immutable once built."""

    def __init__(self, zones: Iterable[Zone], *, resolve: Resolve, protected: Iterable[str] = ()) -> None:
        self.zones = tuple(zones)
        self._named = {zone.name: zone for zone in self.zones}
        if len(self._named) < len(self.zones):
            names = [zone.name for zone in self.zones]
            reject(f"two zones are called {next(each for each in names if names.count(each) > 1)!r}; rename one")
        own = list(protected)
        for path in own:
            if not _may_be_real(path):
                reject(f"{path!r} is to be protected; use an absolute path without links, '.' and '..'")
        self._resolve = resolve
        self._protected = tuple(own)
        # The real paths of sayso's own files, with the files that a store keeps next to them.
        self.own_files = tuple(path + end for path in own for end in _STORE_SUFFIXES)
        self._folded_own_files = tuple(map(fold, self.own_files))

    def protecting(self, paths: Iterable[str]) -> Zones:
        """Return a copy with further files of sayso's own."""
        return Zones(self.zones, resolve=self._resolve, protected=[*self._protected, *paths])

    def judge(self, path: object, operation: Operation) -> Verdict:
        """Return the verdict about a virtual path: `/`, the name of a zone, and the path inside it."""
        return _invalid_path_verdict(path, operation) or self._judge_virtual(cast("str", path), operation)

    def judge_real(self, path: str, operation: Operation) -> Verdict:
        """Return the verdict about an absolute path of this machine."""
        return _invalid_path_verdict(path, operation) or self._judge(path, operation, path, None)

    def locate(self, path: str) -> tuple[Zone, str]:
        """Return the real path of a virtual path, and its innermost zone; OSError if it leads out of its zone."""
        problem = _path_problem(path, "read")
        name, _, inner = ("" if problem else path[1:]).partition("/")
        if name not in self._named:
            raise PathEscape(problem or f"{_quote_path(path)} is in no zone")
        real = self._resolve(inner or ".", beneath=self._named[name].root)
        return self.innermost_zone(real) or self._named[name], real

    def innermost_zone(self, place: str) -> Zone | None:
        """Return the innermost zone that contains a real path."""
        inside = [zone for zone in self.zones if _within(place, zone.root)]
        return max(inside, key=lambda zone: len(zone.root), default=None)

    def containing_folder(self, path: str, places: Sequence[str]) -> tuple[str, str] | None:
        """Return the folder that contains a file, as virtual and as real path; `places` are the judged real paths.

        None for the root of a zone, and for a name that is a link to somewhere else. A root is what the owner's rule is
        about, and that of a project holds files that programs obey, such as a Makefile or `package.json`.
        """
        shown, _, last = path.rpartition("/")
        inner = shown[1:].partition("/")[2]
        real, _, name = places[0].rpartition("/") if places else ("", "", "")
        direct = name == last and all(place == places[0] for place in places)
        if not inner or last in {"", ".", ".."} or consent_reason(path) or not direct:
            return None
        return None if any(zone.root == real for zone in self.zones) else (shown, real)

    def _judge_virtual(self, path: str, operation: Operation) -> Verdict:
        name, _, inner = path[1:].partition("/")
        zone = self._named.get(name)
        if zone is None:
            return _blocked(f"{_quote_path(path)} is in no zone{suggest(name, self._named)}", _ZONES)
        return self._judge(path, operation, inner or ".", zone)

    def _judge(self, path: str, operation: Operation, inner: str, named: Zone | None) -> Verdict:
        rule = _ZONES if named is None else named.rule
        try:
            places = self._affected_paths(operation, inner, None if named is None else named.root)
        except PathEscape:
            where = "its zone" if named is None else f"the zone {named.name!r}"
            return _blocked(f"{_quote_path(path)} leads out of {where}", rule)
        except OSError as error:
            return _blocked(f"nobody can say where {_quote_path(path)} leads: {error.strerror or error}", rule)
        verdict = self._protect(path, operation, places) or self._strictest(path, operation, places, named)
        return msgspec.structs.replace(verdict, deeds=tuple(Deed(operation, place) for place in places))

    def _affected_paths(self, operation: Operation, inner: str, root: str | None) -> tuple[str, ...]:
        """Return the real paths on which the operation takes effect.

        That is the real target; for a change also the name itself, because a tool that removes or replaces a link
        does so in the folder of the link, which may be in another zone than its target.
        """
        target = self._resolve(inner, beneath=root)
        places = (target,)
        folder, _, name = inner.rpartition("/")
        plain = target == (inner if root is None else _join(root, inner))
        if operation in _CHANGES and not plain and name not in {"", ".", ".."}:
            places = (target, _join(self._resolve(folder or ("/" if root is None else "."), beneath=root), name))
        if root is not None and not all(_within(place, root) for place in places):
            raise PathEscape
        return places

    def _protect(self, path: str, operation: Operation, places: tuple[str, ...]) -> Verdict | None:
        """Return the block that no zone can override, if there is one."""
        folded = [fold(place) for place in places]
        changes = operation in _CHANGES
        for own in self._folded_own_files:
            if any(_within(place, own) or (changes and _within(own, place)) for place in folded):
                return _blocked(f"{_quote_path(path)} is or holds one of sayso's own files", _PROTECTED)
        if any(f"/{TRASH}/" in f"{place}/" for place in folded):
            return _blocked(f"{_quote_path(path)} is in the trash, which only people look into", _PROTECTED)
        return self._protect_change(path, operation, places) if changes else None

    def _protect_change(self, path: str, operation: Operation, places: tuple[str, ...]) -> Verdict | None:
        for zone in self.zones:
            if any(_within(zone.root, place) for place in places):
                reason = f"{_quote_path(path)} is or holds the root of the zone {zone.name!r}, which is never"
                return _blocked(f"{reason} {_CHANGES[operation]}", zone.rule)
        for each in (*self._ways(places), "" if path in places else path):
            name = protected_name(each)
            if name is not None:
                reason = f"{_quote_path(path)} has the protected name {_quote_path(name)}, which is never"
                return _blocked(f"{reason} {_CHANGES[operation]}", _PROTECTED)
        if any(map(self._is_of_a_repository, places)):
            reason = f"{_quote_path(path)} is part of a git repository, of which nothing is ever"
            return _blocked(f"{reason} {_CHANGES[operation]}", _PROTECTED)
        return None

    def _ways(self, places: tuple[str, ...]) -> list[str]:
        """Return the paths from the roots of the zones: an owner may put a zone inside a protected folder."""
        return [_from_root(zone.root, place) for place in places for zone in self.zones if _within(place, zone.root)]

    def _is_of_a_repository(self, place: str) -> bool:
        """Whether the path is one of git's own in a folder that git may take for a repository, by its `HEAD`."""
        roots = [zone.root.rstrip("/") for zone in self.zones if _within(place, zone.root)]
        folders = [f"{root}{folder}" for root in roots for folder in repository_folders(place[len(root) :])]
        return any(may_exist(f"{folder}/HEAD") for folder in folders)

    def _strictest(self, path: str, operation: Operation, places: tuple[str, ...], named: Zone | None) -> Verdict:
        holding = [] if named is None else [named]  # first, because `max` returns the first of equals
        for place in places:
            zones = [zone for zone in self.zones if _within(place, zone.root)]
            if not zones:
                return _blocked(f"{_quote_path(path)} is in no zone", _ZONES)
            holding += zones
        strictest = max(holding, key=lambda zone: STRICTNESS[_zone_approval(zone, operation)])
        verdict = _zone_verdict(strictest, path, operation)
        if verdict.approval != "none" or operation not in _CHANGES:
            return verdict
        reason = next(filter(None, map(consent_reason, self._ways(places))), None)
        if reason is None:
            return verdict
        sentence = f"{_quote_path(path)} {reason}, so it is not changed unasked"
        return Verdict(approval="required", reason=sentence, rule=_PROTECTED)


def _invalid_path_verdict(path: object, operation: str) -> Verdict | None:
    problem = _path_problem(path, operation)
    return None if problem is None else _blocked(problem, _ZONES)


def _path_problem(path: object, operation: str) -> str | None:
    if operation not in get_args(Operation):
        return f"{operation!r} is no operation on files; use one of {get_args(Operation)}"
    if type(path) is not str:
        return f"a path has to be a text, not a {type(path).__name__}"
    if not path.startswith("/"):
        return f"{_quote_path(path)} is not absolute; use '/', the name of a zone, and the way inside it"
    if len(path.encode(errors="surrogatepass")) > _MOST_BYTES:
        return f"{_quote_path(path)} is longer than {_MOST_BYTES} bytes"
    if _FORBIDDEN.search(path):
        return f"{_quote_path(path)} has a control character, a backslash or half a character in it"
    if "//" in path:
        return f"{_quote_path(path)} has an empty name in it; use single slashes"
    if path.endswith("/") and operation in _CHANGES:
        return f"{_quote_path(path)} ends with a slash, so it names a folder and no file"
    return None


def _zone_approval(zone: Zone, operation: Operation) -> Approval:
    if operation not in _CHANGES:
        return zone.read
    if zone.mode == "ro":
        return "blocked"
    return zone.write if operation == "write" else zone.delete


def _zone_verdict(zone: Zone, path: str, operation: Operation) -> Verdict:
    approval = _zone_approval(zone, operation)
    if operation in _CHANGES and zone.mode == "ro":
        reason = f"the zone {zone.name!r} is read-only, so {_quote_path(path)} is not {_CHANGES[operation]}"
    else:
        reason = f"the zone {zone.name!r} says {approval!r} for every {operation}, and {_quote_path(path)} is in it"
    return Verdict(approval=approval, reason=reason, rule=zone.rule)


def _blocked(reason: str, rule: Rule) -> Verdict:
    return Verdict(approval="blocked", reason=reason, rule=rule)


def _quote_path(path: str) -> str:
    """Return the path for a sentence: `repr` shows odd characters as codes, and the middle of a long one is cut."""
    shown = repr(path)
    return shown if len(shown) <= _SHORT else f"{shown[: _SHORT // 2]}…{shown[-_SHORT // 2 :]}"


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _may_be_real(path: str) -> bool:
    return path == "/" or (path.startswith("/") and {"", ".", ".."}.isdisjoint(path[1:].split("/")))


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root == "/" else root + "/")


def _from_root(root: str, place: str) -> str:
    """Return the path from a root, with the root's own name before it where only that makes it a protected one."""
    name, way = root.rpartition("/")[2], place[len(root) :]
    first = way[1:].partition("/")[0]
    return f"/{name}{way}" if joins_protected_name(name, first) else way
