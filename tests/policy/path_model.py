"""Model of a folder tree: what zones have to say about a path, worked out without the file system.

The model knows the tree because it drew it, and follows links by their texts. So its answer is another one than that of
`Zones`, which asks the kernel.
"""

import random
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from sayso.core.model import Approval, Rule
from sayso.policy.zones import Operation, Zone

Names = tuple[str, ...]

STRICTNESS: dict[Approval, int] = {"blocked": 3, "required": 2, "once_per_session": 1, "none": 0}
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
MOST_LINKS = 40
ZONES_AT_MOST = 3

# Two of each kind are near each other: forms of one letter, case, invisible characters, dots that FAT drops.
NAMES = (
    "a", "b", "c", "A", "é", "e\u0301", "\u0430", "notes.txt", ".git", ".GIT", "git", ".git.", ".g\u200bit", "HEAD",
    "head", "config", "objects", ".bashrc", "x.pth", ".sayso-trash", "pyproject.toml", "node_modules", "pre-commit",
)  # fmt: skip
TRASH = ".sayso-trash"
BLOCKED = frozenset({".git", ".bashrc", TRASH})
OF_A_REPOSITORY = frozenset({"config", "objects"})


class Unresolved(Exception):
    """The path leads nowhere, out of its zone, or round in circles."""


class Tree(NamedTuple):
    """What is below a real folder: the text of a link, or whether it is a folder."""

    top: Names
    entries: dict[Names, str | bool]

    def write(self) -> None:
        """Make all of it on the disk."""
        for names, entry in self.entries.items():
            path = Path("/", *names)
            if isinstance(entry, str):
                path.symlink_to(entry)
            elif entry:
                path.mkdir()
            else:
                path.touch()

    def entry(self, names: Names) -> str | bool | None:
        """Return what is there; above the top are folders only."""
        return True if names == self.top[: len(names)] else self.entries.get(names)

    def follow(self, path: str, root: Names) -> Names:
        """Return where a path below this root leads, which is never above it on the way."""
        at, todo, links = root, path.split("/")[::-1], 0
        while todo:
            name = todo.pop()
            entry = self.entry((*at, name))
            if name in {"", "."}:
                continue
            if name == "..":
                if at == root:
                    raise Unresolved
                at = at[:-1]
            elif isinstance(entry, str):
                links += 1
                if links > MOST_LINKS or entry.startswith("/"):
                    raise Unresolved
                todo += entry.split("/")[::-1]
            elif entry is not True:
                if (entry is False and todo) or ".." in todo:  # behind a file, or back from what is not there
                    raise Unresolved
                return (*at, name, *(each for each in todo[::-1] if each not in {"", "."}))
            else:
                at = (*at, name)
        return at


def draw_tree(chance: random.Random, top: Path, size: int) -> Tree:
    """Draw a tree of folders, files and links."""
    tree = Tree(top.parts[1:], {})
    folders = [tree.top]
    for _ in range(size):
        names = (*chance.choice(folders), chance.choice(NAMES))
        if names in tree.entries:
            continue
        kind = chance.random()
        tree.entries[names] = True if kind < 0.45 else False if kind < 0.65 else draw_link(chance, folders)
        if tree.entries[names] is True:
            folders.append(names)
    return tree


def draw_link(chance: random.Random, folders: Sequence[Names]) -> str:
    """Draw the text of a link: relative, absolute, to something that is there or not."""
    if chance.random() < 0.2:
        return "/" + "/".join(chance.choice(folders))
    return draw_way(chance) or "."


def draw_way(chance: random.Random) -> str:
    """Draw a relative path."""
    names = [chance.choice((*NAMES, "..", ".", "a", "b", "c")) for _ in range(chance.randint(0, 4))]
    return "/".join(names)


def draw_zones(chance: random.Random, tree: Tree) -> list[Zone]:
    """Draw zones, of which one may hold another; no owner puts one into a protected folder here."""
    plain = [names for names in folders_of(tree) if not any(map(is_odd, names[len(tree.top) :]))]
    words = get_args(Approval)
    return [
        Zone(
            name=f"z{number}",
            root="/" + "/".join(chance.choice(plain)),
            mode="ro" if chance.random() < 0.2 else "rw",
            read=chance.choice(words),
            write=chance.choice((*words, "none", "none")),
            delete=chance.choice((*words, "none", "none")),
            rule=Rule(source="sayso.yaml", key=f"zones.z{number}"),
        )
        for number in range(chance.randint(1, ZONES_AT_MOST))
    ]


