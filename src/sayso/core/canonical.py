"""Canonical encoding: immutable arguments, and the bytes over which the digest of an approval is computed.

Two values get the same bytes only if they are the same value of the same type. MessagePack already distinguishes
`1`, `1.0`, `True`, `"1"` and `b"1"`. Values that it would conflate (a path and its text, a tuple and a list, an
integer of more than 64 bits) are wrapped in an extension type, which plain data can never produce.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Never, TypeVar, cast

import msgspec

from sayso.errors import CanonicalError

_MAX_DEPTH = 100
_FEW, _LONG = 100, 4096  # limits of small arguments: their number, and the length of a text
_SHORT = 1000  # bytes: the hashes of inputs up to this length are cached

_encode = msgspec.msgpack.Encoder(order="deterministic").encode

T = TypeVar("T")


def _refuse_mutation(self: object, *_: object, **__: object) -> Never:
    raise TypeError(f"{type(self).__name__} is frozen: an approval is bound to it; build a new value instead")


def _return_self(self: T, *_: object) -> T:
    return self  # an immutable value needs no copy


class FrozenDict(dict[str, Any]):
    """An immutable dict, so that the arguments that were shown are the ones that run."""

    # A subclass of dict: front ends may pass it to json.dumps, compare it, or unpack it with `**`.
    __slots__ = ("plain", "small")
    plain: bool  # every nested value is a JSON value or bytes, so the encoder needs no tags
    small: bool  # plain, flat and short: cheap to queue and to encode later

    __setitem__ = __delitem__ = __ior__ = _refuse_mutation
    clear = pop = popitem = setdefault = update = _refuse_mutation  # pyright: ignore[reportAssignmentType] - all refuse

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash the set of keys: cheap, and equal for equal dicts."""
        return hash(frozenset(self))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle through `freeze`, because the mutators refuse."""
        return freeze, (dict(self),)

    __copy__ = __deepcopy__ = _return_self


class FrozenList(list[Any]):
    """An immutable list; `thaw` makes the ordinary list that a tool gets."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_mutation
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse_mutation  # pyright: ignore[reportAssignmentType]

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash the length: cheap, and equal for equal lists."""
        return hash(len(self))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a new frozen list, because the mutators refuse."""
        return _frozen_list, (list(self),)

    __copy__ = __deepcopy__ = _return_self


class FrozenSet(frozenset[Any]):
    """A frozenset that `thaw` turns back into a set."""

    __slots__ = ()


def _frozen_list(items: list[Any]) -> FrozenList:
    return FrozenList([_freeze(item, 0, _Traits()) if type(item) not in _PLAIN_ATOMS else item for item in items])


def freeze(args: Mapping[str, Any]) -> FrozenDict:
    """Deep-copy arguments into immutable containers."""
    if type(args) is FrozenDict:
        return args
    frozen = FrozenDict(args)  # copied before it is inspected: another thread may change the original
    frozen.plain = frozen.small = True
    for key, value in frozen.items():
        if type(key) is not str:
            return _freeze_deeply(frozen)
        if type(value) is str:
            if len(value) > _LONG:
                frozen.small = False
        elif type(value) not in _SMALL_ATOMS:
            return _freeze_deeply(frozen)
    if len(frozen) > _FEW:
        frozen.small = False
    return frozen


class _Traits:
    """Traits found while the arguments are frozen."""

    __slots__ = ("plain",)

    def __init__(self) -> None:
        self.plain = True


def _freeze_deeply(source: Mapping[Any, Any]) -> FrozenDict:
    traits = _Traits()
    frozen = _freeze_dict(source, 0, traits)
    frozen.plain = traits.plain
    return frozen


def _freeze_dict(source: Mapping[Any, Any], depth: int, traits: _Traits) -> FrozenDict:
    copy: dict[str, Any] = {}
    for key, value in source.items():
        if type(key) is not str:
            traits.plain = False
        copy[key] = value if type(value) in _PLAIN_ATOMS else _freeze(value, depth + 1, traits)
    frozen = FrozenDict(copy)
    frozen.plain = frozen.small = False  # computed for the outermost dict only; alone, this takes the slow path
    return frozen


def _freeze(value: Any, depth: int, traits: _Traits) -> Any:  # noqa: ANN401 - any value of any tool
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - of Any, on purpose
    if depth > _MAX_DEPTH:
        raise CanonicalError(f"arguments are nested more than {_MAX_DEPTH} levels deep, or contain themselves")
    if kind is dict:
        return _freeze_dict(value, depth, traits)
    if kind is list:
        return FrozenList([item if type(item) in _PLAIN_ATOMS else _freeze(item, depth + 1, traits) for item in value])
    if kind is float and math.isfinite(value):
        return value
    traits.plain = traits.plain and kind is FrozenDict and value.plain
    if kind is tuple:
        return tuple(item if type(item) in _PLAIN_ATOMS else _freeze(item, depth + 1, traits) for item in value)
    # Any other value is kept: an allowed call may use it, and `canonical` refuses it with its path.
    return FrozenSet(value) if kind is set else value


