"""Tools that are no functions: shells and custom tools, and those that run where nobody can be asked."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    CodeInterpreterTool,
    CustomTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    LocalShellTool,
    ModelSettings,
    RunConfig,
    Runner,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    Tool,
    WebSearchTool,
)
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses import ResponseApplyPatchToolCall, ResponseCustomToolCall, ResponseFunctionShellToolCall
from tests.adapters.conformance.toolbox import NO, YES
from tests.adapters.openai_agents.driver import agent_of
from tests.adapters.openai_agents.sdk_runs import answer, person, restored, told

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.openai_agents import Approvals, park, questions, resume
from sayso.errors import ConfigurationError

HOSTED: list[Tool] = [
    WebSearchTool(),
    FileSearchTool(vector_store_ids=["v"]),
    CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": "auto"}),
    ImageGenerationTool(tool_config={"type": "image_generation"}),
    HostedMCPTool(tool_config={"type": "mcp", "server_label": "bank", "server_url": "https://bank.example"}),
    LocalShellTool(executor=lambda _: "ran"),
    ApplyPatchTool(editor=None),  # type: ignore[arg-type]
    ShellTool(environment={"type": "container_auto"}),
]


class Local:
    """A shell and a custom tool that note what ran."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def shell(self, **marks: Any) -> ShellTool:
        return ShellTool(executor=self._execute, **marks)

    def custom(self, **marks: Any) -> CustomTool:
        return CustomTool("note", "Write a note.", self._write, **marks)

    def _execute(self, request: ShellCommandRequest) -> ShellResult:
        self.ran.append(request.data.action.commands)
        return ShellResult(output=[ShellCommandOutput(stdout="listed")])

    async def _write(self, context: Any, text: str) -> str:
        self.ran.append(text)
        return "noted"


LS = ResponseFunctionShellToolCall.model_validate(
    {
        "type": "shell_call",
        "id": "s1",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
        "environment": None,
    }
)
NOTE = ResponseCustomToolCall(type="custom_tool_call", call_id="c1", name="note", input="buy milk")


def calling(tool: Tool, *, more: Sequence[Any] = (), **settings: Any) -> Agent[Any]:
    """Return an agent that calls a tool once."""
    call = LS if isinstance(tool, ShellTool) else NOTE
    model = ScriptedModel([*(more or [[call]]), [assistant_message("done")]])
    return Agent(name="agent", model=model, tools=[tool], **settings)


KINDS = pytest.mark.parametrize(("kind", "shown"), [("shell", {"commands": ["ls"]}), ("custom", {"input": "buy milk"})])


def ran_of(kind: str) -> list[Any]:
    return [["ls"]] if kind == "shell" else ["buy milk"]


@KINDS
async def test_they_are_asked_about(kind: str, shown: dict[str, Any]) -> None:
    for decision in (NO, YES):
        local, (controller, asked) = Local(), person(decision)
        agent = Approvals(controller).guard(calling(getattr(local, kind)()))
        result = await Runner.run(agent, "go")
        assert [each.call().args for each in asked] == [shown]
        assert local.ran == (ran_of(kind) if decision is YES else [])
        assert ("too much" in told(result)) is (decision is NO)


@KINDS
async def test_what_a_person_has_edited_runs(kind: str, shown: dict[str, Any]) -> None:
    edited: dict[str, Any] = {"commands": ["pwd"]} if kind == "shell" else {"input": "buy bread"}
    local, (controller, _) = Local(), person(ApprovalDecision(approved=True, override_args=edited, who="ann"))
    result = await Runner.run(Approvals(controller).guard(calling(getattr(local, kind)())), "go")
    assert local.ran == ([["pwd"]] if kind == "shell" else ["buy bread"])
    assert "A person changed the arguments" in told(result)


@KINDS
async def test_their_own_mark_asks_once(kind: str, shown: dict[str, Any]) -> None:
    local, (controller, asked) = Local(), person(YES, Policy(default="none"))
    agent = Approvals(controller).guard(calling(getattr(local, kind)(needs_approval=True)))
    result = await Runner.run(agent, "go")
    assert (local.ran, len(asked), result.final_output) == (ran_of(kind), 1, "done")


@KINDS
async def test_a_run_stops_for_them_and_goes_on_once(kind: str, shown: dict[str, Any]) -> None:
    local, controller = Local(), ApprovalController(mode="defer")
    stopped = await Runner.run(Approvals(controller).guard(calling(getattr(local, kind)())), "go")
    parked, state = await park(stopped, controller), stopped.to_state().to_json()
    assert len(await questions(stopped, controller)) == 1
    await answer(controller)
    again = Approvals(controller).guard(calling(getattr(local, kind)(), more=[[assistant_message("done")]]))
    result = await resume(again, parked, controller=controller)
    assert (local.ran, result.final_output) == (ran_of(kind), "done")
    await Runner.run(again, await restored(again, state))
    assert local.ran == ran_of(kind)


