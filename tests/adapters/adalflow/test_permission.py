"""The permission manager in AdalFlow's own runner, and in the one that loses nothing, each in all three ways to run."""

# AdalFlow has no types of its own.
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import asyncio
import threading
from typing import Any

import pytest
from adalflow.apps import permission_manager as shipped
from adalflow.components.agent.runner import Runner
from adalflow.core.tool_manager import ToolManager
from adalflow.core.types import Function, ToolOutput
from tests.adapters.adalflow.scripted import Till, agent_of, manager, run, streamed

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.adalflow import (
    ApprovalOutcome,
    ApprovalResponse,
    ApprovalRunner,
    PermissionManager,
    PermissionRequest,
)
from sayso.errors import ConfigurationError, StoreError
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock, ScriptedChannel

ONCE, ALWAYS = ApprovalOutcome.PROCEED_ONCE, ApprovalOutcome.PROCEED_ALWAYS
CANCEL, MODIFY = ApprovalOutcome.CANCEL, ApprovalOutcome.MODIFY
PAY = ("pay", {"amount": 5})
EVERY_WAY = pytest.mark.parametrize("way", ["call", "acall", "astream"])
EVERY_RUNNER = pytest.mark.parametrize("kind", [Runner, ApprovalRunner])
ASKED = "agent.tool_permission_request"


