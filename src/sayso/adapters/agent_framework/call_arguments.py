"""Arguments of one call: as the framework passes them, as people see them, and as the function gets them.

Tests: tests/adapters/agent_framework/test_arguments.py
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_framework import FunctionTool
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined, to_jsonable_python

from sayso.adapters.kit import fill_defaults
from sayso.core.canonical import freeze, is_same_value, thaw

_MISFIT = "the edited arguments do not fit the tool"


class CallArguments:
    """The arguments of one call of a tool, with the defaults that it leaves out."""

    def __init__(self, tool: FunctionTool, given: object) -> None:
        """Take what the framework is about to pass.

        Raises:
            ValidationError: it does not fit the tool.
            ValueError: it cannot be shown.
        """
        self._model = tool.input_model
        passed = _mapping(given)
        if self._model is not None:
            self._model.model_validate(passed, by_alias=False, by_name=True)
        self.passed = freeze(_plain(passed))
        self._values: dict[str, Any] = copy.deepcopy({**passed, **_defaults(tool, passed)})
        self.shown = freeze(_plain(self._values))

    def is_passed(self, args: Mapping[str, Any]) -> bool:
        """Whether these are the arguments that the framework was about to pass."""
        return is_same_value(freeze(_plain(args)), self.passed)

    def values(self, approved: Mapping[str, Any]) -> dict[str, Any]:
        """Return approved arguments in the types that the function declares."""
        if is_same_value(freeze(approved), self.shown):
            return copy.deepcopy(self._values)
        return thaw(approved) if self._model is None else _validated(self._model, approved)

    def misfit(self, edited: Mapping[str, Any]) -> str | None:
        """Say why edited arguments do not fit: they are invalid, or the function would read something else."""
        if self._model is None:
            return None
        try:
            read = _plain(_validated(self._model, edited))
        except ValidationError as error:
            return f"{_MISFIT}: {problems_of(error)}"
        return None if is_same_value(freeze(read), freeze(edited)) else f"{_MISFIT}, which would read them as {read}"


def problems_of(error: ValidationError) -> str:
    """Return what is wrong with arguments, in one line."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)


def _mapping(given: object) -> dict[str, Any]:
    if isinstance(given, BaseModel):
        return given.model_dump(exclude_unset=True)
    if not isinstance(given, Mapping):
        raise ValueError("they are no object")  # noqa: TRY004 - told to the model like other bad input
    return dict(cast("Mapping[str, Any]", given))


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON: a date as its text, as the model wrote it."""
    return {name: _plain_value(value) for name, value in args.items()}


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - any value of any tool
    """Return a value as JSON; a set in one order, since another process would go through it in another one."""
    if isinstance(value, Mapping):
        return _plain(cast("Mapping[str, Any]", value))
    if isinstance(value, list | tuple):
        return [_plain_value(each) for each in cast("Sequence[object]", value)]
    if isinstance(value, set | frozenset):
        return sorted((_plain_value(each) for each in cast("set[object]", value)), key=json.dumps)
    return to_jsonable_python(value)


def _validated(model: type[BaseModel], args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as the framework would pass them; they are named as the function's parameters are."""
    return model.model_validate(thaw(args), by_alias=False, by_name=True).model_dump(exclude_unset=True)


def _defaults(tool: FunctionTool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of what is left out, which a person is shown and the function is given."""
    if tool.input_model is None:
        return fill_defaults(given, tool.parameters())
    fields = tool.input_model.model_fields
    found = {name: cast("object", field.default) for name, field in fields.items() if name not in given}
    return {name: value for name, value in found.items() if value is not None and _can_be_shown(value)}


def _can_be_shown(value: object) -> bool:
    """Whether a default is plain data, and not an object by which the function knows that nothing was given."""
    try:
        to_jsonable_python(value)
    except ValueError:
        return False
    return value is not PydanticUndefined
