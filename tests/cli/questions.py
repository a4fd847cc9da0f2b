"""Requests in a real store, asked as an agent asks them, and the command line that answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from sayso import ApprovalController, ApprovalRequest, Policy, ToolCall
from sayso.cli.main import commands
from sayso.core.model import Pending
from sayso.core.ports import Store

T = TypeVar("T")
STORE = "state.db"
POLICY = Policy.from_dict({"default": "required"})


def sayso(*arguments: str, given: str = "") -> Result:
    """Run one command on the store of the test."""
    return CliRunner().invoke(commands, arguments, input=given, env={"SAYSO_STORE": STORE})


def within(work: Callable[[ApprovalController], Awaitable[T]], policy: Policy = POLICY, **settings: Any) -> T:
    """Do something as an agent's process does."""

    async def run() -> T:
        async with ApprovalController(mode="defer", policy=policy, store=Path(STORE), **settings) as controller:
            return await work(controller)

    return asyncio.run(run())


def ask(
    args: Mapping[str, Any] | None = None, *, tool: str = "pay", policy: Policy = POLICY, **settings: Any
) -> ApprovalRequest:
    """Ask about a call and leave the question open."""

    async def work(controller: ApprovalController) -> ApprovalRequest:
        call = ToolCall(tool=tool, args=args or {"amount": 5}, session="s1", agent_path=("report", "payer"))
        outcome = await controller.review(call)
        assert isinstance(outcome, Pending)
        return outcome.request

    return within(work, policy, **settings)


def stored(request: ApprovalRequest) -> ApprovalRequest:
    """Return a request as it now stands."""

    async def work(controller: ApprovalController) -> ApprovalRequest:
        found = await controller.store.get(request.id)
        assert found is not None
        return found

    return within(work)


def in_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with the store itself."""
    return within(lambda controller: work(controller.store))
