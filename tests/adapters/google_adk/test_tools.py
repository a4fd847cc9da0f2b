"""What the model and people are shown: hidden tools, tools of the provider, defaults, arguments that nothing reads."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.models.llm_request import LlmRequest
from google.adk.tools import BaseTool, FunctionTool, ToolContext
from google.genai import types
from pydantic import BaseModel
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Toolbox
from tests.adapters.google_adk.driver import ScriptedModel, agent_of, new_folder
from tests.adapters.google_adk.people import PAY, answer, go, person, resumed, runner_for, running, told

from sayso import ApprovalController, Policy
from sayso.adapters.google_adk import Approvals


async def shown(policy: Policy, *provided: types.Tool, **settings: Any) -> list[str]:
    """Return the names that the model is shown, of a function and of tools that others add to its request."""

    def add(callback_context: object, llm_request: LlmRequest) -> None:
        llm_request.config.tools = [*(llm_request.config.tools or ()), *provided]

    model = ScriptedModel(["done"])
    controller = ApprovalController(mode="auto_deny", policy=policy)
    agent = agent_of(model, [Toolbox().pay()], before_model_callback=add, **settings)
    await go(runner_for(agent, new_folder(), Approvals(controller)))
    return model.shown[0]


PROVIDED = [
    types.Tool(google_search=types.GoogleSearch()),
    types.Tool(url_context=types.UrlContext()),
    types.Tool(code_execution=types.ToolCodeExecution()),
    types.Tool(retrieval=types.Retrieval()),
    types.Tool(google_maps=types.GoogleMaps()),
    types.Tool(file_search=types.FileSearch()),
]


@pytest.mark.parametrize("tool", PROVIDED, ids=lambda each: next(name for name, value in each if value is not None))
async def test_a_tool_of_the_provider_is_shown_only_where_the_policy_says_none(tool: types.Tool) -> None:
    (name,) = (name for name, value in tool if value is not None)
    assert await shown(Policy(), tool) == ["pay"]
    assert await shown(Policy({name: "required"}, default="none"), tool) == ["pay"]
    assert await shown(Policy({name: {"approval": "none", "when": {"args.query": "x"}}}), tool) == ["pay"]
    assert await shown(Policy({name: "none"}), tool) == sorted([name, "pay"])


async def test_of_a_provider_s_entry_only_what_is_allowed_is_shown() -> None:
    entry = types.Tool(google_search=types.GoogleSearch(), url_context=types.UrlContext())
    assert await shown(Policy({"url_context": "none"}), entry) == ["pay", "url_context"]


async def test_code_that_runs_at_the_provider_is_such_a_tool() -> None:
    class Gemini(ScriptedModel):
        def __init__(self) -> None:
            super().__init__(["done"])
            self.model = "gemini-2.5-flash"

    async def names(policy: Policy) -> list[str]:
        model = Gemini()
        agent = agent_of(model, [], code_executor=BuiltInCodeExecutor())
        await go(runner_for(agent, new_folder(), Approvals(policy)))
        return model.shown[0]

    assert await names(Policy()) == []
    assert await names(Policy({"code_execution": "none"})) == ["code_execution"]


async def test_a_hidden_tool_that_is_called_runs_in_adk_and_not_here() -> None:
    def hide(callback_context: object, llm_request: LlmRequest) -> None:
        llm_request.config.tools = []

    tools = Toolbox()
    await go(running(new_folder(), PAY, [tools.pay()], before_model_callback=hide))
    assert tools.amounts == [5]
    tools, (controller, asked) = Toolbox(), person(policy=Policy({"pay": "blocked"}))
    runner = running(new_folder(), PAY, [tools.pay()], Approvals(controller), before_model_callback=hide)
    assert await go(runner) == "done"
    assert (tools.ran, asked) == ([], [])
    assert "blocked" in await told(runner)


async def test_a_tool_that_is_not_there_is_told_to_the_model_and_nobody_is_asked() -> None:
    tools, (controller, asked) = Toolbox(), person()
    runner = running(new_folder(), [[Call("fly", {})], "done"], [tools.pay()], Approvals(controller))
    assert await go(runner) == "done"
    assert asked == []
    assert "fly" in await told(runner)


async def test_people_are_shown_only_what_a_function_reads() -> None:
    seen: list[Any] = []

    def pay(amount: int, tool_context: ToolContext, to: str = "bob") -> str:
        """Pay somebody."""
        seen.append((amount, to, type(tool_context).__name__))
        return "paid"

    controller, asked = person()
    args = {"amount": 5, "dry_run": True, "tool_context": "mine"}
    await go(running(new_folder(), [[Call("pay", args)], "done"], [pay], Approvals(controller)))
    assert dict(asked[0].args) == {"amount": 5, "to": "bob"}
    assert seen == [(5, "bob", "Context")]


async def test_people_are_shown_all_that_another_tool_may_read() -> None:
    seen: list[Any] = []

    class Any_(BaseTool):  # noqa: N801 - reads whatever it is given
        def _get_declaration(self) -> types.FunctionDeclaration:
            number = types.Schema(type=types.Type.INTEGER, default=7)
            parameters = types.Schema(type=types.Type.OBJECT, properties={"number": number})
            return types.FunctionDeclaration(name=self.name, parameters=parameters)

        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            seen.append(args)
            return "ran"

    controller, asked = person()
    tool = Any_(name="any", description="Do anything.")
    await go(running(new_folder(), [[Call("any", {"more": 1})], "done"], [tool], Approvals(controller)))
    assert dict(asked[0].args) == {"more": 1, "number": 7}
    assert seen == [{"more": 1, "number": 7}]


async def test_arguments_that_nobody_could_be_shown_do_not_run() -> None:
    seen: list[object] = []

    def pay(amount: float) -> str:
        """Pay somebody."""
        seen.append(amount)
        return "paid"

    def spoil(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        args["amount"] = object()

    controller, asked = person()
    runner = running(new_folder(), PAY, [pay], Approvals(controller), before_tool_callback=spoil)
    assert await go(runner) == "done"
    assert (seen, asked) == ([], [])
    assert "no approval can be bound" in await told(runner)


async def test_the_last_answer_of_an_agent_with_tools_and_a_schema_is_no_call() -> None:
    class Answer(BaseModel):
        text: str

    controller, asked = person(NO)
    script: list[Response] = [[Call("set_model_response", {"text": "done"})]]
    runner = running(new_folder(), script, [Toolbox().pay()], Approvals(controller), output_schema=Answer)
    assert "done" in await go(runner)
    assert asked == []


async def test_people_read_what_was_said_before_a_call() -> None:
    tools, (controller, asked) = Toolbox(), person(YES)
    script: list[Response] = [[Call("look", {"what": "bill"}, "c0")], [Call("pay", {"amount": 5})], "done"]
    policy = Policy({"look": "none"})
    controller = ApprovalController(approval_callback=lambda each: asked.append(each) or YES, policy=policy)
    await go(running(new_folder(), script, [tools.look(), tools.pay()], Approvals(controller)))
    said = [(each.role, each.text) for each in asked[0].conversation]
    assert said[0] == ("user", "go")
    assert [role for role, _ in said] == ["user", "agent", "tool"]
    assert "looked at bill" in said[-1][1]


async def test_a_yes_does_not_outlive_a_change_of_the_function() -> None:
    tools, controller, replaced = Toolbox(), ApprovalController(mode="defer"), list[int]()
    given = FunctionTool(tools.pay())
    runner = running(new_folder(), PAY, [given], Approvals(controller))
    await go(runner)
    await answer(controller, YES)

    def other(amount: int, to: str = "Bob", urgent: bool = True) -> str:  # noqa: FBT002 - a tool's own
        replaced.append(amount)
        return "paid"

    given.func = other
    await resumed(runner, controller)
    assert (tools.ran, replaced) == ([], [])
