"""Canonical bytes: what is bound to an approval is this value of this type, and it cannot change afterwards."""

import copy
import datetime as dt
import decimal
import enum
import fractions
import json
import math
import os
import pickle
import subprocess
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from random import Random
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso import ApprovalDecision, ApprovalRequest, ToolCall
from sayso.core.canonical import FrozenDict, FrozenList, canonical, digest, freeze, parse_args, thaw
from sayso.core.model import Remembered, Scope
from sayso.core.msgpack_codec import pack_remembered, pack_request, unpack_remembered, unpack_request
from sayso.errors import CanonicalError


class Colour(enum.Enum):
    RED = 1


class Word(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


class Count(int):
    __slots__ = ()


class Share(float):
    __slots__ = ()


class Pair(NamedTuple):
    left: int
    right: int


class Thing:
    """An object of somebody else's."""


BERLIN_SUMMER = dt.timezone(dt.timedelta(hours=2))


def bound(value: object) -> bytes:
    return canonical(freeze({"value": value}))


# The trap table of performance.md, section D: what must get one key, what must not, and what gets none.


@pytest.mark.proves("H4", "R5")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(1, True, id="one and true"),
        pytest.param(0, False, id="zero and false"),
        pytest.param(1, 1.0, id="integer and float"),
        pytest.param(1, "1", id="integer and text"),
        pytest.param(True, "True", id="true and its text"),
        pytest.param(0.0, -0.0, id="zero and minus zero"),
        pytest.param(None, "None", id="nothing and its text"),
        pytest.param(b"a", "a", id="bytes and text"),
        pytest.param(b"a", "b'a'", id="bytes and its repr"),
        pytest.param(Path("a"), "a", id="path and text"),
        pytest.param(Path("a"), PurePosixPath("a"), id="path and pure path"),
        pytest.param(PurePosixPath("a"), PureWindowsPath("a"), id="posix and windows path"),
        pytest.param((1, 2), [1, 2], id="tuple and list"),
        pytest.param({1, 2}, [1, 2], id="set and list"),
        pytest.param({1, 2}, frozenset({1, 2}), id="set and frozenset"),
        pytest.param({1}, {True}, id="set of one and set of true"),
        pytest.param({1}, {1.0}, id="set of integer and set of float"),
        pytest.param(dt.datetime(2024, 1, 2), "2024-01-02T00:00:00", id="datetime and text"),  # noqa: DTZ001
        pytest.param(dt.datetime(2024, 1, 2), dt.date(2024, 1, 2), id="datetime and date"),  # noqa: DTZ001
        pytest.param(
            dt.datetime(2024, 1, 2),  # noqa: DTZ001
            dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
            id="naive and aware datetime",
        ),
        pytest.param(dt.timedelta(seconds=1), 1_000_000, id="timedelta and its microseconds"),
        pytest.param(uuid.UUID(int=7), str(uuid.UUID(int=7)), id="uuid and text"),
        pytest.param(2**70, str(2**70), id="big integer and text"),
        pytest.param(2**70, format(2**70, "x").encode(), id="big integer and its bytes"),
        pytest.param(2**70, float(2**70), id="big integer and float"),
        pytest.param("\u00e9", "e\u0301", id="NFC and NFD"),
        pytest.param({}, {"key": None}, id="missing and null"),
        pytest.param([], {}, id="empty list and empty dict"),
        pytest.param([], None, id="empty list and null"),
        pytest.param("", None, id="empty text and null"),
        pytest.param([[1], 2], [1, [2]], id="nesting"),
    ],
)
def test_values_that_differ_in_value_or_type_never_share_a_key(left: object, right: object) -> None:
    assert bound(left) != bound(right)
    assert bound([left, right]) != bound([right, left])


@pytest.mark.proves("H4", "R4", "R55")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="key order"),
        pytest.param({"x": {"a": [1], "b": 2}}, {"x": {"b": 2, "a": [1]}}, id="nested key order"),
        pytest.param({3, 1, 2}, {2, 3, 1}, id="set order"),
        pytest.param(2**70, 2**70 + 1 - 1, id="big integer"),
        pytest.param(-(2**63) - 1, -(2**63) - 1, id="big negative integer"),
        pytest.param("\u00e9", "\N{LATIN SMALL LETTER E WITH ACUTE}", id="the same text"),
        pytest.param((1, [2, {"a": b"\x00"}]), (1, [2, {"a": b"\x00"}]), id="deep"),
        pytest.param(Path("a/b"), Path("a") / "b", id="the same path"),
        pytest.param(1.5, 3 / 2, id="the same float"),
    ],
)
def test_equal_values_of_equal_types_share_one_key(left: object, right: object) -> None:
    assert bound(left) == bound(right)
    assert ToolCall(tool="t", args={"v": left}).digest() == ToolCall(tool="t", args={"v": right}).digest()


