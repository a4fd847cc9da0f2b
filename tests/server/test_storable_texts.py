"""A text that a store cannot keep is refused in one sentence, by every route and on every store."""

from typing import Any

import httpx2
import msgspec
import pytest
from msgspec.structs import replace
from tests.server.conftest import ON_EACH_STORE
from tests.server.served import Served, heard

from sayso.core import agent_protocol as protocol
from sayso.core.approvers import Approvers, Escalation
from sayso.core.model import ApprovalPresentation, ParkedRun, Rule, new_id
from sayso.core.msgpack_codec import pack_request
from sayso.testing.samples import sample_request

NUL = "a\0b"
HALF = "a\ud800b"  # half a character
RUN = new_id()


def is_refused(answer: httpx2.Response) -> bool:
    return answer.status_code == 422 and "character" in answer.json()["detail"]


def sent(served: Served, operation: str, message: Any) -> httpx2.Response:
    headers = {"Content-Type": protocol.MEDIA}
    with served.client(served.token("agent", "builder", project="shop"), **headers) as client:
        return client.post(f"/agent/{operation}", content=msgspec.msgpack.encode(message))


@ON_EACH_STORE
@pytest.mark.parametrize("text", [NUL, HALF], ids=["NUL", "half a character"])
def test_no_route_for_json_takes_a_text_that_cannot_be_kept(served: Served, text: str) -> None:
    asked = served.ask(project="shop")
    bodies: list[tuple[str, str, str]] = [
        *(
            ("agent", "/requests", f'{{"tool": "pay", "{field}": "%"}}')
            for field in ("description", "reason", "session", "run", "call_id")
        ),
        ("agent", "/requests", '{"tool": "%"}'),
        ("agent", "/requests", '{"tool": "pay", "agent_path": ["%"]}'),
        ("agent", "/requests", '{"tool": "pay", "approvers": {"roles": ["%"]}}'),
        ("agent", f"/requests/{asked.id}/claim", '{"attempt": "%"}'),
        ("agent", f"/requests/{asked.id}/withdraw", '{"note": "%"}'),
        ("approver", f"/approvals/{asked.id}", '{"approved": false, "note": "%"}'),
    ]
    written = text.replace("\0", "\\u0000").replace("\ud800", "\\ud800")
    for kind, path, body in bodies:
        token = served.token("agent" if kind == "agent" else "approver", "builder", project="shop")
        with served.client(token, **{"Content-Type": "application/json"}) as client:
            answer = client.post(path, content=body.replace("%", written))
        assert is_refused(answer), (path, body, answer.text)
    assert [each.id for each in served.do(served.store.pending())] == [asked.id]


@ON_EACH_STORE
def test_no_message_of_an_agent_takes_a_text_that_cannot_be_kept(served: Served) -> None:
    asked = sample_request()
    assert sent(served, "open", protocol.Open(request=pack_request(asked))).status_code == 200
    new = replace(sample_request(), session="other")
    opened = [
        replace(new, **facts)
        for facts in (
            {"tool_name": NUL},
            {"digest": NUL},
            {"schema_hash": NUL},
            {"agent_path": (NUL,)},
            {"rule": Rule(source=NUL, key="x")},
            {"presentation": ApprovalPresentation(language=NUL)},
            {"approvers": Approvers(roles=(NUL,))},
            {"approvers": Approvers(escalate=Escalation(role=NUL, after=1.0))},
        )
    ]
    messages: list[tuple[str, object]] = [
        *(("open", protocol.Open(request=pack_request(each))) for each in opened),
        ("claim", protocol.Claim(id=asked.id, now=1.0, attempt=NUL)),
        ("spend", protocol.Spend(id="x", attempt=NUL)),
        ("unpark", protocol.Unpark(name="x", attempt=NUL)),
        ("append", protocol.Append(news=[], attempt=NUL)),
        ("append", protocol.Append(news=[(NUL, "returned")], attempt="")),
        ("close", protocol.Close(id=asked.id, status="withdrawn", now=1.0, note=NUL, decided_at=1.0)),
        ("see", protocol.MarkSeen(id=asked.id, who=NUL, channel="desk", at=1.0)),
        ("see", protocol.MarkSeen(id=asked.id, who="ann", channel=NUL, at=1.0)),
        ("pending", protocol.GetPending(limit=1, after=NUL)),
        ("recent", protocol.GetRecent(limit=1, part=NUL, before="")),
        ("recent", protocol.GetRecent(limit=1, part="", before=NUL)),
        ("park", protocol.Park(name=RUN, state=b"", run=ParkedRun(id=RUN, agent=NUL))),
        ("park", protocol.Park(name=RUN, state=b"", run=ParkedRun(id=RUN, framework=NUL))),
    ]
    for operation, message in messages:
        answer = sent(served, operation, message)
        assert is_refused(answer), (operation, message, answer.text)
    assert [each.id for each in served.do(served.store.recent())] == [asked.id]
    assert served.do(served.store.runs()) == []


