"""Answers from a web front end: those of the signed-in person count, for the questions of their session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Never

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai import __version__ as version
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till, returns

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.pydantic_ai import Approvals, WebUser, accept_answers
from sayso.errors import ApprovalBlocked, ConfigurationError, NotEntitled
from sayso.stores.sqlite import SqliteStore

YES, NO = True, False  # as PydanticAI has them
SESSION = "ann/chat"
RULES = {
    "pay": "required",
    "p*": {"approval": "blocked", "when": {"args.amount": {"gt": 1000}}},
    "look": {"approval": "required", "approvers": {"role": "reader"}},
    "drop": {"approval": "required", "approvers": {"count": 2}},
}


class Chat:
    """A conversation whose history is in a browser, which keeps no ids of runs."""

    def __init__(
        self,
        till: Till,
        controller: ApprovalController,
        *turns: list[Call],
        more: Sequence[Tool[Any]] = (),
        reuse_ids: bool = False,
        **settings: Any,
    ) -> None:
        self.till, self.controller = till, controller
        self.agent = Agent(
            Scripted(*turns, reuse_ids=reuse_ids).model,
            tools=[*till.tools, *more],
            capabilities=[Approvals(controller, session_of=lambda _: SESSION, **settings)],
            output_type=[str, DeferredToolRequests],
        )
        self.history: list[ModelMessage] = []

    async def run(self, prompt: str | None = None, results: DeferredToolResults | None = None) -> Any:
        done = await self.agent.run(prompt, message_history=self.history, deferred_tool_results=results)
        self.history = [replace(message, run_id=None) for message in done.all_messages()]
        return done.output

    async def ask(self) -> ApprovalRequest:
        """Let the agent ask, and return the question."""
        assert isinstance(await self.run("go"), DeferredToolRequests)
        return (await self.controller.pending())[-1]

    async def accept(self, answer: Any, call_id: str = "c1", **person: Any) -> DeferredToolResults:
        given = DeferredToolResults(approvals={call_id: answer})
        settings = {"session": SESSION, "who": "ann", **person}
        accepted = await accept_answers(given, self.history, controller=self.controller, **settings)
        assert accepted is not None
        assert given.approvals == {call_id: answer}, "what the browser said is left alone"
        return accepted

    @property
    def told(self) -> list[str]:
        return [str(part.content) for part in returns(self.history).values()]


@pytest.fixture
def controller(tmp_path: Any) -> ApprovalController:
    return ApprovalController(policy=Policy(RULES), mode="defer", store=SqliteStore(tmp_path / "sayso.db"))


@pytest.fixture
def chat(till: Till, controller: ApprovalController) -> Chat:
    return Chat(till, controller, [("pay", {"amount": 5})])


@pytest.mark.proves("H17")
@pytest.mark.parametrize("yes", [True, ToolApproved()])
async def test_a_yes_is_the_answer_of_the_signed_in_person(chat: Chat, yes: Any) -> None:
    question = await chat.ask()
    accepted = await chat.accept(yes)
    assert accepted.approvals == {"c1": True}
    assert await chat.run(results=accepted) == "done"
    assert chat.till.ran == [("pay", 5)]
    used = await chat.controller.store.get(question.id)
    assert used is not None
    assert used.decision is not None
    assert (used.status, used.decision.who, used.decision.channel) == ("used", "ann", "web")


@pytest.mark.proves("H12")
@pytest.mark.parametrize(("no", "note"), [(False, None), (ToolDenied(), None), (ToolDenied("too much"), "too much")])
async def test_a_no_stays_a_no_with_its_reason(chat: Chat, no: Any, note: str | None) -> None:
    question = await chat.ask()
    accepted = await chat.accept(no)
    assert isinstance(accepted.approvals["c1"], ToolDenied)
    await chat.run(results=accepted)
    assert chat.till.ran == []
    assert chat.told[0].startswith("Not executed: refused by ann.")
    denied = await chat.controller.store.get(question.id)
    assert denied is not None
    assert denied.decision is not None
    assert (denied.status, denied.decision.note) == ("denied", note)


@pytest.mark.proves("H17")
async def test_edited_arguments_run(chat: Chat) -> None:
    await chat.ask()
    accepted = await chat.accept(ToolApproved(override_args={"amount": 1}))
    assert accepted.approvals == {"c1": True}, "what runs is in the store, and not in the results"
    await chat.run(results=accepted)
    assert chat.till.ran == [("pay", 1)]


async def test_edited_arguments_that_are_blocked_are_refused_and_the_question_stays_open(chat: Chat) -> None:
    await chat.ask()
    with pytest.raises(ApprovalBlocked, match="the edited arguments cannot run"):
        await chat.accept(ToolApproved(override_args={"amount": 5000}))
    assert len(await chat.controller.pending()) == 1


@pytest.mark.parametrize("answered", [None, {"amount": 1.0}])
async def test_an_edit_that_comes_after_the_answer_does_not_count(chat: Chat, answered: dict[str, Any] | None) -> None:
    question = await chat.ask()
    await chat.controller.answer(question.id, ApprovalDecision(approved=True, override_args=answered), who="tom")
    await chat.run(results=await chat.accept(ToolApproved(override_args={"amount": 1})))
    assert chat.till.ran == []
    assert "it was answered before, with other arguments than these" in chat.told[0]


@pytest.mark.parametrize(("approved", "ran"), [(True, [("pay", 5)]), (False, [])])
async def test_the_first_answer_stands_wherever_it_was_given(chat: Chat, approved: bool, ran: list[Any]) -> None:
    question = await chat.ask()
    await chat.controller.answer(question.id, ApprovalDecision(approved=approved), who="tom")
    await chat.run(results=await chat.accept(YES))
    assert chat.till.ran == ran


@pytest.mark.proves("H11")
async def test_an_answer_to_a_question_of_another_session_does_not_count(chat: Chat) -> None:
    await chat.ask()
    await chat.run(results=await chat.accept(YES, session="bob/chat"))
    assert chat.till.ran == []
    assert "nobody was asked about this call in this session" in chat.told[0]


@pytest.mark.proves("H11")
async def test_a_no_to_a_question_of_another_session_answers_nothing(chat: Chat) -> None:
    await chat.ask()
    accepted = await chat.accept(NO, session="bob/chat")
    assert accepted.approvals == {"c1": False}
    assert len(await chat.controller.pending()) == 1


async def test_whoever_lacks_the_role_is_told_and_the_question_stays_open(
    till: Till, controller: ApprovalController
) -> None:
    chat = Chat(till, controller, [("look", {"name": "books"})])
    await chat.ask()
    with pytest.raises(NotEntitled, match="in the role reader, and ann is not in that role"):
        await chat.accept(YES, roles=["writer"])
    assert len(await controller.pending()) == 1
    await chat.run(results=await chat.accept(YES, roles=["reader"]))
    assert till.ran == [("look", "books")]


async def test_a_quorum_needs_different_people(till: Till, controller: ApprovalController) -> None:
    chat = Chat(till, controller, [("drop", {"table": "users"})])
    await chat.ask()
    for _ in range(2):
        accepted = await chat.accept(YES)
        assert isinstance(await chat.run(results=accepted), DeferredToolRequests), "it is asked again"
    await chat.run(results=await chat.accept(YES, who="tom"))
    assert till.ran == [("drop", "users")]


@pytest.mark.proves("H3")
async def test_an_old_yes_does_not_answer_a_new_question_with_the_same_call_id(
    till: Till, controller: ApprovalController
) -> None:
    chat = Chat(till, controller, [("pay", {"amount": 5})], reuse_ids=True)
    await chat.ask()
    sent_again = chat.history
    await chat.run(results=await chat.accept(YES, "0.0"))
    question = await chat.ask()
    latest = chat.history
    result_lost = [message for message in latest if not any(part.part_kind == "tool-return" for part in message.parts)]
    for history in (sent_again, result_lost):
        chat.history = history
        refused = (await chat.accept(YES, "0.0")).approvals["0.0"]
        assert isinstance(refused, ToolDenied)
        assert "its call id was used before in this conversation" in refused.message
    assert await controller.pending() == [question]
    chat.history = latest
    await chat.run(results=await chat.accept(YES, "0.0"))
    assert till.ran == [("pay", 5)] * 2


async def test_questions_that_the_conversation_leaves_behind_are_withdrawn(chat: Chat) -> None:
    question = await chat.ask()
    for session, left in (("bob/chat", 1), (SESSION, 0)):
        await accept_answers(None, chat.history, controller=chat.controller, session=session, who="ann")
        assert len(await chat.controller.pending()) == left
    closed = await chat.controller.store.get(question.id)
    assert closed is not None
    assert closed.status == "withdrawn"


@pytest.mark.parametrize("missing", [{"session": ""}, {"who": ""}])
async def test_an_answer_needs_a_session_and_a_person(chat: Chat, missing: dict[str, str]) -> None:
    await chat.ask()
    with pytest.raises(ConfigurationError, match="an answer needs a session and a person"):
        await chat.accept(YES, **missing)


def give(ctx: RunContext[Any], amount: int) -> str:
    return f"gave {amount}"


def give_if_approved(ctx: RunContext[Any], amount: int) -> str:
    return give(ctx, amount) if ctx.tool_call_approved else wants_approval()


def check_approved(ctx: RunContext[Any], amount: int) -> None:
    return None if ctx.tool_call_approved else wants_approval()


def wants_approval() -> Never:
    raise ApprovalRequired


ASKING = [Tool(give, requires_approval=True), Tool(give_if_approved, name="give")]
if not version.startswith("1."):  # there, a validator cannot ask
    ASKING.append(Tool(give, args_validator=check_approved))


@pytest.mark.parametrize("tool", ASKING)
async def test_an_approval_that_the_tool_itself_wants_is_found(till: Till, tool: Tool[Any]) -> None:
    controller = ApprovalController(policy=Policy(default="none"), mode="defer")
    chat = Chat(till, controller, [("give", {"amount": 5})], more=[tool])
    await chat.ask()
    await chat.run(results=DeferredToolResults(approvals={"c1": True}))
    assert chat.told == [], "nobody has answered"
    await chat.run(results=await chat.accept(YES))
    assert chat.told == ["gave 5"]


@pytest.mark.proves("H17")
async def test_what_vercels_adapter_reads_from_a_browser_runs_once(till: Till, controller: ApprovalController) -> None:
    """With every release of PydanticAI; tests/web has the real clients."""
    agent = Agent(
        FunctionModel(stream_function=stream_pay),
        tools=[till.pay],
        output_type=[str, DeferredToolRequests],
        capabilities=[Approvals(controller, session_of=lambda _: SESSION)],
    )

    async def post(*messages: dict[str, Any]) -> None:
        body = json.dumps({"trigger": "submit-message", "id": "chat", "messages": messages}).encode()
        run_input = VercelAIAdapter.build_run_input(body)
        adapter = VercelAIAdapter(agent=agent, run_input=run_input, sdk_version=6)
        results = await accept_answers(
            adapter.deferred_tool_results, adapter.messages, controller=controller, session=SESSION, who="ann"
        )
        async for _ in adapter.run_stream(deferred_tool_results=results):
            pass

    said = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    call = {"type": "tool-pay", "toolCallId": "c1", "state": "approval-responded", "input": {"amount": 5}}
    yes = {"id": "2", "role": "assistant", "parts": [{**call, "approval": {"id": "c1", "approved": True}}]}
    await post(said)
    assert till.ran == []
    for _ in range(2):
        await post(said, yes)
        assert till.ran == [("pay", 5)]


async def stream_pay(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    if isinstance(messages[-1].parts[-1], UserPromptPart):
        yield {0: DeltaToolCall("pay", '{"amount": 5}', tool_call_id="c1")}
    else:
        yield "done"


# `answered_by`, for hosts that cannot call `accept_answers`.


def ann(_: RunContext[Any]) -> WebUser:
    return WebUser("ann")


def nobody(_: RunContext[Any]) -> None:
    return None


@pytest.mark.proves("H17")
@pytest.mark.parametrize(
    ("answer", "ran"), [(True, [("pay", 5)]), (ToolApproved(override_args={"amount": 1}), [("pay", 1)]), (False, [])]
)
async def test_answers_in_a_browsers_history_are_those_of_the_person_that_the_host_names(
    till: Till, controller: ApprovalController, answer: Any, ran: list[Any]
) -> None:
    chat = Chat(till, controller, [("pay", {"amount": 5})], answered_by=ann)
    await chat.ask()
    await chat.run(results=DeferredToolResults(approvals={"c1": answer}))
    assert till.ran == ran
    assert await controller.pending() == []


@pytest.mark.proves("H3")
async def test_nobodys_answers_do_not_count(till: Till, controller: ApprovalController) -> None:
    for number, person in enumerate((None, nobody)):
        chat = Chat(till, controller, [("pay", {"amount": number})], answered_by=person)
        await chat.ask()
        again = await chat.run(results=DeferredToolResults(approvals={"c1": True}))
        assert isinstance(again, DeferredToolRequests), "it is asked again"
    assert till.ran == []


async def test_nobodys_no_closes_the_question_all_the_same(chat: Chat) -> None:
    question = await chat.ask()
    await chat.run(results=DeferredToolResults(approvals={"c1": ToolDenied("no")}))
    denied = await chat.controller.store.get(question.id)
    assert denied is not None
    assert denied.decision is not None
    assert (denied.status, denied.decision.who, chat.till.ran) == ("denied", "the host", [])


async def test_a_new_prompt_withdraws_what_was_asked_before(till: Till, controller: ApprovalController) -> None:
    chat = Chat(till, controller, [("pay", {"amount": 5})], answered_by=ann)
    first = await chat.ask()
    chat.history.append(ModelRequest(parts=[UserPromptPart("go on")]))
    assert isinstance(await chat.run(), DeferredToolRequests)
    (second,) = await controller.pending()
    assert second.id != first.id


@pytest.mark.proves("H3")
async def test_a_history_that_keeps_its_run_brings_no_answers(till: Till, controller: ApprovalController) -> None:
    """There, True only says that the store has an answer, as when a parked run goes on."""
    chat = Chat(till, controller, [("pay", {"amount": 5})], answered_by=ann)
    first = await chat.agent.run("go")
    results = DeferredToolResults(approvals={"c1": True})
    again = await chat.agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert isinstance(again.output, DeferredToolRequests), "it is asked again"
    assert till.ran == []


def test_a_person_is_named_by_a_function() -> None:
    wrong: Any = "ann"
    with pytest.raises(ConfigurationError, match="answered_by is 'ann'; pass a function"):
        Approvals(Policy(), answered_by=wrong)


@pytest.mark.proves("H12")
async def test_a_no_after_a_yes_that_has_not_run_holds(chat: Chat) -> None:
    await chat.ask()
    stale = await chat.accept(YES)  # stored, and then the run never goes on
    history = chat.history
    await chat.run(results=await chat.accept(NO))
    chat.history = history
    await chat.run(results=stale)
    assert chat.till.ran == []


@pytest.mark.proves("H2")
async def test_a_yes_does_not_answer_the_question_of_another_tool_with_the_same_call_id(chat: Chat) -> None:
    question = await chat.ask()
    shown = replace(chat.history[-1], parts=[replace(chat.history[-1].parts[0], tool_name="look_up")])  # pyright: ignore[reportArgumentType, reportCallIssue]
    chat.history = [*chat.history[:-1], shown]
    accepted = await chat.accept(YES)
    assert isinstance(accepted.approvals["c1"], ToolDenied)
    found = await chat.controller.store.get(question.id)
    assert found is not None
    assert found.status == "open"


async def test_a_person_who_is_no_web_user_is_a_mistake_of_the_host(till: Till, controller: ApprovalController) -> None:
    def named(_: Any) -> Any:
        return "ann"

    with pytest.raises(ConfigurationError, match="answered_by returned 'ann'; return a WebUser, or None"):
        await Chat(till, controller, [("pay", {"amount": 5})], answered_by=named).run("go")
    assert till.ran == []
