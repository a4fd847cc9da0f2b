"""Runs that stop and go on: parked, resumed, answered in a front end of the SDK, and what is shown of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, Runner
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.case import SERVER
from tests.adapters.conformance.pausing import deferring
from tests.adapters.conformance.toolbox import NO, YES, Desk, Toolbox
from tests.adapters.openai_agents.driver import Prompt, agent_of
from tests.adapters.openai_agents.sdk_runs import PAY, answer, guarded, payer, person, restored, stopped, told

from sayso import ApprovalController, ApprovalDecision, ApprovalPending, Policy
from sayso.adapters.openai_agents import Approvals, WebUser, park, questions, resume, resume_sync
from sayso.errors import ConfigurationError, UnknownRequest

ANN = WebUser("ann", ("boss",))


def defers(policy: Policy | None = None) -> ApprovalController:
    return ApprovalController(mode="defer", policy=policy)


def is_ann(context: RunContextWrapper[Any]) -> WebUser:
    return ANN


class TestParking:
    async def test_a_run_that_has_ended_is_not_parked(self) -> None:
        controller = defers(Policy({"pay": "none"}))
        result = await Runner.run(guarded(Toolbox(), controller), "go")
        with pytest.raises(ConfigurationError, match="has not stopped"):
            await park(result, controller)

    async def test_a_parked_run_is_listed_with_its_agent_and_its_questions(self) -> None:
        controller = defers()
        parked = await park(await Runner.run(guarded(Toolbox(), controller), "go"), controller)
        (listed,) = await controller.parked_runs()
        (asked,) = await controller.pending()
        assert (listed.id, listed.agent, listed.framework) == (parked, "agent", "openai-agents")
        assert (listed.session, list(listed.requests)) == (asked.session, [asked.id])

    async def test_a_run_is_resumed_once(self) -> None:
        tools, controller = Toolbox(), defers()
        parked = await park(await Runner.run(guarded(tools, controller), "go"), controller)
        await answer(controller)
        await resume(guarded(tools, controller, ["done"]), parked, controller=controller)
        with pytest.raises(UnknownRequest):
            await resume(guarded(tools, controller, ["done"]), parked, controller=controller)
        assert tools.amounts == [5]

    def test_synchronous_callers_resume_too(self, tmp_path: Path) -> None:
        tools = Toolbox()

        async def stop() -> str:
            async with deferring(tmp_path) as controller:
                parked = await park(await Runner.run(guarded(tools, controller), "go"), controller)
                await answer(controller)
                return parked

        parked, controller = asyncio.run(stop()), ApprovalController(mode="defer", store=tmp_path / "sayso.db")
        result = resume_sync(guarded(tools, controller, ["done"]), parked, controller=controller)
        assert (result.final_output, tools.amounts) == ("done", [5])
        asyncio.run(controller.aclose())

    async def test_a_streamed_run_stops_and_is_parked(self) -> None:
        tools, controller = Toolbox(), defers()
        stream = Runner.run_streamed(guarded(tools, controller), "go")
        async for _ in stream.stream_events():
            pass
        parked = await park(stream, controller)
        await answer(controller)
        result = await resume(guarded(tools, controller, ["done"]), parked, controller=controller)
        assert (result.final_output, tools.amounts) == ("done", [5])

    async def test_a_stream_that_is_left_early_asks_nobody_any_more(self) -> None:
        tools, (controller, asked) = Toolbox(), person(YES)
        stream = Runner.run_streamed(guarded(tools, controller), "go")
        async for _ in stream.stream_events():
            stream.cancel()
        assert (tools.ran, asked) == ([], [])

    async def test_the_context_of_a_run_is_given_again(self) -> None:
        tools, controller = Toolbox(), defers()
        result = await Runner.run(guarded(tools, controller), "go", context={"user": "ann"})
        parked = await park(result, controller)
        await answer(controller)
        again = guarded(tools, controller, ["done"])
        assert (await resume(again, parked, controller=controller)).context_wrapper.context == {"user": "ann"}

    async def test_a_run_that_is_resumed_early_stays(self) -> None:
        controller = defers()
        parked = await park(await Runner.run(guarded(Toolbox(), controller), "go"), controller)
        with pytest.raises(ApprovalPending):
            await resume(guarded(Toolbox(), controller, ["done"]), parked, controller=controller)
        assert [each.id for each in await controller.parked_runs()] == [parked]

    async def test_a_bare_agent_does_not_go_on_with_a_parked_run(self) -> None:
        tools, controller = Toolbox(), defers()
        parked = await park(await Runner.run(guarded(tools, controller), "go"), controller)
        await answer(controller, NO)
        with pytest.raises(ConfigurationError, match="has no `Approvals`"):
            await resume(payer(tools, ["done"]), parked, controller=controller)
        assert (tools.ran, len(await controller.parked_runs())) == ([], 1)

    async def test_a_stream_that_is_left_while_somebody_is_asked_withdraws_the_question(self) -> None:
        tools, desk = Toolbox(), Desk()
        controller = ApprovalController(channels=[desk])
        stream = Runner.run_streamed(guarded(tools, controller), "go")

        async def read() -> None:
            async for _ in stream.stream_events():
                pass

        reader = asyncio.create_task(read())
        (asked,) = await desk.wait_for(1)
        stream.cancel()
        row = await controller.wait(asked.id, timeout=10)
        await asyncio.wait([reader])
        assert (row.status, tools.ran) == ("withdrawn", [])

    async def test_arguments_that_nobody_can_read_stop_the_run_and_ask_nobody(self) -> None:
        tools, controller = Toolbox(), defers()
        model = ScriptedModel([[function_call("pay", '{"amount"', call_id="c1")], [assistant_message("done")]])
        agent = Approvals(controller).guard(Agent(name="agent", model=model, tools=agent_of([], [tools.pay()]).tools))
        result = await Runner.run(agent, "go")
        parked = await park(result, controller)
        assert (len(result.interruptions), await questions(result, controller)) == (1, {})
        result = await resume(agent, parked, controller=controller)
        assert (tools.ran, result.final_output) == ([], "done")
        assert "not valid JSON" in told(result)


async def test_a_call_of_an_mcp_server_stops_and_goes_on(tmp_path: Path) -> None:
    book, controller = tmp_path / "book", defers()
    params: Any = {"command": sys.executable, "args": [str(SERVER), str(book)]}
    async with MCPServerStdio(params, client_session_timeout_seconds=60) as server:

        def build(responses: list[Response]) -> Any:
            return Approvals(controller).guard(agent_of(responses, [], mcp_servers=[server]))

        calls: list[Response] = [[Call("pay_remote", {"amount": 7})]]
        parked = await park(await Runner.run(build(calls), "go"), controller)
        assert not book.exists()
        await answer(controller)
        result = await resume(build(["done"]), parked, controller=controller)
    assert (book.read_text(), result.final_output) == ("7\n", "done")


class TestQuestions:
    async def test_each_interruption_has_its_request(self) -> None:
        controller = defers()
        calls: list[Response] = [[Call("pay", {"amount": 1}, "c1"), Call("pay", {"amount": 2}, "c2")]]
        result = await Runner.run(guarded(Toolbox(), controller, calls), "go")
        found = await questions(result, controller)
        assert {item.call_id: each.args["amount"] for item, each in found.items()} == {"c1": 1, "c2": 2}

    async def test_those_of_agents_inside_tools_are_found_too(self) -> None:
        controller = defers(Policy({"helper": "none"}))
        helper = guarded(Toolbox(), controller).as_tool("helper", "Help.", parameters=Prompt)
        calls = [[Call("helper", {"prompt": "pay"}, "o1"), Call("helper", {"prompt": "pay"}, "o2")]]
        helper_model: Any = ScriptedModel([[function_call("pay", {"amount": each}, call_id="c1")] for each in (1, 2)])
        boss = Approvals(controller).guard(agent_of(calls, [helper]))
        vars(helper)["_agent_instance"].model = helper_model
        result = await Runner.run(boss, "go")
        found = await questions(result, controller)
        assert sorted(each.args["amount"] for each in found.values()) == [1, 2]
        assert len(result.interruptions) == 2

    async def test_a_request_shows_what_was_said_before(self) -> None:
        controller = defers(Policy({"look": "none"}, default="required", conversation={"messages": 9}))
        tools, script = Toolbox(), [[Call("look", {"what": "x"}, "l1")], *PAY]
        agent = Approvals(controller).guard(agent_of(script, [tools.look(), tools.pay()]))
        said: Any = [{"role": "assistant", "content": [{"type": "output_text", "text": "how much?"}]}]
        await Runner.run(agent, [*said, {"role": "user", "content": "please pay 5"}])
        (asked,) = await controller.pending()
        texts = [(each.role, each.text) for each in asked.conversation]
        assert texts[:2] == [("agent", "how much?"), ("user", "please pay 5")]
        assert [(role, "look" in text) for role, text in texts[2:]] == [("agent", True), ("tool", True)]

    async def test_two_runs_with_the_same_call_ids_ask_twice(self) -> None:
        tools, (controller, asked) = Toolbox(), person(YES)
        for _ in range(2):
            await Runner.run(guarded(tools, controller), "go")
        assert (len(asked), tools.amounts) == (2, [5, 5])


class TestFrontEnds:
    async def test_what_a_front_end_says_counts_for_nothing(self) -> None:
        tools, controller = Toolbox(), defers()
        state = await stopped(guarded(tools, controller))
        agent = guarded(tools, controller, ["done"])
        with pytest.raises(Exception, match="waits for an answer"):
            await Runner.run(agent, await restored(agent, state))
        assert (tools.ran, len(await controller.pending())) == ([], 1)

    async def test_the_interruption_shows_what_the_sdk_shows(self) -> None:
        result = await Runner.run(guarded(Toolbox(), defers()), "go")
        (shown,) = result.interruptions
        assert (shown.name, shown.arguments) == ("pay", '{"amount":5}')

    async def test_an_approval_counts_where_the_host_says_whose_it_is(self) -> None:
        tools, controller = Toolbox(), defers()
        state = await stopped(guarded(tools, controller))
        (asked,) = await controller.pending()
        agent = guarded(tools, controller, ["done"], answered_by=is_ann)
        await Runner.run(agent, await restored(agent, state))
        row = await controller.store.get(asked.id)
        assert row is not None
        assert row.decision is not None
        assert (tools.amounts, row.decision.who) == ([5], "ann")

    async def test_a_rejection_closes_the_question_with_its_message(self) -> None:
        tools, controller = Toolbox(), defers()
        state = await stopped(guarded(tools, controller))
        (asked,) = await controller.pending()
        agent = guarded(tools, controller, ["done"], answered_by=is_ann)
        await Runner.run(agent, await restored(agent, state, approve=False, rejection_message="too much"))
        row = await controller.store.get(asked.id)
        assert row is not None
        assert row.decision is not None
        assert (tools.ran, row.status, row.decision.note) == ([], "denied", "too much")

    async def test_nobody_answers_where_the_host_names_nobody(self) -> None:
        tools, controller = Toolbox(), defers()
        state = await stopped(guarded(tools, controller))
        agent = guarded(tools, controller, ["done"], answered_by=lambda _: None)
        with pytest.raises(Exception, match="waits for an answer"):
            await Runner.run(agent, await restored(agent, state))
        assert tools.ran == []

    async def test_a_person_who_may_not_answer_leaves_the_question_open(self, tmp_path: Path) -> None:
        tools, policy = Toolbox(), Policy({"pay": {"approval": "required", "approvers": {"role": "cfo"}}})
        async with deferring(tmp_path, policy) as controller:
            state = await stopped(guarded(tools, controller))
            agent = guarded(tools, controller, ["done"], answered_by=is_ann)
            with pytest.raises(Exception, match="waits for an answer"):
                await Runner.run(agent, await restored(agent, state))
            assert (tools.ran, len(await controller.pending())) == ([], 1)

    async def test_an_answer_of_another_channel_comes_first(self) -> None:
        tools, controller = Toolbox(), defers()
        state = await stopped(guarded(tools, controller))
        await answer(controller, NO)
        agent = guarded(tools, controller, ["done"], answered_by=is_ann)
        result = await Runner.run(agent, await restored(agent, state))
        assert (tools.ran, "too much" in told(result)) == ([], True)

    async def test_an_approval_of_a_call_inside_a_tool_counts_there(self) -> None:
        tools, controller = Toolbox(), defers(Policy({"helper": "none"}))

        def boss(outer: list[Response], inner: list[Response]) -> Any:
            helper = guarded(tools, None, inner, answered_by=is_ann).as_tool("helper", "Help.", parameters=Prompt)
            return Approvals(controller, answered_by=is_ann).guard(agent_of(outer, [helper]))

        state = await stopped(boss([[Call("helper", {"prompt": "pay"}, "o1")]], PAY[:1]))
        agent = boss(["done"], ["inner done"])
        result = await Runner.run(agent, await restored(agent, state))
        assert (tools.amounts, result.final_output) == ([5], "done")

    def test_a_wrong_setting_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="answered_by"):
            Approvals(answered_by="ann")  # type: ignore[arg-type]


async def test_an_edit_of_a_parked_call_is_bound_again() -> None:
    tools, controller = Toolbox(), defers()
    parked = await park(await Runner.run(guarded(tools, controller), "go"), controller)
    await answer(controller, ApprovalDecision(approved=True, override_args={"amount": 3}))
    result = await resume(guarded(tools, controller, ["done"]), parked, controller=controller)
    assert (tools.amounts, "it ran as pay(amount=3)" in told(result)) == ([3], True)
