"""What was said before a call goes to the people who answer, within the owner's limit, and nothing rests on it."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalError,
    ApprovalRequest,
    AuditEntry,
    ConversationMessage,
    Policy,
    ToolCall,
    conversation,
    guard,
)
from sayso.channels.notify import NotifyChannel, build_message
from sayso.config.load_policy import load_policy
from sayso.core.audit import encode
from sayso.core.model import Pending, Verdict
from sayso.engine.context import nested_call
from sayso.errors import ConfigurationError
from sayso.policy.policy import ToolRules
from sayso.stores.memory import MemoryStore

SAID = [
    ConversationMessage(role="user", text="please pay the bill of zebra"),
    ConversationMessage(role="agent", text="I look for it; password=hunter2hunter2"),
]
ASKS = Policy(default="required")


class Person:
    """Somebody who keeps what they were asked, and says yes."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        return ApprovalDecision(approved=True, who="ann")

    @property
    def read(self) -> list[str]:
        return [f"{each.role}: {each.text}" for each in self.asked[-1].conversation]


def pay(amount: int) -> str:
    return f"paid {amount}"


async def pay_later(amount: int) -> str:
    return f"paid {amount}"


def shown(policy: Policy, messages: Any, rules: ToolRules | None = None) -> list[str]:
    """What a person reads of these messages, under this policy."""
    person = Person()
    controller = ApprovalController(policy=policy, approval_callback=person)
    with conversation(messages):
        controller.settle_sync(ToolCall(tool="pay", args={"amount": 5}), rules)
    return person.read


# --- Who gets it -------------------------------------------------------------------------------------


def test_a_plain_function_shows_what_its_host_says_was_said_before() -> None:
    person = Person()
    tool = guard(pay, ApprovalController(policy=ASKS, approval_callback=person))
    with conversation(SAID):
        assert tool(5) == "paid 5"
    assert person.read == ["user: please pay the bill of zebra", "agent: I look for it; password=[redacted]"]
    tool(6)
    assert person.read == []


async def test_an_async_function_too_and_a_list_that_grows_is_read_when_a_question_is_asked() -> None:
    person = Person()
    tool = guard(pay_later, ApprovalController(policy=ASKS, approval_callback=person))
    history: list[ConversationMessage] = []
    with conversation(history):
        history.append(ConversationMessage(role="user", text="now"))
        await tool(5)
    assert person.read == ["user: now"]


def test_nothing_is_collected_for_a_call_that_nobody_is_asked_about() -> None:
    def never() -> Sequence[ConversationMessage]:
        raise AssertionError("the messages were collected")

    tool = guard(pay, ApprovalController(mode="auto_deny", policy=Policy({"pay": "none"})))
    with conversation(never):
        assert tool(5) == "paid 5"
    refused = guard(pay, ApprovalController(mode="auto_deny", policy=ASKS))
    with conversation(never), pytest.raises(ApprovalError):
        refused(5)


@pytest.mark.parametrize("wrong", ["hello", 5, None])
def test_what_is_no_conversation_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="pass a list of ConversationMessage, or a function"):
        conversation(wrong)


# --- Nothing rests on it -----------------------------------------------------------------------------


async def asked(**settings: Any) -> ApprovalRequest:
    controller = ApprovalController(policy=ASKS, mode="defer", session="s", **settings)
    outcome = await controller.review(ToolCall(tool="pay", args={"amount": 5}, call_id="c"))
    assert isinstance(outcome, Pending)
    return outcome.request


async def test_the_digest_the_scopes_and_the_payload_are_the_same_with_and_without_messages() -> None:
    without = await asked()
    with conversation(SAID):
        found = await asked()
    assert found.conversation
    fresh = {name: getattr(without, name) for name in ("id", "asked_at", "expires_at")}
    same = replace(found, conversation=(), **fresh)
    assert same == without
    assert found.call() == without.call()


