"""What an agent can do at a hub, and what it cannot: everything here is sent by hand, as an attacker would."""

# schemathesis is half typed.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import schemathesis
from anyio import fail_after
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.conftest import ON_EACH_STORE
from tests.server.remote_hub import Served
from tests.waiting import until

from sayso import ApprovalController, ApprovalDecision, ApprovalPresentation, ApprovalRequest, Policy, ToolCall
from sayso.core import agent_protocol as protocol
from sayso.core import audit, decide, tokens
from sayso.core.approvers import Approvers, Escalation, Seen
from sayso.core.model import Remembered, Rule, Scope
from sayso.core.msgpack_codec import pack_request, unpack_remembered
from sayso.errors import UnknownRequest
from sayso.stores.remote import RemoteStore
from sayso.testing.samples import YES, sample_remembered, sample_request

BIG = "x" * 2_000_000
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PLAIN = [
    ("/requests", "post"),
    ("/requests/{request_id}", "get"),
    ("/requests/{request_id}/claim", "post"),
    ("/requests/{request_id}/withdraw", "post"),
    ("/requests/{request_id}/result", "post"),
]


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Served]:
    on_database = getattr(request, "param", "file") == "database"
    with Served(request.getfixturevalue("database") if on_database else tmp_path / "sayso.db") as hub:
        yield hub


@pytest.fixture
async def agent(served: Served) -> AsyncGenerator[RemoteStore]:
    store = served.agent("builder", "shop")
    yield store
    await store.aclose()


def post(served: Served, operation: str, message: Any, *, token: str = "", **headers: str) -> httpx2.Response:
    """Send one message; something else than a message goes as it is."""
    told = {"authorization": f"Bearer {token or served.token('builder', 'shop')}", "content-type": protocol.MEDIA}
    body = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
    return httpx2.post(f"{served.url}/agent/{operation}", content=body, headers=told | headers, timeout=30)


def say(served: Served, method: str, path: str, *, token: str = "", **settings: Any) -> httpx2.Response:
    """Send plain JSON."""
    told = {"authorization": f"Bearer {token or served.token('builder', 'shop')}"}
    return httpx2.request(method, served.url + path, headers=told, timeout=30, **settings)


def opened(served: Served, request: ApprovalRequest, **more: Any) -> httpx2.Response:
    return post(served, "open", protocol.Open(request=pack_request(request)), **more)


# Whose it is.


@pytest.mark.proves("R70", "H8")
async def test_the_hub_says_whose_a_request_is_whatever_the_agent_says(served: Served) -> None:
    request = replace(sample_request(), project="bank", asked_by="ann")
    assert opened(served, request).status_code == 200
    (found,) = await served.store.pending()
    assert (found.id, found.project, found.asked_by, found.session) == (
        request.id,
        "shop",
        "builder",
        "shop/builder/s1",
    )
    assert found.call().digest() == request.digest


@ON_EACH_STORE
async def test_two_agents_and_two_projects_with_the_same_session_and_call_id_never_meet(served: Served) -> None:
    spaces = [("builder", "shop"), ("builder", "bank"), ("tester", "shop"), ("builder", "")]
    agents = [served.agent(*space) for space in spaces]
    rows = [await agent.open(sample_request(call_id="c1")) for agent in agents]
    assert len({row.id for row in rows}) == len(spaces)
    for agent, row in zip(agents, rows, strict=True):
        found = await agent.find("s1", "c1")
        assert (found, row.session) == (row, "s1")
        assert await agent.pending() == await agent.recent() == await agent.with_call_id("s1", "c1") == [row]
        point, changes = await agent.changes(0)
        assert [each.id for each in changes] == [row.id]
        assert (await agent.changes(point))[1] == []
        await agent.park("a run", row.id.encode())
    for agent, row in zip(agents, rows, strict=True):
        assert await agent.unpark("a run") == row.id.encode()
        await agent.aclose()


