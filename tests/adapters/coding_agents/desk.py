"""A desk for hooks of coding agents: a project with its policy and store, events of a client, a person's answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.coding_agents.client_calls import policy_for
from sayso.adapters.coding_agents.clients import CLAUDE, Client
from sayso.adapters.coding_agents.hook_answers import HookAnswer
from sayso.adapters.coding_agents.hook_events import read_event
from sayso.adapters.coding_agents.hook_gate import HookGate
from sayso.adapters.kit import Gate
from sayso.core.model import ApprovalRequest

YES = ApprovalDecision(approved=True, who="ann")
NO = ApprovalDecision(approved=False, note="too much", who="ann")


class HookDesk:
    """A project in a folder; each event is decided about by a controller of its own, as by a process of its own."""

    def __init__(self, folder: Path, *, client: Client = CLAUDE) -> None:
        self.folder, self.client = folder, client
        self.store = folder / "sayso.db"
        (folder / "work").mkdir(exist_ok=True)
        self.rules: dict[str, Any] = {
            "default": "none",
            "shell": {
                "default": "required",
                "rules": [
                    {"pattern": "git status", "approval": "none"},
                    {"pattern": "rm", "approval": "blocked"},
                ],
            },
            "sandbox": {"zones": {"work": {"root": "work", "approval": {"write": "required"}}}},
        }

    @contextlib.asynccontextmanager
    async def controller(self, folder: str = "") -> AsyncGenerator[ApprovalController]:
        """Open the store as another process would, for a client that works in this folder."""
        policy = policy_for(Policy.from_dict(self.rules, base=self.folder), folder or str(self.folder))
        async with ApprovalController(policy=policy, store=self.store) as controller:
            yield controller

    def event(self, tool: str, args: dict[str, Any], **others: Any) -> str:
        """Return an event as Claude Code writes it."""
        own = {"session_id": "s", "cwd": str(self.folder), "hook_event_name": "PreToolUse", "tool_use_id": "t1"}
        return json.dumps({**own, "tool_name": tool, "tool_input": args, **others})

    async def decide(
        self,
        tool: str,
        args: dict[str, Any],
        *,
        hold: float = 0.0,
        unanswered: Literal["deny", "defer"] = "deny",
        **others: Any,
    ) -> HookAnswer:
        """Decide about a call, as a process that begins now."""
        event = read_event(self.event(tool, args, **others), self.client)
        async with self.controller(event.folder) as controller:
            return await HookGate(Gate(controller), self.client, hold=hold, unanswered=unanswered).decide(event)

    async def record(self, tool: str, args: dict[str, Any], *, kind: str = "PostToolUse", **others: Any) -> bool:
        """Record the result of a call, as a process that begins now."""
        event = read_event(self.event(tool, args, hook_event_name=kind, **others), self.client)
        async with self.controller() as controller:
            return await HookGate(Gate(controller), self.client, hold=0.0, unanswered="deny").record(event)

    async def asked(self, count: int = 1) -> list[ApprovalRequest]:
        """Wait until so many questions are open, and return them."""
        async with self.controller() as controller, asyncio.timeout(30):
            while True:
                cursor, _ = await controller.store.changes()
                if len(requests := await controller.pending()) >= count:
                    return requests
                await controller.store.changed(cursor)

    async def answer(self, decision: ApprovalDecision = YES) -> ApprovalRequest:
        """Answer the one open question."""
        (request,) = await self.asked()
        async with self.controller() as controller:
            return await controller.answer(request.id, decision)

    async def request(self, request_id: str) -> ApprovalRequest:
        """Return the state of a request."""
        async with self.controller() as controller:
            found = await controller.store.get(request_id)
        assert found is not None
        return found
