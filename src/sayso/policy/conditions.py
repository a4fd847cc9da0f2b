"""Conditions (`when`) on arguments and annotations, and templates; no code of an argument's own type is run."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from sayso.core.redaction import shorten
from sayso.policy.data_schema import describe_value
from sayso.policy.vocabulary import as_mapping, check_keys, reject

Test = Callable[[Any, Any], bool]  # the argument, and the value that the condition compares it with

_PATH = re.compile(r"args(?:\.[A-Za-z_][A-Za-z0-9_-]*)+")
_CLAIM = re.compile(r"annotations\.[A-Za-z_][A-Za-z0-9_-]*")
_HOLE = re.compile(r"\{([^{}]*)\}")
_LONGEST = 200
_MOST_VALUES = 5
_NUMBER = (int, float)
_NO_ANNOTATIONS: Mapping[str, Any] = {}


class UndecidableCondition(ValueError):
    """Error: a condition cannot be evaluated, because the argument is missing or not comparable."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Predicate on the arguments and annotations of a call: the conjunction of its tests."""

    tests: tuple[
        tuple[str, str, Any], ...
    ]  # the path of an argument or annotation, the operator, and the value to compare with
    words: str  # such as `args.amount is more than 100`

    def __str__(self) -> str:
        return self.words

    def holds(self, args: Mapping[str, Any], annotations: Mapping[str, Any] = _NO_ANNOTATIONS) -> bool:
        """Evaluate all tests on these arguments, and annotations that are believed; raises `UndecidableCondition`."""
        facts = {"args": args, "annotations": annotations}
        answers = [_evaluate_test(facts, *test) for test in self.tests]  # all of them: none may hide an undecidable one
        return all(answers)


def read_condition(given: object, place: str) -> Condition:
    """Parse `when`: paths of arguments, each with a value or with operators such as `{gt: 100}`."""
    tests: list[tuple[str, str, Any]] = []
    for path, wanted in as_mapping(given, place).items():
        if not _PATH.fullmatch(path) and not _CLAIM.fullmatch(path):
            reject(f"{place} names {path!r}; name an argument as `args.amount`, or `annotations.readOnlyHint`")
        if isinstance(wanted, Mapping):
            operators = as_mapping(cast("object", wanted), f"{place}.{path}")
            check_keys(operators, OPERATORS, f"{place}.{path}")
            tests += [(path, name, _wanted(name, value, f"{place}.{path}.{name}")) for name, value in operators.items()]
        else:
            tests.append((path, "eq", _wanted("eq", wanted, f"{place}.{path}")))
    if not tests:
        reject(f"{place} is empty; name an argument as `args.amount`, or leave `when` out")
    return Condition(tests=tuple(tests), words=" and ".join(_test_in_words(*test) for test in tests))


def _wanted(operator: str, value: object, place: str) -> object:
    if operator in {"in", "not_in"}:
        if not isinstance(value, list | tuple) or not value:
            reject(f"{place} is {describe_value(cast('object', value))}; use a list of values")
        return tuple(cast("Sequence[object]", value))
    if operator == "exists" and not isinstance(value, bool):
        reject(f"{place} is {describe_value(value)}; use true or false")
    if operator in _TEXTUAL and not isinstance(value, str):
        reject(f"{place} is {describe_value(value)}; use a text")
    if operator in _ORDERED and (isinstance(value, bool) or not isinstance(value, (*_NUMBER, str))):
        reject(f"{place} is {describe_value(value)}; use a number or a text")
    if isinstance(value, list | dict):
        reject(f"{place} is {describe_value(cast('object', value))}; compare with one value, or use `in` with a list")
    return value


def _test_in_words(path: str, operator: str, wanted: object) -> str:
    if operator == "exists":
        return f"{path} is given" if wanted else f"{path} is not given"
    values = cast("Sequence[object]", wanted) if isinstance(wanted, tuple) else (wanted,)
    more = ", …" if len(values) > _MOST_VALUES else ""
    return f"{path} {_IN_WORDS[operator]} {', '.join(map(describe_value, values[:_MOST_VALUES]))}{more}"


def _evaluate_test(facts: Mapping[str, Mapping[str, Any]], path: str, operator: str, wanted: object) -> bool:
    is_claim = path.startswith("annotations.")
    found, value = _lookup_argument(facts["annotations" if is_claim else "args"], path)
    if is_claim and not found:
        raise UndecidableCondition(f"`{path}` is not known, or the server's word is not believed")
    if operator == "exists":
        return found is wanted
    if not found:
        raise UndecidableCondition(f"the call has no `{path.removeprefix('args.')}`")
    try:
        return OPERATORS[operator](value, wanted)
    except UndecidableCondition as problem:
        raise UndecidableCondition(f"{path} is {problem}") from None


