"""Function tools behind `Approvals`: marks, defaults, contexts, failures, outputs, and tools that change meanwhile."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
)
from agents.tool_context import ToolContext
from pydantic import BaseModel
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Toolbox
from tests.adapters.openai_agents.driver import agent_of
from tests.adapters.openai_agents.sdk_runs import PAY, answer, guarded, payer, person, told

from sayso import ApprovalController, ApprovalDecision, Policy, requires_approval
from sayso.adapters.openai_agents import Approvals, park, resume
from sayso.core.model import AuditEntry
from sayso.errors import ConfigurationError

EDIT = ApprovalDecision(approved=True, override_args={"amount": 3}, note="less", who="ann")


async def run(tool: Any, controller: ApprovalController, responses: Any = PAY, **settings: Any) -> Any:
    return await Runner.run(Approvals(controller).guard(agent_of(responses, [tool])), "go", **settings)


class Order(BaseModel):
    """An argument that is a model."""

    amount: int


class TestMarks:
    @pytest.mark.parametrize("amount", [5, 500])
    async def test_a_mark_that_is_a_function_decides_by_the_arguments(self, amount: int) -> None:
        async def is_much(context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
            return args["amount"] > 100 and args["to"] == "bob"

        tools, (controller, asked) = Toolbox(), person(YES, Policy(default="none"))
        tool = function_tool(tools.pay(), needs_approval=is_much)
        await run(tool, controller, [[Call("pay", {"amount": amount})], "done"])
        assert (tools.amounts, len(asked)) == ([amount], int(amount > 100))

    @pytest.mark.parametrize("mode", ["auto_deny", "defer"])
    async def test_a_mark_that_raises_runs_nothing(self, mode: str) -> None:
        async def broken(*_: object) -> bool:
            raise RuntimeError("no idea")

        tools = Toolbox()
        controller = ApprovalController(mode=mode, policy=Policy(default="none"))
        with pytest.raises(Exception, match="no idea"):
            await run(function_tool(tools.pay(), needs_approval=broken), controller)
        assert tools.ran == []

    async def test_a_mark_stops_a_run_that_defers(self) -> None:
        tools, controller = Toolbox(), ApprovalController(mode="defer", policy=Policy(default="none"))
        result = await run(function_tool(tools.pay(), needs_approval=True), controller)
        assert (tools.ran, len(result.interruptions), len(await controller.pending())) == ([], 1, 1)

    async def test_a_marked_function_whose_arguments_are_converted_asks_once(self) -> None:
        ran: list[object] = []

        @requires_approval
        def book(day: dt.date, price: float) -> str:
            ran.append((day, price))
            return "booked"

        controller, asked = person(YES, Policy(default="none"))
        result = await run(book, controller, [[Call("book", {"day": "2026-01-02", "price": 5})], "done"])
        assert (ran, len(asked)) == ([(dt.date(2026, 1, 2), 5.0)], 1)
        assert "booked" in told(result)

    async def test_a_marked_function_with_a_context_asks_once(self) -> None:
        ran: list[object] = []

        @requires_approval
        def pay(context: RunContextWrapper[Any], amount: int) -> str:
            ran.append((context.context, amount))
            return "paid"

        controller, asked = person(YES, Policy(default="none"))
        await run(pay, controller, context="ann's")
        assert (ran, len(asked), dict(asked[0].args)) == ([("ann's", 5)], 1, {"amount": 5})


class TestArguments:
    async def test_an_edit_is_all_that_a_tool_reads(self) -> None:
        read: list[str] = []

        def pay(context: ToolContext[Any], amount: int) -> str:
            read.extend([context.tool_arguments, context.tool_call.arguments if context.tool_call else "", str(amount)])
            return "paid"

        await run(pay, person(EDIT)[0])
        assert read == ['{"amount": 3}', '{"amount": 3}', "3"]

    async def test_an_edit_may_leave_out_what_has_a_default(self) -> None:
        tools = Toolbox()
        await run(tools.pay(), person(EDIT)[0])
        assert tools.ran == [("pay", {"amount": 3, "to": "bob"})]

    async def test_a_tool_without_a_strict_schema_is_asked_about_too(self) -> None:
        tools, (controller, asked) = Toolbox(), person(YES)
        await run(function_tool(tools.pay(), strict_mode=False), controller)
        assert (tools.amounts, dict(asked[0].args)) == ([5], {"amount": 5, "to": "bob"})

    async def test_models_as_arguments_are_shown_as_the_model_wrote_them(self) -> None:
        ran: list[Order] = []

        def order(wanted: Order) -> str:
            ran.append(wanted)
            return "ordered"

        controller, asked = person(YES)
        await run(order, controller, [[Call("order", {"wanted": {"amount": 5}})], "done"])
        assert (ran, asked[0].args["wanted"]["amount"]) == ([Order(amount=5)], 5)

    async def test_a_hand_made_tool_is_guarded_too(self) -> None:
        ran: list[str] = []

        async def invoke(context: ToolContext[Any], arguments: str) -> str:
            ran.append(arguments)
            return "ran"

        for decision in (NO, YES):
            tool = FunctionTool("pay", "", {"type": "object", "properties": {}}, invoke, strict_json_schema=False)
            await run(tool, person(decision)[0])
        assert ran == ['{"amount": 5}']


class TestFailures:
    @pytest.mark.parametrize("tell", [None, lambda _, error: f"sorry: {error}"])
    async def test_the_tool_s_own_words_for_a_failure_reach_the_model(self, tell: Callable[..., str] | None) -> None:
        steps: list[AuditEntry] = []
        controller = ApprovalController(mode="approve_all", hooks=[steps.append])
        tool = function_tool(Toolbox().fail(), failure_error_function=tell)
        calls: list[Response] = [[Call("fail", {"amount": 1})], "done"]
        if tell is None:
            with pytest.raises(Exception, match="the bank is closed"):
                await run(tool, controller, calls)
        else:
            assert "sorry: the bank is closed" in told(await run(tool, controller, calls))
        await controller.flush()
        assert "raised" in [each.step for each in steps]

    @pytest.mark.skipif(version("openai-agents") < "0.24", reason="its words for failures came with 0.24")
    async def test_the_run_s_own_words_for_a_failure_reach_the_model(self) -> None:
        config = RunConfig(tool_error_formatter=lambda args: f"{args.kind}: closed")
        controller = ApprovalController(mode="approve_all")
        result = await run(
            function_tool(Toolbox().fail()), controller, [[Call("fail", {"amount": 1})], "done"], run_config=config
        )
        assert "tool_exception: closed" in told(result)


class TestOutputs:
    async def test_an_output_of_parts_keeps_them_beside_the_feedback(self) -> None:
        def pay(amount: int) -> list[Any]:
            return [ToolOutputText(text="paid"), ToolOutputImage(image_url="data:image/png;base64,AAAA")]

        result = await run(pay, person(EDIT)[0])
        (item,) = [each for each in result.to_input_list() if each.get("type") == "function_call_output"]
        assert [each["type"] for each in item["output"]] == ["input_text", "input_text", "input_image"]
        assert "it ran as pay(amount=3)" in item["output"][0]["text"]

    async def test_a_refusal_can_be_the_last_word(self) -> None:
        tools, (controller, _) = Toolbox(), person(NO)
        agent = Approvals(controller).guard(payer(tools, tool_use_behavior="stop_on_first_tool"))
        result = await Runner.run(agent, "go")
        assert (tools.ran, "too much" in str(result.final_output)) == ([], True)


class TestChanges:
    @pytest.mark.parametrize("mode", ["interactive", "defer"])
    async def test_a_tool_that_is_disabled_while_somebody_is_asked_does_not_run(self, mode: str) -> None:
        tools, enabled = Toolbox(), [True]

        def disabling(_: object) -> ApprovalDecision:
            enabled.clear()
            return YES

        controller = ApprovalController(mode=mode, approval_callback=disabling)
        tool = function_tool(tools.pay(), is_enabled=lambda *_: bool(enabled))
        agent = Approvals(controller).guard(agent_of([*PAY, "done"], [tool]))
        result = await Runner.run(agent, "go")
        if result.interruptions:
            parked = await park(result, controller)
            await answer(controller)
            enabled.clear()
            with contextlib.suppress(Exception):
                await resume(agent, parked, controller=controller)
        assert tools.ran == []

    async def test_a_tool_that_is_changed_is_guarded_as_it_is(self) -> None:
        tools, (controller, asked) = Toolbox(), person(NO)
        agent = guarded(
            tools, controller, [[Call("pay", {"amount": 1}, "c1")], [Call("give", {"amount": 2}, "c2")], "x"]
        )
        (tool,) = agent.tools
        agent.hooks = None
        tool.name = "give"  # type: ignore[misc]
        await Runner.run(agent, "go")
        assert [each.tool_name for each in asked] == ["give"]

    async def test_tools_that_are_added_later_are_guarded(self) -> None:
        tools, (controller, asked) = Toolbox(), person(NO)
        agent = Approvals(controller).guard(agent_of(PAY, []))
        agent.tools.append(function_tool(tools.pay()))
        await Runner.run(agent, "go")
        assert (tools.ran, len(asked)) == ([], 1)

    async def test_a_clone_is_guarded(self) -> None:
        tools, (controller, asked) = Toolbox(), person(NO)
        await Runner.run(guarded(tools, controller).clone(name="other"), "go")
        assert (tools.ran, [each.agent_path for each in asked]) == ([], [("other",)])

    async def test_a_subclass_with_tools_of_its_own_is_guarded(self) -> None:
        tools, (controller, asked) = Toolbox(), person(NO)

        class Own(Agent[Any]):
            async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Any]:
                return [function_tool(tools.pay())]

        bare = agent_of(PAY, [])
        agent = Approvals(controller).guard(Own(name="own", model=bare.model))
        assert isinstance(agent, Own)
        await Runner.run(agent, "go")
        assert (tools.ran, len(asked)) == ([], 1)

    async def test_one_tool_in_two_agents_asks_for_each(self) -> None:
        tools, (controller, asked) = Toolbox(), person(YES)
        tool = function_tool(tools.pay())
        for name in ("one", "two"):
            await Runner.run(Approvals(controller).guard(agent_of(PAY, [tool], name=name)), "go")
        assert [each.agent_path for each in asked] == [("one",), ("two",)]

    def test_what_is_no_agent_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="no `Agent`"):
            Approvals().guard("agent")  # type: ignore[arg-type]

    def test_an_agent_is_guarded_once(self) -> None:
        approvals, agent = Approvals(), agent_of([], [])
        found = approvals.guard(agent)
        assert approvals.guard(agent) is found
        assert Approvals().guard(found) is found
        assert type(found).__name__ == "Agent"