async def test_an_answer_is_remembered_and_counts_whatever_was_said_before() -> None:
    person = Person()
    controller = ApprovalController(
        policy=ASKS, approval_callback=lambda request: replace(person(request), remember="session")
    )
    tool = guard(pay_later, controller)
    with conversation(SAID):
        await tool(5)
    with conversation([ConversationMessage(role="user", text="something else")]):
        await tool(5)
    assert len(person.asked) == 1
    assert "zebra" not in repr(controller.memory.list())


async def test_an_approval_is_claimed_by_a_run_that_has_other_messages() -> None:
    store = MemoryStore()
    controller = ApprovalController(policy=ASKS, mode="defer", store=store, session="s")
    call = ToolCall(tool="pay", args={"amount": 5}, call_id="c")
    with conversation(SAID):
        outcome = await controller.review(call)
    assert isinstance(outcome, Pending)
    await controller.answer(outcome.request.id, ApprovalDecision(approved=True, who="ann"))
    again = await controller.review(call, asked=True)
    assert not isinstance(again, Pending)
    assert again.request_id == outcome.request.id


async def test_no_rule_sees_the_messages() -> None:
    seen: list[ToolCall] = []

    def needs_approval(call: ToolCall) -> bool:
        seen.append(call)
        return True

    def judge(call: ToolCall) -> Verdict:
        seen.append(call)
        return Verdict(approval="required", reason="so")

    controller = ApprovalController(mode="defer", policy=Policy(default="none", needs_approval=needs_approval))
    with conversation(SAID):
        await controller.review(ToolCall(tool="pay"), ToolRules(judge=judge))
    assert len(seen) == 2
    assert "zebra" not in repr(seen)


async def test_the_audit_has_no_message_whatever_step_it_records(tmp_path: Path) -> None:
    entries: list[AuditEntry] = []
    async with ApprovalController(
        policy=ASKS, approval_callback=Person(), store=tmp_path / "state.db", hooks=[entries.append]
    ) as controller:
        with conversation(SAID):
            await guard(pay_later, controller)(5)
        await controller.flush()
        lines = [line for _, line, _ in await controller.store.audit(0, 100)]
    assert {json.loads(line)["step"] for line in lines} == {"asked", "approved", "claimed", "returned"}
    assert not any(b"zebra" in line or b"conversation" in line for line in [*lines, *map(encode, entries)])
    assert any(entry.request and entry.request.conversation for entry in entries), "or there was nothing to leave out"


