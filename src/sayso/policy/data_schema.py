"""Schema combinators for plain data: one definition validates a value and gives editors its JSON Schema.

Tests: tests/policy/test_compile.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sayso.errors import ConfigurationError
from sayso.policy.vocabulary import parse_seconds, suggest

Key = tuple[str | int, ...]
Schema = dict[str, Any]

_BRIEF = 60
_LONGEST_INTEGER = 1000  # bits
_LONGEST_SPAN = 999_999 * 86400  # seconds: the longest span that can be written in days


class Problem(NamedTuple):
    """A validation error, and the key that it is about."""

    key: Key
    message: str


ProblemFinder = Callable[[Any, Key], Iterable[Problem]]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A schema node: the kind in words, the type test, the validator of a value of that kind, and the JSON Schema."""

    kind: str
    fits: Callable[[object], bool]
    find_problems: ProblemFinder
    schema: Schema


def validate(shape: Shape, value: object, key: Key = ()) -> Iterator[Problem]:
    """Yield every validation error of a value."""
    if shape.fits(value):
        yield from shape.find_problems(value, key)
    else:
        yield Problem(key, f"{dotted(key)} is {describe_value(value)}; use {shape.kind}")


def dotted(key: Key) -> str:
    """Return the dotted form of a key: `shell.rules[0].pattern`."""
    text = ""
    for step in key:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "the file"


