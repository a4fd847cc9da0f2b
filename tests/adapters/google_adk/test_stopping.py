"""Stop and go on: what front ends are shown, whose answers count, tools that ask themselves, and other services."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.models import APIKey
from google.adk.apps import App, ResumabilityConfig
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai import types
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Toolbox
from tests.adapters.google_adk.driver import (
    APP,
    CONFIRM,
    SESSION,
    USER,
    ScriptedModel,
    agent_of,
    content,
    events_of,
    new_folder,
    yes_to_all,
)
from tests.adapters.google_adk.people import (
    NO_TO_ALL,
    PAY,
    WHO,
    answer,
    confirm,
    go,
    person,
    resumed,
    running,
    told,
)
from tests.adapters.google_adk.test_holes import TO_BOB, copy_of

from sayso import ApprovalController, ApprovalPending, Policy
from sayso.adapters.google_adk import Approvals, WebUser, resume_sync
from sayso.errors import ConfigurationError

ANN = WebUser("ann")
KEY = AuthConfig(
    auth_scheme=APIKey.model_validate({"in": "header", "name": "key"}),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key="secret"),
    credential_key="key",
)


class Stopped:
    """A run that waits for an answer, and runs that go on with it."""

    def __init__(self, responses: list[Response] = PAY, policy: Policy | None = None, **settings: Any) -> None:
        self.tools = Toolbox()
        self.controller = ApprovalController(mode="defer", policy=policy)
        self._settings = settings
        self._folder = new_folder()
        self._responses = responses

    def runner(self, responses: list[Response]) -> Runner:
        """Return a runner of the session, built anew."""
        return running(self._folder, responses, [self.tools.pay()], Approvals(self.controller, **self._settings))

    def change(self, before: str, after: str) -> None:
        """Change the stored session, and forget what is known in this process."""
        self._folder = copy_of(self._folder, before, after)

    async def stop(self) -> Runner:
        """Run until it stops; return the runner."""
        runner = self.runner(self._responses)
        await go(runner)
        return runner

    async def confirm(self, response: Any = None) -> str:
        """Answer as a front end does."""
        return await confirm(self.runner(self._responses[1:]), response)


async def test_a_confirmation_has_what_front_ends_show() -> None:
    stopped = Stopped()
    events = await events_of(await stopped.stop())
    (request,) = await stopped.controller.pending()
    (shown,) = [call for event in events for call in event.get_function_calls() if call.name == CONFIRM]
    asked = (shown.args or {})["toolConfirmation"]
    assert "pay" in asked["hint"]
    assert asked["payload"] == {
        "sayso_request": request.id,
        "tool_name": "pay",
        "args": {"amount": 5, "to": "bob"},
        "description": "Pay somebody.\n" + str(request.reason) if request.reason else "Pay somebody.",
    }


SAID: list[Any] = [None, NO_TO_ALL, {"confirmed": True, "payload": {"args": {"amount": 3}}}]


@pytest.mark.parametrize("said", SAID)
async def test_an_answer_in_a_front_end_counts_for_nothing_unless_the_host_says_whose_it_is(said: Any) -> None:
    stopped = Stopped()
    await stopped.stop()
    for _ in range(2):
        with pytest.raises(ApprovalPending):
            await stopped.confirm(said)
    assert stopped.tools.ran == []
    await answer(stopped.controller, YES)
    assert await resumed(stopped.runner(PAY[1:]), stopped.controller) == "done"
    assert stopped.tools.amounts == [5]


@pytest.mark.parametrize(
    ("said", "ran"),
    [
        ({"confirmed": True}, [{"amount": 5, "to": "bob"}]),
        ({"confirmed": True, "payload": {"args": {"amount": 3}}}, [{"amount": 3, "to": "bob"}]),
        ({"confirmed": True, "payload": {"args": {"amount": 5, "to": "bob"}}}, [{"amount": 5, "to": "bob"}]),
        ({"confirmed": False}, []),
        ({"confirmed": False, "payload": {"note": "too much", "args": {"amount": 3}}}, []),
    ],
)
async def test_an_answer_of_a_person_whom_the_host_names_counts(said: Any, ran: list[Any]) -> None:
    stopped = Stopped(answered_by=lambda _: ANN)
    runner = await stopped.stop()
    (request,) = await stopped.controller.pending()
    assert await stopped.confirm(said) == "done"
    assert [args for _, args in stopped.tools.ran] == ran
    row = await stopped.controller.store.get(request.id)
    assert row is not None
    assert row.decision is not None
    assert row.decision.who == "ann"
    assert (row.decision.override_args is not None) == (ran == [{"amount": 3, "to": "bob"}])
    assert ("too much" in await told(runner)) == ("too much" in str(said))


@pytest.mark.parametrize(
    "payload",
    ["yes", ["yes"], {"args": [3]}, {"note": 3}, {"sayso_request": "go on"}, {"sayso_request": "another one"}],
)
async def test_an_unclear_answer_leaves_the_question_open(payload: Any) -> None:
    stopped = Stopped(answered_by=lambda _: ANN)
    await stopped.stop()
    with pytest.raises(ApprovalPending):
        await stopped.confirm({"confirmed": True, "payload": payload})
    assert stopped.tools.ran == []
    assert await stopped.confirm() == "done"
    assert stopped.tools.amounts == [5]


async def test_the_host_finds_the_person_in_the_context_of_the_tool() -> None:
    def signed_in(context: ToolContext) -> WebUser | None:
        return WebUser(context.user_id) if context.user_id == USER else None

    stopped = Stopped(answered_by=signed_in)
    await stopped.stop()
    (request,) = await stopped.controller.pending()
    await stopped.confirm()
    row = await stopped.controller.store.get(request.id)
    assert (stopped.tools.amounts, row and row.decision and row.decision.who) == ([5], USER)


async def test_an_earlier_answer_is_not_taken_for_that_of_the_next_person() -> None:
    signed_in: list[WebUser | None] = [None]
    tools, controller, service = Toolbox(), ApprovalController(mode="defer"), InMemorySessionService()
    approvals = Approvals(controller, answered_by=lambda _: signed_in[0])
    agent = agent_of(ScriptedModel(PAY), [tools.pay()])
    app = App(
        name=APP, root_agent=agent, plugins=[approvals], resumability_config=ResumabilityConfig(is_resumable=True)
    )
    runner = Runner(app=app, session_service=service, auto_create_session=True)
    await go(runner)
    with pytest.raises(ApprovalPending):
        await confirm(runner)  # nobody is signed in
    signed_in[0] = ANN
    events = await events_of(runner)
    with pytest.raises(ApprovalPending):  # without a message: nothing was said in this run
        async for _ in runner.run_async(**WHO, invocation_id=events[0].invocation_id):
            pass
    assert tools.ran == []
    await confirm(runner)
    assert tools.amounts == [5]


async def test_an_answer_counts_for_no_other_call_than_the_one_that_was_shown() -> None:
    stopped = Stopped(TO_BOB, answered_by=lambda _: ANN)
    await stopped.stop()
    (request,) = await stopped.controller.pending()
    stopped.change('"bob"', '"eve"')  # of the call, and of the confirmation
    await stopped.confirm()
    row = await stopped.controller.store.get(request.id)
    assert (stopped.tools.ran, row and row.decision) == ([], None)


async def test_an_answer_in_a_copy_of_the_session_counts_for_no_question_of_another() -> None:
    tools, controller, service = Toolbox(), ApprovalController(mode="defer"), InMemorySessionService()
    plugin = Approvals(controller, answered_by=lambda _: ANN)
    app = App(name=APP, root_agent=agent_of(ScriptedModel(PAY), [tools.pay()]), plugins=[plugin])
    runner = Runner(app=app, session_service=service, auto_create_session=True)
    await go(runner)
    said = await yes_to_all(runner)
    copy = await service.create_session(app_name=APP, user_id=USER, session_id="2")
    for event in await events_of(runner):
        await service.append_event(copy, event)
    with pytest.raises(ApprovalPending):
        async for _ in runner.run_async(user_id=USER, session_id="2", new_message=said):
            pass
    assert tools.ran == []
    await go(runner, said)
    assert tools.amounts == [5]


async def test_what_goes_on_is_the_last_run_that_waits() -> None:
    later: list[Response] = [[Call("pay", {"amount": 2}, "c2")], "done"]
    stopped = Stopped([[Call("pay", {"amount": 1}, "c1")], *later])
    await stopped.stop()
    runner = stopped.runner(later)
    await go(runner, content("another", "user"))
    first, second = await stopped.controller.pending()
    await stopped.controller.answer(second.id, YES)
    assert await resumed(stopped.runner(["done"]), stopped.controller) == "done"
    assert (stopped.tools.amounts, [each.id for each in await stopped.controller.pending()]) == ([2], [first.id])


async def test_a_session_without_a_question_gets_one_sentence() -> None:
    stopped = Stopped(policy=Policy(default="none"))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="no run of the session '1' waits"):
            await resumed(stopped.runner([]), stopped.controller)
        await stopped.stop()


async def test_synchronous_callers_go_on_too() -> None:
    stopped = Stopped()
    await stopped.stop()
    with pytest.raises(ApprovalPending):
        await asyncio.to_thread(lambda: list(resume_sync(stopped.runner([]), controller=stopped.controller, **WHO)))
    await answer(stopped.controller, YES)
    runner = stopped.runner(["done"])
    await asyncio.to_thread(lambda: list(resume_sync(runner, controller=stopped.controller, **WHO)))
    assert stopped.tools.amounts == [5]


@pytest.mark.parametrize("kind", ["memory", "database"])
async def test_a_run_goes_on_over_other_session_services(kind: str, tmp_path: Path) -> None:
    memory = InMemorySessionService()

    def runner(responses: list[Response]) -> Runner:
        address = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
        service = memory if kind == "memory" else DatabaseSessionService(address)
        agent = agent_of(ScriptedModel(responses), [tools.pay()])
        app = App(name=APP, root_agent=agent, plugins=[Approvals(controller)])
        return Runner(app=app, session_service=service, auto_create_session=True)

    tools, controller = Toolbox(), ApprovalController(mode="defer")
    runners = [runner(PAY), runner(PAY[1:])]
    await go(runners[0])
    await answer(controller, YES)
    assert await resumed(runners[1], controller) == "done"
    assert tools.amounts == [5]
    for each in runners:
        if isinstance(each.session_service, DatabaseSessionService):
            await each.session_service.close()


async def test_a_run_of_a_resumable_app_goes_on() -> None:
    tools, controller, service = Toolbox(), ApprovalController(mode="defer"), InMemorySessionService()

    def runner(responses: list[Response]) -> Runner:
        agent = agent_of(ScriptedModel(responses), [tools.pay()])
        resumable = ResumabilityConfig(is_resumable=True)
        app = App(name=APP, root_agent=agent, plugins=[Approvals(controller)], resumability_config=resumable)
        return Runner(app=app, session_service=service, auto_create_session=True)

    await go(runner(PAY))
    await answer(controller, YES)
    assert await resumed(runner(PAY[1:]), controller) == "done"
    with pytest.raises(ConfigurationError):
        await resumed(runner(PAY[1:]), controller)
    assert tools.amounts == [5]


async def test_a_call_that_was_never_answered_runs_when_a_resumable_run_is_replayed_only_as_decided() -> None:
    tools, controller, service = Toolbox(), ApprovalController(mode="defer"), InMemorySessionService()
    resumable = ResumabilityConfig(is_resumable=True)

    def runner(responses: list[Response], policy: Policy) -> Runner:
        loose = ApprovalController(mode="defer", policy=policy, store=controller.store)
        agent = agent_of(ScriptedModel(responses), [tools.pay()])
        app = App(name=APP, root_agent=agent, plugins=[Approvals(loose)], resumability_config=resumable)
        return Runner(app=app, session_service=service, auto_create_session=True)

    stopping = runner(PAY, Policy())
    await go(stopping)
    await answer(controller, NO)
    session = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
    assert session is not None
    events = session.events
    kept = service.sessions[APP][USER][SESSION]
    del kept.events[2:]  # as a process that has died before it stored what came of the call
    async for _ in runner(PAY[1:], Policy(default="none")).run_async(**WHO, invocation_id=events[0].invocation_id):
        pass
    assert tools.ran == []


async def test_adk_s_own_mark_is_not_answered_by_a_front_end_behind_approvals() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer", policy=Policy(default="none"))
    marked, folder = FunctionTool(tools.pay(), require_confirmation=True), new_folder()
    await go(running(folder, PAY, [marked], Approvals(controller)))
    with pytest.raises(ApprovalPending):
        await confirm(running(folder, PAY[1:], [marked], Approvals(controller)))
    await answer(controller, YES)
    assert await resumed(running(folder, PAY[1:], [marked], Approvals(controller)), controller) == "done"
    assert tools.amounts == [5]


async def test_a_tool_that_asks_by_itself_gets_its_own_answer_and_runs_once_more_for_it() -> None:
    ran: list[object] = []

    def pay(amount: int, tool_context: ToolContext) -> str:
        """Pay somebody."""
        given = tool_context.tool_confirmation
        if given is None:
            tool_context.request_confirmation(hint="From which account?", payload={"account": ""})
            tool_context.actions.skip_summarization = True
            return "asked"
        ran.append((given.confirmed, given.payload))
        return "paid"

    folder, (controller, asked) = new_folder(), person()
    await go(running(folder, PAY, [pay], Approvals(controller)))
    copy = copy_of(folder)
    said = {"confirmed": True, "payload": {"account": "7"}}
    for each in (folder, copy):
        await confirm(running(each, PAY[1:], [pay], Approvals(controller)), said)
    assert (ran, len(asked)) == ([(True, {"account": "7"})], 1)


async def test_a_tool_that_runs_long_is_asked_about_once_and_its_later_result_is_no_call() -> None:
    controller = ApprovalController(mode="defer")
    folder, started = new_folder(), list[int]()

    def pay(amount: int) -> dict[str, str]:
        """Pay somebody, and say later how it went."""
        started.append(amount)
        return {"status": "started"}

    tool = LongRunningFunctionTool(pay)
    stopped = running(folder, PAY, [tool], Approvals(controller))
    await go(stopped)
    await answer(controller, YES)
    await resumed(running(folder, ["it has begun"], [tool], Approvals(controller)), controller)
    later = types.FunctionResponse(id="c1", name="pay", response={"status": "paid"})
    message = types.Content(role="user", parts=[types.Part(function_response=later)])
    assert await go(running(folder, ["done"], [tool], Approvals(controller)), message) == "done"
    assert started == [5]


async def test_a_tool_that_wants_a_credential_runs_once_more_with_it_and_nobody_is_asked_again() -> None:
    seen: list[object] = []

    def pay(amount: int, tool_context: ToolContext) -> str | None:
        """Pay somebody."""
        credential = tool_context.get_auth_response(KEY)
        if credential is None:
            tool_context.request_credential(KEY)
            return None
        seen.append(credential.api_key)
        return "paid"

    folder, (controller, asked) = new_folder(), person()
    runner = running(folder, PAY, [pay], Approvals(controller))
    await go(runner)
    calls = [call for event in await events_of(runner) for call in event.get_function_calls()]
    (wanted,) = [each for each in calls if each.name == "adk_request_credential"]
    given = KEY.model_copy(update={"exchanged_auth_credential": KEY.raw_auth_credential}).model_dump(mode="json")
    said = types.FunctionResponse(id=wanted.id, name=wanted.name, response=given)
    message = types.Content(role="user", parts=[types.Part(function_response=said)])
    copy = copy_of(folder)
    for each in (folder, copy):
        await go(running(each, PAY[1:], [pay], Approvals(controller)), message)
    assert (seen, len(asked)) == (["secret"], 1)
