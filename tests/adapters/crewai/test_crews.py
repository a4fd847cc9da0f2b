"""Crews behind `Approvals`: both loops, every way to run, tasks, managers, async tools, caches, hosted tools."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, Crew, Process, Task
from crewai.hooks import HookAborted, clear_all_hooks
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.mcp import MCPServerStdio
from crewai.tools import BaseTool, tool
from pydantic import BaseModel, Field
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.case import SERVER
from tests.adapters.conformance.toolbox import YES, Desk, Toolbox
from tests.adapters.crewai.driver import as_tool, crew_of, model_of
from tests.adapters.crewai.people import LOOPS, person

from sayso import ApprovalController, ApprovalDecision, Policy, ToolCall, requires_approval
from sayso.adapters.crewai import Approvals
from sayso.adapters.kit import Gate, GuardedRun
from sayso.core.model import ApprovalRequest, Approved, AuditEntry
from sayso.errors import ApprovalDenied

PAY: list[Response] = [[Call("pay", {"amount": 5})], "done"]


def agent_of(responses: list[Response], tools: list[Any], *, native: bool = True, **settings: Any) -> Agent:
    model = model_of(responses, native=native)
    return Agent(role="clerk", goal="g", backstory="b", llm=model, tools=[as_tool(each) for each in tools], **settings)


def model_behind(target: Crew | Agent) -> Any:
    agent = target if isinstance(target, Agent) else target.agents[0]
    return agent.llm


def editing(**args: Any) -> tuple[ApprovalController, list[ApprovalRequest]]:
    asked: list[ApprovalRequest] = []
    edit = ApprovalDecision(approved=True, override_args=args, note="less", who="ann")
    return ApprovalController(approval_callback=lambda each: asked.append(each) or edit), asked


@LOOPS
def test_the_model_is_told_of_a_refusal_and_its_note(*, native: bool) -> None:
    tools, (controller, _) = Toolbox(), person(approved=False)
    crew = Approvals(controller).guard(crew_of(model_of(PAY, native=native), [tools.pay()]))
    assert (str(crew.kickoff()), tools.ran) == ("done", [])
    assert "Not executed" in model_behind(crew).observed[-1]
    assert "too much" in model_behind(crew).observed[-1]


@LOOPS
def test_an_edit_runs_and_the_model_is_told(*, native: bool) -> None:
    tools, (controller, _) = Toolbox(), editing(amount="3")
    crew = Approvals(controller).guard(crew_of(model_of(PAY, native=native), [tools.pay()]))
    crew.kickoff()
    assert tools.ran == [("pay", {"amount": 3, "to": "bob"})]
    assert all(word in model_behind(crew).observed[-1] for word in ("it ran as pay", "paid 3", "less"))


@LOOPS
def test_an_edit_of_a_call_without_arguments_runs(*, native: bool) -> None:
    ran, (controller, _) = list[int](), editing(amount=3)

    def tip(amount: int = 9) -> str:
        """Give a tip."""
        ran.append(amount)
        return f"gave {amount}"

    calls: list[Response] = [[Call("tip", {})], "done"]
    Approvals(controller).guard(crew_of(model_of(calls, native=native), [tip])).kickoff()
    assert ran in ([3], [])
    assert native is False or ran == [3]


@LOOPS
def test_an_edit_with_an_argument_that_the_tool_has_not_does_not_run(*, native: bool) -> None:
    tools, (controller, _) = Toolbox(), editing(amount=3, account="savings")
    crew = Approvals(controller).guard(crew_of(model_of(PAY, native=native), [tools.pay()]))
    crew.kickoff()
    assert tools.ran == []


@LOOPS
def test_arguments_that_do_not_fit_are_told_and_nobody_is_asked(*, native: bool) -> None:
    tools, (controller, asked) = Toolbox(), person()
    calls: list[Response] = [[Call("pay", {"amount": "a lot"})], "done"]
    crew = Approvals(controller).guard(crew_of(model_of(calls, native=native), [tools.pay()]))
    crew.kickoff()
    assert (tools.ran, asked) == ([], [])
    assert "do not fit the tool 'pay': amount" in model_behind(crew).observed[-1]


def test_a_tool_that_is_not_there_is_told_and_nobody_is_asked() -> None:
    tools, (controller, asked) = Toolbox(), person()
    calls: list[Response] = [[Call("steal", {})], "done"]
    crew = Approvals(controller).guard(crew_of(model_of(calls), [tools.pay()]))
    crew.kickoff()
    assert (tools.ran, asked, "no tool 'steal'" in model_behind(crew).told["c1"]) == ([], [], True)


def test_an_approval_that_was_used_is_not_there_for_a_guardrail_s_second_try() -> None:
    tools, (controller, asked) = Toolbox(), person()
    tries: list[object] = []

    def second_time(output: Any):  # noqa: ANN202 - CrewAI reads annotations, and these are texts
        tries.append(output)
        return len(tries) > 1, "again"

    agent = agent_of([*PAY, *PAY], [tools.pay()])
    task = Task(description="go", expected_output="x", agent=agent, guardrail=second_time)
    Approvals(controller).guard(Crew(agents=[agent], tasks=[task])).kickoff()
    assert (tools.amounts, len(asked)) == ([5, 5], 2)


@LOOPS
def test_a_refusal_ends_the_run_if_the_owner_says_so(*, native: bool) -> None:
    tools, (controller, _) = Toolbox(), person(approved=False)
    crew = Approvals(controller, on_denied="raise").guard(crew_of(model_of(PAY, native=native), [tools.pay()]))
    with pytest.raises(HookAborted, match="too much") as raised:
        crew.kickoff()
    assert isinstance(raised.value.__cause__, ApprovalDenied)
    assert tools.ran == []


def test_one_refusal_of_several_ends_the_run_if_the_owner_says_so() -> None:
    tools = Toolbox()
    controller, asked = person(approved=False, policy=Policy({"look": "none"}))
    calls: list[Response] = [[Call("pay", {"amount": 5}), Call("look", {"what": "x"}, "c2")], "done"]
    crew = Approvals(controller, on_denied="raise").guard(crew_of(model_of(calls), [tools.pay(), tools.look()]))
    with pytest.raises(HookAborted, match="too much"):
        crew.kickoff()
    assert (tools.amounts, len(asked), model_behind(crew).script) == ([], 1, ["done"])


@LOOPS
@pytest.mark.parametrize("way", ["kickoff", "kickoff_async", "akickoff", "stream", "astream", "agents", "for each"])
@pytest.mark.parametrize("approved", [True, False])
async def test_every_way_to_run_asks(way: str, *, native: bool, approved: bool) -> None:
    tools, (controller, asked) = Toolbox(), person(approved=approved)
    approvals = Approvals(controller)
    agent = agent_of(PAY, [tools.pay()], native=native)
    crew = Crew(agents=[agent], tasks=[Task(description="go", expected_output="x", agent=agent)])
    if way == "agents":
        approvals.guard(agent)
    else:
        approvals.guard(crew)
    if way == "kickoff":
        await asyncio.to_thread(crew.kickoff)
    elif way == "kickoff_async":
        await crew.kickoff_async()
    elif way == "akickoff":
        await crew.akickoff()
    elif way == "for each":
        await crew.kickoff_for_each_async([{}])
    elif way == "agents":
        await agent.kickoff_async("go")
    else:
        crew.stream = True
        streamed: Any = await (crew.akickoff() if way == "astream" else crew.kickoff_async())
        async for _ in streamed:
            pass
    assert (tools.amounts, len(asked)) == ([5] if approved else [], 1)


def test_the_task_is_shown_as_what_was_said_before() -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy({"pay": "required"}))
    Approvals(controller).guard(crew_of(model_of(PAY), [tools.pay()])).kickoff()
    assert [(each.role, each.text) for each in asked[0].conversation] == [("user", "go")]
    assert asked[0].agent_path == ("agent",)


def test_the_tools_of_a_task_are_hidden_and_guarded() -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy({"wipe": "blocked"}))
    agent = agent_of([[Call("wipe", {}), Call("pay", {"amount": 5}, "c2")], "done"], [])
    task = Task(description="go", expected_output="x", agent=agent, tools=[as_tool(tools.pay()), as_tool(tools.wipe())])
    crew = Approvals(controller).guard(Crew(agents=[agent], tasks=[task]))
    crew.kickoff()
    assert model_behind(crew).shown[0] == ["pay"]
    assert (tools.names, len(asked)) == (["pay"], 1)


@LOOPS
def test_a_tool_that_joins_later_is_asked_about(*, native: bool) -> None:
    tools, (controller, asked) = Toolbox(), person(approved=False)
    crew = Approvals(controller).guard(crew_of(model_of(PAY, native=native), [tools.look()]))
    crew.agents[0].tools = [*(crew.agents[0].tools or []), as_tool(tools.pay())]
    crew.tasks[0].tools = crew.agents[0].tools
    crew.kickoff()
    assert (tools.ran, len(asked)) == ([], 1)


def managed(tools: Toolbox) -> Crew:
    order = Call("delegate_work_to_coworker", {"task": "pay", "context": "5", "coworker": "clerk"}, "d1")
    agent = agent_of(PAY, [tools.pay()])
    return Crew(
        agents=[agent],
        tasks=[Task(description="go", expected_output="x", agent=agent)],
        process=Process.hierarchical,
        manager_llm=model_of([[order], "all done"]),
    )


@pytest.mark.parametrize("copied", [False, True])
def test_a_manager_that_crewai_makes_is_guarded_in_copies_of_the_crew_too(*, copied: bool) -> None:
    tools, (controller, asked) = Toolbox(), person()
    crew = Approvals(controller).guard(managed(tools))
    if copied:
        crew.kickoff_for_each([{}])
    else:
        crew.kickoff()
    assert (tools.amounts, [each.tool_name for each in asked]) == ([5], ["delegate_work_to_coworker", "pay"])


class AsyncTool(BaseTool):
    name: str = "Pay Money!"
    description: str = "Pay somebody."
    ran: list[int]

    async def _run(self, amount: int) -> str:
        self.ran.append(amount)
        return f"paid {amount}"


@LOOPS
@pytest.mark.parametrize("approved", [True, False])
def test_an_async_tool_has_the_name_that_the_model_sees_and_runs_once(*, native: bool, approved: bool) -> None:
    pay, (controller, asked) = AsyncTool(ran=[]), person(approved=approved)
    calls: list[Response] = [[Call("pay_money", {"amount": 5})], "done"]
    crew = Approvals(controller).guard(crew_of(model_of(calls, native=native), [pay]))
    crew.kickoff()
    assert ([each.tool_name for each in asked], pay.ran) == (["pay_money"], [5] if approved else [])
    assert not approved or "paid 5" in model_behind(crew).observed[-1]


class Transfer(BaseModel):
    amount: float = Field(alias="the-amount")
    sender: str = Field(default="bob", alias="from")


class TransferTool(BaseTool):
    name: str = "transfer"
    description: str = "Transfer money."
    args_schema: type[BaseModel] = Transfer
    ran: list[tuple[float, str]]

    def _run(self, amount: float, sender: str) -> str:
        self.ran.append((amount, sender))
        return f"paid {amount}"


def test_arguments_are_shown_by_the_names_that_the_model_writes() -> None:
    transfer, (controller, asked) = TransferTool(ran=[]), person()
    calls: list[Response] = [[Call("transfer", {"the-amount": 5})], "done"]
    Approvals(controller).guard(crew_of(model_of(calls), [transfer])).kickoff()
    assert [dict(each.args) for each in asked] == [{"the-amount": 5, "from": "bob"}]
    assert transfer.ran == [(5, "bob")]


@LOOPS
@pytest.mark.parametrize("written", ["[1]", '"x"', "null", '{"amount": NaN}', '{"amount": 1e400}', '{"to": null}'])
def test_arguments_that_are_none_run_nothing_and_nobody_is_asked(written: str, *, native: bool) -> None:
    tools, (controller, asked) = Toolbox(), person()
    model = model_of([[Call("pay", {"amount": json.loads(written)})], "done"], native=native)
    Approvals(controller).guard(crew_of(model, [tools.pay()])).kickoff()
    assert (tools.ran, asked) == ([], [])


@LOOPS
def test_an_async_function_is_asked_about(*, native: bool) -> None:
    ran, (controller, asked) = list[int](), person()

    @tool
    async def pay(amount: int) -> str:
        """Pay somebody."""
        ran.append(amount)
        return "paid"

    Approvals(controller).guard(crew_of(model_of(PAY, native=native), [pay])).kickoff()
    assert (ran, len(asked)) == ([5], 1)


@LOOPS
def test_a_marked_function_is_asked_about_once(*, native: bool) -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy(default="none"))
    marked = requires_approval(tools.pay())
    Approvals(controller).guard(crew_of(model_of(PAY, native=native), [marked])).kickoff()
    assert (tools.amounts, len(asked)) == ([5], 1)


@LOOPS
def test_a_result_from_crewai_s_cache_is_asked_about_and_audited_as_not_run(*, native: bool) -> None:
    steps, tools = list[AuditEntry](), Toolbox()
    controller, asked = person(hooks=[steps.append])
    look = Call("look", {"what": "x"})
    calls: list[Response] = [[look], [Call("pay", {"amount": 5}, "c2")], [look._replace(id="c3")], "done"]
    agent = agent_of(calls, [tools.look(), tools.pay()], native=native, cache=True)
    task = Task(description="go", expected_output="x", agent=agent)
    Approvals(controller).guard(Crew(agents=[agent], tasks=[task], cache=True)).kickoff()
    asyncio.run(controller.flush())
    assert (tools.names, len(asked)) == (["look", "pay"], 3)
    assert [each.step for each in steps].count("returned") == 2
    assert [each.step for each in steps].count("raised") == 1


def test_a_tool_that_runs_at_the_provider_is_offered_only_if_the_policy_allows_it() -> None:
    def model(**settings: Any) -> Any:
        return OpenAICompletion(model="gpt-4o", api_key="none", api="responses", **settings)

    llm = model(builtin_tools=["web_search", "code_interpreter"])
    llm.additional_params = {"tools": [{"type": "file_search"}, {"type": "web_search"}]}
    agent = Agent(role="r", goal="g", backstory="b", llm=llm)
    Approvals(Policy({"web_search": "none"}), mode="auto_deny").guard(agent)
    assert (llm.builtin_tools, llm.additional_params) == (["web_search"], {"tools": [{"type": "web_search"}]})
    llm = model(builtin_tools=["web_search"])
    Approvals().guard(Agent(role="r", goal="g", backstory="b", llm=llm))
    assert llm.builtin_tools == []


@LOOPS
def test_a_nested_crew_asks_where_its_own_policy_does(*, native: bool) -> None:
    tools, (controller, asked) = Toolbox(), person(approved=False, policy=Policy(default="none"))
    inner = crew_of(model_of(PAY, native=native), [tools.pay()])
    Approvals(Policy({"pay": "required"}), mode="approve_all").guard(inner)

    def helper() -> str:
        """Ask the helper."""
        return str(inner.kickoff())

    calls: list[Response] = [[Call("helper", {})], "done"]
    Approvals(controller).guard(crew_of(model_of(calls, native=native), [helper])).kickoff()
    assert (tools.ran, [each.tool_name for each in asked]) == ([], ["pay"])


def test_a_nested_crew_is_offered_only_what_the_controller_around_it_allows() -> None:
    tools = Toolbox()
    controller, _ = person(policy=Policy({"helper": "none", "wipe": "blocked"}))
    inner = crew_of(model_of(PAY), [tools.pay(), tools.wipe()])
    loose = ApprovalController(mode="approve_all", policy=Policy(default="none"))
    Approvals(loose).guard(inner)
    model_behind(inner).builtin_tools = ["web_search"]

    def helper() -> str:
        """Ask the helper."""
        return str(inner.kickoff())

    calls: list[Response] = [[Call("helper", {})], "done"]
    Approvals(controller).guard(crew_of(model_of(calls), [helper])).kickoff()
    assert (model_behind(inner).shown[0], model_behind(inner).builtin_tools) == (["pay"], [])
    assert tools.amounts == [5]


def test_a_rule_with_the_name_of_an_mcp_server_s_tool_is_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import sys  # noqa: PLC0415

    server = MCPServerStdio(command=sys.executable, args=[str(SERVER), str(tmp_path / "book")])
    approvals = Approvals(Policy({"pay_remote": "none"}), mode="auto_deny")
    with caplog.at_level(logging.WARNING, "sayso"):
        for _ in range(2):
            approvals.guard(crew_of(model_of(["done"]), [], mcps=[server])).kickoff()
    warned = [each.message for each in caplog.records if each.name == "sayso"]
    assert len(warned) == 1
    assert "pay_remote names no tool: write '" in warned[0]


@LOOPS
def test_a_crew_inside_a_call_of_another_framework_waits_though_the_controller_defers(*, native: bool) -> None:
    tools = Toolbox()
    desk = Desk()
    controller = ApprovalController(mode="defer", channels=[desk])
    outer = ToolCall(tool="outer", args={}, call_id="o1")

    async def main() -> None:
        crew = crew_of(model_of(PAY, native=native), [tools.pay()])
        with GuardedRun(Gate(controller), outer, Approved(args=outer.args, by="policy", reason="")):
            run = asyncio.create_task(asyncio.to_thread(Approvals().guard(crew).kickoff))
        (asked,) = await desk.wait_for(1)
        await controller.answer(asked.id, YES)
        await run

    asyncio.run(main())
    assert tools.amounts == [5]


@LOOPS
@pytest.mark.parametrize("way", ["kickoff_async", "akickoff", "agent", "stream", "for each"])
async def test_a_cancelled_run_withdraws_its_question_and_nothing_runs_later(way: str, *, native: bool) -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk])
    crew = Approvals(controller).guard(crew_of(model_of(PAY, native=native), [tools.pay()]))

    async def run() -> None:
        if way == "agent":
            agent: Any = crew.agents[0]
            await agent.akickoff("go")
        elif way == "for each":
            await crew.kickoff_for_each_async([{}])
        elif way == "stream":
            crew.stream = True
            streamed: Any = await crew.akickoff()
            async for _ in streamed:
                pass
        else:
            await getattr(crew, way)()

    asked = asyncio.create_task(desk.wait_for(1))

    async def run_until_asked() -> None:
        async with asyncio.timeout(None) as limit:
            asked.add_done_callback(lambda _: limit.reschedule(asyncio.get_running_loop().time()))
            await run()

    with pytest.raises(TimeoutError):
        await run_until_asked()  # in this very task, which goes on
    (request,) = await asked
    row, later = await controller.wait(request.id, timeout=10), await controller.answer(request.id, YES)
    assert (row.status, later.status, tools.ran) == ("withdrawn", "withdrawn", [])


@pytest.mark.parametrize("way", ["kickoff", "akickoff"])
async def test_the_time_of_an_agent_ends_its_question(way: str) -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk])
    agent = agent_of(PAY, [tools.pay()], max_execution_time=1)
    crew = Crew(agents=[agent], tasks=[Task(description="go", expected_output="x", agent=agent)])
    Approvals(controller).guard(crew)
    run = asyncio.ensure_future(crew.akickoff() if way == "akickoff" else asyncio.to_thread(crew.kickoff))
    (request,) = await desk.wait_for(1)
    row, later = await controller.wait(request.id, timeout=10), await controller.answer(request.id, YES)
    with contextlib.suppress(TimeoutError):  # unless the model has said in time that it was refused
        await run
    assert (row.status, later.status, tools.ran) == ("withdrawn", "withdrawn", [])


async def test_two_crews_with_controllers_of_their_own_ask_only_these() -> None:
    yes, no = person(), person(approved=False)
    tools = [Toolbox(), Toolbox()]
    crews = [
        Approvals(controller).guard(crew_of(model_of(PAY), [book.pay()]))
        for (controller, _), book in zip((yes, no), tools, strict=True)
    ]
    await asyncio.gather(*(crew.kickoff_async() for crew in crews))
    assert [book.amounts for book in tools] == [[5], []]
    assert (len(yes[1]), len(no[1])) == (1, 1)


def test_hooks_that_were_cleared_are_back_with_the_next_guard() -> None:
    tools, (controller, asked) = Toolbox(), person()
    crew = Approvals(controller).guard(crew_of(model_of(PAY), [tools.pay()]))
    clear_all_hooks()
    Approvals(controller).guard(crew).kickoff()
    assert (tools.amounts, len(asked)) == ([5], 1)


def test_an_agent_that_nobody_guards_is_left_alone() -> None:
    tools, (controller, asked) = Toolbox(), person(approved=False)
    Approvals(controller).guard(crew_of(model_of(PAY), [Toolbox().pay()]))
    crew_of(model_of(PAY), [tools.pay()]).kickoff()
    assert (tools.amounts, asked) == ([5], [])
