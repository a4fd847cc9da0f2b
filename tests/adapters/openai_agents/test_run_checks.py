"""The checks round the SDK's default runner: whose runs they concern, and what they leave as it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from agents import Agent, RunConfig, RunHooks, Runner, Tool
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from tests.adapters.conformance import Call
from tests.adapters.conformance.toolbox import YES, Toolbox
from tests.adapters.openai_agents.driver import agent_of
from tests.adapters.openai_agents.sdk_runs import PAY, guarded, payer, person

from sayso import Policy
from sayso.adapters.openai_agents import Approvals
from sayso.adapters.openai_agents.run_checks import CheckedRunner, check_runs


@pytest.fixture
def _runner() -> Generator[None]:
    before = get_default_agent_runner()
    yield
    set_default_agent_runner(before)


class Noting(RunHooks[Any]):
    """Hooks that note all that they are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.told.append("llm start")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.told.append("llm end")

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.told.append(f"agent {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.told.append(f"end {output}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.told.append(f"handoff {to_agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        self.told.append(f"start {tool.name}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Tool, result: object) -> None:
        self.told.append(f"result {result}")


async def test_the_hooks_of_a_run_are_told_what_they_are_told_without_sayso() -> None:
    def boss(tools: Toolbox) -> Agent[Any]:
        worker = payer(tools, name="worker")
        return agent_of([[Call("transfer_to_worker", {}, "t1")]], [], name="boss", handoffs=[worker])

    bare, ours = Noting(), Noting()
    controller, _ = person(YES)
    await Runner.run(boss(Toolbox()), "go", hooks=bare)
    await Runner.run(Approvals(controller).guard(boss(Toolbox())), "go", hooks=ours)
    assert ours.told == bare.told
    assert {each.split()[0] for each in ours.told} == {"llm", "agent", "end", "handoff", "start", "result"}


async def test_hooks_that_the_sdk_refuses_are_refused() -> None:
    with pytest.raises(TypeError, match="hooks"):
        await Runner.run(guarded(Toolbox(), person()[0]), "go", hooks="hooks")  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [RunConfig(), {"workflow_name": "w"}])
async def test_settings_of_a_run_stay_as_they_are(config: Any) -> None:
    controller, _ = person(YES, Policy({"pay": "blocked"}))
    result = await Runner.run(guarded(Toolbox(), controller), "go", run_config=config)
    assert result.final_output == "done"


@pytest.mark.usefixtures("_runner")
async def test_a_runner_that_another_library_sets_later_is_checked_too() -> None:
    runs: list[str] = []

    class Other(AgentRunner):
        async def run(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:  # noqa: A002 - the SDK's own
            runs.append(starting_agent.name)
            return await super().run(starting_agent, input, **kwargs)

    tools, (controller, _) = Toolbox(), person(YES, Policy({"helper": "none"}))
    helper = payer(tools, name="helper").as_tool("helper", "Help.")
    boss = Approvals(controller).guard(agent_of([[Call("helper", {"input": "pay"})], "done"], [helper], name="boss"))
    set_default_agent_runner(Other())
    await Runner.run(boss, "go")
    assert (runs, tools.ran) == (["boss", "helper"], [])
    check_runs()
    assert isinstance(get_default_agent_runner(), CheckedRunner)


@pytest.mark.parametrize("how", ["run", "run_streamed"])
async def test_an_agent_outside_any_guarded_call_runs_as_without_sayso(how: str) -> None:
    check_runs()
    tools = Toolbox()
    if how == "run":
        await Runner.run(payer(tools), "go")
    else:
        async for _ in Runner.run_streamed(payer(tools, PAY), "go").stream_events():
            pass
    assert tools.amounts == [5]
