"""Stop and go on: what front ends are shown, whose answers count, streams, and runs that cannot resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from agent_framework import Agent, AgentContext, Content, ContextProvider, Message, MiddlewareFailure
from tests.adapters.agent_framework.driver import agent_of
from tests.adapters.agent_framework.people import PAY, answer, answers_to, copy_of, guarded, person, told
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Toolbox

from sayso import ApprovalController, ApprovalPending, Policy
from sayso.adapters.agent_framework import Approvals, WebUser, resume
from sayso.errors import ConfigurationError

ANN = WebUser("ann")


def deferring(tools: Toolbox, **settings: Any) -> tuple[Agent[Any], ApprovalController]:
    """Return an agent that stops for its questions, and its controller."""
    controller = ApprovalController(mode="defer")
    return agent_of(PAY, [tools.pay()], Approvals(controller, **settings)), controller


async def test_an_approval_request_has_what_front_ends_show() -> None:
    agent, controller = deferring(Toolbox())
    (asked,) = (await agent.run("go", session=agent.create_session())).user_input_requests
    (request,) = await controller.pending()
    assert asked.type == "function_approval_request"
    call: Any = asked.function_call
    assert (call.name, call.call_id, call.parse_arguments()) == ("pay", "c1", {"amount": 5})
    assert asked.additional_properties["arguments"] == {"amount": 5, "to": "bob"}
    assert asked.additional_properties["sayso_request"] == request.id
    assert "Pay somebody." in asked.additional_properties["description"]


@pytest.mark.parametrize("approved", [True, False])
async def test_an_answer_in_a_front_end_counts_for_nothing_unless_the_host_says_whose_it_is(*, approved: bool) -> None:
    tools = Toolbox()
    agent, controller = deferring(tools)
    session = agent.create_session()
    response = await agent.run("go", session=session)
    for _ in range(2):
        response = await agent.run(answers_to(response, approved=approved), session=session)
        assert len(response.user_input_requests) == 1
    assert ([each.status for each in await controller.pending()], tools.ran) == (["open"], [])


@pytest.mark.parametrize(
    ("approved", "properties", "amounts"),
    [
        (True, {}, [5]),
        (True, {"note": "fine"}, [5]),
        (True, {"args": {"amount": 3}}, [3]),
        (False, {}, []),
        (False, {"note": "too much"}, []),
    ],
)
async def test_an_answer_of_a_person_whom_the_host_names_counts(
    *, approved: bool, properties: Mapping[str, Any], amounts: list[int]
) -> None:
    tools = Toolbox()
    agent, controller = deferring(tools, answered_by=lambda _: ANN)
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    response = await agent.run(answers_to(stopped, approved=approved, **properties), session=session)
    assert (tools.amounts, response.text, await controller.pending()) == (amounts, "done", [])
    assert str(properties.get("note", "")) in told(response)


@pytest.mark.parametrize("properties", [{"args": "all"}, {"note": 5}])
async def test_an_answer_that_is_not_clear_leaves_the_question_open(properties: Mapping[str, Any]) -> None:
    tools = Toolbox()
    agent, controller = deferring(tools, answered_by=lambda _: ANN)
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    response = await agent.run(answers_to(stopped, **properties), session=session)
    assert (tools.ran, len(response.user_input_requests), len(await controller.pending())) == ([], 1, 1)


async def test_the_host_may_find_the_person_in_the_context_of_the_run() -> None:
    def signed_in(context: AgentContext) -> WebUser | None:
        name = context.function_invocation_kwargs.get("user")
        return WebUser(name) if name else None

    tools = Toolbox()
    agent, controller = deferring(tools, answered_by=signed_in)
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    stopped = await agent.run(answers_to(stopped), session=session)
    assert tools.ran == []
    await agent.run(answers_to(stopped), session=session, function_invocation_kwargs={"user": "ann"})
    assert (tools.amounts, await controller.pending()) == ([5], [])


async def test_the_messages_of_the_caller_are_left_as_they_are() -> None:
    agent, _ = deferring(Toolbox())
    session = agent.create_session()
    said = answers_to(await agent.run("go", session=session), approved=False)
    await agent.run(said, session=session)
    assert [each.approved for each in said.contents] == [False]


async def test_a_front_end_s_answer_for_another_call_answers_nothing() -> None:
    tools = Toolbox()
    agent, controller = deferring(tools, answered_by=lambda _: ANN)
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    said = answers_to(stopped)
    said.contents[0].id = "another"
    await agent.run(said, session=session)
    assert (tools.ran, len(await controller.pending())) == ([], 1)


async def test_an_answer_to_the_provider_of_a_tool_is_left_as_it_is_though_the_session_calls_it_ours() -> None:
    hosted: Any = Content.from_function_call("m1", "bank", arguments="{}")
    hosted.hosted, hosted.additional_properties = True, {"server_label": "bank"}  # as newer and older releases say it
    request: Any = Content.from_function_approval_request("m1", hosted)
    tool: Any = {"type": "mcp", "name": "bank"}
    controller, _ = person(policy=Policy({"bank": "none"}))
    agent = agent_of([[request], "done"], [tool], Approvals(controller))
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    request.additional_properties["sayso_request"] = "made up"
    session.state["sayso_asked"] = {"m1": request.to_dict()}
    with pytest.raises(ConfigurationError, match="not stopped"):
        await resume(agent, session, controller=controller)
    await agent.run(answers_to(stopped, approved=False), session=session)
    contents = [each for message in agent.client.messages for each in message.contents]  # type: ignore[attr-defined]
    assert [each.approved for each in contents if each.type == "function_approval_response"] == [False]


async def test_a_yes_for_changed_arguments_runs_neither_these_nor_others() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")

    def build() -> Agent[Any]:
        return agent_of(PAY, [tools.pay()], Approvals(controller, answered_by=lambda _: ANN))

    agent = build()
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    changed = copy_of(session, '"amount": 5', '"amount": 9000')
    response = await agent_of(PAY[1:], [tools.pay()], Approvals(controller, answered_by=lambda _: ANN)).run(
        answers_to(stopped), session=changed
    )
    assert (tools.ran, "Not executed" in told(response)) == ([], True)


async def test_a_stream_stops_and_goes_on() -> None:
    tools = Toolbox()
    agent, controller = deferring(tools)
    session = agent.create_session()
    updates = [each async for each in agent.run("go", stream=True, session=session)]
    assert [each.type for each in updates[-1].user_input_requests] == ["function_approval_request"]
    await answer(controller, YES)
    stream = await resume(agent, session, controller=controller, stream=True)
    assert "".join([each.text async for each in stream]) == "done"
    assert tools.amounts == [5]


async def test_calls_that_need_nobody_run_before_the_stop_and_not_again() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer", policy=Policy({"look": "none"}))
    calls: list[Response] = [[Call("pay", {"amount": 5}, "c1"), Call("look", {"what": "x"}, "c2")]]
    agent = agent_of(calls, [tools.pay(), tools.look()], Approvals(controller))
    session = agent.create_session()
    await agent.run("go", session=session)
    assert tools.names == ["look"]
    await answer(controller, YES)
    agent = agent_of(["done"], [tools.pay(), tools.look()], Approvals(controller))
    response = await resume(agent, session, controller=controller)
    assert (tools.names, response.text) == (["look", "pay"], "done")


async def test_one_of_two_answers_runs_its_call_and_the_other_waits_on() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    calls: list[Response] = [[Call("pay", {"amount": 1}, "c1"), Call("pay", {"amount": 2}, "c2")], "done"]
    agent = agent_of(calls, [tools.pay()], Approvals(controller))
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    first = next(each for each in await controller.pending() if each.args["amount"] == 1)
    await controller.answer(first.id, YES)
    with pytest.raises(ApprovalPending):
        await resume(agent, session, controller=controller)
    stopped = await agent.run(answers_to(stopped), session=session)
    assert (tools.amounts, len(stopped.user_input_requests)) == ([1], 1)
    await answer(controller, NO)
    response = await resume(agent, session, controller=controller)
    assert (tools.amounts, response.text) == ([1], "done")


async def test_resume_takes_the_requests_of_the_run() -> None:
    tools = Toolbox()
    agent, controller = deferring(tools)
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    await answer(controller, YES)
    await resume(agent, session, stopped.user_input_requests, controller=controller)
    assert tools.amounts == [5]


async def test_a_controller_that_waits_goes_on_with_what_another_has_stopped_for() -> None:
    tools = Toolbox()
    agent, controller = deferring(tools)
    session = agent.create_session()
    await agent.run("go", session=session)
    await answer(controller, NO)
    waiting = ApprovalController(approval_callback=lambda _: YES, store=controller.store)
    response = await resume(guarded(tools, waiting, PAY[1:]), session, controller=waiting)
    assert (tools.ran, "too much" in told(response)) == ([], True)


async def test_a_session_that_has_not_stopped_says_so() -> None:
    agent, controller = deferring(Toolbox())
    with pytest.raises(ConfigurationError, match="not stopped"):
        await resume(agent, agent.create_session(), controller=controller)


@pytest.mark.parametrize("providers", [[], [ContextProvider("notes")]])
async def test_a_run_without_a_session_cannot_stop_and_says_so(providers: list[ContextProvider]) -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    agent = agent_of(PAY, [tools.pay()], Approvals(controller), context_providers=providers)
    with pytest.raises(MiddlewareFailure, match="create_session"):
        await agent.run("go")
    assert (tools.ran, await controller.pending()) == ([], [])


async def test_a_run_without_a_session_waits_in_place_where_the_controller_waits() -> None:
    tools, (controller, asked) = Toolbox(), person()
    await guarded(tools, controller).run("go")
    assert (tools.amounts, len(asked)) == ([5], 1)


async def test_a_message_between_the_stop_and_the_answer_loses_nothing() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    agent = guarded(tools, controller, [*PAY[:1], "one moment", "done"])
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    await agent.run(Message("user", ["are you there?"]), session=session)
    await answer(controller, YES)
    await resume(agent, session, stopped.user_input_requests, controller=controller)
    assert tools.amounts == [5]


async def test_a_session_that_stops_anew_resumes_from_there() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    agent = guarded(tools, controller, [*PAY[:1], [Call("pay", {"amount": 6}, "c2")], "done"])
    session = agent.create_session()
    await agent.run("go", session=session)
    await agent.run("pay six instead", session=session)
    newest = next(each for each in await controller.pending() if each.args["amount"] == 6)
    await controller.answer(newest.id, YES)
    await resume(agent, session, controller=controller)
    assert tools.amounts == [6]


def test_answered_by_is_a_function() -> None:
    with pytest.raises(ConfigurationError, match="answered_by"):
        Approvals(Policy(), answered_by="ann")  # type: ignore[arg-type]
