"""Binding of the arguments of a call to the parameters of a function, and back to a call of it.

`inspect.Signature` binds any call, and takes longer for it than all of the decision. Most functions have parameters of
two kinds only, which need no more than their names.

Tests: tests/adapters/test_binding.py
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_EMPTY = inspect.Parameter.empty
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_NAMED = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, _KEYWORD})


class ParameterBinding:
    """The parameters of a function, to which the arguments of its calls are bound."""

    def __init__(self, signature: inspect.Signature) -> None:
        """Read the parameters of a signature."""
        self.signature = signature
        known = signature.parameters
        self._positional = [name for name, each in known.items() if each.kind is not _KEYWORD]
        self._keywords = [name for name, each in known.items() if each.kind is _KEYWORD]
        self._defaults = {name: each.default for name, each in known.items() if each.default is not _EMPTY}
        self._is_named = all(each.kind in _NAMED for each in known.values())

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by the names of the parameters and in their order, defaults included.

        Raises:
            TypeError: the function takes no such call.
        """
        if self._is_named and len(args) <= len(self._positional):
            given = dict(zip(self._positional, args, strict=False))
            if given.keys().isdisjoint(kwargs):
                given |= kwargs
                bound = {
                    name: given[name] if name in given else self._defaults[name]
                    for name in self.signature.parameters
                    if name in given or name in self._defaults
                }
                if len(bound) == len(self.signature.parameters) and given.keys() <= bound.keys():
                    return bound
        slowly = self.signature.bind(*args, **kwargs)
        slowly.apply_defaults()
        return slowly.arguments

    def call(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the function's result
        """Call the function with arguments by name; those that are left out get their defaults."""
        if self._is_named and all(name in given for name in self._positional):
            named = {name: given[name] for name in self._keywords if name in given}
            return function(*[given[name] for name in self._positional], **named)
        names = (name for name in self.signature.parameters if name in given)
        bound = inspect.BoundArguments(self.signature, OrderedDict((name, given[name]) for name in names))
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)
