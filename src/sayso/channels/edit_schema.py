"""Validation of edited arguments by the JSON Schema of the tool, with a step limit against hostile schemas.

Tests: tests/adapters/test_parameters.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, cast

try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, ValidationError, best_match  # pyright: ignore - half typed
    from jsonschema.validators import extend  # pyright: ignore - half typed
    from referencing import Registry
    from referencing.exceptions import Unresolvable
except ImportError as error:
    raise ImportError("edited arguments cannot be checked; run `pip install sayso[cli]`") from error


_MOST_STEPS = 20_000
_LONGEST = 300  # characters of the message, which quotes the value
_steps_left: ContextVar[int] = ContextVar("sayso_fitting_left")


class TooManySteps(Exception):
    """The step limit was reached: a few references in a schema can cause billions of steps."""


def _step_limited(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def check(*given: object) -> Any:  # noqa: ANN401 - as jsonschema has it
        left = _steps_left.get() - 1
        if left < 0:
            raise TooManySteps
        _steps_left.set(left)
        return keyword(*given)

    return check


def _ignored(*_: object) -> tuple[()]:
    return ()


def _additional(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ANN401 - as jsonschema has it
    if "patternProperties" not in schema:
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, wanted, instance, schema)


_STEP_LIMITED = {name: _step_limited(keyword) for name, keyword in Draft202012Validator.VALIDATORS.items()}
_VALIDATOR = extend(  # pyright: ignore - half typed
    Draft202012Validator,
    _STEP_LIMITED
    | {
        "pattern": _ignored,
        "patternProperties": _ignored,
        "unevaluatedItems": _ignored,
        "unevaluatedProperties": _ignored,
        "uniqueItems": _ignored,
        "additionalProperties": _step_limited(_additional),
    },
)


_BROKEN = (  # errors that an invalid schema can cause
    *(TooManySteps, SchemaError, Unresolvable, RecursionError),
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
)


def schema_violation(args: Mapping[str, Any], parameters: str) -> str | None:
    """Return why arguments violate the JSON Schema of the tool, or None; without a schema everything passes.

    Policy and tool judge the arguments again where the call runs. The schema comes from the agent, so keywords without
    a time limit, such as regular expressions, are ignored.
    """
    if not parameters:
        return None
    # An empty registry: a schema must not make this process fetch a URL.
    try:
        _steps_left.set(_MOST_STEPS)
        kind = cast("type[Draft202012Validator]", _VALIDATOR)
        validator = kind(json.loads(parameters), registry=Registry[Any]())
        problem = cast("ValidationError | None", best_match(validator.iter_errors(dict(args))))  # pyright: ignore - half typed
    except _BROKEN as error:
        return f"the tool's own schema cannot be used ({type(error).__name__}), so an edit cannot be checked"
    if problem is None:
        return None
    place = ".".join(str(each) for each in problem.absolute_path)
    what = f"{place}: {problem.message}" if place else problem.message
    return what if len(what) <= _LONGEST else f"{what[:_LONGEST]}…"
