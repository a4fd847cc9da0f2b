"""Adapter for the nearest peer, pydantic-ai-blocking-approval, used as its own documentation says."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
from pydantic_ai.usage import RunUsage
from pydantic_ai_blocking_approval import ApprovalDecision, ApprovalRequest, ApprovalToolset

Call = Callable[[], Awaitable[object]]


async def plain(tool: Callable[..., Any], args: dict[str, Any]) -> Call:
    """Return a call of a PydanticAI tool with no gate at all."""
    return await call(FunctionToolset([tool]), tool, args)


async def pre_approved(tool: Callable[..., Any], args: dict[str, Any], others: int) -> Call:
    """Return a call that the configuration lets run."""
    config = {f"other_{number}": {"pre_approved": True} for number in range(others)}
    config[tool.__name__] = {"pre_approved": True}
    return await call(ApprovalToolset(FunctionToolset([tool]), _unasked, config), tool, args)


async def from_memory(tool: Callable[..., Any], args: dict[str, Any]) -> Call:
    """Return a call that was approved for the session before, with the cache from the peer's README."""
    remembered = await call(ApprovalToolset(FunctionToolset([tool]), _with_session_cache(_say_session)), tool, args)
    await remembered()
    return remembered


async def asked(tool: Callable[..., Any], args: dict[str, Any]) -> Call:
    """Return a call that is asked about, with an answer that comes at once."""

    async def approve(_: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(approved=True)

    return await call(ApprovalToolset(FunctionToolset([tool]), approve), tool, args)


def toolset(tool: Callable[..., Any]) -> FunctionToolset[Any]:
    """Return a toolset of this one tool."""
    return FunctionToolset([tool])


async def call(toolset: AbstractToolset[Any], tool: Callable[..., Any], args: dict[str, Any]) -> Call:
    """Return a call of the tool through this toolset."""
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    found = (await toolset.get_tools(context))[tool.__name__]
    return lambda: toolset.call_tool(tool.__name__, args, context, found)


def _unasked(_: ApprovalRequest) -> ApprovalDecision:
    raise NotImplementedError


def _say_session(_: ApprovalRequest) -> str:
    return "s"


def _with_session_cache(
    prompt: Callable[[ApprovalRequest], str],
) -> Callable[[ApprovalRequest], ApprovalDecision]:
    cache: dict[tuple[str, str], ApprovalDecision] = {}

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        key = (request.tool_name, json.dumps(request.tool_args, sort_keys=True, default=str))
        cached = cache.get(key)
        if cached is not None:
            return cached
        remember = "session" if prompt(request) == "s" else "none"
        decision = ApprovalDecision(approved=True, remember=remember)
        if decision.remember == "session":
            cache[key] = decision
        return decision

    return answer