class Kept:
    """A destination that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.arrived = anyio.Event()

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        self.arrived.set()


async def test_notices_and_webhooks_have_no_message() -> None:
    kept = Kept()
    with conversation(SAID):
        request = await asked(channels=[NotifyChannel(kept)], store=MemoryStore())
    with anyio.fail_after(5):
        await kept.arrived.wait()
    assert request.conversation
    assert "zebra" not in repr([kept.sent, build_message(request, "reminder", at=1.0)])


# --- Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        lambda: 1 / 0,
        lambda: ["not a message"],
        lambda: None,
        lambda: (_ for _ in ()).throw(RuntimeError("token=abcdefghijklmnop")),
    ],
)
def test_a_history_that_fails_stops_and_allows_nothing_the_question_is_asked_without_it(
    broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "sayso"):
        assert shown(ASKS, broken) == []
    assert "shows no messages before it" in caplog.text
    assert "abcdefgh" not in caplog.text

    def no(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(approved=False)

    tool = guard(pay, ApprovalController(policy=ASKS, approval_callback=no))
    with conversation(broken), pytest.raises(ApprovalError, match="refused"):
        tool(5)


# --- The owner's limit -------------------------------------------------------------------------------

MANY = [ConversationMessage(role="user", text=f"message {number} " + "x" * 3000) for number in range(100)]


def test_without_a_word_of_the_owner_four_messages_of_two_thousand_characters_are_shown() -> None:
    found = shown(ASKS, MANY)
    assert [text[:16] for text in found] == [f"user: message {number}" for number in range(96, 100)]
    assert sum(len(text) - len("user: ") for text in found) == 2000


def limited(limit: Mapping[str, int] | str | None) -> Policy:
    return Policy(default="required", conversation=limit)


@pytest.mark.parametrize(("limit", "count"), [({"messages": 10}, 10), ({"messages": 1}, 1), ("none", 0), ({}, 4)])
def test_the_owner_says_how_much_in_python_and_in_a_file(limit: Any, count: int) -> None:
    assert len(shown(limited(limit), MANY)) == count
    assert len(shown(Policy.from_dict({"default": "required", "conversation": limit}), MANY)) == count


@pytest.mark.parametrize(
    ("near", "far", "count"),
    [
        ({"messages": 10}, None, 10),
        (None, {"messages": 10}, 10),
        ({"messages": 10}, {"messages": 2}, 2),
        ({"messages": 2}, {"messages": 10}, 2),
        ("none", {"messages": 10}, 0),
        ({"messages": 10}, "none", 0),
    ],
)
def test_of_several_files_the_strictest_limit_holds(near: Any, far: Any, count: int) -> None:
    assert len(shown(limited(near).over(limited(far)), MANY)) == count


@pytest.mark.parametrize(
    ("outer", "inner", "count"),
    [
        (None, {"messages": 10}, 4),
        (None, {"messages": 1}, 1),
        ({"messages": 10}, None, 10),
        ({"messages": 2}, "none", 0),
    ],
)
def test_a_nested_agent_only_reduces_it(outer: Any, inner: Any, count: int) -> None:
    assert len(shown(limited(outer), MANY, ToolRules(tightening=(limited(inner),)))) == count


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("nothing", "conversation is 'nothing'; use"),
        (False, "conversation is False; use"),
        ({"messages": 0}, "conversation.messages is 0; use a whole number from 1 to 50"),
        ({"messages": True}, "conversation.messages is True; use"),
        ({"characters": 20_001}, "conversation.characters is 20001; use a whole number from 1 to 20000"),
        ({"message": 1}, "conversation has the unknown key 'message'; did you mean 'messages'?"),
    ],
)
def test_a_limit_that_is_none_is_refused_in_one_sentence(wrong: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Policy(conversation=wrong)
    assert problem in str(raised.value)
    with pytest.raises(ConfigurationError, match="conversation"):
        Policy.from_dict({"default": "none", "conversation": wrong})


def test_a_policy_file_limits_it(tmp_path: Path) -> None:
    file = tmp_path / "sayso.yaml"
    file.write_text("default: required\nconversation: {messages: 2, characters: 100}\n")
    found = shown(load_policy(file), MANY)
    assert [len(text) for text in found] == [56, 56]
    file.write_text("default: required\nconversation: none\n")
    assert shown(load_policy(file), MANY) == []


async def test_a_task_that_outlives_the_block_shows_nothing_of_it() -> None:
    go = anyio.Event()
    found: list[ApprovalRequest] = []

    async def later() -> None:
        await go.wait()
        found.append(await asked())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            with conversation(SAID):
                tasks.start_soon(later)
                await anyio.lowlevel.checkpoint()
            go.set()
    assert [each.conversation for each in found] == [()]


async def test_the_limit_of_the_agent_whose_tool_is_running_holds_for_other_controllers_inside_it() -> None:
    outer = ApprovalController(mode="approve_all", policy=Policy(conversation="none"))

    async def tool(_: dict[str, Any]) -> ApprovalRequest:
        with conversation(SAID):
            return await asked()

    with nested_call(outer, ToolCall(tool="outer")):
        assert (await tool({})).conversation == ()
    assert (await tool({})).conversation


async def test_an_error_that_cannot_even_be_told_stops_no_question() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def collect() -> list[ConversationMessage]:
        raise Unspeakable

    with conversation(collect):
        assert (await asked()).conversation == ()


async def test_a_conversation_can_be_entered_again() -> None:
    talk = conversation(SAID)
    for _ in range(2):
        with talk:
            assert (await asked()).conversation
