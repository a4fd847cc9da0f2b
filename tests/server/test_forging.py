"""What an agent that lies to its hub can reach by it: nothing that people did not say, and nobody but itself."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from msgspec.structs import replace
from tests.server.remote_hub import Served

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall
from sayso.core import agent_protocol as protocol
from sayso.core import audit
from sayso.core.approvers import Approvers, Escalation
from sayso.core.model import Pending, Scope
from sayso.core.msgpack_codec import pack_request
from sayso.errors import NotEntitled
from sayso.policy import scopes
from sayso.testing import FixedClock
from sayso.testing.samples import YES, sample_request

pytestmark = pytest.mark.anyio

SHELL = Policy.from_dict({"default": "none", "shell": {}, "tools": {"shell": {"kind": "shell"}}})


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    with Served(tmp_path / "sayso.db", clock=FixedClock(5000.0)) as hub:
        yield hub


def send(served: Served, operation: str, message: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer {served.token('builder', 'shop')}", "content-type": protocol.MEDIA}
    body = msgspec.msgpack.encode(message)
    return httpx2.post(f"{served.url}/agent/{operation}", content=body, headers=headers, timeout=30)


def opened(served: Served, request: ApprovalRequest) -> httpx2.Response:
    return send(served, "open", protocol.Open(request=pack_request(request)))


def told(served: Served, **facts: Any) -> httpx2.Response:
    line = {"at": 1.0, "step": "allowed", "tool": "pay", **facts}
    return send(served, "append", protocol.Append(news=[json.dumps(line).encode()], attempt=""))


# What an answer is remembered for.

EXACT = scopes.call_scope("pay", {"amount": 5})
OTHER_TOOL = scopes.tool_key("delete")


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    "offered",
    [
        pytest.param([replace(EXACT, key=OTHER_TOOL)], id="another tool as this call"),
        pytest.param([replace(EXACT, key=scopes.tool_key("pay"))], id="the whole tool as this call"),
        pytest.param([replace(EXACT, key=scopes.call_key("pay", {"amount": 9}))], id="another call as this one"),
        pytest.param([EXACT, Scope(kind="tool", key=OTHER_TOOL, label="every call of pay")], id="another tool"),
        pytest.param([EXACT, scopes.prefix_scope("shell", ["rm"])], id="commands of another tool"),
        pytest.param([EXACT, scopes.folder_scope("write", "write", "here", "/")], id="files of another tool"),
        pytest.param([EXACT, Scope(kind="prefix", key="prefix:pay", label="nothing")], id="every command"),
        pytest.param(
            [EXACT, Scope(kind="prefix", key="k", label="x", parts=(replace(EXACT, key=OTHER_TOOL),))], id="a part"
        ),
        pytest.param([scopes.tool_scope("pay"), EXACT], id="the whole tool first"),
        pytest.param([scopes.tool_scope("pay")], id="the whole tool alone"),
    ],
)
async def test_a_scope_that_is_not_what_it_says_is_refused(served: Served, offered: list[Scope]) -> None:
    answer = opened(served, replace(sample_request(), scopes=tuple(offered)))
    assert (answer.status_code, "scope" in answer.json()["detail"]) == (422, True)
    assert await served.store.recent() == []


async def test_the_hub_says_in_its_own_words_what_a_scope_stands_for(served: Served) -> None:
    folder = replace(scopes.folder_scope("pay", "write", "/", "/"), label="a harmless file")
    request = replace(sample_request(), scopes=(replace(EXACT, label="nothing"), folder, scopes.tool_scope("pay")))
    assert opened(served, request).status_code == 200
    (found,) = await served.store.pending()
    assert [scope.label for scope in found.scopes] == [
        "this exact call of pay",
        "every write of a file directly in /, whatever its content",
        "every call of pay, whatever its arguments",
    ]


async def test_every_scope_that_sayso_offers_is_taken(served: Served) -> None:
    agent = served.agent("builder", "shop")
    async with ApprovalController(mode="defer", store=agent, policy=SHELL, clock=served.hub.clock) as controller:
        outcome = await controller.review(ToolCall(tool="shell", args={"command": "git add . && git commit -m x"}))
    await agent.aclose()
    assert isinstance(outcome, Pending)
    (found,) = await served.store.pending()
    assert found.scopes == outcome.request.scopes
    assert [(scope.kind, len(scope.parts)) for scope in found.scopes] == [("call", 0), ("prefix", 2)]


@pytest.mark.proves("H2")
async def test_a_yes_to_one_call_is_no_yes_to_another_that_claims_to_be_alike(served: Served) -> None:
    shown, other = (
        replace(sample_request(), scopes=(EXACT,)),
        replace(sample_request(args={"amount": 10**9}), scopes=(EXACT,)),
    )
    assert [opened(served, each).status_code for each in (shown, other)] == [200, 422]
    yes = ApprovalDecision(approved=True, remember="session")
    assert (await served.hub.controller.answer(shown.id, yes, who="ann")).status == "approved"
    assert [each.status for each in await served.store.recent()] == ["approved"]


# Since when a question waits.


@pytest.mark.parametrize("asked_at", [0.0, 1399.0, 9e10])
async def test_an_agent_cannot_bring_others_into_a_question_by_dating_it_back(served: Served, asked_at: float) -> None:
    wanted = Approvers(roles=("ops",), escalate=Escalation(role="lead", after=3600.0))
    request = replace(sample_request(), approvers=wanted, asked_at=asked_at)
    assert opened(served, request).status_code == 200
    with pytest.raises(NotEntitled):
        await served.hub.controller.answer(request.id, YES, who="lea", roles=("lead",))
    (found,) = await served.store.pending()
    assert found.asked_at == served.hub.clock.now()


# What the audit says.


@pytest.mark.proves("H8")
async def test_an_agent_cannot_tell_the_audit_that_somebody_said_something(served: Served) -> None:
    request = sample_request()
    opened(served, request)
    forged = {"by": "answer", "who": "ann", "channel": "page from 10.0.0.1", "decided_at": 1.0}
    for facts in ({}, {"request_id": request.id}, {"remembered_id": "x"}, {"request_id": "gone"}):
        assert told(served, **forged, **facts).status_code == 200
    lines = [entry async for entry in audit.entries(served.store) if entry["step"] == "allowed"]
    assert len(lines) == 4
    assert all(entry.keys().isdisjoint({"who", "channel", "decided_at"}) for entry in lines)


async def test_what_somebody_has_really_said_is_told_as_the_hub_knows_it(served: Served) -> None:
    request = sample_request()
    opened(served, request)
    await served.hub.controller.answer(request.id, YES, who="ann", channel="rest")
    told(served, request_id=request.id, who="ann", channel="invented", decided_at=1.0)
    told(served, request_id=request.id, who="bob", channel="rest")
    lines = [entry async for entry in audit.entries(served.store) if entry["step"] == "allowed"]
    assert [(entry.get("who"), entry.get("channel")) for entry in lines] == [("ann", "rest"), (None, None)]
    assert lines[0]["decided_at"] == served.hub.clock.now()


@pytest.mark.parametrize("at", [-1.0, 1e300])
def test_a_line_of_the_audit_has_a_time(served: Served, at: float) -> None:
    assert told(served, at=at).status_code == 422


# What nobody could be shown.


@pytest.mark.proves("H10")
def test_nothing_that_an_agent_nests_keeps_people_from_their_lists(served: Served) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"a": deep}
    assert told(served, args=deep, result=deep).status_code == 200
    assert opened(served, replace(sample_request(), parameters=json.dumps(deep))).status_code == 422
    told_to = {"authorization": f"Bearer {served.token('ann', '*', kind='approver')}"}
    for path in ("/audit", "/approvals"):
        assert httpx2.get(served.url + path, headers=told_to).status_code == 200
    assert "nested too deep" in httpx2.get(f"{served.url}/audit", headers=told_to).text
