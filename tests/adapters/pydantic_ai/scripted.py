"""Agents that need no model of anybody's: what they call is written down in the test."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset
from tests.waiting import within

from sayso import ApprovalRequest
from sayso.adapters.pydantic_ai.toolset import GuardedToolset

Call = tuple[str, dict[str, Any]]


class Scripted:
    """A model that makes these calls, one list for each of its turns, and then says `done`."""

    def __init__(self, *turns: Sequence[Call], reuse_ids: bool = False) -> None:
        self.turns = turns
        self.reuse_ids = reuse_ids
        self.offered: list[list[str]] = []
        self.prompts: list[int] = []
        self._made = 0

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.respond)

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered.append([tool.name for tool in info.function_tools])
        self.prompts.append(sum(part.part_kind == "user-prompt" for message in messages for part in message.parts))
        start = max(
            at for at, message in enumerate(messages) if any(p.part_kind == "user-prompt" for p in message.parts)
        )
        turn = sum(isinstance(message, ModelResponse) for message in messages[start:])
        if turn >= len(self.turns):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[self._call(turn, at, call) for at, call in enumerate(self.turns[turn])])

    def _call(self, turn: int, at: int, call: Call) -> ToolCallPart:
        self._made += 1
        call_id = f"{turn}.{at}" if self.reuse_ids else f"c{self._made}"
        return ToolCallPart(call[0], call[1], tool_call_id=call_id)


def returns(messages: Sequence[ModelMessage]) -> dict[str, ToolReturnPart]:
    """What the model was told about each call, by its id."""
    parts = [part for message in messages for part in message.parts]
    return {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}


class Till:
    """Tools that say what they did."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []

    def pay(self, amount: int) -> str:
        """Pay somebody."""
        self.ran.append(("pay", amount))
        return f"paid {amount}"

    def look(self, name: str) -> str:
        """Look something up."""
        self.ran.append(("look", name))
        return f"saw {name}"

    def drop(self, table: str) -> str:
        """Drop a table."""
        self.ran.append(("drop", table))
        return f"dropped {table}"

    @property
    def tools(self) -> list[Callable[..., str]]:
        return [self.pay, self.look, self.drop]


class Inbox:
    """Somebody who is told of every question and answers in another way."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []
        self._told = anyio.Event()

    async def announce(self, request: ApprovalRequest) -> None:
        self.asked.append(request)
        self._told.set()
        self._told = anyio.Event()

    async def until(self, count: int) -> list[ApprovalRequest]:
        """Wait until that many questions were asked, for at most ten seconds."""
        with within(10, lambda: f"{len(self.asked)} of {count} questions: {self.asked}"):
            while len(self.asked) < count:
                await self._told.wait()
        return self.asked


class Wrapped(FunctionToolset[Any]):
    """A toolset that knows how many guards stand directly round it."""

    guards = 0

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        frames = [frame.frame.f_locals.get("self") for frame in inspect.stack(0)]
        self.guards = len({id(each) for each in frames if isinstance(each, GuardedToolset)})
        return await super().call_tool(name, tool_args, ctx, tool)
