"""What the tests of the AdalFlow adapter share: a model that is a script, a till, and agents made of both."""

# AdalFlow has no types of its own.
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIncompatibleMethodOverride=false, reportReturnType=false

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from adalflow.components.agent.agent import Agent
from adalflow.components.agent.runner import Runner
from adalflow.core.func_tool import FunctionTool
from adalflow.core.model_client import ModelClient
from adalflow.core.types import GeneratorOutput, RunItemStreamEvent

from sayso import Policy
from sayso.adapters.adalflow import PermissionManager

Step = tuple[str, dict[str, Any]]


class Script(ModelClient):
    """A model that calls these tools, one a step, and then says that it is done; it keeps every prompt that it saw."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.steps = list(steps)
        self.prompts: list[str] = []

    def convert_inputs_to_api_kwargs(self, input: Any = None, model_kwargs: Any = None, **_: Any) -> dict[str, Any]:  # noqa: A002
        return {"input": input}

    def call(self, api_kwargs: Any = None, model_type: Any = None) -> str:
        self.prompts.append(api_kwargs["input"])
        done = len(self.prompts) > len(self.steps)
        name, kwargs = ("", {}) if done else self.steps[len(self.prompts) - 1]
        said = {"thought": "next", "name": name, "kwargs": kwargs, "_is_answer_final": done, "_answer": "done"}
        return json.dumps(said)

    async def acall(self, api_kwargs: Any = None, model_type: Any = None) -> str:
        return self.call(api_kwargs)

    def parse_chat_completion(self, completion: str) -> GeneratorOutput[str]:
        return GeneratorOutput(data=None, raw_response=completion)

    @property
    def last(self) -> str:
        """What the model was told last."""
        return self.prompts[-1]


class Till:
    """Tools that write down what they did."""

    def __init__(self) -> None:
        self.ran: list[tuple[Any, ...]] = []

    def tools(self, *, require_approval: bool = True) -> list[FunctionTool]:
        def pay(amount: int, to: str = "ann") -> str:
            """Pay somebody.

            Args:
                amount: how much
            """
            self.ran.append(("pay", amount, to))
            return f"paid {amount} to {to}"

        def look(what: str) -> str:
            """Look at something."""
            self.ran.append(("look", what))
            return f"saw {what}"

        return [FunctionTool(pay, require_approval=require_approval), FunctionTool(look)]


def agent_of(tools: list[Any], *steps: Step) -> tuple[Agent, Script]:
    script = Script(steps)
    agent = Agent(
        name="clerk", tools=tools, model_client=script, model_kwargs={"model": "script"}, use_cache=False, max_steps=6
    )
    return agent, script


def manager(callback: Callable[..., Any], tools: dict[str, Any] | None = None, **settings: Any) -> PermissionManager:
    return PermissionManager(callback, policy=Policy(tools or {}, default="none"), **settings)


def observations(runner: Runner) -> list[Any]:
    """What the model was told that each of its calls came to."""
    return [step.observation for step in runner.step_history]


async def streamed(runner: Runner) -> list[tuple[str, Any]]:
    """Run to the end, and return the events of the stream."""
    return [
        (event.name, cast("Any", event.item))
        async for event in runner.astream({"input_str": "go"}).stream_events()
        if isinstance(event, RunItemStreamEvent)
    ]


def run(runner: Runner, way: str) -> list[tuple[str, Any]]:
    """Run to the end in one of AdalFlow's ways, and return the events of the stream, if it is one."""
    if way == "call":
        runner.call({"input_str": "go"})
    elif way == "acall":
        asyncio.run(runner.acall({"input_str": "go"}))
    else:
        return asyncio.run(streamed(runner))
    return []