def folders_of(tree: Tree) -> Iterator[Names]:
    """Yield every folder."""
    yield tree.top
    yield from (names for names, entry in tree.entries.items() if entry is True)


def draw_path(chance: random.Random, tree: Tree, zones: Sequence[Zone]) -> str:
    """Draw a virtual path: mostly along what is there, then somewhere."""
    zone = chance.choice(zones)
    below = [names[len(parts(zone.root)) :] for names in tree.entries if is_within(names, parts(zone.root))]
    known = "/".join(chance.choice(below)) if below and chance.random() < 0.8 else ""
    way = "/".join(each for each in (known, draw_way(chance) if chance.random() < 0.6 else "") if each)
    end = "/" if chance.random() < 0.05 else ""
    return f"/{zone.name}/{way}{end}" if way else f"/{zone.name}"


# What zones have to say.


def expected(tree: Tree, zones: Sequence[Zone], path: str, operation: Operation) -> Approval:
    """Return the approval for an operation on a virtual path, by the rules that docs/policy-file.md gives."""
    changes = operation in {"write", "delete"}
    name, _, inner = path[1:].partition("/")
    zone = next(each for each in zones if each.name == name)
    if "//" in path or (changes and path.endswith("/")):
        return "blocked"
    try:
        places = places_of(tree, inner or ".", parts(zone.root), changes=changes)
    except Unresolved:
        return "blocked"
    if any(TRASH in map(fold, place) for place in places):
        return "blocked"
    if changes and (holds_root(zones, places) or is_protected(tree, zones, path, places)):
        return "blocked"
    holding = [zone, *(each for each in zones for place in places if is_within(place, parts(each.root)))]
    worst: Approval = max((word_of(each, operation) for each in holding), key=lambda word: STRICTNESS[word])
    asks = changes and any(needs_consent(zones, place) for place in places)
    return "required" if worst == "none" and asks else worst


def places_of(tree: Tree, inner: str, root: Names, *, changes: bool) -> list[Names]:
    """Return where the operation has an effect: at the target, and for a change where the name itself is."""
    places = [tree.follow(inner, root)]
    folder, _, last = inner.rpartition("/")
    if changes and last not in {"", ".", ".."}:
        places.append((*tree.follow(folder or ".", root), last))
    if not all(is_within(place, root) for place in places):
        raise Unresolved
    return places


def holds_root(zones: Sequence[Zone], places: Sequence[Names]) -> bool:
    return any(is_within(parts(zone.root), place) for zone in zones for place in places)


def is_protected(tree: Tree, zones: Sequence[Zone], path: str, places: Sequence[Names]) -> bool:
    given = tuple(path.split("/"))
    return (
        any(map(is_blocked_name, given))
        or fold(given[-1]) == "head"
        or any(
            any(map(is_blocked_name, way)) or fold(way[-1]) == "head" or is_of_repository(tree, place, way)
            for place in places
            for way in ways(zones, place)
            if way
        )
    )


def is_of_repository(tree: Tree, place: Names, way: Names) -> bool:
    """Whether one of git's own names is in the way, in a folder that has a `HEAD`."""
    above = place[: len(place) - len(way)]
    return any(
        fold(name) in OF_A_REPOSITORY and tree.entry((*above, *way[:at], "HEAD")) is not None
        for at, name in enumerate(way)
    )


def needs_consent(zones: Sequence[Zone], place: Names) -> bool:
    return any(
        fold(way[-1]) in {"pyproject.toml", "pre-commit"} or "node_modules" in map(fold, way)
        for way in ways(zones, place)
        if way
    )


def ways(zones: Sequence[Zone], place: Names) -> list[Names]:
    return [place[len(parts(zone.root)) :] for zone in zones if is_within(place, parts(zone.root))]


def word_of(zone: Zone, operation: Operation) -> Approval:
    if operation in {"read", "list"}:
        return zone.read
    if zone.mode == "ro":
        return "blocked"
    return zone.write if operation == "write" else zone.delete


def is_blocked_name(name: str) -> bool:
    return fold(name) in BLOCKED or fold(name).endswith(".pth")


def is_odd(name: str) -> bool:
    """Whether a name means something to the rules."""
    return is_blocked_name(name) or fold(name) in {"head", TRASH, "node_modules", "pyproject.toml", "pre-commit"}


def fold(name: str) -> str:
    """Return the name as the most forgiving file system reads it."""
    return "".join(each for each in name if unicodedata.category(each) != "Cf").casefold().rstrip(" .")


def is_within(names: Names, root: Names) -> bool:
    return names[: len(root)] == root


def parts(path: str) -> Names:
    return tuple(each for each in path.split("/") if each)
