"""Functions that take an agent's output are effects like any other: nothing runs without a say-so."""

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, TextOutput, ToolOutput
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests

from sayso import ApprovalBlocked, ApprovalController, ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.pydantic_ai import Approvals
from sayso.core.audit import entries

SENT: list[object] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def send(to: str, text: str) -> str:
    """Send a letter."""
    SENT.append((to, text))
    return f"sent to {to}"


def shout(text: str) -> str:
    SENT.append(text)
    return text.upper()


class Letter(BaseModel):
    to: str


def post(letter: Letter) -> str:
    SENT.append(letter.to)
    return "posted"


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Hand on a letter and, once that is refused, say something else."""
    if info.output_tools and len(messages) == 1:
        args = {"to": "bob", "text": "hi"}
        wanted = info.output_tools[0].parameters_json_schema["properties"]
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {k: args[k] for k in wanted})])
    return ModelResponse(parts=[TextPart("something else")])


def agent(output: object, controller: ApprovalController, **settings: object) -> Agent[None, object]:
    return Agent(FunctionModel(respond), output_type=output, capabilities=[Approvals(controller, **settings)])  # type: ignore[call-overload, arg-type]


class Answers:
    def __init__(self, *, approved: bool, note: str | None = None, edit: dict[str, object] | None = None) -> None:
        self.decision = ApprovalDecision(approved=approved, note=note, override_args=edit)
        self.seen: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        self.seen.append(request)
        return self.decision


def asking(answers: Answers, **rules: str) -> ApprovalController:
    return ApprovalController(policy=Policy(rules or {"send": "required"}, default="none"), approval_callback=answers)


async def test_an_output_function_is_asked_about_with_what_it_would_get_and_runs_once() -> None:
    answers = Answers(approved=True)
    controller = asking(answers)
    result = await agent(send, controller).run("go")
    assert result.output == "sent to bob"
    assert SENT == [("bob", "hi")]
    assert [(each.tool_name, dict(each.args)) for each in answers.seen] == [("send", {"to": "bob", "text": "hi"})]
    assert [each["step"] async for each in entries(controller.store)] == ["asked", "approved", "claimed", "returned"]


async def test_a_no_is_told_to_the_model_which_can_answer_otherwise() -> None:
    result = await agent([send, str], asking(Answers(approved=False, note="not to bob"))).run("go")
    assert result.output == "something else"
    assert SENT == []
    assert "not to bob" in str(result.all_messages())


async def test_a_no_ends_the_run_where_that_is_asked_for() -> None:
    with pytest.raises(PermissionError):
        await agent(send, asking(Answers(approved=False)), on_denied="raise").run("go")
    assert SENT == []


async def test_a_blocked_output_function_never_runs_and_nobody_is_asked() -> None:
    answers = Answers(approved=True)
    with pytest.raises(ApprovalBlocked):
        await agent(send, asking(answers, send="blocked"), on_denied="raise").run("go")
    assert SENT == answers.seen == []


async def test_what_is_handed_on_cannot_be_edited() -> None:
    answers = Answers(approved=True, edit={"to": "eve", "text": "hi"})
    result = await agent([send, str], asking(answers)).run("go")
    assert SENT == []
    assert result.output == "something else"


async def test_a_run_that_defers_refuses_and_leaves_no_question_behind() -> None:
    controller = ApprovalController(policy=Policy({"send": "required"}, default="none"), mode="defer")
    result = await agent([send, str, DeferredToolRequests], controller).run("go")
    assert result.output == "something else"
    assert SENT == await controller.pending() == []


@pytest.mark.parametrize(("output", "name"), [(TextOutput(shout), "shout"), (ToolOutput(post), "post")])
async def test_text_functions_and_models_are_decided_about_by_the_name_of_the_function(
    output: object, name: str
) -> None:
    answers = Answers(approved=False)
    with pytest.raises((PermissionError, UnexpectedModelBehavior)):
        await agent(output, asking(answers, **{name: "required"}), on_denied="raise").run("go")
    assert SENT == []
    assert [each.tool_name for each in answers.seen] == [name]


async def test_an_output_that_no_function_takes_is_nobodys_business() -> None:
    answers = Answers(approved=False)
    controller = ApprovalController(policy=Policy({}, default="required"), approval_callback=answers)
    assert (await agent(str, controller).run("go")).output == "something else"
    assert answers.seen == []


async def test_two_gates_with_one_controller_ask_once() -> None:
    answers = Answers(approved=True)
    controller = asking(answers)
    result = await agent(send, controller).run("go", capabilities=[Approvals(controller)])
    assert result.output == "sent to bob"
    assert (len(SENT), len(answers.seen)) == (1, 1)


async def test_parts_of_a_streamed_output_do_not_reach_a_function_that_is_asked_about() -> None:
    answers = Answers(approved=True)

    async def stream(_: list[ModelMessage], __: AgentInfo):  # type: ignore[no-untyped-def] # noqa: ANN202 - a generator
        for word in ("one ", "two ", "three"):
            yield word

    controller = asking(answers, shout="required")
    model = FunctionModel(respond, stream_function=stream)
    talker: Agent[None, object] = Agent(model, output_type=TextOutput(shout), capabilities=[Approvals(controller)])
    async with talker.run_stream("go") as run:
        async for _ in run.stream_output(debounce_by=None):
            pass
        assert await run.get_output() == "ONE TWO THREE"
    assert set(SENT) == {"one two three"}
    assert {request.args["output"] for request in answers.seen} == {"one two three"}