@pytest.mark.proves("H4", "R5")
@pytest.mark.parametrize(
    ("args", "place"),
    [
        pytest.param({"a": math.nan}, "args.a ", id="NaN"),
        pytest.param({"a": math.inf}, "args.a ", id="infinity"),
        pytest.param({"a": {"b": [0, -math.inf]}}, "args.a.b[1] ", id="nested infinity"),
        pytest.param({"a": "\ud800"}, "args.a ", id="lone surrogate"),
        pytest.param({"a": ["\udfff"]}, "args.a[0] ", id="nested lone surrogate"),
        pytest.param({"\ud800": 1}, "a key of args ", id="lone surrogate in a key"),
        pytest.param({"a": {"\ud800": 1}}, "a key of args.a ", id="lone surrogate in a nested key"),
        pytest.param({"a": Path(os.fsdecode(b"\xff"))}, "args.a ", id="path that is not text"),
        pytest.param({1: "a"}, "args has the key 1", id="integer key"),
        pytest.param({1: "a", "1": "b"}, "args has the key 1", id="mixed keys"),
        pytest.param({"a": {None: 1}}, "args.a has the key None", id="null key"),
        pytest.param({"a": {True: 1}}, "args.a has the key True", id="boolean key"),
        pytest.param({Text("a"): 1}, "args has the key ", id="key of a text subclass"),
        pytest.param({"a": decimal.Decimal("1.5")}, "args.a is a decimal.Decimal", id="Decimal"),
        pytest.param({"a": fractions.Fraction(1, 2)}, "args.a is a fractions.Fraction", id="Fraction"),
        pytest.param({"a": 1j}, "args.a is a builtins.complex", id="complex"),
        pytest.param({"a": bytearray(b"x")}, "args.a is a builtins.bytearray", id="bytearray"),
        pytest.param({"a": range(3)}, "args.a is a builtins.range", id="range"),
        pytest.param({"a": OrderedDict[str, int](b=1)}, "args.a is a collections.OrderedDict", id="dict subclass"),
        pytest.param({"a": Thing()}, "args.a is a ", id="object"),
        pytest.param({"a": Thing}, "args.a is a builtins.type", id="class"),
        pytest.param({"a": Colour.RED}, "args.a is a ", id="Enum"),
        pytest.param({"a": Word.RED}, "args.a is a ", id="StrEnum"),
        pytest.param({"a": Level.LOW}, "args.a is a ", id="IntEnum"),
        pytest.param({"a": Text("x")}, "args.a is a ", id="text subclass"),
        pytest.param({"a": Count(1)}, "args.a is a ", id="integer subclass"),
        pytest.param({"a": Share(1.0)}, "args.a is a ", id="float subclass"),
        pytest.param({"a": Pair(1, 2)}, "args.a is a ", id="named tuple"),
        pytest.param({"a": (0, Thing())}, "args.a[1] is a ", id="object in a tuple"),
        pytest.param({"a": {Colour.RED}}, "args.a.{…} is a ", id="Enum in a set"),
        pytest.param({"a": {"b": [{"c": Thing()}]}}, "args.a.b[0].c is a ", id="object deep down"),
    ],
)
def test_what_has_no_canonical_form_is_refused_by_its_place(args: dict[Any, Any], place: str) -> None:
    with pytest.raises(CanonicalError) as refusal:
        canonical(freeze(args))
    assert str(refusal.value).startswith(place)
    with pytest.raises(CanonicalError):
        ToolCall(tool="t", args=args).digest()


@pytest.mark.proves("H4")
def test_two_short_lived_objects_at_one_address_get_no_key_at_all() -> None:
    for _ in range(2):
        with pytest.raises(CanonicalError, match="Thing, which has no canonical form; pass JSON values"):
            bound(Thing())


class Rude:
    """A key of somebody else's, whose code must not be run."""

    def __repr__(self) -> str:
        raise RuntimeError("who called my code?")