def _lookup_argument(args: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    value: Any = args
    for name in path.split(".")[1:]:
        if not isinstance(value, Mapping):
            missing = path.removeprefix("args.")
            raise UndecidableCondition(f"the call has no `{missing}`: {_argument_text(value):.80} has no names in it")
        if name not in value:
            return False, None
        value = cast("Mapping[str, Any]", value)[name]
    return True, value


def _equal(value: object, wanted: object) -> bool:
    numbers = type(value) in _NUMBER and type(wanted) in _NUMBER
    if not numbers and type(value) is not type(wanted):
        # For example text and number: the author of the condition expected another type.
        raise UndecidableCondition(
            f"{_argument_text(value):.80}, which cannot be compared with {describe_value(wanted)}"
        )
    return value == wanted


def _compare_ordered(compare: Callable[[Any, Any], bool]) -> Test:
    def test(value: object, wanted: object) -> bool:
        numbers = type(value) in _NUMBER and type(wanted) in _NUMBER
        endless = type(value) is float and not math.isfinite(value)  # NaN has no order
        if endless or (not numbers and not (type(value) is str and type(wanted) is str)):
            raise UndecidableCondition(
                f"{_argument_text(value):.80}, which cannot be compared with {describe_value(wanted)}"
            )
        return compare(value, wanted)

    return test


def _compare_texts(compare: Callable[[str, str], bool]) -> Test:
    def test(value: object, wanted: object) -> bool:
        if type(value) is not str:
            raise UndecidableCondition(f"{_argument_text(value):.80}, which is not a text")
        return compare(value, str(wanted))

    return test


def _is_member(value: object, wanted: object) -> bool:
    unknowable: UndecidableCondition | None = None
    for each in cast("Sequence[object]", wanted):
        try:
            if _equal(value, each):
                return True
        except UndecidableCondition as problem:
            unknowable = problem
    if unknowable is not None:
        raise unknowable
    return False


_ORDERED: dict[str, Test] = {
    "gt": _compare_ordered(lambda value, wanted: value > wanted),
    "ge": _compare_ordered(lambda value, wanted: value >= wanted),
    "lt": _compare_ordered(lambda value, wanted: value < wanted),
    "le": _compare_ordered(lambda value, wanted: value <= wanted),
}
_TEXTUAL: dict[str, Test] = {
    "starts_with": _compare_texts(str.startswith),
    "ends_with": _compare_texts(str.endswith),
    "contains": _compare_texts(lambda value, wanted: wanted in value),
    "glob": _compare_texts(fnmatch.fnmatchcase),
}
OPERATORS: dict[str, Test] = {
    "eq": _equal,
    "ne": lambda value, wanted: not _equal(value, wanted),
    **_ORDERED,
    "in": _is_member,
    "not_in": lambda value, wanted: not _is_member(value, wanted),
    **_TEXTUAL,
    "exists": lambda value, wanted: value is wanted,  # never called: `_test` answers it
}


_IN_WORDS: Mapping[str, str] = {
    "eq": "is",
    "ne": "is not",
    "gt": "is more than",
    "ge": "is at least",
    "lt": "is less than",
    "le": "is at most",
    "in": "is one of",
    "not_in": "is none of",
    "starts_with": "starts with",
    "ends_with": "ends with",
    "contains": "contains",
    "glob": "matches",
}


def check_template(text: str, place: str) -> str:
    """Refuse a template with a placeholder that no argument could fill."""
    for hole in _HOLE.findall(text):
        if not _PATH.fullmatch(hole):
            reject(f"{place} has the hole {{{hole}}}; name an argument as `{{args.amount}}`")
    return text


def fill(text: str, args: Mapping[str, Any]) -> str:
    """Fill a template with arguments; long ones are truncated, missing ones shown as such."""

    def value(match: re.Match[str]) -> str:
        if not _PATH.fullmatch(match[1]):
            return match[0]
        try:
            found, value = _lookup_argument(args, match[1])
        except UndecidableCondition:
            found, value = False, None
        shown = (value if type(value) is str else _argument_text(value)) if found else f"<no {match[1]}>"
        return shorten(shown, _LONGEST)

    return _HOLE.sub(value, text)


def _argument_text(value: object) -> str:
    """Return an argument as text; `repr` of anything but plain data would run foreign code."""
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return "{" + ", ".join(f"{_argument_text(key)}: {_argument_text(item)}" for key, item in items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_argument_text, cast("Sequence[object]", value))) + "]"
    if value is None or type(value) is str:
        return repr(value)
    return describe_value(value) if type(value) in (bool, *_NUMBER) else f"<{type(value).__name__}>"
