"""What an agent and its user said before a call, as its approver reads it; and what is never shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.toolsets import FunctionToolset
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, guard
from sayso.adapters.pydantic_ai import Approvals, ApprovalToolset, delegate, park, resume
from sayso.core.conversation import ConversationMessage
from sayso.stores.memory import MemoryStore

PAY: Call = ("pay", {"amount": 5})
LOOK: Call = ("look", {"name": "bill"})
ASKS = Policy({"pay": "required"}, default="none", conversation={"messages": 20, "characters": 20_000})


def lines(messages: Sequence[ConversationMessage]) -> list[str]:
    return [f"{each.role}: {each.text}" for each in messages]


class Person:
    """Somebody who keeps what they read before each call, and says yes."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        self.read.append(lines(request.conversation))
        return ApprovalDecision(approved=True)


def controller_of(person: Person, policy: Policy = ASKS) -> ApprovalController:
    return ApprovalController(policy=policy, approval_callback=person)


async def test_the_prompt_the_calls_and_their_results_are_shown_in_their_order(till: Till) -> None:
    person = Person()
    approvals = Approvals(controller_of(person))
    agent = Agent(
        Scripted([LOOK], [LOOK, PAY]).model, tools=till.tools, capabilities=[approvals], instructions="be evil"
    )
    await agent.run("pay my bill")
    assert person.read == [
        [
            "user: pay my bill",
            'agent: calls look(name="bill")',
            "tool: look: saw bill",
            'agent: calls look(name="bill")',
        ]
    ]


async def test_a_history_before_the_run_is_shown_too_without_system_prompts_and_thoughts(till: Till) -> None:
    person = Person()
    history: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart("system secret"), UserPromptPart("hello")]),
        ModelResponse(parts=[ThinkingPart("a thought"), TextPart("hi"), TextPart("what now?")]),
    ]
    agent = Agent(
        Scripted([PAY]).model,
        tools=till.tools,
        system_prompt="more secrets",
        capabilities=[Approvals(controller_of(person))],
    )
    await agent.run("pay", message_history=history)
    assert person.read == [["user: hello", "agent: hi\nwhat now?", "user: pay"]]


async def test_a_picture_or_a_file_is_only_named(till: Till) -> None:
    person = Person()
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("draw")]),
        ModelResponse(parts=[FilePart(BinaryContent(b"\x89PNG", media_type="image/png"))]),
    ]
    agent = Agent(Scripted([PAY]).model, tools=till.tools, capabilities=[Approvals(controller_of(person))])
    prompt = [
        "pay this",
        ImageUrl("https://a.example/secret.png"),
        BinaryContent(b"x" * 99, media_type="audio/wav"),
        BinaryContent(b"x" * 99, media_type="application/pdf"),
        DocumentUrl("https://a.example/b.pdf"),
    ]
    await agent.run(prompt, message_history=history)
    assert person.read == [["user: draw", "agent: [image]", "user: pay this [image] [audio] [file] [document]"]]


class Account(BaseModel):
    owner: str
    password: str
    pin: SecretStr = SecretStr("4711471147114711")


@dataclass
class Row:
    name: str
    token: str


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("x" * 5000, "x" * 199 + "…"),
        ("the key is sk-aaaaaaaaaaaaaaaaaaaaaaaa", "the key is [redacted]"),
        ({"password": "hunter2", "n": 1}, '{"password": "[redacted]", "n": 1}'),
        (
            Account.model_validate({"owner": "bob", "password": "hunter2"}),
            '{"owner": "bob", "password": "[redacted]", "pin": "[redacted]"}',
        ),
        (
            [Row("a", "t0k3n"), BinaryContent(b"x", media_type="image/png")],
            '[{"name": "a", "token": "[redacted]"}, "[image]"]',
        ),
        (BinaryContent(b"x", media_type="image/png"), "[image]"),
        (None, "null"),
    ],
)
async def test_a_result_is_cut_and_has_no_secret(result: Any, shown: str) -> None:
    person = Person()

    def fetch() -> Any:
        return result

    def pay(amount: int) -> str:
        return f"paid {amount}"

    agent = Agent(
        Scripted([("fetch", {})], [PAY]).model, tools=[fetch, pay], capabilities=[Approvals(controller_of(person))]
    )
    await agent.run("go")
    assert person.read[0][2] == f"tool: fetch: {shown}"


async def test_secrets_in_prompts_and_arguments_never_reach_the_store(tmp_path: Path) -> None:
    def login(password: str) -> str:
        return "ok"

    def pay(amount: int) -> str:
        return f"paid {amount}"

    async with ApprovalController(policy=ASKS, mode="defer", store=tmp_path / "state.db") as controller:
        agent = Agent(
            Scripted([("login", {"password": "hunter2hunter2"})], [PAY]).model,
            tools=[login, pay],
            output_type=[str, DeferredToolRequests],
            capabilities=[Approvals(controller)],
        )
        await agent.run("log in with password=hunter2hunter2 and pay")
        (request,) = await controller.pending()
        await controller.flush()
    assert lines(request.conversation)[0] == "user: log in with password=[redacted] and pay"
    assert "hunter2" not in repr(request)
    stored = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
    assert b"hunter2" not in stored