@pytest.mark.proves("H4", "H5")
def test_a_key_that_cannot_be_printed_is_refused_like_any_other() -> None:
    key: Any = Rude()
    with pytest.raises(CanonicalError, match="only text keys can be bound"):
        canonical(freeze({key: 1}))


@pytest.mark.proves("H2", "H4")
def test_the_two_instants_of_one_repeated_hour_get_different_keys() -> None:
    """When the clocks go back, 02:30 happens twice; `fold` says which one is meant."""
    first, second = (dt.datetime(2024, 10, 27, 2, 30, fold=fold) for fold in (0, 1))  # noqa: DTZ001
    assert bound(first) != bound(second)


@pytest.mark.proves("H2")
def test_the_digest_is_of_tool_schema_and_arguments_and_nothing_else() -> None:
    call = ToolCall(tool="pay", args={"a": 1}, schema_hash="s1")
    assert call.digest() == ToolCall(tool="pay", args={"a": 1}, schema_hash="s1", session="x").digest()
    others = [
        ToolCall(tool="pay2", args={"a": 1}, schema_hash="s1"),
        ToolCall(tool="pay", args={"a": 2}, schema_hash="s1"),
        ToolCall(tool="pay", args={"a": 1}, schema_hash="s2"),
        ToolCall(tool="pays1", args={"a": 1}),
    ]
    assert len({each.digest() for each in (call, *others)}) == 5


@pytest.mark.proves("H2")
def test_the_parts_of_a_digest_cannot_run_into_each_other() -> None:
    empty = freeze({})
    parts = [("a",), ("a", ""), ("", "a"), ("ab",), ("a", "b"), ("a", "b", ""), ("a:b",)]
    assert len({digest("domain", *each, args=empty) for each in parts}) == len(parts)
    assert digest("one", args=empty) != digest("two", args=empty)


# JSON as the model wrote it.


@pytest.mark.proves("H4")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "'a' twice"),
        ('{"a": 1, "a": 1}', "'a' twice"),
        ('{"x": [{"b": 1, "c": 2, "b": 3}]}', "'b' twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ("[1]", "a JSON object, not list"),
        ("null", "a JSON object, not NoneType"),
        ('"a"', "a JSON object, not str"),
        ("", "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1} trailing', "not valid JSON"),
        ('{"a": ' * 200 + "1" + "}" * 200, "levels deep"),
        ("[" * 100_000, "not valid JSON"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "digits", id="a number of 5,000 digits"),
    ],
)
def test_json_that_could_be_read_in_two_ways_is_refused(text: str, problem: str) -> None:
    with pytest.raises(CanonicalError, match=problem):
        parse_args(text)


@pytest.mark.proves("H4")
def test_json_arguments_get_the_key_of_the_values_that_they_spell() -> None:
    call = ToolCall.from_json("t", '{"b": [1, 2.0, null, true], "a": {"x": "\\u00e9"}}')
    assert call.args == {"a": {"x": "é"}, "b": [1, 2.0, None, True]}
    assert call.digest() == ToolCall(tool="t", args={"a": {"x": "é"}, "b": [1, 2.0, None, True]}).digest()
    assert ToolCall.from_json("t", None).args == {}


# Frozen, so that what was shown is what runs.


@pytest.mark.proves("H2")
def test_what_the_caller_does_to_its_own_containers_later_changes_nothing() -> None:
    inner: dict[str, Any] = {"list": [1, {"deep": [2]}], "set": {1}, "pair": ([3],)}
    args = {"inner": inner, "top": 1}
    call = ToolCall(tool="t", args=args)
    before = call.digest()
    args["top"] = 2
    inner["new"] = 1
    inner["list"].append(9)
    inner["list"][1]["deep"].append(9)
    inner["set"].add(9)
    inner["pair"][0].append(9)
    assert call.digest() == before
    assert call.args == {"inner": {"list": [1, {"deep": [2]}], "set": {1}, "pair": ([3],)}, "top": 1}


