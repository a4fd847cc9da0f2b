"""A process that runs a workflow with a guarded agent, up to the point at which it is killed.

The file `plan` in the folder of a process says what is done; `effects` are the payments, `asked` the questions that a
person saw, and `ended` what came of the workflow.
"""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, ApprovalRequired, ModelRetry, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.pydantic_ai import Approvals

POINTS = ("", "asking", "approved", "claimed", "running", "paid", "recorded", "ended")


class Process:
    """One life of the program."""

    def __init__(self, fatal: int) -> None:
        self.point = POINTS[fatal]
        self.plan: dict[str, Any] = json.loads(Path("plan").read_text(encoding="utf-8"))
        self.answer = ApprovalDecision(who="ann", **self.plan.get("answer", {"approved": True}))
        self.last_answered = asyncio.Event()
        if Path("asked").exists():
            self.last_answered.set()  # perhaps in an earlier life, and then nobody sets it here
        self.controller = ApprovalController(
            policy=Policy(
                {} if self.plan.get("asks") in {"tool", "validator"} else {"pay": "required"}, default="none"
            ),
            mode=self.plan.get("mode", "interactive"),
            approval_callback=None if self.plan.get("mode") == "defer" else self.ask,
            store="state.db",
            session="s",
            hooks=[lambda entry: self.reach(entry.step)],
        )

    def reach(self, point: str) -> None:
        """Die here, if this is the point."""
        if point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Answer as the person of the plan."""
        note("asked", dict(request.args))
        self.reach("asking")
        if self.plan.get("last first"):
            await self.last_answered.wait() if request.args["amount"] == 5 else self.last_answered.set()
        return self.answer

    def pay(self, amount: int) -> str:
        """Pay somebody."""
        self.reach("running")
        note("effects", amount)
        self.reach("paid")
        if self.plan.get("closed"):
            raise ModelRetry("the bank is closed")
        return f"paid {amount}"

    def look(self, name: str) -> str:
        """Look something up."""
        return f"saw {name}"

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Make the calls of the plan, a list for each turn: `pay` an amount, or `look` a name up."""
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        turns: list[list[dict[str, Any]]] = self.plan.get("turns", [[{"amount": 5}]])
        if self.plan.get("asks") == "output":
            return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"amount": 5}, tool_call_id="0")])
        if turn == len(turns):
            self.reach("recorded")
            if self.plan.pop("fails_once", False):
                raise ConnectionError("the model is not there")
            return ModelResponse(parts=[TextPart("done")])
        calls = [("look" if "name" in args else "pay", args) for args in turns[turn]]
        return ModelResponse(
            parts=[ToolCallPart(name, args, tool_call_id=f"{turn}.{at}") for at, (name, args) in enumerate(calls)]
        )

    def tools(self) -> list[Any]:
        """Return the tools of the plan: plain functions, or ones that want an approval themselves."""
        if self.plan.get("asks") == "validator":
            return [Tool(self.pay, args_validator=want_approval), self.look]
        if self.plan.get("asks") == "tool":
            return [Tool(self.pay_if_approved, takes_ctx=True, name="pay"), self.look]
        return [self.pay, self.look]

    def pay_if_approved(self, ctx: RunContext[None], amount: int) -> str:
        """Pay somebody."""
        want_approval(ctx)
        return self.pay(amount)

    def agent(self, tools: Sequence[Any], durability: Sequence[AbstractCapability[Any]]) -> Agent[None, Any]:
        """Return an agent behind `Approvals`."""
        return Agent(
            FunctionModel(self.respond),
            name="cashier",
            tools=tools,
            output_type=self.pay if self.plan.get("asks") == "output" else [str, DeferredToolRequests],
            capabilities=[*durability, Approvals(self.controller)],
        )

    async def work(self, agent: Any, history: bytes | None) -> bytes:
        """Run the agent, or resume it with this history; return its messages."""
        if history is None:
            ended = await agent.run("go")
        else:
            before = ModelMessagesTypeAdapter.validate_json(history)
            approvals: dict[str, Any] = {part.tool_call_id: True for part in open_calls(before)}
            answers = DeferredToolResults(approvals=approvals)
            ended = await agent.run(message_history=before, deferred_tool_results=answers)
        self.reach("ended")
        return ended.all_messages_json()

    async def answer_all(self) -> None:
        """Answer what a run that has stopped waits for."""
        for request in await self.controller.pending():
            await self.controller.answer(request.id, self.answer)


def want_approval(ctx: RunContext[None], amount: int = 0) -> None:
    """Let nothing pass that is not approved."""
    if not ctx.tool_call_approved:
        raise ApprovalRequired(metadata={"reason": "it is money"})


def note(file: str, line: object) -> None:
    """Write a line that outlives the process."""
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{line}\n")
        lines.flush()
        os.fsync(lines.fileno())


def open_calls(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Return the calls without a result."""
    last = messages[-1]
    return [part for part in last.parts if isinstance(part, ToolCallPart)] if isinstance(last, ModelResponse) else []


def heard(history: bytes) -> list[str]:
    """Return what the model was told about its calls."""
    parts: list[Any] = [part for message in ModelMessagesTypeAdapter.validate_json(history) for part in message.parts]
    return [str(part.content) for part in parts if part.part_kind in {"tool-return", "retry-prompt"}]
