"""Custom tools: imports the `tools.py` of a worker and returns the functions that its file lists."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from sayso.config.read_file import FileSpec, Mark, check_size, file_error, read_bytes
from sayso.core.callables import is_async
from sayso.errors import Mistake, PolicyError, ToolError
from sayso.policy.vocabulary import suggest

try:
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry
except ImportError as error:
    raise ImportError("PydanticAI is not installed; run `pip install sayso[pydantic-ai]`") from error

_LONGEST = 200
_MEANT = (ToolError, ApprovalRequired, CallDeferred, ModelRetry)  # ways to say something, not failures
_FILE_SPEC = FileSpec(
    what="a file of tools",
    missing="write it, or take `custom_tools` out of the worker file",
    empty="write a function",
    start="start with a function",
    largest=1_000_000,
)
_NUMBERS = itertools.count(1)
# Cache of imported modules by path and content, so that repeated calls do not fill the memory.
_IMPORTED: dict[tuple[str, bytes], ModuleType] = {}


def load_tools(path: Path, names: Sequence[str]) -> list[Callable[..., Any]]:
    """Return the named functions of a `tools.py`, in this order.

    A function counts if the file defines it, or imports it and names it in its `__all__`. The current source is
    imported; `__pycache__` is neither read nor written.

    Raises:
        PolicyError: the file or a name is invalid.
    """
    module = _imported(path)
    problems = [problem for name in names if (problem := _problem(name, module))]
    if problems:
        raise PolicyError([Mistake(str(path), None, None, problem) for problem in problems])
    return [_failing_softly(vars(module)[name], path) for name in names]


def _failing_softly(function: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """Wrap the function: its errors become tool errors for the model, and do not end the run."""
    where = f"{function.__name__} of {path.name}"

    @functools.wraps(function)
    async def wrapped_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own
        with _errors_as_tool_errors(where):
            return await function(*args, **kwargs)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own
        with _errors_as_tool_errors(where):
            return function(*args, **kwargs)

    wrapper: Any = wrapped_async if is_async(function) else wrapped
    # A decision remembered for this function is not valid for one of the same name in another file or version.
    wrapper.__sayso_origin__ = hashlib.sha256(f"{path.absolute()}\0".encode() + path.read_bytes()).hexdigest()[:16]
    return wrapper


@contextmanager
def _errors_as_tool_errors(where: str) -> Generator[None]:
    try:
        yield
    except _MEANT:
        raise
    except (Exception, SystemExit) as error:
        raise ToolError(f"{where} failed: {type(error).__name__}: {error}") from error


def _problem(name: str, module: ModuleType) -> str | None:
    if name.startswith("_"):
        return f"{name!r} is private; give a tool a name that starts with a letter"
    if name not in vars(module):
        own = [each for each, value in vars(module).items() if _is_own(value, module) and not each.startswith("_")]
        return f"there is no function {name!r}{suggest(name, own) or '; there are ' + (', '.join(own) or 'none')}"
    value = vars(module)[name]
    if not inspect.isfunction(value):
        kind = "a class" if isinstance(value, type) else f"of the type {type(value).__name__!r}"
        return f"{name!r} is no function but {kind}; write `def {name}(…)` round it"
    if value.__name__ != name:  # the tool would be called otherwise than the rules about it
        return f"{name!r} is another name of {value.__name__!r}; list that one, or write `def {name}(…)` round it"
    exported = vars(module).get("__all__")
    if not _is_own(value, module) and not (isinstance(exported, list | tuple) and name in exported):
        return f"{name!r} comes from {value.__module__!r}; to give it to a worker, name it in `__all__`"
    return None


def _is_own(value: object, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _imported(path: Path) -> ModuleType:
    content = read_bytes(path, _FILE_SPEC)
    check_size(content, str(path), _FILE_SPEC)
    key = (str(path.absolute()), hashlib.sha256(content).digest())
    if key not in _IMPORTED:
        _IMPORTED[key] = _import(path, content)
    return _IMPORTED[key]


def _import(path: Path, content: bytes) -> ModuleType:
    module = ModuleType(f"sayso_tools_{next(_NUMBERS)}")
    module.__file__, module.__package__ = str(path.absolute()), ""
    sys.modules[module.__name__] = module  # where dataclasses and annotations look for the module of a function
    try:
        _execute(module, content, path)
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise
    return module


def _execute(module: ModuleType, content: bytes, path: Path) -> None:
    try:
        code = compile(content, str(module.__file__), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 - the owner wrote this file to be run
    except (Exception, SystemExit) as error:
        words = " ".join(str(traceback.TracebackException.from_exception(error)).split())
        problem = f"this cannot be imported ({type(error).__name__}: {words[:_LONGEST]}); correct it"
        raise file_error(str(path), problem, _mark(error, str(module.__file__))) from error


def _mark(error: BaseException, file: str) -> Mark | None:
    """Return the position in the file of the error, or of the call that led to it."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return Mark(error.lineno or 1, error.offset or 1)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return Mark(frames[-1].lineno or 1, (frames[-1].colno or 0) + 1) if frames else None
