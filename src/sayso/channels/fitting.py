"""Whether arguments that a person has edited fit the tool, by the JSON Schema that came with the question."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, ValidationError, best_match  # pyright: ignore - half typed
    from jsonschema.validators import extend  # pyright: ignore - half typed
    from referencing import Registry
    from referencing.exceptions import Unresolvable
except ImportError as error:
    raise ImportError("edited arguments cannot be checked; run `pip install sayso[cli]`") from error


def _ignored(*_: object) -> tuple[()]:
    return ()


def _additional(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ANN401 - as jsonschema has it
    if "patternProperties" not in schema:
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, wanted, instance, schema)


_WITHOUT_PATTERNS = extend(  # pyright: ignore - half typed
    Draft202012Validator,
    {
        "pattern": _ignored,
        "patternProperties": _ignored,
        "unevaluatedProperties": _ignored,
        "additionalProperties": _additional,
    },
)


def misfit(args: Mapping[str, Any], parameters: str, *, patterns: bool = True) -> str | None:
    """Say why these arguments do not fit the tool, if they do not; without a schema, everything fits here.

    Whatever is let through is judged where the call runs all the same. Without `patterns`, no regular expression of the
    schema is tried: one can be made to take years, and whoever serves others cannot wait for it.
    """
    if not parameters:
        return None
    # An empty registry: a schema must not make whoever looks at it fetch an address.
    try:
        kind = cast("type[Draft202012Validator]", Draft202012Validator if patterns else _WITHOUT_PATTERNS)
        validator = kind(json.loads(parameters), registry=Registry[Any]())
        problem = cast("ValidationError | None", best_match(validator.iter_errors(dict(args))))  # pyright: ignore - half typed
    except (SchemaError, Unresolvable, ValueError, TypeError, RecursionError) as error:
        return f"the tool's own schema cannot be used ({type(error).__name__}), so an edit cannot be checked"
    if problem is None:
        return None
    place = ".".join(str(each) for each in problem.absolute_path)
    return f"{place}: {problem.message}" if place else problem.message