def describe_value(value: object) -> str:
    """Return a short description of a value for an error text."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER:
        return "a number of very many digits"  # Python refuses to format integers over a limit of digits
    shown = "empty" if value is None else repr(value)
    return shown if len(shown) <= _BRIEF else f"{shown[:_BRIEF]}…"


def _is_instance_of(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _type_only(kind: str, about: str, json_type: str | list[str], *types: type) -> Shape:
    """Return the shape of a value of which only the type is checked."""
    schema = {"type": json_type, "description": about}
    return Shape(kind=kind, fits=_is_instance_of(*types), find_problems=lambda _, __: (), schema=schema)


def text(about: str) -> Shape:
    """Any text but an empty one."""

    def problems_in(value: str, key: Key) -> Iterator[Problem]:
        if not value:
            yield Problem(key, f"{dotted(key)} is empty; use a text")

    schema = {"type": "string", "minLength": 1, "description": about}
    return Shape(kind="a text", fits=_is_instance_of(str), find_problems=problems_in, schema=schema)


def boolean(about: str) -> Shape:
    """True or false."""
    return _type_only("true or false", about, "boolean", bool)


def integer(about: str, *, least: int, most: int) -> Shape:
    """A whole number."""

    def problems_in(value: int, key: Key) -> Iterator[Problem]:
        if not least <= value <= most:
            known = f"{least}" if least == most else f"a whole number from {least} to {most}"
            yield Problem(key, f"{dotted(key)} is {describe_value(value)}; use {known}")

    schema = {"type": "integer", "minimum": least, "maximum": most, "description": about}
    return Shape(kind="a whole number", fits=_is_instance_of(int), find_problems=problems_in, schema=schema)


def one_of(about: str, known: Sequence[str]) -> Shape:
    """One of a few texts."""
    listed = ("one of " if len(known) > 1 else "") + ", ".join(repr(each) for each in known)

    def problems_in(value: str, key: Key) -> Iterator[Problem]:
        if value not in known:
            yield Problem(key, f"{dotted(key)} is {describe_value(value)}; use {listed}{suggest(value, known)}")

    schema = {"enum": list(known), "description": about}
    return Shape(kind=listed, fits=_is_instance_of(str), find_problems=problems_in, schema=schema)


def duration(about: str) -> Shape:
    """A span of time."""

    def problems_in(value: object, key: Key) -> Iterator[Problem]:
        try:
            known = isinstance(value, str) or (isinstance(value, int | float) and 0 < value <= _LONGEST_SPAN)
            fits = known and parse_seconds(value, dotted(key))
        except ConfigurationError:
            fits = False
        if not fits:
            yield Problem(key, f"{dotted(key)} is {describe_value(value)}; use {kind}")

    kind = "a positive number of seconds or text such as '90s', '10m', '2h' or '30d'"
    written = {"type": "string", "pattern": "^[0-9]{1,6}[smhd]$"}
    number = {"type": "number", "exclusiveMinimum": 0, "maximum": _LONGEST_SPAN}
    schema = {"anyOf": [number, written], "description": about}
    return Shape(kind=kind, fits=_is_instance_of(str, int, float), find_problems=problems_in, schema=schema)


def scalar(about: str) -> Shape:
    """A text, a number, true or false."""
    return _type_only("a single value", about, ["string", "number", "boolean"], str, int, float, bool)


def null(about: str) -> Shape:
    """The null value, as in a YAML line with only a name."""
    return _type_only("nothing", about, "null", type(None))


def list_of(about: str, of: Shape) -> Shape:
    """A list of values of one shape."""

    def problems_in(value: Sequence[object], key: Key) -> Iterator[Problem]:
        for at, item in enumerate(value):
            yield from validate(of, item, (*key, at))

    schema = {"type": "array", "items": of.schema, "description": about}
    return Shape(kind="a list", fits=_is_instance_of(list), find_problems=problems_in, schema=schema)


def mapping_of(about: str, of: Shape) -> Shape:
    """A mapping with free keys and values of one shape."""

    def problems_in(value: Mapping[object, object], key: Key) -> Iterator[Problem]:
        for name, item in value.items():
            if isinstance(name, str) and name:
                yield from validate(of, item, (*key, name))
            else:
                yield Problem((*key, ""), f"{dotted(key)} has the key {describe_value(name)}; use text keys")

    schema = {"type": "object", "additionalProperties": of.schema, "description": about}
    return Shape(kind="a mapping", fits=_is_instance_of(Mapping), find_problems=problems_in, schema=schema)


def record(about: str, fields: Mapping[str, Shape], required: Sequence[str] = ()) -> Shape:
    """A mapping with known keys, each with a shape of its own; other keys are errors."""

    def problems_in(value: Mapping[object, object], key: Key) -> Iterator[Problem]:
        for name, item in value.items():
            if isinstance(name, str) and name in fields:
                yield from validate(fields[name], item, (*key, name))
            else:
                where, near = (name, suggest(name, fields)) if isinstance(name, str) else ("", "")
                known = near or "; known: " + ", ".join(fields)
                yield Problem((*key, where), f"{dotted(key)} has the unknown key {describe_value(name)}{known}")
        for name in required:
            if name not in value:
                yield Problem(key, f"{dotted(key)} has no `{name}`, which must be said: use {fields[name].kind}")

    schema: Schema = {
        "type": "object",
        "properties": {name: shape.schema for name, shape in fields.items()},
        "additionalProperties": False,
        "description": about,
    }
    if required:
        schema["required"] = list(required)
    return Shape(kind="a mapping", fits=_is_instance_of(Mapping), find_problems=problems_in, schema=schema)


def any_of(*options: Shape) -> Shape:
    """A union of shapes of different kinds; the kind of a value selects the shape."""

    def problems_in(value: object, key: Key) -> Iterator[Problem]:
        chosen = next(each for each in options if each.fits(value))
        others = " or ".join(each.kind for each in options if each is not chosen)
        for problem in chosen.find_problems(value, key):
            of_value = problem.key == key and not isinstance(value, Mapping | list)
            yield Problem(key, f"{problem.message}, or {others}") if of_value else problem

    return Shape(
        kind=" or ".join(dict.fromkeys(each.kind for each in options)),
        fits=lambda value: any(each.fits(value) for each in options),
        find_problems=problems_in,
        schema={"anyOf": [each.schema for each in options]},
    )
