"""Guarding plain functions: `@requires_approval` marks one, `guard` puts any one behind a controller."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Literal, NamedTuple, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from sayso.adapters import parameters
from sayso.adapters.binding import ParameterBinding
from sayso.adapters.previewing import apply_preview
from sayso.core.callables import is_async
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied, Preview, Rule, ToolCall, Verdict
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.engine.settings import check_kind
from sayso.errors import ConfigurationError, UnknownRequest
from sayso.policy import judges
from sayso.policy.policy import ToolRules

P = ParamSpec("P")
T = TypeVar("T")
OnDenied = Literal["raise", "return"]

_SELVES = ("self", "cls")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # differs from process to process


class GuardSettings(TypedDict, total=False):
    """How a function is guarded.

    `name` is the name of the tool, by default that of the function; `description` is shown to people, by
    default the first line of the docstring; `payload` lists
    the arguments that key a remembered decision, by default all, and `exclude_keys` those that do not; `unseen` lists
    parameters that are passed on without being shown, bound or stored, such as a database connection;
    `needs_approval` is called for each call, instead of asking always; `preview` is called with the same arguments
    before a person is asked, and returns a `Preview` of the effects of the call.
    """

    name: str
    description: str
    payload: Iterable[str]
    exclude_keys: Iterable[str]
    unseen: Iterable[str]
    needs_approval: Callable[..., Any]
    preview: Callable[..., Preview | Awaitable[Preview]]


@overload
def requires_approval(function: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def requires_approval(**settings: Unpack[GuardSettings]) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def requires_approval(function: Callable[..., Any] | None = None, /, **settings: Unpack[GuardSettings]) -> Any:
    """Mark a function, sync or async: under a controller, a person has to approve its calls.

    With no controller in context the function runs as if it were not marked, so it stays testable; adapters of
    frameworks find the mark and ask in their own way. The settings are those of `GuardSettings`.
    """

    def marked(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - the same kind of function
        return _guard_function(function, None, settings, mark=True, on_denied="raise")

    return marked if function is None else marked(function)


@overload
def guard(
    function: Callable[P, Coroutine[Any, Any, T]],
    controller: ApprovalController | None = None,
    *,
    on_denied: Literal["return"],
    **settings: Unpack[GuardSettings],
) -> Callable[P, Coroutine[Any, Any, T | str]]: ...
@overload
def guard(
    function: Callable[P, T],
    controller: ApprovalController | None = None,
    *,
    on_denied: Literal["return"],
    **settings: Unpack[GuardSettings],
) -> Callable[P, T | str]: ...
@overload
def guard(
    function: Callable[P, T],
    controller: ApprovalController | None = None,
    *,
    on_denied: Literal["raise"] = "raise",
    **settings: Unpack[GuardSettings],
) -> Callable[P, T]: ...
def guard(
    function: Callable[..., Any],
    controller: ApprovalController | None = None,
    *,
    on_denied: OnDenied = "raise",
    **settings: Unpack[GuardSettings],
) -> Callable[..., Any]:
    """Return the function behind a controller, whose policy decides about each call.

    Without `controller` it uses the active one, and raises if there is none. `on_denied="return"` returns the sentence
    for the model instead of raising. The other settings are those of `GuardSettings`.
    """
    if on_denied not in {"raise", "return"}:
        raise ConfigurationError(f"on_denied is {on_denied!r}; use 'raise' or 'return'")
    return _guard_function(function, controller, settings, mark=False, on_denied=on_denied)


async def resume(
    function: Callable[..., Any],
    request_id: str,
    *,
    controller: ApprovalController | None = None,
    unseen: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401 - what the function returns
    """Run a guarded function for a request that was opened earlier, perhaps by another process.

    Raises:
        ApprovalError: the call must not run; `ApprovalPending` if the request is open and the mode is `defer`.
    """
    tool = getattr(function, "__sayso__", None)
    if not isinstance(tool, Tool):
        raise ConfigurationError(f"{function!r} is not guarded; pass what `guard` or `@requires_approval` returned")
    controller = controller or tool.controller or context.current_controller()
    if controller is None:
        raise ConfigurationError("no controller is in context; pass controller=…")
    passed = tool.resolve_unseen(function, unseen or {})
    request = await controller.store.get(request_id)
    if request is None:
        raise UnknownRequest(f"no request has the id {request_id!r}")
    if request.tool_name != tool.name:
        raise ConfigurationError(f"request {request_id!r} asks about {request.tool_name!r}, not about {tool.name!r}")
    call = msgspec.structs.replace(request.call(), schema_hash=tool.schema_hash)
    outcome = await controller.settle(call, context.tighten(tool.rules), asked=True)
    if isinstance(outcome, Denied):
        return _raise_or_return(outcome, tool)
    with controller.adapter.execution(call, outcome) as running:
        result = tool.invoke(outcome, passed)
        running.result = await result if inspect.isawaitable(result) else result
    return running.result


class _PreparedCall(NamedTuple):
    """A call before its decision: its controller, the call, and the arguments that the caller passed."""

    controller: ApprovalController
    call: ToolCall
    passed: Mapping[str, Any]


class Tool:
    """A function as a tool: its name, its rules, and the conversion of its arguments to a call and back."""

    def __init__(
        self,
        function: Callable[..., Any],
        controller: ApprovalController | None,
        settings: GuardSettings,
        *,
        mark: bool,
        on_denied: OnDenied,
    ) -> None:
        known = GuardSettings.__annotations__
        for key in settings:
            if key not in known:
                raise TypeError(f"unknown setting {key!r}; known: {', '.join(known)}")
        if not callable(function):
            raise ConfigurationError(f"{function!r} is not a function; the function comes first, then the controller")
        if controller is not None:
            check_kind(controller, ApprovalController, "controller")
        for key in ("payload", "exclude_keys", "unseen"):
            if isinstance(settings.get(key), str):
                raise ConfigurationError(f"{key} is the text {settings.get(key)!r}; use a list of parameter names")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                f"{_function_name(function)} is a generator, whose work begins later; guard what it calls"
            )
        self.function, self.controller, self.settings = function, controller, settings
        self.marked, self.on_denied = mark, on_denied
        self.name = settings.get("name") or _function_name(function)
        self.signature = _signature(function)
        self._binding = ParameterBinding(self.signature)
        names = list(self.signature.parameters)
        unseen = settings.get("unseen", ())
        self.hidden = {*unseen, *(each for each in names[:1] if each in _SELVES and _is_method(function))}
        self.defaults = {
            name: parameter.default
            for name, parameter in self.signature.parameters.items()
            if parameter.default is not parameter.empty and name not in self.hidden
        }
        self._keys = _payload_keys(self.name, names, settings, self.hidden)
        self.schema_hash = _schema_hash(self.signature, self.hidden)
        judge, rule = settings.get("needs_approval"), Rule(source="function", key=self.name)
        self.rules = ToolRules(
            judge=None if judge is None else judges.wrap_needs_approval(judge, rule),
            marked=mark,
            details=self.details,
            misfit=self.misfit,
            parameters=lambda: self._schema,
        )

    @functools.cached_property
    def _schema(self) -> str:
        return parameters.function_schema(self.function, self.signature, self.hidden)

    def is_only_a_mark(self) -> bool:
        """Whether it is marked, without a controller of its own."""
        return self.marked and self.controller is None

    async def details(self, call: ToolCall) -> Verdict:
        """Return the verdict of the mark, with the description, payload and preview of the call."""
        payload = None if self._keys is None else {key: call.args[key] for key in self._keys if key in call.args}
        verdict = Verdict(
            approval="required",
            reason=f"{self.name} is marked with @requires_approval",
            rule=Rule(source="@requires_approval", key=self.name),
            description=self.settings.get("description") or doc_line(self.function),
            payload=payload,
        )
        preview = self.settings.get("preview")
        return verdict if preview is None else await apply_preview(preview, call, verdict)

    def prepare_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _PreparedCall | None:
        """Return the call to decide about, or None if it is pre-approved, or marked without an active controller."""
        controller = self.controller or context.current_controller()
        if controller is None and self.marked:
            return None
        if controller is None:
            raise ConfigurationError(f"{self.name} is guarded, but no controller is in context; pass one to `guard`")
        passed = self._binding.bind(args, kwargs)
        call = self.build_call(passed, controller)
        if context.consume_pre_approval(controller, call, self.defaults):
            return None
        return _PreparedCall(controller, call, passed)

    def misfit(self, args: Mapping[str, Any]) -> str | None:
        """Return why the function does not accept these arguments, or None."""
        for key in args:
            if key not in self.signature.parameters or key in self.hidden:
                return f"{self.name} has no argument {key!r}"
        for key, parameter in self.signature.parameters.items():
            needed = parameter.default is parameter.empty and parameter.kind not in _VARIADIC
            if needed and key not in args and key not in self.hidden:
                return f"{self.name} needs the argument {key!r}"
        return next(filter(None, (self._mistyped(name, value) for name, value in args.items())), None)

    def _mistyped(self, name: str, value: object) -> str | None:
        kinds = _VARIADIC.get(self.signature.parameters[name].kind)
        if kinds is not None:
            return None if isinstance(value, kinds) else f"{self.name} takes several values as {name!r}"
        try:
            msgspec.convert(thaw({"": value})[""], self._hints.get(name, Any))
        except msgspec.ValidationError as error:
            return f"{self.name} takes no such {name!r}: {error}"
        except (TypeError, ValueError, AttributeError):  # a type that only its own library can check
            return None
        return None

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        return parameters.type_hints(self.function, constraints=False)  # a pattern may take years to try

    def build_call(self, passed: Mapping[str, Any], controller: ApprovalController) -> ToolCall:
        """Return the call with these arguments, but for those that people do not see."""
        return ToolCall(
            tool=self.name,
            args={key: value for key, value in passed.items() if key not in self.hidden} if self.hidden else passed,
            session=context.current_session() or controller.session,
            agent_path=context.agent_path(),
            schema_hash=self.schema_hash,
        )

    def resolve_unseen(self, function: Callable[..., Any], unseen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the unseen arguments, which no store keeps, or raise if one is missing."""
        owner = getattr(function, "__self__", None)
        given = {**{name: owner for name in self.hidden if name in _SELVES and owner is not None}, **unseen}
        unknown = [name for name in given if name not in self.hidden]
        needed = [name for name in self.hidden if self.signature.parameters[name].default is inspect.Parameter.empty]
        missing = [name for name in needed if name not in given]
        if unknown or missing:
            problem = f"does not hide {unknown[0]!r}" if unknown else f"needs {missing[0]!r}, which is not stored"
            raise ConfigurationError(f"{self.name} {problem}; pass unseen={{…}} with {sorted(self.hidden)}")
        return given

    def invoke(self, outcome: Approved, passed: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the function's result
        """Call the function with the approved and the unseen arguments."""
        # Of the caller's own arguments only the unseen ones: an argument that was edited away is gone.
        given = thaw(outcome.args)
        if self.hidden:
            given |= {key: value for key, value in passed.items() if key in self.hidden}
        return self._binding.call(self.function, given)


_VARIADIC = {inspect.Parameter.VAR_POSITIONAL: (list, tuple), inspect.Parameter.VAR_KEYWORD: (Mapping,)}


def _guard_function(
    function: Callable[..., Any],
    controller: ApprovalController | None,
    settings: GuardSettings,
    *,
    mark: bool,
    on_denied: OnDenied,
) -> Any:  # noqa: ANN401 - the same kind of function
    inner = getattr(function, "__sayso__", None)
    if isinstance(inner, Tool) and inner.is_only_a_mark() and "needs_approval" not in settings:
        # One question is enough, with the settings of both. An existing guard is never removed.
        function, mark, settings = inner.function, True, {**inner.settings, **settings}
    tool = Tool(function, controller, settings, mark=mark, on_denied=on_denied)

    @functools.wraps(function)
    async def guarded_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own
        prepared = tool.prepare_call(args, kwargs)
        if prepared is None:
            return await function(*args, **kwargs)
        outcome = await prepared.controller.settle(prepared.call, context.tighten(tool.rules))
        if isinstance(outcome, Denied):
            return _raise_or_return(outcome, tool)
        with prepared.controller.adapter.execution(prepared.call, outcome) as running:
            running.result = await tool.invoke(outcome, prepared.passed)
        return running.result

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own
        prepared = tool.prepare_call(args, kwargs)
        if prepared is None:
            return function(*args, **kwargs)
        outcome = prepared.controller.settle_sync(prepared.call, context.tighten(tool.rules))
        if isinstance(outcome, Denied):
            return _raise_or_return(outcome, tool)
        with prepared.controller.adapter.execution(prepared.call, outcome) as running:
            running.result = tool.invoke(outcome, prepared.passed)
        return running.result

    marked = cast("Any", guarded_async if is_async(function) else guarded)
    marked.__sayso__ = tool
    marked._requires_approval = mark  # noqa: SLF001 - the attribute by which other wrappers look for the mark
    return marked


def _raise_or_return(outcome: Denied, tool: Tool) -> str:
    if tool.on_denied == "return":
        return outcome.message
    raise outcome.error(tool.name)


def _payload_keys(tool: str, names: list[str], settings: GuardSettings, hidden: set[str]) -> list[str] | None:
    """Return the arguments that key a remembered decision, or None for all of them."""
    wanted = list(settings["payload"]) if "payload" in settings else None
    unwanted = set(settings.get("exclude_keys", ()))
    for name in (*(wanted or ()), *unwanted, *hidden):
        if name not in names:
            raise ConfigurationError(f"{tool} has no parameter {name!r} (in payload, exclude_keys or unseen)")
    if wanted is None and not unwanted:
        return None
    return [name for name in (names if wanted is None else wanted) if name not in unwanted and name not in hidden]


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{function!r} cannot be guarded: {error}; wrap it in a function of your own"
        ) from error


def doc_line(function: Callable[..., Any]) -> str | None:
    """Return the first line of a function's docstring."""
    return first_line(inspect.getdoc(_without_partial(function)))


def first_line(text: str | None) -> str | None:
    """Return the first line of a description, or None if there is none."""
    return (text or "").strip().partition("\n")[0] or None


def _function_name(function: Callable[..., Any]) -> str:
    function = _without_partial(function)
    return getattr(function, "__name__", type(function).__name__)


def _without_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = cast("Callable[..., Any]", function.func)
    return function


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether the function was defined in a class, so that its first parameter is the object."""
    return "." in getattr(function, "__qualname__", "").rpartition("<locals>.")[2]


def _schema_hash(signature: inspect.Signature, hidden: set[str]) -> str:
    shape = [
        f"{parameter.kind.value}:{parameter.name}:{_ADDRESS.sub('', str(parameter.annotation))}"
        for parameter in signature.parameters.values()
        if parameter.name not in hidden
    ]
    return hashlib.sha256("\n".join(shape).encode()).hexdigest()[:16]