# `__init__` called again changes any dict or list, but takes as much intent as `dict.update(frozen, …)`.
NOT_A_METHOD_OF_THE_VALUE = {
    "__class__", "__class_getitem__", "__delattr__", "__getattribute__", "__getstate__", "__init__",
    "__init_subclass__", "__new__", "__reduce__", "__reduce_ex__", "__setattr__", "__sizeof__", "__subclasshook__",
}  # fmt: skip
ATTEMPTS: tuple[tuple[Any, ...], ...] = (
    (), (0,), (1,), (2,), (0, 9), ("a",), ("z",), ("a", 9), ("z", 9), ({"z": 9},), ([("z", 9)],), ([9],),
    (slice(0, 1),), (slice(0, 1), [9]),
)  # fmt: skip
PLAIN_DICT: dict[str, Any] = {"a": 1, "b": [2]}
PLAIN_LIST: list[Any] = [3, 1, 2]


def changes(plain: Callable[[], Any], name: str, arguments: tuple[Any, ...]) -> bool:
    """Whether this method, called like this, changes an ordinary dict or list."""
    value = plain()
    try:
        getattr(value, name)(*arguments)
    except (TypeError, KeyError, ValueError, IndexError, AttributeError):
        return False
    return value != plain()


def mutations(plain: Callable[[], Any]) -> list[tuple[str, tuple[Any, ...]]]:
    names = sorted(set(dir(plain())) - NOT_A_METHOD_OF_THE_VALUE)
    return [(name, each) for name in names for each in ATTEMPTS if changes(plain, name, each)]


DICT_MUTATIONS = mutations(lambda: copy.deepcopy(PLAIN_DICT))
LIST_MUTATIONS = mutations(lambda: copy.deepcopy(PLAIN_LIST))


@pytest.mark.proves("H2")
def test_the_search_for_mutators_finds_every_one_that_python_documents() -> None:
    assert {name for name, _ in DICT_MUTATIONS} >= {
        "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
    }  # fmt: skip
    assert {name for name, _ in LIST_MUTATIONS} >= {
        "__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend", "insert", "pop", "remove",
        "reverse", "sort",
    }  # fmt: skip


@pytest.mark.proves("H2")
@pytest.mark.parametrize(("name", "arguments"), DICT_MUTATIONS)
def test_every_mutator_of_a_dict_is_refused_by_frozen_arguments(name: str, arguments: tuple[Any, ...]) -> None:
    frozen = freeze({"inner": PLAIN_DICT})
    for value in (freeze(PLAIN_DICT), frozen["inner"]):
        assert type(value) is FrozenDict
        with pytest.raises(TypeError, match="frozen: an approval is bound to it; build a new value"):
            getattr(value, name)(*arguments)
        assert value == PLAIN_DICT


@pytest.mark.proves("H2")
@pytest.mark.parametrize(("name", "arguments"), LIST_MUTATIONS)
def test_every_mutator_of_a_list_is_refused_inside_frozen_arguments(name: str, arguments: tuple[Any, ...]) -> None:
    value = freeze({"list": PLAIN_LIST})["list"]
    assert type(value) is FrozenList
    with pytest.raises(TypeError, match="frozen: an approval is bound to it; build a new value"):
        getattr(value, name)(*arguments)
    assert value == PLAIN_LIST


@pytest.mark.proves("H2")
@pytest.mark.parametrize(
    "statement",
    [
        "args['a'] = 1",
        "del args['a']",
        "args |= {'b': 2}",
        "args['list'] += [9]",
        "args['list'] *= 2",
        "args['list'][0] = 9",
        "args['list'][0:1] = []",
        "args['list'][:] = []",
        "del args['list'][0]",
        "del args['list'][:]",
        "args['dict']['x'] = 9",
        "args['dict'] |= {'y': 2}",
        "args['pair'][0].append(9)",
        "args['list'][1]['deep'].append(9)",
    ],
)
def test_every_statement_that_would_change_arguments_is_refused(statement: str) -> None:
    plain: dict[str, Any] = {"a": 1, "list": [0, {"deep": [1]}], "dict": {"x": 1}, "pair": ([1],)}
    args = freeze(plain)
    with pytest.raises(TypeError):
        exec(statement, {"args": args})  # noqa: S102 - the statements stand above
    assert args == plain


def test_frozen_arguments_still_work_wherever_a_dict_does() -> None:
    plain: dict[str, Any] = {"a": [1, {"b": None}], "c": "x"}
    frozen = freeze(plain)
    assert isinstance(frozen, dict)
    assert json.loads(json.dumps(frozen)) == plain
    assert frozen == plain
    assert plain == frozen
    assert {**frozen, "d": 1} == {**plain, "d": 1}
    assert frozen | {"d": 1} == plain | {"d": 1}
    assert hash(frozen) == hash(freeze(copy.deepcopy(plain)))
    assert hash(frozen["a"]) == hash(freeze(plain)["a"])