def thaw(args: Mapping[str, Any]) -> dict[str, Any]:
    """Copy frozen arguments into the ordinary containers that a tool expects."""
    if type(args) is FrozenDict and args.small:
        return {**args}  # no nested value needs a copy
    return {key: value if type(value) in _PLAIN_ATOMS else _thaw(value) for key, value in args.items()}


def _thaw(value: Any) -> Any:  # noqa: ANN401 - any value of any tool
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - of Any, on purpose
    if kind is FrozenDict:
        return thaw(value)
    if kind is FrozenList:
        return [_thaw(item) for item in value]
    if kind is tuple:
        return tuple(_thaw(item) for item in value)
    if kind is FrozenSet:
        return set(value)
    return value


def parse_args(text: str) -> FrozenDict:
    """Parse a model's JSON arguments strictly: one object, no duplicate key, no NaN."""
    try:
        value = _decode_json(text)
    except CanonicalError:
        raise
    except (ValueError, RecursionError) as error:  # invalid JSON, or an integer over Python's limit of digits
        raise CanonicalError(f"the arguments are not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CanonicalError(f"the arguments must be a JSON object, not {type(value).__name__}")
    frozen = freeze(cast("dict[str, Any]", value))
    canonical(frozen)  # refuses valid JSON without a canonical form: a lone surrogate, a float that overflows
    return frozen


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise CanonicalError(f"the arguments name {key!r} twice; nobody could know which value would run")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Never:
    raise CanonicalError(f"the arguments contain {name}, which is not a number")


_decode_json = json.JSONDecoder(object_pairs_hook=_refuse_duplicate_keys, parse_constant=_refuse_constant).decode


def canonical(args: FrozenDict, name: str = "args") -> bytes:
    """Return the canonical bytes of these arguments.

    Raises:
        CanonicalError: names the first value that has no canonical form.
    """
    if args.plain:
        try:
            return _encode(args)
        except (OverflowError, UnicodeEncodeError):
            pass  # the slow path below encodes big integers, and names the text with a lone surrogate
    return _encode(_tag(args, (name,)))


def is_same_value(left: object, right: object) -> bool:
    """Whether two frozen arguments are the same object, or equal data of the same type: 1 is neither True nor 1.0."""
    if left is right:
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        ours, theirs = cast("Mapping[str, object]", left), cast("Mapping[str, object]", right)
        if type(ours) is not type(theirs):
            return False
        return ours.keys() == theirs.keys() and all(is_same_value(ours[name], theirs[name]) for name in ours)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        mine, others = cast("Sequence[object]", left), cast("Sequence[object]", right)
        return type(mine) is type(others) and len(mine) == len(others) and all(map(is_same_value, mine, others))
    try:
        return canonical(freeze({"": left})) == canonical(freeze({"": right}))
    except CanonicalError:  # not comparable
        return False


def storable(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments in a form that MessagePack encodes without loss; `restore` decodes it."""
    frozen = freeze(args)
    return frozen if frozen.plain and frozen.small and not _has_big_integer(frozen) else _tag(frozen, ("args",))


def restore(code: int, data: memoryview) -> object:
    """Decode one extension value of a stored record."""
    return _READERS[code](bytes(data))


def digest(domain: str, *parts: str, args: FrozenDict) -> str:
    """Hash arguments together with their domain and parts: another tool, schema or purpose gives another digest."""
    data = _encode_prefix(domain, *parts) + canonical(args)
    return _hash_short(data) if len(data) <= _SHORT else _hash(data)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Cached: one call is hashed when it is asked about, when it runs and for the audit.
_hash_short = lru_cache(maxsize=4096)(_hash)


@lru_cache(maxsize=4096)
def _encode_prefix(*parts: str) -> bytes:
    try:
        return _encode(parts)
    except UnicodeEncodeError as error:
        raise CanonicalError("the tool's name contains half a character (a lone surrogate)") from error


def _has_big_integer(frozen: FrozenDict) -> bool:
    return any(type(value) is int and not _fits_64_bits(value) for value in frozen.values())


def _fits_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**64


ValuePath = tuple[str | int, ...]  # the path of a value, formatted only if the value is refused


def _at(place: ValuePath) -> str:
    name, *rest = place
    return str(name) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)


def _tag(value: Any, place: ValuePath) -> Any:  # noqa: ANN401 - any value of any tool
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - of Any, on purpose
    if kind is FrozenDict:
        return {_check_key(key, place): _tag(item, (*place, key)) for key, item in value.items()}
    if kind is FrozenList:
        return [_tag(item, (*place, index)) for index, item in enumerate(value)]
    tag = _TAGS.get(kind)  # pyright: ignore[reportUnknownArgumentType] - of Any, on purpose
    if tag is None:
        _refuse_value(value, place)
    return tag(value, place)


def _check_key(key: object, place: ValuePath) -> str:
    if type(key) is not str:
        shown = repr(key) if type(key) in _PLAIN_ATOMS else f"of the type {type(key).__qualname__}"
        raise CanonicalError(f"{_at(place)} has the key {shown}; only text keys can be bound to an approval")
    return _check_text(key, ("a key of " + _at(place),)) if not key.isascii() else key


def _check_text(value: str, place: ValuePath) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CanonicalError(
            f"{_at(place)} contains half a character (a lone surrogate); nobody could be shown it"
        ) from error
    return value


def _check_number(value: float, place: ValuePath) -> float:
    if not math.isfinite(value):
        raise CanonicalError(f"{_at(place)} is {value!r}, which equals nothing, so it cannot be bound to an approval")
    return value


def _refuse_value(value: object, place: ValuePath) -> Never:
    kind = type(value)
    raise CanonicalError(
        f"{_at(place)} is a {kind.__module__}.{kind.__qualname__}, which has no canonical form; "
        "pass JSON values, bytes, paths, dates, UUIDs, tuples or sets"
    )


Tag = Callable[[Any, ValuePath], object]


def _tag_int(value: int, _: ValuePath) -> object:
    if _fits_64_bits(value):
        return value
    return msgspec.msgpack.Ext(_INT, format(value, "x").encode())


def _tag_tuple(value: tuple[Any, ...], place: ValuePath) -> object:
    items = [_tag(item, (*place, index)) for index, item in enumerate(value)]
    return msgspec.msgpack.Ext(_TUPLE, _encode(items))


def _tag_set(code: int) -> Tag:
    def tag(value: frozenset[Any], place: ValuePath) -> object:
        # Sorted by their bytes: the order of a set differs between processes, because hashes are randomised.
        members = sorted(_encode(_tag(item, (*place, "{…}"))) for item in value)
        return msgspec.msgpack.Ext(code, _encode(members))

    return tag


def _tag_text(code: int, write: Callable[[Any], str]) -> Tag:
    def tag(value: object, place: ValuePath) -> object:
        return msgspec.msgpack.Ext(code, _check_text(write(value), place).encode())

    return tag


def _tag_as_is(value: object, _: ValuePath) -> object:
    return value


def _tag_moment(code: int) -> Tag:
    def tag(value: dt.datetime | dt.time, place: ValuePath) -> object:
        zone = value.tzinfo
        if zone is not None and type(zone) is not dt.timezone:
            # A named zone is another value than its current offset.
            raise CanonicalError(f"{_at(place)} has a named time zone; pass a fixed offset, such as `datetime.UTC`")
        # `fold` distinguishes the two hours when the clocks go back.
        return msgspec.msgpack.Ext(code, f"{value.isoformat()}/{value.fold}".encode())

    return tag


def _read_moment(kind: type[dt.datetime | dt.time]) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        text, _, fold = data.decode().partition("/")
        return kind.fromisoformat(text).replace(fold=int(fold))

    return read


def _microseconds(value: dt.timedelta) -> str:
    return str(value // dt.timedelta(microseconds=1))


_INT, _TUPLE, _SET, _FROZENSET, _PATH, _PURE_POSIX, _PURE_WINDOWS = range(1, 8)
_DATETIME, _DATE, _TIME, _TIMEDELTA, _UUID = range(8, 13)

_SMALL_ATOMS = frozenset({int, bool, type(None)})
_PLAIN_ATOMS = frozenset({str, int, bool, bytes, type(None)})

_TAGS: dict[type, Tag] = {
    str: _check_text,
    int: _tag_int,
    float: _check_number,
    bool: _tag_as_is,
    bytes: _tag_as_is,
    type(None): _tag_as_is,
    tuple: _tag_tuple,
    FrozenSet: _tag_set(_SET),
    frozenset: _tag_set(_FROZENSET),
    type(Path()): _tag_text(_PATH, str),
    PurePosixPath: _tag_text(_PURE_POSIX, str),
    PureWindowsPath: _tag_text(_PURE_WINDOWS, str),
    dt.datetime: _tag_moment(_DATETIME),
    dt.date: _tag_text(_DATE, dt.date.isoformat),
    dt.time: _tag_moment(_TIME),
    dt.timedelta: _tag_text(_TIMEDELTA, _microseconds),
    uuid.UUID: _tag_text(_UUID, str),
}


def _decode_members(data: bytes) -> list[Any]:
    parts = cast("list[bytes]", msgspec.msgpack.decode(data))
    return [msgspec.msgpack.decode(part, ext_hook=restore) for part in parts]


def _read_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode())


_READERS: dict[int, Callable[[bytes], object]] = {
    _INT: lambda data: int(data, 16),
    _TUPLE: lambda data: tuple(msgspec.msgpack.decode(data, ext_hook=restore)),
    _SET: lambda data: set(_decode_members(data)),
    _FROZENSET: lambda data: frozenset(_decode_members(data)),
    _PATH: _read_text(Path),
    _PURE_POSIX: _read_text(PurePosixPath),
    _PURE_WINDOWS: _read_text(PureWindowsPath),
    _DATETIME: _read_moment(dt.datetime),
    _DATE: _read_text(dt.date.fromisoformat),
    _TIME: _read_moment(dt.time),
    _TIMEDELTA: _read_text(lambda text: dt.timedelta(microseconds=int(text))),
    _UUID: _read_text(uuid.UUID),
}
