"""The names of `pydantic-ai-blocking-approval` over sayso, so that the library's own tests can run against sayso.

Most names are sayso's own, as they are. Adapted is only this:

- `ApprovalRequest(tool_args=…)` is `ApprovalRequest(args=…)`;
- `ApprovalToolset` asks about every tool that `config` or `pre_approved` does not except, as each release does;
- `ApprovalResult` from a toolset's `needs_approval` becomes True, False or a `PermissionError`, and
  `get_approval_description` the description of the request;
- where a test calls `call_tool` with `None` for PydanticAI's context and tool, it gets real ones.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.usage import RunUsage

import sayso
from sayso import (
    ApprovalBlocked,
    ApprovalController,
    ApprovalDecision,
    ApprovalDenied,
    ApprovalError,
    ApprovalMemory,
    ApprovalPresentation,
    Policy,
    requires_approval,
)
from sayso.adapters import pydantic_ai as adapter

__all__ = [
    "ApprovalBlocked", "ApprovalController", "ApprovalDecision", "ApprovalDenied", "ApprovalError", "ApprovalMemory",
    "ApprovalPresentation", "ApprovalRequest", "ApprovalResult", "ApprovalToolset", "needs_approval_from_config",
    "requires_approval",
]  # fmt: skip

Configs = Mapping[str, Mapping[str, Any]]


def ApprovalRequest(*, tool_args: Mapping[str, Any] | None = None, **fields: Any) -> sayso.ApprovalRequest:  # noqa: N802 - the library's class
    """Return sayso's request."""
    return sayso.ApprovalRequest(args=tool_args or {}, **fields)


@dataclass(frozen=True)
class ApprovalResult:
    """What a toolset says about a call, from release 0.7 on."""

    status: str
    block_reason: str | None = None

    @classmethod
    def blocked(cls, reason: str) -> ApprovalResult:
        """The call must not run."""
        return cls("blocked", reason)

    @classmethod
    def pre_approved(cls) -> ApprovalResult:
        """The call runs unasked."""
        return cls("pre_approved")

    @classmethod
    def needs_approval(cls) -> ApprovalResult:
        """Somebody is asked."""
        return cls("needs_approval")

    is_blocked = property(lambda self: self.status == "blocked")
    is_pre_approved = property(lambda self: self.status == "pre_approved")
    is_needs_approval = property(lambda self: self.status == "needs_approval")


def needs_approval_from_config(name: str, config: Configs | None) -> ApprovalResult:
    """Return what the configuration alone says."""
    pre_approved = (config or {}).get(name, {}).get("pre_approved")
    return ApprovalResult.pre_approved() if pre_approved else ApprovalResult.needs_approval()


class ApprovalToolset(adapter.ApprovalToolset):
    """sayso's toolset, with the library's parameters and its default."""

    def __init__(
        self,
        inner: AbstractToolset[Any],
        approval_callback: Callable[[Any], Any] | None = None,
        memory: ApprovalMemory | None = None,
        pre_approved: Iterable[str] = (),
        config: Configs | None = None,
        *,
        prompt_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        excepted = [*(pre_approved or ()), *(name for name, each in (config or {}).items() if each.get("pre_approved"))]
        controller = ApprovalController(
            approval_callback=approval_callback or prompt_fn,
            policy=Policy({name: {"pre_approved": True} for name in excepted}),
            memory=memory,
        )
        super().__init__(_with_sayso_answers(inner), controller=controller)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Call the tool with a context and a definition of PydanticAI's, if the test gives none."""
        ctx = ctx or RunContext(deps=None, model=TestModel(), usage=RunUsage())
        return await super().call_tool(name, tool_args, ctx, tool or _tool(name, self.wrapped))


def _tool(name: str, toolset: AbstractToolset[Any]) -> ToolsetTool[Any]:
    definition = ToolDefinition(name=name, parameters_json_schema={"type": "object", "properties": {}})
    validator = cast("Any", TypeAdapter(dict[str, Any]).validator)
    return ToolsetTool(toolset=toolset, tool_def=definition, max_retries=1, args_validator=validator)


def _with_sayso_answers(inner: AbstractToolset[Any]) -> AbstractToolset[Any]:
    """Return the toolset with a `needs_approval` of the same signature that answers in a form of sayso's."""
    needs_approval = getattr(inner, "needs_approval", None)
    if needs_approval is None:
        return inner
    adapted = WrapperToolset(inner)

    @functools.wraps(needs_approval)
    async def answer(name: str, tool_args: dict[str, Any], *rest: Any) -> Any:
        found = needs_approval(name, tool_args, *rest)
        found = await found if inspect.isawaitable(found) else found
        return _as_answer(found, inner, name, tool_args, *rest[:1]) if isinstance(found, ApprovalResult) else found

    vars(adapted)["needs_approval"] = answer
    return adapted


def _as_answer(found: ApprovalResult, inner: Any, *call: Any) -> Any:
    if found.is_blocked:
        raise PermissionError(found.block_reason)
    describe = getattr(inner, "get_approval_description", None)
    return False if found.is_pre_approved else True if describe is None else {"description": describe(*call)}