@ON_EACH_STORE
def test_no_address_holds_a_text_that_cannot_be_kept(served: Served) -> None:
    paths = [
        *(f"/approvals?status=all&{name}=%00" for name in ("tool", "agent", "q", "who", "id", "before")),
        "/approvals?after=%00",
        *("/approvals/a%00b", "/approvals/a%00b/covered?remember=session", "/requests/a%00b", "/files/a%00b"),
    ]
    with served.person(project="*") as ann:
        for path in paths:
            assert is_refused(ann.get(path)), path
        for path in ("/approvals/a%00b", "/approvals/a%00b/seen", "/requests/a%00b/claim", "/agent/a%00b"):
            assert is_refused(ann.post(path)), path
        for path in ("/remembered/a%00b", "/runs/a%00b"):
            assert is_refused(ann.delete(path)), path


@ON_EACH_STORE
def test_no_answer_over_a_websocket_has_a_text_that_cannot_be_kept(served: Served) -> None:
    asked = served.ask()
    with served.socket(served.token()) as socket:
        assert heard(socket)["id"] == asked.id
        for note in (r"a\u0000b", r"a\ud800b"):
            facts = f'{{"type": "approval_response", "id": "{asked.id}", "approved": true, "note": "{note}"}}'
            socket.send(facts)
            problem = heard(socket)["problem"]
            assert (problem["status"], "character" in problem["detail"]) == (422, True), problem
    assert served.get(asked).status == "open"


@ON_EACH_STORE
def test_what_a_call_is_about_may_contain_any_character_that_can_be_shown(served: Served) -> None:
    """Arguments are kept packed, as they are: a file may have a NUL in it."""
    with served.client(served.token("agent", "builder", project="shop")) as agent:
        answer = agent.post("/requests", json={"tool": "write", "args": {"text": NUL}})
        assert answer.status_code == 201
        assert agent.get(f"/requests/{answer.json()['id']}").json()["args"] == {"text": NUL}


@ON_EACH_STORE
def test_a_refusal_does_not_repeat_a_long_text_that_was_sent(served: Served) -> None:
    long = "x" * 500_000
    with served.client(served.token("agent", "builder", project="shop")) as agent:
        asked = agent.post("/requests", json={"tool": "pay"}).json()["id"]
        answers = [
            agent.post(f"/requests/{asked}/result", json={"result": long}),
            agent.post("/requests", json={"tool": "pay", "conversation": [{"role": long, "text": "x"}]}),
            sent(served, "close", {"id": asked, "status": long, "now": 1.0}),
            sent(served, "append", {"news": [f'{{"at": 1, "step": "{long}"}}'.encode()], "attempt": ""}),
            sent(served, "append", {"news": [("x" * 65, "returned")], "attempt": ""}),
        ]
    assert {each.status_code for each in answers} <= {403, 422}
    assert max(len(each.content) for each in answers) < 1500


@ON_EACH_STORE
def test_a_line_of_the_audit_has_a_largest_size_and_so_has_a_page_of_them(served: Served) -> None:
    def line(size: int) -> bytes:
        return f'{{"at": 1, "step": "allowed", "result": "{"x" * size}"}}'.encode()

    refused = sent(served, "append", protocol.Append(news=[line(protocol.LONGEST_LINE)], attempt=""))
    assert (refused.status_code, refused.json()["detail"]) == (
        413,
        "a line of the audit may have 1000000 bytes, and not more",
    )
    for _ in range(2):
        news = [line(990_000) for _ in range(8)]
        assert sent(served, "append", protocol.Append(news=list(news), attempt="")).status_code == 200
    with served.person(project="*") as ann:
        page = ann.get("/audit/lines").json()
        assert len(page["items"]) == 9
        rest = ann.get("/audit/lines", params={"after": page["next"]}).json()
    assert (len(rest["items"]), rest["next"]) == (7, None)