def pickled(value: FrozenDict) -> FrozenDict:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    "duplicate",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(pickled, id="pickle"),
    ],
)
def test_a_copy_of_frozen_arguments_is_equal_frozen_and_has_the_same_key(
    duplicate: Callable[[FrozenDict], FrozenDict],
) -> None:
    args = freeze({"a": [1, {"b": (2, [3])}], "s": {1, 2}, "p": Path("x"), "n": 2**70, "f": 0.5})
    same = duplicate(args)
    assert same == args
    assert canonical(same) == canonical(args)
    for value in (same["a"], same["a"][1]["b"][1]):
        with pytest.raises(TypeError):
            value.append(1)


def test_freezing_what_is_frozen_returns_it_as_it_is() -> None:
    args = freeze({"a": [1]})
    assert freeze(args) is args


def test_thawing_gives_ordinary_fresh_containers_of_the_original_types() -> None:
    plain: dict[str, Any] = {"d": {"l": [1, {"x": 1}]}, "t": ([1], {"y": 2}), "s": {1}, "f": frozenset({2}), "b": b"x"}
    frozen = freeze(plain)
    thawed, again = thaw(frozen), thaw(frozen)
    assert thawed == again == plain
    assert types(thawed) == types(plain)
    thawed["d"]["l"][1]["x"] = 9
    thawed["t"][0].append(9)
    thawed["s"].add(9)
    assert again == plain
    assert frozen == plain


def types(value: object) -> object:
    """The shape of a value: the exact type of every part of it."""
    kind, whole = type(value), cast("Any", value)
    if kind is dict:
        return kind, {key: types(item) for key, item in whole.items()}
    if kind in {list, tuple}:
        return kind, [types(item) for item in whole]
    return kind


@pytest.mark.proves("H5")
def test_arguments_that_contain_themselves_are_refused() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    ring: list[Any] = []
    ring.append([ring])
    for args in (circle, {"ring": ring}):
        with pytest.raises(CanonicalError, match="contain themselves"):
            ToolCall(tool="t", args=args)


def in_list(value: object) -> object:
    return [value]


def in_tuple(value: object) -> object:
    return (value,)


def in_dict(value: object) -> object:
    return {"key": value}


@pytest.mark.proves("H5")
@pytest.mark.parametrize("wrap", [in_list, in_tuple, in_dict])
def test_nesting_is_bound_up_to_a_hundred_levels_and_refused_beyond(wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(99):
        value = wrap(value)
    assert bound(value) == bound(copy.deepcopy(value))
    for _ in range(10):
        value = wrap(value)
    with pytest.raises(CanonicalError, match="more than 100 levels"):
        bound(value)


# Any value.


ATOMS = st.one_of(
    st.sampled_from([0, 1, 1.0, 0.0, -0.0, True, False, None, "", "1", "a", b"1", b"a", 2**64, 2**70, -(2**63) - 1]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.binary(max_size=8),
    st.sampled_from(["a", "1", "a/b"]).flatmap(lambda text: st.sampled_from([Path(text), PurePosixPath(text)])),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.times(),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC, BERLIN_SUMMER])),
)
KEYS = st.sampled_from(["a", "b", "", "value"]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(values, max_size=3),
        st.lists(values, max_size=3).map(tuple),
        st.dictionaries(KEYS, values, max_size=3),
        st.frozensets(ATOMS, max_size=3),
        st.sets(ATOMS, max_size=3),
    )


VALUES = st.recursive(ATOMS, containers, max_leaves=6)
ARGS = st.dictionaries(KEYS, VALUES, max_size=4)


def same(left: object, right: object) -> bool:
    """Type-strict equality: the same type all the way down, and the same value."""
    kind, one, two = type(left), cast("Any", left), cast("Any", right)
    if kind is not type(right):
        return False
    if kind is dict:
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if kind in {list, tuple}:
        return len(one) == len(two) and all(map(same, one, two))
    if kind in {set, frozenset}:
        return len(one) == len(two) and all(any(same(each, other) for other in two) for each in one)
    if kind is float:
        return one == two and math.copysign(1, one) == math.copysign(1, two)
    if kind is dt.datetime:
        return one == two and one.utcoffset() == two.utcoffset()
    return one == two