@ON_EACH_STORE
@pytest.mark.proves("H8")
async def test_requests_of_others_do_not_exist_for_an_agent(served: Served, agent: RemoteStore) -> None:
    other = served.agent("builder", "bank")
    request = await other.open(sample_request())
    await served.hub.controller.answer(request.id, YES, who="ann")
    assert await agent.get(request.id) is None
    assert await agent.recent(part=request.id) == []
    for attempt in (
        agent.claim(request.id, now=1.0),
        agent.close(request.id, "withdrawn", None, now=1.0),
        agent.mark_seen(request.id, Seen(who="eve", channel="terminal", at=1.0)),
        agent.closed(request.id),
    ):
        with pytest.raises(UnknownRequest):
            await attempt
    for path in ("", "/claim", "/withdraw", "/result"):
        method, body = ("POST", {"result": "raised"} if path == "/result" else {}) if path else ("GET", None)
        assert say(served, method, f"/requests/{request.id}{path}", json=body).status_code == 404
    assert await other.claim(request.id, now=1.0)
    await other.aclose()


@ON_EACH_STORE
async def test_an_id_of_somebody_else_cannot_be_taken(served: Served, agent: RemoteStore) -> None:
    mine = await agent.open(sample_request())
    for project in ("shop", "bank"):
        taken = opened(served, replace(sample_request(), id=mine.id), token=served.token("tester", project))
        assert (taken.status_code, "names another request" in taken.text) == (409, True)
    again = opened(served, replace(sample_request(), id=mine.id))
    assert again.status_code == 409
    assert await agent.pending() == [mine]


async def test_the_feed_wakes_an_agent_for_its_own_requests_only(served: Served, agent: RemoteStore) -> None:
    other = served.agent("tester", "shop")
    point, _ = await agent.changes()
    waiting = asyncio.ensure_future(agent.changed(point))
    await other.open(sample_request())
    foreign = protocol.GetChanges(after=point, wait=0.0)
    assert msgspec.msgpack.decode(post(served, "changes", foreign).content, type=protocol.ChangesReply).rows == []
    assert not waiting.done()
    mine = await agent.open(sample_request())
    with fail_after(10):
        await waiting
    assert [each.id for each in (await agent.changes(point))[1]] == [mine.id]
    await other.aclose()


# What an agent may say.


def forged(**facts: Any) -> ApprovalRequest:
    return replace(sample_request(), **facts)


@pytest.mark.proves("H8", "H4")
@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(forged(status="approved", decision=YES), id="an approval"),
        pytest.param(forged(decision=YES), id="an answer"),
        pytest.param(forged(votes=(YES,), approvers=Approvers(count=2)), id="a vote"),
        pytest.param(forged(seen=(Seen(who="ann", channel="page", at=1.0),)), id="somebody who has seen it"),
        pytest.param(forged(status="used", used_at=1.0), id="a use"),
        pytest.param(forged(result="returned"), id="a result"),
        pytest.param(forged(id="0" * 31), id="a short id"),
        pytest.param(forged(id="../" + "0" * 29), id="a path as an id"),
        pytest.param(forged(id="A" * 32), id="an id in capitals"),
        pytest.param(forged(id="0" * 12 + "7" + "0" * 19), id="an id that comes first"),
        pytest.param(forged(id="f" * 12 + "7" + "0" * 19), id="an id that comes last"),
        pytest.param(forged(approval="none"), id="nothing to ask"),
        pytest.param(forged(tool_name="x" * 201), id="a long tool"),
        pytest.param(forged(session="x" * 1001), id="a long session"),
        pytest.param(forged(description="x" * 100_001), id="a long description"),
        pytest.param(forged(agent_path=("a",) * 51), id="many agents"),
        pytest.param(forged(rule=Rule(source="x" * 1001, key="")), id="a long rule"),
        pytest.param(forged(presentation=ApprovalPresentation(title="x" * 1001)), id="a long title"),
        pytest.param(forged(scopes=(Scope(kind="call", key="k", label="l"),) * 51), id="many scopes"),
        pytest.param(forged(asked_at=float("nan")), id="no time"),
        pytest.param(forged(asked_at=-1.0), id="a time before all times"),
        pytest.param(forged(expires_at=float("inf")), id="an endless time"),
        pytest.param(forged(approvers=Approvers(count=0)), id="nobody"),
        pytest.param(forged(approvers=Approvers(count=10**9)), id="everybody"),
        pytest.param(forged(approvers=Approvers(escalate=Escalation(role="ops", after=float("nan")))), id="never"),
        pytest.param(forged(parameters="{"), id="a schema that is no JSON"),
        pytest.param(forged(parameters="[" * 50_000), id="a schema without end"),
        pytest.param(forged(parameters="[]"), id="a schema that is no object"),
    ],
)
async def test_a_question_that_says_more_than_a_question_may_is_refused(
    served: Served, request_: ApprovalRequest
) -> None:
    answer = opened(served, request_)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("the request is refused: ")
    assert await served.store.recent() == []