class Person:
    """Answers as told, and keeps what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[PermissionRequest] = []

    def __call__(self, request: PermissionRequest) -> Any:
        self.asked.append(request)
        return self.answers.pop(0)

    async def later(self, request: PermissionRequest) -> Any:
        return self(request)


@EVERY_RUNNER
def test_a_rule_that_misspells_a_tool_of_the_agent_is_logged_once(
    kind: type[Runner], till: Till, caplog: pytest.LogCaptureFixture
) -> None:
    mine = manager(Person(), {"payy": "blocked", "look": "none"})
    for _ in range(2):
        kind(agent_of(till.tools())[0], permission_manager=mine)
    sentences = [record.getMessage() for record in caplog.records if record.name == "sayso"]
    assert sentences == ["the rule policy tools.payy names no tool of this agent; did you mean 'pay'?"]


@EVERY_RUNNER
@pytest.mark.proves("R62", "H5")
def test_without_a_policy_every_tool_asks_and_a_default_lets_unmarked_ones_run(kind: type[Runner], till: Till) -> None:
    steps = PAY, ("look", {"what": "it"})
    person = Person(ONCE, CANCEL)
    run(kind(agent_of(till.tools(), *steps)[0], permission_manager=PermissionManager(person)), "call")
    assert [request.tool_name for request in person.asked] == ["pay", "look"]
    assert till.ran == [("pay", 5, "ann")]
    lenient = PermissionManager(mode="auto_deny", policy=Policy(default="none"))
    run(kind(agent_of(till.tools(), *steps)[0], permission_manager=lenient), "call")
    assert till.ran[1:] == [("look", "it")]


@EVERY_WAY
@EVERY_RUNNER
@pytest.mark.proves("R60", "R61", "R65")
def test_a_yes_runs_the_tool_once_with_what_was_shown(kind: type[Runner], way: str, till: Till) -> None:
    agent, script = agent_of(till.tools(), PAY)
    person = Person(ONCE)
    run(kind(agent, permission_manager=manager(person)), way)
    assert till.ran == [("pay", 5, "ann")]
    (asked,) = person.asked
    assert (asked.tool_name, list(asked.tool_args), dict(asked.tool_kwargs)) == ("pay", [], {"amount": 5})
    assert asked.confirmation_message == "Allow pay to run? pay was made with require_approval=True"
    assert asked.request is not None
    assert dict(asked.request.args) == {"amount": 5, "to": "ann"}
    assert "paid 5 to ann" in script.last


@EVERY_WAY
@EVERY_RUNNER
@pytest.mark.proves("R62", "R65")
def test_a_no_is_an_observation_and_the_agent_goes_on(kind: type[Runner], way: str, till: Till) -> None:
    agent, script = agent_of(till.tools(), PAY, ("look", {"what": "it"}))
    run(kind(agent, permission_manager=manager(Person(CANCEL))), way)
    assert till.ran == [("look", "it")]
    assert ("Not executed" if kind is ApprovalRunner else "Tool execution cancelled by user") in script.prompts[1]


@EVERY_WAY
@EVERY_RUNNER
@pytest.mark.proves("R64")
def test_modify_runs_exactly_the_edited_arguments(kind: type[Runner], way: str, till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    answer = ApprovalResponse(MODIFY, kwargs={"amount": 1, "to": "bob"})
    run(kind(agent, permission_manager=manager(Person(answer))), way)
    assert till.ran == [("pay", 1, "bob")]


@EVERY_RUNNER
@pytest.mark.parametrize(
    "answer",
    [
        ApprovalResponse(MODIFY),
        ApprovalResponse(MODIFY, kwargs={"amount": 1, "cc": "eve"}),
        ApprovalResponse(MODIFY, kwargs={"amount": "__import__('os').system('true')"}),
        ApprovalResponse(MODIFY, kwargs={}),
        ApprovalDecision(approved=True, override_args={"to": "bob"}),
        MODIFY,
        True,
        "yes",
        None,
    ],
)
@pytest.mark.proves("R64", "H5")
def test_an_answer_that_fits_nothing_runs_nothing(kind: type[Runner], answer: Any, till: Till) -> None:
    agent, script = agent_of(till.tools(), PAY)
    run(kind(agent, permission_manager=manager(Person(answer))), "call")
    assert till.ran == []
    assert len(script.prompts) == 2, "and the agent goes on"


@EVERY_WAY
@EVERY_RUNNER
@pytest.mark.proves("R63")
def test_always_covers_the_tool_where_its_rule_says_so(kind: type[Runner], way: str, till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY, ("pay", {"amount": 6}))
    person = Person(ALWAYS)
    mine = manager(person, {"pay": {"approval": "required", "scope": "tool"}})
    events = run(kind(agent, permission_manager=mine), way)
    assert till.ran == [("pay", 5, "ann"), ("pay", 6, "ann")]
    assert person.asked[0].always == "every call of pay, whatever its arguments"
    assert mine.always_allowed_tools == {"pay"}
    assert [name for name, _ in events].count(ASKED) == (1 if way == "astream" else 0)
    mine.remove_from_always_allowed("pay")
    assert mine.always_allowed_tools == frozenset()


@EVERY_RUNNER
@pytest.mark.proves("R63", "H9")
def test_always_covers_this_exact_call_elsewhere_and_says_so(kind: type[Runner], till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY, PAY, ("pay", {"amount": 6}))
    person = Person(ALWAYS, CANCEL)
    run(kind(agent, permission_manager=manager(person)), "call")
    assert till.ran == [("pay", 5, "ann"), ("pay", 5, "ann")]
    assert [asked.tool_kwargs["amount"] for asked in person.asked] == [5, 6]
    assert person.asked[0].always == "this exact call of pay"


@pytest.mark.proves("H9")
def test_where_nothing_may_be_remembered_always_is_once(till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY, PAY)
    person = Person(ALWAYS, CANCEL)
    run(Runner(agent, permission_manager=manager(person, {"pay": {"approval": "required", "remember": False}})), "call")
    assert till.ran == [("pay", 5, "ann")]
    assert person.asked[0].always == "this call only: its rule lets no answer be remembered"


async def test_whoever_checks_is_told_what_is_remembered(till: Till) -> None:
    narrow, broad = manager(Person(ALWAYS)), manager(Person(ALWAYS), {"pay": {"approval": "required", "scope": "tool"}})
    told: list[str | None] = []
    for mine in (narrow, broad):
        mine.set_tool_manager(ToolManager(till.tools()))
        told.append((await mine.check_permission(Function(id="1", name="pay", kwargs={"amount": 5})))[2])
    assert told == ["remembered for the session: this call only", "remembered for the session: every call of pay"]


@EVERY_WAY
@EVERY_RUNNER
@pytest.mark.proves("H1", "R73")
def test_a_blocked_tool_never_runs_and_nobody_is_asked(kind: type[Runner], way: str, till: Till) -> None:
    agent, script = agent_of(till.tools(), PAY)
    rule = {"pay": {"approval": "blocked", "block_reason": "the till is closed"}}
    events = run(kind(agent, permission_manager=manager(Person(), rule, mode="approve_all")), way)
    assert till.ran == []
    assert ASKED not in [name for name, _ in events]
    if kind is ApprovalRunner or way == "astream":
        assert "the till is closed" in script.last


@EVERY_WAY
@EVERY_RUNNER
def test_an_unanswered_question_expires_and_nothing_runs(kind: type[Runner], way: str, till: Till) -> None:
    clock = FixedClock()

    class Silent:
        async def announce(self, request: Any) -> None:
            asyncio.get_running_loop().call_soon(clock.advance, 31)

    agent, script = agent_of(till.tools(), PAY)
    mine = PermissionManager(channels=[Silent()], policy=Policy(default="none"), timeout=30, clock=clock)
    run(kind(agent, permission_manager=mine), way)
    assert till.ran == []
    assert mine.pending_approvals == {}
    assert asyncio.run(mine.controller.pending()) == []
    if kind is ApprovalRunner:
        assert "nobody answered in time" in script.last


@EVERY_WAY
@EVERY_RUNNER
@pytest.mark.proves("R66")
def test_without_a_permission_manager_the_runner_behaves_as_before(kind: type[Runner], way: str, till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    events = run(kind(agent), way)
    assert till.ran == [("pay", 5, "ann")]
    assert ASKED not in [name for name, _ in events]


@EVERY_RUNNER
@pytest.mark.proves("R65")
def test_a_manager_can_be_set_later(kind: type[Runner], till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    runner = kind(agent)
    runner.set_permission_manager(manager(Person(CANCEL)))
    run(runner, "call")
    assert till.ran == []


@EVERY_RUNNER
def test_a_runner_of_sayso_leaves_the_library_s_own_manager_to_the_library(kind: type[Runner], till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    run(kind(agent, permission_manager=shipped.PermissionManager()), "call")
    assert till.ran == [("pay", 5, "ann")]


@EVERY_RUNNER
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.proves("R67")
async def test_a_synchronous_run_inside_a_running_loop_asks(kind: type[Runner], later: bool, till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    person = Person(ONCE)
    runner = kind(agent, permission_manager=manager(person.later if later else person))
    assert runner.call({"input_str": "go"}).answer == "done"
    assert till.ran == [("pay", 5, "ann")]


@pytest.mark.proves("R67")
async def test_a_synchronous_run_in_a_worker_thread_asks(till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    runner = ApprovalRunner(agent, permission_manager=manager(Person(ONCE).later))
    await asyncio.to_thread(runner.call, {"input_str": "go"})
    assert till.ran == [("pay", 5, "ann")]


@pytest.mark.proves("R67")
async def test_while_a_synchronous_run_waits_the_loop_round_it_can_answer(till: Till) -> None:
    """The answer comes from a task of the very loop in which `call` waits."""
    agent, _ = agent_of(till.tools(), PAY)
    opened = asyncio.Event()

    class Bell:
        async def announce(self, request: Any) -> None:
            opened.set()

    controller = ApprovalController(channels=[Bell()], policy=Policy(default="none"))

    async def answers() -> None:
        await opened.wait()
        (request,) = await controller.pending()
        await controller.answer(request.id, ApprovalDecision(approved=True, who="ann"))

    answering = asyncio.create_task(answers())
    ApprovalRunner(agent, permission_manager=PermissionManager(controller=controller)).call({"input_str": "go"})
    await answering
    assert till.ran == [("pay", 5, "ann")]


@EVERY_RUNNER
@pytest.mark.proves("R73")
async def test_a_stream_tells_of_a_question_before_it_is_answered(kind: type[Runner], till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    answer: asyncio.Future[ApprovalOutcome] = asyncio.get_running_loop().create_future()

    async def ask(_: PermissionRequest) -> ApprovalOutcome:
        return await answer

    seen: list[str] = []
    async for event in kind(agent, permission_manager=manager(ask)).astream({"input_str": "go"}).stream_events():
        name = getattr(event, "name", "")
        seen.append(name)
        if name == ASKED:
            assert till.ran == []
            asked = event.item.data
            assert (asked.tool_name, asked.tool.args, asked.tool.kwargs) == ("pay", [], {"amount": 5})
            assert asked.id
            answer.set_result(ONCE)
    assert seen.index(ASKED) < seen.index("agent.tool_call_start")
    assert till.ran == [("pay", 5, "ann")]


@EVERY_RUNNER
@pytest.mark.proves("R73")
async def test_a_stream_tells_of_no_question_that_nobody_is_asked(kind: type[Runner], till: Till) -> None:
    agent, _ = agent_of(till.tools(require_approval=False), PAY, ("look", {"what": "it"}))
    events = await streamed(kind(agent, permission_manager=manager(Person(), {"pay": "none"})))
    assert ASKED not in [name for name, _ in events]
    assert till.ran == [("pay", 5, "ann"), ("look", "it")]


@pytest.mark.proves("R73")
async def test_a_stream_tells_of_no_question_that_a_remembered_call_answers(till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY, PAY)
    events = await streamed(ApprovalRunner(agent, permission_manager=manager(Person(ALWAYS))))
    assert [name for name, _ in events].count(ASKED) == 1
    assert len(till.ran) == 2


async def test_two_runs_ask_at_once_and_each_gets_its_own_answer(till: Till) -> None:
    waiting: dict[int, asyncio.Future[ApprovalOutcome]] = {}
    both = asyncio.Event()

    async def ask(request: PermissionRequest) -> ApprovalOutcome:
        future = waiting[request.tool_kwargs["amount"]] = asyncio.get_running_loop().create_future()
        if len(waiting) == 2:
            both.set()
        return await future

    mine = manager(ask)
    runs = [
        asyncio.create_task(ApprovalRunner(agent, permission_manager=mine).acall({"input_str": "go"}))
        for agent, _ in (agent_of(till.tools(), ("pay", {"amount": amount})) for amount in (1, 2))
    ]
    await both.wait()
    assert sorted(each.tool_kwargs["amount"] for each in mine.get_pending_approvals().values()) == [1, 2]
    waiting[2].set_result(CANCEL)
    waiting[1].set_result(ONCE)
    await asyncio.gather(*runs)
    assert till.ran == [("pay", 1, "ann")]


async def test_a_cancelled_run_withdraws_its_question(till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    asked = asyncio.Event()

    async def ask(_: PermissionRequest) -> ApprovalOutcome:
        asked.set()
        await asyncio.Event().wait()
        return ONCE

    mine = manager(ask)
    running = asyncio.create_task(ApprovalRunner(agent, permission_manager=mine).acall({"input_str": "go"}))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (request,) = await mine.controller.store.recent()
    assert (request.status, till.ran) == ("withdrawn", [])


class Broken(MemoryStore):
    """A store whose disk is full."""

    async def open(self, request: Any) -> Any:
        raise StoreError("the disk is full")


@EVERY_WAY
@EVERY_RUNNER
@pytest.mark.proves("H5")
def test_whatever_breaks_inside_nothing_runs(kind: type[Runner], way: str, till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    runner = kind(agent, permission_manager=manager(Person(ONCE), store=Broken()))
    try:
        told = str(run(runner, way))
    except RuntimeError as error:  # which AdalFlow raises for a stream, unless its last event has been taken by then
        told = str(error)
    assert ("disk is full" in told) == (way == "astream")
    assert till.ran == []


@EVERY_RUNNER
def test_a_callback_that_raises_runs_nothing(kind: type[Runner], till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)

    def ask(_: PermissionRequest) -> ApprovalOutcome:
        raise RuntimeError("the page is gone")

    run(kind(agent, permission_manager=manager(ask)), "call")
    assert till.ran == []


@pytest.mark.proves("H2", "H3")
async def test_the_same_call_id_runs_once(till: Till) -> None:
    mine = manager(Person(ONCE))
    mine.set_tool_manager(ToolManager(till.tools()))
    func = Function(id="7", name="pay", kwargs={"amount": 5})
    assert (await mine.check_permission(func))[0]
    allowed, again, why = await mine.check_permission(func)
    assert (allowed, again) == (False, None)
    assert "already used" in str(why)
    changed = Function(id="7", name="pay", kwargs={"amount": 9000})
    assert (await mine.check_permission(changed))[0] is False


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (PermissionManager, "nobody to ask: .* a mode that asks nobody: 'auto_deny' or 'approve_all'$"),
        (lambda: PermissionManager(approval_mode="yolo"), "approval_mode is 'yolo'"),
        (lambda: PermissionManager(Person(), approval_mode="default", mode="strict"), "two names for one thing"),
        (lambda: PermissionManager(Person(), controller=ApprovalController(mode="strict")), "settings of its own"),
        (lambda: PermissionManager(mode="defer"), "use the mode 'interactive', 'auto_deny' or 'approve_all'$"),
        (lambda: PermissionManager(3), "approval_callback is 3"),
        (lambda: PermissionManager(Person(), policy="sayso.yaml"), r"pass policy=load_policy\('sayso.yaml'\)$"),
    ],
)
@pytest.mark.proves("H5")
def test_a_manager_that_has_no_safe_meaning_is_not_made(made: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        made()


def test_a_shared_controller_is_asked(till: Till) -> None:
    channel = ScriptedChannel()
    channel.approve("pay", override_args={"amount": 2, "to": "bob"})
    agent, _ = agent_of(till.tools(), PAY)
    controller = ApprovalController(channels=[channel], policy=Policy({"pay": "required"}, default="none"))
    run(ApprovalRunner(agent, permission_manager=PermissionManager(controller=controller)), "acall")
    assert till.ran == [("pay", 2, "bob")]
    assert channel.asked[0].agent_path == ("clerk",)


def test_the_library_s_own_answers_are_understood(till: Till) -> None:
    answer = shipped.ApprovalResponse(shipped.ApprovalOutcome.CANCEL, "not today")
    agent, script = agent_of(till.tools(), PAY, PAY)
    person = Person(answer, shipped.ApprovalOutcome.PROCEED_ONCE)
    run(ApprovalRunner(agent, permission_manager=manager(person)), "call")
    assert till.ran == [("pay", 5, "ann")]
    assert "not today" in script.prompts[1]
    assert person.asked[0].tool == Function(id=person.asked[0].id, name="pay", args=[], kwargs={"amount": 5})


def test_a_synchronous_callback_runs_in_a_thread_of_its_own(till: Till) -> None:
    names: list[str] = []

    def ask(_: PermissionRequest) -> ApprovalOutcome:
        names.append(threading.current_thread().name)
        return ONCE

    agent, _ = agent_of(till.tools(), PAY)
    run(Runner(agent, permission_manager=manager(ask)), "acall")
    assert names == ["sayso-callback"]


def test_an_event_for_a_call_that_cannot_run_is_the_reason(till: Till) -> None:
    def check(amount: int, to: str = "") -> Any:
        return type("Checked", (), {"error": "there is not so much"})() if amount > 5 else {"left": 5 - amount}

    tools = till.tools()
    tools[0].pre_execute_callback = check
    mine = manager(Person())
    mine.set_tool_manager(ToolManager(tools))
    mine.register_tool("pay")
    told = mine.create_permission_event(Function(id="1", name="pay", kwargs={"amount": 6}))
    assert isinstance(told, ToolOutput)
    assert "there is not so much" in str(told.observation)
    unfit = mine.create_permission_event(Function(id="2", name="pay", kwargs={"sum": 6}))
    assert isinstance(unfit, ToolOutput)
    asked = mine.create_permission_event(Function(id="3", name="pay", kwargs={"amount": 1}))
    assert asked.data.confirmation_details == {"left": 4}


def test_what_a_tool_shows_beforehand_reaches_the_person_in_every_way(till: Till) -> None:
    tools = till.tools()
    tools[0].pre_execute_callback = lambda amount, to: {"left": 9 - amount, "of": to}
    agent, _ = agent_of(tools, PAY)
    person = Person(CANCEL)
    run(ApprovalRunner(agent, permission_manager=manager(person)), "call")
    assert person.asked[0].confirmation_details == {"left": 4, "of": "ann"}


@pytest.mark.proves("H5")
def test_a_tool_that_asks_goes_on_asking_whoever_registers_it_again(till: Till) -> None:
    agent, _ = agent_of(till.tools(), PAY)
    mine = manager(Person(CANCEL))
    runner = Runner(agent, permission_manager=mine)
    mine.register_tool("pay", require_approval=False)  # as another runner does that has a tool of this name
    run(runner, "call")
    assert till.ran == []


def test_nothing_is_inherited_from_the_library_s_own_manager() -> None:
    assert PermissionManager.__mro__ == (PermissionManager, object)
    assert PermissionManager(mode="auto_deny"), "the runner asks it only if it is true"