def near(args: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that differ from these in one value, which is what a collision would look like."""
    if not args:
        return ARGS
    return st.tuples(st.sampled_from(sorted(args)), VALUES).map(lambda item: {**args, item[0]: item[1]})


@pytest.mark.proves("H4", "R4", "R55")
@settings(deadline=None, max_examples=400)
@given(ARGS.flatmap(lambda args: st.tuples(st.just(args), ARGS | near(args))))
def test_two_arguments_share_their_bytes_exactly_if_they_are_the_same(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    left, right = pair
    assert (canonical(freeze(left)) == canonical(freeze(right))) == same(left, right)
    assert canonical(freeze(left)) == canonical(freeze(copy.deepcopy(left)))


def reordered(value: object, random: Random) -> Any:
    kind, whole = type(value), cast("Any", value)
    if kind is dict:
        items = [(key, reordered(item, random)) for key, item in whole.items()]
        return dict(random.sample(items, len(items)))
    if kind in {list, tuple}:
        parts = [reordered(item, random) for item in whole]
        return parts if kind is list else tuple(parts)
    return whole


@pytest.mark.proves("R4", "H4")
@settings(deadline=None)
@given(args=ARGS, random=st.randoms(use_true_random=False))
def test_the_order_of_keys_never_changes_the_digest(args: dict[str, Any], random: Random) -> None:
    shuffled = reordered(args, random)
    assert ToolCall(tool="t", args=args).digest() == ToolCall(tool="t", args=shuffled).digest()


@pytest.mark.proves("H2", "H4")
@settings(deadline=None)
@given(ARGS)
def test_arguments_come_back_from_the_wire_with_their_types_and_their_digest(args: dict[str, Any]) -> None:
    request = ApprovalRequest(tool_name="t", args=args, payload=args, metadata=args)
    found = unpack_request(pack_request(request))
    assert found.call().digest() == request.call().digest()
    for values in (found.args, found.payload, found.metadata):
        assert values is not None
        assert same(thaw(values), args)
    decision = ApprovalDecision(approved=True, override_args=args, remember="always")
    scope = Scope(kind="call", key="k", label="l")
    kept = Remembered(id="i", tool="t", scope=scope, decision=decision, session=None, remembered_at=1.0)
    edited = unpack_remembered(pack_remembered(kept)).decision.override_args
    assert edited is not None
    assert same(thaw(edited), args)


@pytest.mark.proves("H2")
@settings(deadline=None)
@given(ARGS)
def test_thawing_undoes_freezing(args: dict[str, Any]) -> None:
    assert same(thaw(freeze(args)), args)


DIGEST_ELSEWHERE = """
from sayso import ToolCall
names = {"alpha", "beta", "gamma", "delta", "epsilon"}
args = {"set": names, "frozen": frozenset(names), "nested": [{"s": {("a", 1), ("b", 2)}}], **dict.fromkeys(names, 1)}
print(ToolCall(tool="t", args=args).digest())
"""


@pytest.mark.proves("H4", "H16")
def test_the_digest_is_the_same_in_every_process_whatever_its_hash_seed() -> None:
    names = {"alpha", "beta", "gamma", "delta", "epsilon"}
    args: Mapping[str, Any] = {
        "set": names,
        "frozen": frozenset(names),
        "nested": [{"s": {("a", 1), ("b", 2)}}],
        **dict.fromkeys(names, 1),
    }
    here = ToolCall(tool="t", args=args).digest()
    for seed in ("0", "1", "4711"):
        process = subprocess.run(
            [sys.executable, "-c", DIGEST_ELSEWHERE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert process.stdout.strip() == here


@pytest.mark.proves("H4")
@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"a": 1e999}', '{"a": [-1e999]}', '{"\\udfff": 1}'])
def test_json_arguments_that_nothing_could_be_bound_to_are_refused_when_they_are_read(text: str) -> None:
    with pytest.raises(CanonicalError):
        parse_args(text)


@pytest.mark.proves("H4")
def test_a_named_time_zone_is_refused_because_it_is_not_the_offset_that_it_has_right_now() -> None:
    with pytest.raises(CanonicalError, match=r"args\.when has a named time zone; pass a fixed offset"):
        canonical(freeze({"when": dt.datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))}))
    fixed = dt.timezone(dt.timedelta(hours=2))
    assert canonical(freeze({"when": dt.datetime(2024, 7, 1, tzinfo=fixed)}))
