"""What an agent does with `Approvals` is what it does without: hooks, validators, spans, order, outputs, models."""

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, ModelRequestNode, RunContext, Tool
from pydantic_ai import __version__ as version
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls
from pydantic_ai.messages import AgentStreamEvent, ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.result import FinalResult
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from pydantic_graph import End
from tests.adapters.pydantic_ai.scripted import Call, Inbox, Scripted, Till, returns
from tests.people import YES, Person

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.pydantic_ai import Approvals, park
from sayso.adapters.pydantic_ai import resume as resume_parked

ASKS = Policy({"pay": "required"}, default="none")
PAY_5: Call = ("pay", {"amount": 5})
PAY_6: Call = ("pay", {"amount": 6})
LOOK: Call = ("look", {"name": "x"})
BESIDE: Any = "exhaustive" if version.startswith("1.") else "graceful"  # runs tools beside an output


class Logging(AbstractCapability[Any]):
    """Writes down each hook that it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def before_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        self.heard.append(f"validate {call.tool_name}")
        return args

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        self.heard.append(f"before {call.tool_name}")
        return args

    async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
        self.heard.append(f"after {call.tool_name}")
        return result


async def history(till: Till, *capabilities: Any) -> tuple[list[str], list[str], list[tuple[str, Any]]]:
    """Run an agent, and return its hooks and validators, its events, and the results in their order."""
    logging = Logging()
    events: list[str] = []

    async def handle(ctx: RunContext[Any], stream: AsyncIterable[AgentStreamEvent]) -> None:
        events.extend([type(event).__name__ async for event in stream])

    def check(ctx: RunContext[Any], amount: int) -> None:
        logging.heard.append("checked")

    tools = [Tool(till.pay, args_validator=check), Tool(till.look), Tool(till.drop)]
    agent = Agent(TestModel(), tools=tools, capabilities=[logging, *capabilities])
    result = await agent.run("go", event_stream_handler=handle)
    told = [(part.tool_name, part.content) for part in returns(result.all_messages()).values()]
    return sorted(logging.heard), events, told


async def test_hooks_validators_events_and_results_are_those_of_a_run_without_approvals(till: Till) -> None:
    bare = await history(till)
    person = Person(YES)
    asked = await history(
        till, Approvals(Policy({"pay": "required", "drop": "required"}, default="none"), approval_callback=person)
    )
    assert asked == bare
    assert len(person.asked) == 2


async def test_all_calls_of_a_response_are_asked_about_at_once_and_each_runs_when_it_is_answered(till: Till) -> None:
    inbox = Inbox()
    controller = ApprovalController(policy=ASKS, channels=[inbox])
    agent = Agent(Scripted([PAY_5, PAY_6]).model, tools=till.tools, capabilities=[Approvals(controller)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run, "go")
        first, second = await inbox.until(2)
        later, sooner = sorted((first, second), key=lambda each: each.args["amount"])
        await controller.answer(sooner.id, YES)
        with anyio.fail_after(10):
            while not till.ran:
                await anyio.lowlevel.checkpoint()
        assert till.ran == [("pay", 6)]
        await controller.answer(later.id, YES)
    assert till.ran == [("pay", 6), ("pay", 5)]


async def test_a_hook_that_catches_errors_does_not_swallow_a_question(till: Till) -> None:
    class Catching(AbstractCapability[Any]):
        async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
            try:
                return await handler(args)
            except Exception as error:  # noqa: BLE001 - as such hooks do
                return f"sorry {error!r}"

    approvals = Approvals(ASKS, approval_callback=Person(YES))
    await Agent(Scripted([PAY_5]).model, tools=till.tools, capabilities=[Catching(), approvals]).run("go")
    assert till.ran == [("pay", 5)]


async def test_a_hook_after_a_tool_does_not_get_a_refusal_for_its_result(till: Till) -> None:
    class Shouting(AbstractCapability[Any]):
        async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
            return result.upper()

    approvals = Approvals(ASKS, approval_callback=Person(YES, ApprovalDecision(approved=False, note="no")))
    script = Scripted([PAY_5], [PAY_6])
    result = await Agent(script.model, tools=till.tools, capabilities=[Shouting(), approvals]).run("go")
    told = returns(result.all_messages())
    assert told["c1"].content == "PAID 5"
    assert "Not executed: refused by a person" in str(told["c2"].content)


async def test_a_hook_that_ends_the_run_leaves_its_calls_for_the_next_one(till: Till) -> None:
    class Ending(AbstractCapability[Any]):
        ends = True

        async def after_node_run(self, ctx: Any, *, node: Any, result: Any) -> Any:
            if self.ends and isinstance(node, ModelRequestNode):
                return End(FinalResult("stopped"))
            return result

    ending = Ending()
    approvals = Approvals(ASKS, approval_callback=Person(YES))
    agent = Agent(Scripted([PAY_5]).model, tools=till.tools, capabilities=[ending, approvals])
    stopped = await agent.run("go")
    assert (stopped.output, till.ran) == ("stopped", [])
    ending.ends = False
    await agent.run(message_history=stopped.all_messages())
    assert till.ran == [("pay", 5)]


async def test_a_handler_of_deferred_calls_beside_it_neither_answers_nor_ends_the_run(till: Till) -> None:
    handled: list[str] = []

    def handle(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        handled.extend(part.tool_name for part in requests.approvals)
        return requests.build_results(approve_all=True)

    approvals = Approvals(ASKS, approval_callback=Person(ApprovalDecision(approved=False, note="no")))
    agent = Agent(Scripted([PAY_5]).model, tools=till.tools, capabilities=[HandleDeferredToolCalls(handle), approvals])
    assert (await agent.run("go")).output == "done"
    assert till.ran == []
    assert handled == [] or version.startswith("1."), "only PydanticAI 1 turns a refusal into a result by deferring it"


def test_the_model_of_a_run_is_selected_once(till: Till) -> None:
    selected: list[int] = []

    class Selecting(AbstractCapability[Any]):
        def get_model(self) -> Any:
            def select(ctx: Any) -> TestModel:
                selected.append(1)
                return TestModel(call_tools=[])

            return select

    if not hasattr(AbstractCapability, "get_model"):
        return  # PydanticAI 1 has no such hook
    Agent(capabilities=[Selecting(), Approvals(ASKS, mode="auto_deny")]).run_sync("go")
    once = len(selected)
    selected.clear()
    Agent(capabilities=[Selecting()]).run_sync("go")
    assert once == len(selected)


async def test_runs_of_one_agent_at_the_same_time_do_not_share_their_questions(till: Till) -> None:
    inbox = Inbox()
    controller = ApprovalController(policy=ASKS, channels=[inbox])
    agent = Agent(Scripted([PAY_5], reuse_ids=True).model, tools=till.tools, capabilities=[Approvals(controller)])
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(agent.run, "go")
        for request in list(await inbox.until(3)):
            await controller.answer(request.id, YES)
    assert till.ran == [("pay", 5)] * 3


# Calls beside a final output.


class Paid(BaseModel):
    """The output of an agent."""

    text: str


def beside(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    output = ToolCallPart(info.output_tools[0].name, {"text": "done"}, tool_call_id="out")
    return ModelResponse(parts=[ToolCallPart("pay", {"amount": 5}, tool_call_id="pay"), output])


class AsksBefore(AbstractCapability[Any]):
    """Wants an approval before any tool runs."""

    async def before_tool_execute(self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any) -> Any:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return args


async def test_a_call_beside_the_final_output_waits_for_its_answer_and_runs(till: Till) -> None:
    approvals = Approvals(ASKS, approval_callback=Person(YES))
    result = await Agent(
        FunctionModel(beside), tools=[till.pay], output_type=Paid, capabilities=[approvals], end_strategy=BESIDE
    ).run("go")
    assert result.output == Paid(text="done")
    assert till.ran == [("pay", 5)]
    assert returns(result.all_messages())["pay"].content == "paid 5"


async def test_where_the_run_cannot_stop_for_it_such_a_call_is_refused_in_the_history_and_its_question_is_withdrawn(
    till: Till,
) -> None:
    controller = ApprovalController(policy=ASKS, mode="defer")
    output: Any = [Paid, DeferredToolRequests]
    agent = Agent(
        FunctionModel(beside),
        tools=[till.pay],
        output_type=output,
        capabilities=[Approvals(controller)],
        end_strategy=BESIDE,
    )
    result = await agent.run("go")
    assert result.output == Paid(text="done")
    assert till.ran == []
    told = returns(result.all_messages())["pay"]
    assert told.outcome == "denied" or version.startswith("1.")
    assert "beside the final result" in str(told.content)
    (row,) = await controller.store.recent()
    assert row.status == "withdrawn"
    assert row.decision is not None
    assert "final result" in str(row.decision.note)


@pytest.mark.parametrize("settings", [{"approval_callback": Person(YES)}, {"mode": "defer"}])
async def test_a_call_that_a_hook_holds_back_beside_the_final_output_is_told_as_not_executed(
    till: Till, settings: dict[str, Any]
) -> None:
    output: Any = [Paid, DeferredToolRequests]
    approvals = Approvals(Policy(default="none"), **settings)
    agent = Agent(
        FunctionModel(beside),
        tools=[till.pay],
        output_type=output,
        capabilities=[AsksBefore(), approvals],
        end_strategy=BESIDE,
    )
    result = await agent.run("go")
    assert till.ran == []
    assert "Not executed" in str(returns(result.all_messages())["pay"].content)


async def test_a_call_beside_a_streamed_text_runs_when_it_is_answered_or_is_refused_in_the_history(till: Till) -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield "hello "
        yield {0: DeltaToolCall(name="pay", json_args='{"amount": 5}', tool_call_id="pay")}

    async def told(**settings: Any) -> str:
        output: Any = [str, DeferredToolRequests]
        agent = Agent(
            FunctionModel(stream_function=stream),
            tools=[till.pay],
            output_type=output,
            capabilities=[Approvals(ASKS, **settings)],
            end_strategy=BESIDE,
        )
        async with agent.run_stream("go") as result:
            assert await result.get_output() == "hello "
        return str(returns(result.all_messages())["pay"].content)

    assert await told(approval_callback=Person(YES)) == "paid 5"
    assert till.ran == [("pay", 5)]
    assert "Not executed" in await told(mode="defer")
    assert till.ran == [("pay", 5)]


# Call ids that come twice.


class SameIds(Scripted):
    """A model that gives its first call of every response the same id."""

    def _call(self, turn: int, at: int, call: Call) -> ToolCallPart:
        return ToolCallPart(call[0], call[1], tool_call_id=f"call_{at}")


@pytest.mark.proves("H2", "H3")
@pytest.mark.parametrize("turns", [([PAY_5], [PAY_6]), ([PAY_5], [PAY_5], [LOOK], [PAY_5])])
async def test_calls_with_the_same_id_in_one_run_are_each_asked_about(till: Till, turns: Any) -> None:
    person = Person(YES)
    wanted = [call for turn in turns for call in turn]
    await Agent(SameIds(*turns).model, tools=till.tools, capabilities=[Approvals(ASKS, approval_callback=person)]).run(
        "go"
    )
    assert [next(iter(args.values())) for _, args in wanted] == [value for _, value in till.ran]
    assert len(person.asked) == sum(name == "pay" for name, _ in wanted)


@pytest.mark.proves("H2", "H3")
async def test_a_no_to_the_second_call_of_an_id_holds_though_the_first_was_approved(till: Till) -> None:
    person = Person(YES, ApprovalDecision(approved=False))
    script = SameIds([PAY_5], [PAY_5])
    await Agent(script.model, tools=till.tools, capabilities=[Approvals(ASKS, approval_callback=person)]).run("go")
    assert till.ran == [("pay", 5)]
    assert len(person.asked) == 2


@pytest.mark.proves("H2", "H3")
async def test_a_call_beside_a_streamed_text_may_have_the_id_of_one_of_an_earlier_turn(till: Till) -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield "hello "
        yield {0: DeltaToolCall(name="pay", json_args='{"amount": 5}', tool_call_id="same")}

    person = Person(YES)
    agent = Agent(
        FunctionModel(stream_function=stream),
        tools=[till.pay],
        capabilities=[Approvals(ASKS, approval_callback=person)],
        end_strategy=BESIDE,
    )
    messages: list[ModelMessage] = []
    for _ in range(2):
        async with agent.run_stream("go", message_history=messages) as result:
            await result.get_output()
        messages = result.all_messages()
    assert till.ran == [("pay", 5)] * 2
    assert len(person.asked) == 2


@pytest.mark.proves("H2", "H3", "R16")
async def test_a_resumed_history_finds_its_own_call_among_those_of_one_id(till: Till) -> None:
    controller = ApprovalController(policy=ASKS, mode="defer")
    output: Any = [str, DeferredToolRequests]
    script = SameIds([PAY_5], [PAY_5], [PAY_6])
    agent = Agent(script.model, tools=till.tools, output_type=output, capabilities=[Approvals(controller)])
    result = await agent.run("go")
    asked: list[str] = []
    while isinstance(result.output, DeferredToolRequests):
        (request,) = await controller.pending()
        asked.append(request.id)
        parked = await park(result, controller)
        await controller.answer(request.id, YES)
        result = await resume_parked(agent, parked, controller=controller)
    assert till.ran == [("pay", 5), ("pay", 5), ("pay", 6)]
    assert len(set(asked)) == 3


# Sessions.


async def remembered_in(session_of: Callable[[Any], str] | None, *conversations: str) -> int:
    """Run once for each conversation with an answer that is remembered for its session; return how often it asked."""
    till = Till()
    person = Person(ApprovalDecision(approved=True, remember="session"))
    approvals = Approvals(ASKS, approval_callback=person, session_of=session_of)
    agent = Agent(Scripted([PAY_5]).model, tools=till.tools, capabilities=[approvals])
    for conversation in conversations:
        await agent.run("go", conversation_id=conversation)
    assert len(till.ran) == len(conversations)
    return len(person.asked)


async def test_a_host_binds_the_session_of_a_run_to_its_user_and_chat() -> None:
    assert await remembered_in(None, "a", "b") == 1, "one session, that of the controller"
    assert await remembered_in(lambda ctx: f"ann/{ctx.conversation_id}", "a", "b", "a") == 2