@pytest.mark.proves("H10")
@pytest.mark.parametrize(
    ("operation", "body", "status"),
    [
        ("open", b"", 422),
        ("open", b"\xff" * 100, 422),
        ("open", msgspec.msgpack.encode({"request": b"\x01\xff"}), 422),
        ("open", msgspec.msgpack.encode({"request": b"\x07"}), 422),
        ("open", msgspec.msgpack.encode({"request": b"\x01" + b"\x91" * 100_000}), 422),
        ("open", b"\x91" * 500_000, 422),
        ("open", BIG.encode(), 413),
        ("get", msgspec.msgpack.encode({"ids": ["x"] * 1001}), 422),
        ("claim", msgspec.msgpack.encode({"id": "x", "now": float("nan"), "attempt": "a"}), 422),
        ("claim", msgspec.msgpack.encode({"id": "x", "now": 1.0, "attempt": "a", "who": "ann"}), 422),
        ("close", msgspec.msgpack.encode({"id": "x", "status": "approved", "now": 1.0}), 422),
        ("close", msgspec.msgpack.encode({"id": "x", "status": "denied", "now": 1.0}), 422),
        ("changes", msgspec.msgpack.encode({"after": 0, "wait": 3600.0}), 422),
        ("changes", msgspec.msgpack.encode({"after": -1}), 422),
        ("remember", b"\x80", 404),
        ("answer", b"\x80", 404),
        ("audit", b"\x80", 404),
    ],
)
def test_what_is_no_message_is_refused_in_one_sentence(
    served: Served, operation: str, body: bytes, status: int
) -> None:
    answer = post(served, operation, body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert len(answer.json()["detail"]) < 500


def test_another_version_of_the_form_is_told_to_upgrade(served: Served) -> None:
    message = protocol.GetPending(limit=10, after="")
    newer = post(served, "pending", message, **{"content-type": "application/vnd.sayso.v2+msgpack"})
    assert (newer.status_code, "the same version of sayso" in newer.text) == (426, True)
    other = post(served, "pending", message, **{"content-type": "application/json"})
    assert (other.status_code, "POST /requests" in other.text) == (415, True)


@pytest.mark.proves("H8")
def test_only_agents_ask_and_an_agent_has_no_other_way_in(served: Served) -> None:
    for kind in ("approver", "session"):
        answer = post(served, "pending", protocol.GetPending(limit=10, after=""), token=served.token("ann", kind=kind))
        assert answer.status_code == 403
        answer = say(served, "POST", "/requests", json={"tool": "pay"}, token=served.token("ann", kind=kind))
        assert answer.status_code == 403
    for unknown in ("x", tokens.make("agent", "eve", now=0.0)[1]):
        assert post(served, "pending", protocol.GetPending(limit=10, after=""), token=unknown).status_code == 401
        assert say(served, "POST", "/requests", json={"tool": "pay"}, token=unknown).status_code == 401


async def test_whoever_an_agent_says_has_seen_a_question_is_marked_as_its_word(
    served: Served, agent: RemoteStore
) -> None:
    request = await agent.open(sample_request())
    seen = (await agent.mark_seen(request.id, Seen(who="ann", channel="terminal", at=1.0))).seen
    assert [(each.who, each.channel) for each in seen] == [("ann", "terminal at builder")]


# What an agent may tell.


@pytest.mark.proves("H7")
@pytest.mark.parametrize("step", ["approved", "denied", "claimed", "asked", "voted", "revoked", "expired", "invented"])
async def test_an_agent_cannot_tell_the_audit_what_only_the_hub_knows(served: Served, step: str) -> None:
    line = json.dumps({"at": 1.0, "step": step, "tool": "pay", "who": "ann"}).encode()
    answer = post(served, "append", protocol.Append(news=[line], attempt="a"))
    assert (answer.status_code, "an agent cannot tell" in answer.text) == (403, True)
    assert await served.store.audit() == []


async def test_an_agent_cannot_tell_anything_about_requests_of_others(served: Served, agent: RemoteStore) -> None:
    request = await agent.open(sample_request())
    await served.hub.controller.answer(request.id, YES, who="ann")
    await agent.claim(request.id, now=1.0)
    token, before = served.token("tester", "shop"), len(await served.store.audit())
    line = json.dumps({"at": 1.0, "step": "returned", "tool": "pay", "request_id": request.id}).encode()
    for message in (
        protocol.Append(news=[line], attempt="a"),
        protocol.Append(news=[(request.id, "raised")], attempt="a"),
    ):
        assert post(served, "append", message, token=token).status_code == 403
    for bad in (b"{", b"[]", b'{"at": 1, "step": "returned", "hash": "x"}', b"[" * 100_000):
        assert post(served, "append", protocol.Append(news=[bad], attempt="a"), token=token).status_code == 422
    assert len(await served.store.audit()) == before
    found = await agent.get(request.id)
    assert found is not None
    assert found.result is None


async def test_what_an_agent_tells_says_who_told_it(served: Served) -> None:
    line = {"at": 1.0, "step": "allowed", "tool": "pay", "session": "s1", "project": "bank", "asked_by": "ann"}
    assert post(served, "append", protocol.Append(news=[json.dumps(line).encode()], attempt="a")).status_code == 200
    (entry,) = [entry async for entry in audit.entries(served.store)]
    assert (entry["project"], entry["asked_by"], entry["session"]) == ("shop", "builder", "shop/builder/s1")


async def test_an_attempt_of_one_agent_is_none_of_another(served: Served, agent: RemoteStore) -> None:
    request = await agent.open(sample_request())
    await served.hub.controller.answer(request.id, YES, who="ann")
    assert await agent.claim(request.id, now=1.0, attempt="a")
    claim = protocol.Claim(id=request.id, now=1.0, attempt="a")
    assert post(served, "claim", claim, token=served.token("tester", "shop")).status_code == 404
    assert post(served, "claim", replace(claim, attempt="b")).content == msgspec.msgpack.encode(False)  # noqa: FBT003


# What is remembered.


def remembered(project: str, session: str | None, **facts: Any) -> Remembered:
    return replace(sample_remembered(), project=project, session=session, **facts)


@pytest.mark.proves("H8")
async def test_an_agent_learns_what_is_remembered_for_its_project_and_its_own_sessions(served: Served) -> None:
    mine = [remembered("shop", None), remembered("shop", "shop/builder/s1")]
    others = [
        remembered("", None),
        remembered("bank", None),
        remembered("shop", "shop/tester/s1"),
        remembered("shop", "s1"),
        remembered("bank", "shop/builder/s1"),
    ]
    served.store.remember([*mine, *others], [])
    told = msgspec.msgpack.decode(
        post(served, "changes", protocol.GetChanges(after=None)).content, type=protocol.ChangesReply
    )
    found = [unpack_remembered(each) for each in told.remembered or []]
    assert [(each.id, each.project, each.session) for each in found] == [(mine[0].id, "", None), (mine[1].id, "", "s1")]
    assert found[1].covers("s1", 0.0)


async def test_an_agent_spends_only_what_is_remembered_for_it(served: Served, agent: RemoteStore) -> None:
    mine, other = remembered("shop", None, uses_left=1), remembered("bank", None, uses_left=1)
    served.store.remember([mine, other], [])
    assert not await agent.spend(other.id)
    assert not await agent.spend(other.id, attempt="a")
    assert await agent.spend(mine.id)
    assert await served.store.spend(other.id)


async def test_an_answer_that_is_remembered_at_the_hub_stands_for_the_next_call_of_the_agent(served: Served) -> None:
    agent = served.agent("builder", "shop")
    controller = ApprovalController(store=agent, policy=Policy({"pay": "required"}), session="s1")
    running = asyncio.ensure_future(controller.settle(ToolCall(tool="pay", args={"amount": 5})))
    with fail_after(10):
        while not (waiting := await served.store.pending()):
            await served.store.changed(0)
    answer = ApprovalDecision(approved=True, remember="session", scope="call")
    await served.hub.controller.answer(waiting[0].id, answer, who="ann")
    await running
    await until(lambda: len(controller.memory.list()), 1, seconds=10)
    again = await controller.settle(ToolCall(tool="pay", args={"amount": 5}))
    assert getattr(again, "by", None) == "memory"
    (kept,) = controller.memory.list()
    assert (kept.session, kept.decision.who) == ("s1", "ann")
    await agent.aclose()


# Plain JSON, for other languages.


@pytest.mark.proves("R68", "R69")
async def test_a_question_in_plain_json_is_asked_awaited_used_once_and_finished(served: Served) -> None:
    token = served.token("builder", "shop")
    question: dict[str, Any] = {
        "tool": "pay", "args": {"amount": 5}, "description": "Pay the bill", "session": "s1", "call_id": "c1",
        "expires_in": 3600, "agent_path": ["main", "clerk"], "parameters": {"type": "object"},
        "presentation": {"title": "A bill"}, "approvers": {"count": 1, "roles": []},
    }  # fmt: skip
    asked = say(served, "POST", "/requests", json=question, token=token)
    assert asked.status_code == 201
    request = asked.json()
    assert (request["status"], request["session"], request["args"]) == ("open", "s1", {"amount": 5})
    assert say(served, "POST", "/requests", json=question, token=token).json()["id"] == request["id"]
    changed = say(served, "POST", "/requests", json=question | {"args": {"amount": 6}}, token=token)
    assert (changed.status_code, changed.json()["request"]["args"]) == (409, {"amount": 5})
    place = f"/requests/{request['id']}"
    early = say(served, "POST", place + "/claim", json={"attempt": "a"}, token=token).json()
    assert (early["claimed"], early["status"]) == (False, "open")
    waiting = asyncio.create_task(asyncio.to_thread(say, served, "GET", place, params={"wait": 30}, token=token))
    answer = ApprovalDecision(approved=True, override_args={"amount": 4})
    await served.hub.controller.answer(request["id"], answer, who="ann")
    closed = (await waiting).json()
    assert (closed["status"], closed["decision"]["args"]) == ("approved", {"amount": 4})
    claims = [say(served, "POST", place + "/claim", json={"attempt": each}, token=token).json() for each in "bcb"]
    assert [each["claimed"] for each in claims] == [True, False, True]
    finished = say(served, "POST", place + "/result", json={"result": "returned"}, token=token)
    assert finished.json()["result"] == "returned"
    withdrawn = say(served, "POST", place + "/withdraw", json={"note": "late"}, token=token)
    assert withdrawn.json()["status"] == "used"


async def test_a_plain_question_can_be_taken_back(served: Served) -> None:
    request = say(served, "POST", "/requests", json={"tool": "pay"}).json()
    taken = say(served, "POST", f"/requests/{request['id']}/withdraw", json={"note": "no need"}).json()
    assert (taken["status"], taken["decision"]["note"], taken["decision"]["approved"]) == (
        "withdrawn",
        "no need",
        False,
    )
    assert (await served.store.recent())[0].asked_by == "builder"


async def test_that_nobody_could_be_asked_is_told_over_both_ways_to_the_hub(served: Served, agent: RemoteStore) -> None:
    plain = say(served, "POST", "/requests", json={"tool": "pay"}).json()
    taken = say(served, "POST", f"/requests/{plain['id']}/withdraw", json={"note": "night", "unattended": True}).json()
    assert (taken["decision"]["unattended"], taken["decision"]["who"]) == (True, None)
    assert taken["state"] == "withdrawn: nobody could be asked, so it does not run"
    nobody = ApprovalDecision(approved=False, note="night", unattended=True)
    request = await agent.open(sample_request())
    closed = await agent.close(request.id, "withdrawn", nobody, now=1.0)
    assert (decide.refusal(closed).cause, decide.refusal(closed).reason) == ("unattended", "night")
    stored = [each.decision for each in await served.store.recent()]
    assert [each and each.unattended for each in stored] == [True, True]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'{"tool": 5}', b'{"tool": "pay", "args": {"a": 1, "a": 2}}',
        b'{"tool": "pay", "args": {"a": NaN}}', b'{"tool": "pay", "asked_by": "ann"}',
        b'{"tool": "pay", "project": "bank"}', b'{"tool": "pay", "decision": {}}',
        b'{"tool": "pay", "expires_in": 0}', b'{"tool": "pay", "args": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
        b'{"tool": "\\ud800"}', b'{"tool": "pay", "approvers": {"count": 0}}', b"\xff\xfe",
        b'{"tool": "pay", "args": {"a": ' + b"9" * 5000 + b"}}",
    ],
)  # fmt: skip
def test_a_plain_question_that_could_be_read_in_two_ways_is_refused(served: Served, body: bytes) -> None:
    answer = say(served, "POST", "/requests", content=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_a_plain_question_has_a_size(served: Served) -> None:
    assert say(served, "POST", "/requests", json={"tool": "pay", "args": {"a": BIG}}).status_code == 413


def test_the_published_description_has_the_plain_form(served: Served) -> None:
    paths = httpx2.get(served.url + "/openapi.json").json()["paths"]
    taken = paths["/requests"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"tool", "args", "description", "session", "call_id", "expires_in", "agent_path"} <= set(taken["properties"])
    assert taken["required"] == ["tool"]
    assert "$ref" not in json.dumps(taken)
    assert {each for each in paths if each.startswith(("/requests", "/agent"))} == {path for path, _ in PLAIN}


@pytest.mark.proves("H10")
@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize(("path", "method"), PLAIN)
def test_nothing_that_the_document_says_about_agents_breaks_the_hub(
    served: Served, path: str, method: str, mode: GenerationMode
) -> None:
    described = schemathesis.openapi.from_url(served.url + "/openapi.json")
    headers = {"Authorization": f"Bearer {served.token('builder', 'shop')}"}

    @settings(max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
    @given(described[path][method].as_strategy(generation_mode=mode))
    def call(case: Case) -> None:
        if mode is GenerationMode.POSITIVE and "request_id" in case.path_parameters:
            asked = httpx2.post(served.url + "/requests", json={"tool": "pay", "expires_in": 0.2}, headers=headers)
            case.path_parameters["request_id"] = asked.json()["id"]
        case.call_and_validate(headers=headers, checks=CHECKS)

    call()