@KINDS
async def test_an_automatic_approval_of_the_sdk_counts_for_nothing(kind: str, shown: dict[str, Any]) -> None:
    local, controller = Local(), ApprovalController(mode="defer")
    tool = getattr(local, kind)(needs_approval=True, on_approval=lambda *_: {"approve": True})
    result = await Runner.run(Approvals(controller).guard(calling(tool)), "go")
    assert (local.ran, len(result.interruptions)) == ([], 1)


async def test_a_model_is_shown_what_runs_at_its_provider_only_where_the_policy_lets_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = {"web_search": "none", "bank": "none", "file_search": "required"}
    agent = agent_of(["done", "done"], [])
    agent.tools = list(HOSTED)
    approvals = Approvals(ApprovalController(mode="auto_deny", policy=Policy(rules)))
    guarded: Any = approvals.guard(agent)
    with caplog.at_level(logging.WARNING, "sayso"):
        for _ in range(2):
            await Runner.run(guarded, "go")
    assert [[each.name for each in call.tools] for call in guarded.model.calls] == [["web_search", "hosted_mcp"]] * 2
    hidden = [record.getMessage().split("'")[1] for record in caplog.records if "not shown" in record.getMessage()]
    assert hidden == ["file_search", "code_interpreter", "image_generation", "local_shell", "apply_patch", "shell"]


@pytest.mark.parametrize(
    "settings",
    [
        {"prompt": {"id": "p"}},
        {"model_settings": ModelSettings(extra_body={"tools": [{"type": "web_search"}]})},
        {"model_settings": ModelSettings(extra_args={"prompt": {"id": "p"}})},
    ],
)
async def test_what_may_bring_tools_of_its_own_runs_only_where_the_policy_lets_it(settings: Any) -> None:
    for rules, allowed in (({}, False), ({"prompt": "none"}, True)):
        controller = ApprovalController(mode="auto_deny", policy=Policy(rules))
        agent: Any = Approvals(controller).guard(agent_of(["done"], [], **settings))
        with contextlib.nullcontext() if allowed else pytest.raises(ConfigurationError, match="may bring tools"):
            await Runner.run(agent, "go")
        assert len(agent.model.calls) == allowed


async def test_the_settings_of_a_run_bring_no_tools_either() -> None:
    agent: Any = Approvals(ApprovalController(mode="auto_deny")).guard(agent_of(["done"], []))
    config = RunConfig(model_settings=ModelSettings(extra_body={"tools": []}))
    with pytest.raises(ConfigurationError, match="may bring tools"):
        await Runner.run(agent, "go", run_config=config)
    assert agent.model.calls == ()


async def test_what_the_sdk_itself_asks_about_is_not_approved_by_going_on() -> None:
    patches: list[Any] = []

    class Editor:
        def create_file(self, operation: Any) -> None:
            patches.append(operation)

    call = ResponseApplyPatchToolCall.model_validate(
        {
            "type": "apply_patch_call",
            "id": "p1",
            "call_id": "c2",
            "status": "completed",
            "operation": {"type": "create_file", "path": "a", "diff": "+a"},
        }
    )
    local, controller = Local(), ApprovalController(mode="defer", policy=Policy({"apply_patch": "none"}))

    def build(*steps: Any) -> Any:
        tools: list[Tool] = [ApplyPatchTool(editor=Editor(), needs_approval=True), local.custom()]  # type: ignore[arg-type]
        return Approvals(controller).guard(Agent(name="agent", model=ScriptedModel(list(steps)), tools=tools))

    parked = await park(await Runner.run(build([call, NOTE]), "go"), controller)
    await answer(controller)
    result = await resume(build([assistant_message("done")]), parked, controller=controller)
    assert (patches, local.ran, len(result.interruptions)) == ([], ["buy milk"], 1)


async def test_they_are_hidden_where_there_is_nobody_to_ask() -> None:
    agent: Any = Approvals().guard(agent_of(["done"], []))
    agent.tools = list(HOSTED)
    await Runner.run(agent, "go")
    assert agent.model.calls[0].tools == []


async def test_the_bare_sdk_shows_them_all() -> None:
    agent: Any = agent_of(["done"], [])
    agent.tools = list(HOSTED)
    await Runner.run(agent, "go")
    assert len(agent.model.calls[0].tools) == len(HOSTED)
