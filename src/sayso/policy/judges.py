"""Adapters for approval functions: each known signature becomes a judge, a function from a call to a verdict.

    needs_approval(call)              sayso's own; None means no opinion
    needs_approval(name, args)        a toolset's: False, True, or a dict with a description
    needs_approval(name, args, ctx[, config])  the same, with the framework's context and the configured tools
    needs_approval(args[, options])   a tool's: False or True
    check_approval(name, args, memory)  a toolset's, with memory: None, a request, or PermissionError

All may be async. A function that raises, or returns something else, blocks the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from sayso.core.canonical import thaw
from sayso.core.model import ApprovalPresentation, ApprovalRequest, Rule, ToolCall, Verdict
from sayso.policy.vocabulary import as_mapping, check_keys, parse_text, reject

Judge = Callable[[ToolCall], "Awaitable[Verdict | None] | Verdict | None"]

_DETAILS = ("description", "payload", "metadata", "presentation")
_CALLS = ("call", "_")
_NAMES = ("name", "tool_name", "tool")
_ARGS = ("args", "tool_args", "arguments", "kwargs", "input")
_OPTIONS = ("options", "opts", "ctx", "context", "_")
_EXTRAS = (("ctx", "context", "_ctx", "_"), ("config", "_config", "_"))
_SIGNATURES = "(call), (name, args), (args) or (args, options)"


def wrap_needs_approval(function: Callable[..., Any], rule: Rule, *extras: object) -> Judge:
    """Adapt a `needs_approval` function of any known signature to a judge.

    `extras` are what a toolset's function may also take: the framework's context, then the configured tools.
    """
    if not callable(function):
        reject(f"{rule} has needs_approval {function!r}; use True, False or a function of {_SIGNATURES}")
    arguments = _match_signature(function, rule, extras)

    async def judge(call: ToolCall) -> Verdict | None:
        answer = function(*arguments(call))
        return _verdict_from_answer(await answer if inspect.isawaitable(answer) else answer, rule, arguments)

    return judge


def wrap_check_approval(function: Callable[..., Any], memory: object, rule: Rule) -> Judge:
    """Adapt a toolset's `check_approval(name, args, memory)` to a judge."""

    async def judge(call: ToolCall) -> Verdict:
        answer = function(call.tool, thaw(call.args), memory)
        return _verdict_from_check(await answer if inspect.isawaitable(answer) else answer, rule)

    return judge


async def call_rule(judge: Judge, call: ToolCall, rule: Rule) -> Verdict | None:
    """Call a judge, failing closed: an exception or an invalid result blocks the call."""
    try:
        answer = judge(call)
        verdict = await answer if isinstance(answer, Awaitable) else answer
    except PermissionError as error:
        return Verdict(approval="blocked", reason=str(error) or "the tool refuses this call", rule=rule)
    except Exception as error:  # noqa: BLE001 - a judge is the user's code and may raise anything
        reason = f"the rule {rule} raised {type(error).__name__}: {error}"
        return Verdict(approval="blocked", reason=reason, rule=rule)
    if verdict is None or isinstance(verdict, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
        return verdict
    reason = f"the rule {rule} returned {verdict!r} instead of a Verdict"
    return Verdict(approval="blocked", reason=reason, rule=rule)


def _by_call(call: ToolCall) -> tuple[Any, ...]:
    return (call,)


def _by_name(call: ToolCall) -> tuple[Any, ...]:
    return (call.tool, thaw(call.args))


def _by_args(call: ToolCall) -> tuple[Any, ...]:
    return (thaw(call.args),)


def _by_options(call: ToolCall) -> tuple[Any, ...]:
    options = {"tool_call_id": call.call_id, "tool_name": call.tool, "session": call.session}
    return (thaw(call.args), options)


def _by_name_with(*extras: object) -> Callable[[ToolCall], tuple[Any, ...]]:
    return lambda call: (*_by_name(call), *extras)


def _match_signature(
    function: Callable[..., Any], rule: Rule, extras: tuple[object, ...]
) -> Callable[[ToolCall], tuple[Any, ...]]:
    forms = dict(_FORMS)
    for count in range(1, len(extras) + 1):
        forms[_NAMES, _ARGS, *_EXTRAS[:count]] = _by_name_with(*extras[:count])
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    # With a wrong guess, a function would get other arguments than it expects, and might return "no approval needed".
    named = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
    if all(each.kind in _POSITIONAL for each in named):
        for given in (named, [each for each in named if each.default is each.empty]):
            for form, arguments in forms.items():
                if _fits_signature([each.name for each in given], form):
                    return arguments
    known = f"{_SIGNATURES}; or (name, args, ctx) or (name, args, ctx, config)" if extras else _SIGNATURES
    reject(f"{rule} has a needs_approval function that takes ({', '.join(map(str, parameters))}); use {known}")


def _fits_signature(names: list[str], form: tuple[tuple[str, ...], ...]) -> bool:
    return len(names) == len(form) and all(name in known for name, known in zip(names, form, strict=True))


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_FORMS: dict[tuple[tuple[str, ...], ...], Callable[[ToolCall], tuple[Any, ...]]] = {
    (_CALLS,): _by_call,
    (_NAMES, _ARGS): _by_name,
    (_ARGS,): _by_args,
    (_ARGS, _OPTIONS): _by_options,
}


def _verdict_from_answer(answer: object, rule: Rule, arguments: object) -> Verdict | None:
    if isinstance(answer, Verdict):
        return answer
    if answer is None and arguments is _by_call:
        return None
    if isinstance(answer, bool):
        approval = "required" if answer else "none"
        return Verdict(approval=approval, reason=f"{rule} says so", rule=rule)
    if isinstance(answer, dict):
        return _verdict_from_dict(cast("dict[str, Any]", answer), rule)
    reject(f"needs_approval returned {answer!r}; return True, False, a dict with a description, or a Verdict")


def _verdict_from_dict(details: Mapping[str, Any], rule: Rule) -> Verdict:
    check_keys(details, _DETAILS, "the dict that needs_approval returned")
    presentation = details.get("presentation")
    if isinstance(presentation, dict):
        presentation = ApprovalPresentation(**cast("dict[str, Any]", presentation))
    if not isinstance(presentation, ApprovalPresentation | None):
        reject(f"presentation is {presentation!r}; use an ApprovalPresentation or a dict of its fields")
    for name in ("payload", "metadata"):
        if details.get(name) is not None:
            as_mapping(details[name], name)
    description = details.get("description")
    return Verdict(
        approval="required",
        reason=f"{rule} says so",
        rule=rule,
        description=None if description is None else parse_text(description, "description"),
        payload=details.get("payload"),
        metadata=details.get("metadata"),
        presentation=presentation,
    )


def _verdict_from_check(answer: object, rule: Rule) -> Verdict:
    if answer is None:
        return Verdict(approval="none", reason=f"{rule} needs no approval", rule=rule)
    if not isinstance(answer, ApprovalRequest):
        reject(f"check_approval returned {answer!r}; return None or an ApprovalRequest, or raise PermissionError")
    return verdict_from_request(answer, rule)


def verdict_from_request(request: ApprovalRequest, rule: Rule) -> Verdict:
    """Convert a request that a function has built into a verdict: ask, with this description and payload."""
    return Verdict(
        approval="required",
        reason=f"{rule} asks",
        rule=rule,
        description=request.description or request.summary,
        payload=request.payload,
        metadata=request.metadata,
        presentation=request.presentation,
    )
