"""Arguments are bound to parameters as Python binds them, whatever the kinds of the parameters."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.adapters.binding import ParameterBinding


def plain(a: Any, b: Any, c: Any = 3) -> Any: ...
def keyword(a: Any, *, b: Any, c: Any = 3) -> Any: ...
def positional(a: Any, /, b: Any = 2, *, c: Any = 3) -> Any: ...
def variadic(a: Any, *b: Any, c: Any = 3, **others: Any) -> Any: ...
def nothing() -> Any: ...
def swapped(c: Any = 1, *, a: Any = 2, b: Any) -> Any: ...


FUNCTIONS: list[Callable[..., Any]] = [plain, keyword, positional, variadic, nothing, swapped]
ARGS = st.lists(st.integers(), max_size=4)
KWARGS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers())


def bound(bind: Callable[..., Any], *args: Any) -> Any:
    """Return the arguments in their order, or the words of the error."""
    try:
        return list(bind(*args).items())
    except TypeError as error:
        return str(error)


def as_python_binds(signature: inspect.Signature, args: list[int], kwargs: dict[str, int]) -> dict[str, Any]:
    known = signature.bind(*args, **kwargs)
    known.apply_defaults()
    return known.arguments


@given(st.sampled_from(FUNCTIONS), ARGS, KWARGS)
def test_a_call_is_bound_as_python_binds_it(
    function: Callable[..., Any], args: list[int], kwargs: dict[str, int]
) -> None:
    signature = inspect.signature(function)
    assert bound(ParameterBinding(signature).bind, args, kwargs) == bound(as_python_binds, signature, args, kwargs)


@given(st.sampled_from(FUNCTIONS), ARGS, KWARGS)
def test_what_was_bound_calls_the_function_as_it_was_called(
    function: Callable[..., Any], args: list[int], kwargs: dict[str, int]
) -> None:
    binding = ParameterBinding(inspect.signature(function))
    try:
        given_arguments = binding.bind(args, kwargs)
    except TypeError:
        return

    def called(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return as_python_binds(binding.signature, list(args), kwargs)

    assert binding.call(called, given_arguments) == given_arguments


@pytest.mark.parametrize("left_out", ["a", "c"])
def test_an_argument_that_was_edited_away_gets_its_default_or_is_missing(left_out: str) -> None:
    named = {"a": 1, "b": 2, "c": 4}
    del named[left_out]

    def pay(a: int, b: int, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    binding = ParameterBinding(inspect.signature(pay))
    if left_out == "c":
        assert binding.call(pay, named) == (1, 2, 3)
    else:
        with pytest.raises(TypeError, match="missing"):
            binding.call(pay, named)