async def test_the_limit_of_the_policy_holds_and_the_prompt_is_kept_among_the_last_messages(till: Till) -> None:
    person = Person()
    looks = [[LOOK]] * 5
    policy = Policy({"pay": "required"}, default="none", conversation={"messages": 2})
    agent = Agent(
        Scripted(*looks, [PAY]).model, tools=till.tools, capabilities=[Approvals(controller_of(person, policy))]
    )
    await agent.run("pay my bill")
    assert person.read == [["user: pay my bill", "tool: look: saw bill"]]
    person.read.clear()
    nothing = Policy({"pay": "required"}, default="none", conversation="none")
    agent = Agent(Scripted([PAY]).model, tools=till.tools, capabilities=[Approvals(controller_of(person, nothing))])
    await agent.run("pay my bill")
    assert person.read == [[]]


# --- Nested, deferred, resumed -----------------------------------------------------------------------


def nested(till: Till, controller: ApprovalController, inner: Approvals, **settings: Any) -> Agent[None, Any]:
    child = Agent(Scripted([LOOK], [PAY]).model, name="child", tools=till.tools, capabilities=[inner], **settings)
    approvals = Approvals(controller)
    outer = Agent(Scripted([("ask", {"what": "x"})]).model, name="outer", capabilities=[approvals], **settings)

    @outer.tool_plain
    async def ask(what: str) -> str:
        return str(await delegate(child, "please pay at once"))

    return outer


async def test_a_nested_agent_shows_its_own_messages_and_not_as_those_of_the_user(till: Till) -> None:
    person = Person()
    controller = controller_of(person)
    await nested(till, controller, Approvals(controller)).run("what is the weather?")
    assert person.read == [
        ["caller: please pay at once", 'agent: calls look(name="bill")', "tool: look: saw bill"],
    ]


async def test_a_nested_agents_policy_reduces_what_is_shown_and_never_adds(till: Till) -> None:
    person = Person()
    controller = controller_of(person)
    inner = Approvals(Policy({}, default="none", conversation="none"), approval_callback=Person())
    await nested(till, controller, inner).run("go")
    assert person.read == [[]]
    tight = controller_of(person, Policy({"pay": "required"}, default="none", conversation={"messages": 1}))
    wide = Approvals(Policy({}, default="none", conversation={"messages": 50}), approval_callback=Person())
    await nested(till, tight, wide).run("go")
    assert person.read[-1] == ["caller: please pay at once"]


async def test_a_deferred_run_stores_the_messages_and_a_resumed_one_shows_those_since(
    till: Till, tmp_path: Path
) -> None:
    def agent(controller: ApprovalController) -> Agent[None, Any]:
        model, outputs = Scripted([PAY], [PAY]).model, [str, DeferredToolRequests]
        return Agent(model, tools=till.tools, output_type=outputs, capabilities=[Approvals(controller)])

    file = tmp_path / "state.db"
    async with ApprovalController(policy=ASKS, mode="defer", store=file) as first:
        parked = await park(await agent(first).run("pay twice"), first)
        (request,) = await first.pending()
        assert lines(request.conversation) == ["user: pay twice"]
    async with ApprovalController(policy=ASKS, mode="defer", store=file) as second:
        await second.answer(request.id, ApprovalDecision(approved=True, who="ann"))
        await resume(agent(second), parked, controller=second)
        (again,) = await second.pending()
        assert lines(again.conversation) == ["user: pay twice", "agent: calls pay(amount=5)", "tool: pay: paid 5"]
    assert till.ran == [("pay", 5)]


async def test_a_function_that_a_tool_calls_shows_the_messages_of_the_agent() -> None:
    person = Person()
    controller = controller_of(person)

    async def pay(amount: int) -> str:
        return f"paid {amount}"

    async def settle_bill() -> str:
        return await guard(pay, controller)(5)

    agent = Agent(Scripted([("settle_bill", {})]).model, tools=[settle_bill], capabilities=[Approvals(controller)])
    await agent.run("settle it")
    assert person.read == [["user: settle it"]]


async def test_a_toolset_of_its_own_and_an_output_function_show_them_too(till: Till) -> None:
    person = Person()
    toolset = ApprovalToolset(FunctionToolset(till.tools), controller=controller_of(person))
    await Agent(Scripted([PAY]).model, toolsets=[toolset]).run("pay by toolset")
    assert person.read == [["user: pay by toolset"]]

    def send(text: str) -> str:
        return text

    controller = controller_of(person, Policy(default="required"))
    agent = Agent(Scripted().model, output_type=send, capabilities=[Approvals(controller)])

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"text": "hello"})])

    await agent.run("send it", model=FunctionModel(respond))
    assert person.read[-1] == ["user: send it"]


# --- What is hostile or broken -----------------------------------------------------------------------


async def test_a_history_that_cannot_be_read_leaves_the_question_and_its_answer_alone(
    till: Till, caplog: pytest.LogCaptureFixture
) -> None:
    async def corrupt(ctx: RunContext[None]) -> str:
        prompt = ctx.messages[0].parts[0]
        assert isinstance(prompt, UserPromptPart)
        prompt.content = 5  # pyright: ignore[reportAttributeAccessIssue] - what is tested
        return "done"

    controller = ApprovalController(policy=ASKS, mode="defer", store=MemoryStore())
    agent = Agent(
        Scripted([("corrupt", {}), PAY]).model,
        tools=[*till.tools, corrupt],
        output_type=[str, DeferredToolRequests],
        capabilities=[Approvals(controller)],
    )
    await agent.run("go")
    (request,) = await controller.pending()
    assert request.args == {"amount": 5}
    assert request.conversation == ()
    assert "shows no messages before it: TypeError" in caplog.text
    assert till.ran == []
