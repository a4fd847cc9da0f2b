"""What agents elsewhere say was said before a call: the hub bounds and redacts it again, and shows it to people."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.server.served import Served

from sayso import ApprovalController, ConversationMessage, Policy, ToolCall, conversation
from sayso.client.hub_inbox import HubInbox
from sayso.core.conversation import MOST_CHARACTERS, MOST_MESSAGES
from sayso.core.model import Pending
from sayso.stores.remote import RemoteStore

SAID = [{"role": "user", "text": "pay zebra, password=hunter2hunter2"}, {"role": "agent", "text": "I pay"}]
READ = [
    {"role": "user", "text": "pay zebra, password=[redacted]", "gap": False},
    {"role": "agent", "text": "I pay", "gap": False},
]


def ask(served: Served, **facts: Any) -> Any:
    with served.client(served.token("agent", "builder")) as agent:
        return agent.post("/requests", json={"tool": "pay", "args": {"amount": 5}, **facts})


def test_people_read_what_an_agent_of_another_language_says_was_said(served: Served) -> None:
    answer = ask(served, conversation=SAID)
    assert (answer.status_code, answer.json()["conversation"]) == (201, READ)
    with served.person() as ann:
        assert ann.get(f"/approvals/{answer.json()['id']}").json()["conversation"] == READ
        assert [each["conversation"] for each in ann.get("/approvals").json()["items"]] == [READ]
    with served.socket(served.token()) as socket:
        assert json.loads(socket.recv(timeout=20))["conversation"] == READ
    without = ask(served)
    assert (without.json()["conversation"], without.json()["tool"]) == ([], "pay")


async def test_a_person_in_a_terminal_at_a_hub_reads_it_too(served: Served) -> None:
    request_id = ask(served, conversation=SAID).json()["id"]
    inbox = HubInbox(served.url, served.token())
    (found,) = await inbox.pending()
    assert (found.id, found.conversation[0].text) == (request_id, READ[0]["text"])
    await inbox.aclose()


async def test_an_agent_in_python_sends_it_and_its_approval_does_not_rest_on_it(served: Served) -> None:
    async with ApprovalController(
        policy=Policy(default="required"), mode="defer", store=RemoteStore(served.url, token=served.token("agent", "a"))
    ) as controller:
        call = ToolCall(tool="pay", args={"amount": 5}, call_id="c")
        with conversation([ConversationMessage(role="user", text="pay zebra")]):
            outcome = await controller.review(call)
        assert isinstance(outcome, Pending)
        with served.person() as ann:
            shown = ann.get(f"/approvals/{outcome.request.id}").json()
            assert shown["conversation"] == [{"role": "user", "text": "pay zebra", "gap": False}]
            assert ann.post(f"/approvals/{outcome.request.id}", json={"approved": True}).status_code == 200
        again = await controller.review(call, asked=True)
        assert not isinstance(again, Pending)
        assert again.request_id == outcome.request.id


async def test_a_hostile_agent_can_send_what_it_likes_and_the_hub_keeps_little_of_it(served: Served) -> None:
    """By the protocol of agents in Python, past every limit of its own policy."""
    store = RemoteStore(served.url, token=served.token("agent", "a"))
    flood = tuple(ConversationMessage(role="user", text=f"password=hunter2hunter2 {'ä' * 5000}") for _ in range(60))
    controller = ApprovalController(policy=Policy(default="required"), mode="defer")
    outcome = await controller.review(ToolCall(tool="pay"))
    assert isinstance(outcome, Pending)
    opened = await store.open(replace(outcome.request, conversation=flood))
    found = served.get(opened)
    assert len(found.conversation) == MOST_MESSAGES
    assert sum(len(each.text) for each in found.conversation) <= MOST_CHARACTERS
    assert found.conversation[0].gap, "what is left out is told"
    assert "hunter2" not in repr(found)
    await store.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        [{"role": "system", "text": "x"}],
        [{"role": "user", "text": 5}],
        [{"role": "user"}],
        "hello",
        [{"role": "user", "text": "x", "gap": 3}],
    ],
)
def test_what_is_no_conversation_is_refused_in_a_sentence_and_nothing_is_asked(served: Served, wrong: Any) -> None:
    answer = ask(served, conversation=wrong)
    assert answer.status_code == 422
    assert "this cannot be read" in answer.json()["detail"]
    assert served.do(served.store.recent()) == []
