"""What people see and do over REST."""

import re
import sqlite3
from contextlib import closing
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from tests.server.conftest import ON_EACH_STORE
from tests.server.served import POLICY, Served

from sayso import ApprovalController, ApprovalDecision, ToolCall
from sayso.core import json_codec
from sayso.core.model import ApprovalPresentation

MARKUP = "<script>alert(1)</script>'\"&\u202e\x1b[31m"


def ids(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["items"]]


# --- Seeing ------------------------------------------------------------------------------------------


@pytest.mark.proves("R69", "R76")
def test_what_waits_is_listed_oldest_first_and_what_was_asked_newest_first(served: Served) -> None:
    first, second, third = (served.ask() for _ in range(3))
    served.do(served.store.close(second.id, "denied", ApprovalDecision(approved=False, who="bob"), now=1.0))
    with served.person() as ann:
        assert ids(ann.get("/approvals")) == [first.id, third.id]
        assert ids(ann.get("/approvals", params={"status": "open"})) == [third.id, first.id]
        assert ids(ann.get("/approvals", params={"status": "all"})) == [third.id, second.id, first.id]
        assert ids(ann.get("/approvals", params={"status": "denied"})) == [second.id]
        assert ids(ann.get("/approvals", params={"status": "expired"})) == []
        row = ann.get("/approvals").json()["items"][0]
    assert row == json_codec.request_to_dict(first)


def test_lists_come_in_pages_that_meet_without_gap_or_overlap(served: Served) -> None:
    opened = [served.ask().id for _ in range(7)]
    with served.person() as ann:
        for status, cursor, expected in (("pending", "after", opened), ("all", "before", opened[::-1])):
            read: list[str] = []
            query: dict[str, Any] = {"status": status, "limit": 3}
            while True:
                answer = ann.get("/approvals", params=query)
                read += ids(answer)
                query[cursor] = answer.json()["next"]
                if query[cursor] is None:
                    break
            assert read == expected


def test_a_page_of_long_requests_has_fewer_of_them(served: Served) -> None:
    """An agent that asks a thousand questions of a megabyte must not make the hub write them all at once."""
    asked = [served.ask({"text": "\u2028" * 300_000, "number": number}).id for number in range(12)]
    listed: list[str] = []
    with served.person() as ann:
        after: str | None = ""
        while after is not None:
            page = ann.get("/approvals", params={"after": after, "limit": 1000})
            assert len(page.content) < 11_000_000
            listed += [each["id"] for each in page.json()["items"]]
            after = page.json()["next"]
        assert 1 < len(ann.get("/approvals/pending").json()) < len(asked)
    assert listed == asked


def test_a_list_is_filtered_by_tool_and_by_words_in_any_case(served: Served) -> None:
    mail = served.ask({"to": "Ünal", "lines": [{"text": "Hello THERE"}]}, tool="mail")
    pay = served.ask({"amount": 12**400})
    with served.person() as ann:
        for query, expected in (
            ({"tool": "mail"}, [mail]), ({"tool": "mai"}, []), ({"q": "ünal"}, [mail]), ({"q": "hello there"}, [mail]),
            ({"q": "PAYER"}, [mail, pay]), ({"q": "amount"}, [pay]), ({"q": "amount", "tool": "mail"}, []),
        ):  # fmt: skip
            assert ids(ann.get("/approvals", params=query)) == [each.id for each in expected], query


def test_a_list_is_filtered_by_agent_person_time_and_id(served: Served) -> None:
    now = served.hub.clock.now()
    old, new = served.ask(asked_at=now - 60, asked_by="builder"), served.ask(asked_at=now)
    served.do(served.store.close(old.id, "denied", ApprovalDecision(approved=False, who="Bob"), now=now))
    with served.person() as ann:
        for query, expected in (
            ({"agent": "build*"}, [old]), ({"agent": "payer"}, [new, old]), ({"agent": "pay"}, []),
            ({"who": "bob"}, [old]), ({"who": "ann"}, []), ({"since": now - 1}, [new]), ({"until": now}, [old]),
            ({"since": now - 60, "until": now - 59}, [old]), ({"id": new.id[-9:]}, [new]), ({"id": old.id}, [old]),
            ({"who": "bob", "tool": "pay", "q": "payer", "until": now}, [old]),
        ):  # fmt: skip
            answer = ann.get("/approvals", params={"status": "all", **query})
            assert ids(answer) == [each.id for each in expected], query
        assert answer.json()["searched"] == 2


@ON_EACH_STORE
def test_no_filter_and_no_number_tells_of_another_project(served: Served) -> None:
    mine = served.ask(project="shop")
    others = [
        served.ask({"secret": "word"}, tool="launch", project="bank", asked_by="spy"),
        served.ask({"secret": "word"}, tool="launch", project=""),
    ]
    for each in others:
        no = ApprovalDecision(approved=False, who="mallory", decided_at=served.hub.clock.now())
        served.do(served.store.close(each.id, "denied", no, now=served.hub.clock.now()))
    queries: list[dict[str, Any]] = [
        {"tool": "launch"}, {"tool": "*"}, {"agent": "spy"}, {"q": "word"}, {"who": "mallory"}, {"since": 0},
        {"until": 2e9}, {"id": others[0].id}, {"id": others[1].id[:4]}, {"status": "denied"}, {},
    ]  # fmt: skip
    with served.person(project="shop") as ann:
        for query in queries:
            answer = ann.get("/approvals", params={"status": "all", **query})
            found = answer.json()
            assert {each["id"] for each in found["items"]} <= {mine.id}, query
            assert (found["searched"], found["next"]) in {(0, None), (1, None)}, query
        for hours in (1, 24, 744):
            told = ann.get("/stats", params={"hours": hours})
            assert not {"launch", "spy", "mallory"} & set(re.findall(r"\w+", told.text))
            assert [each["asked"] for each in told.json()["by_tool"]] == [1]
            assert told.json()["by_person"] == []
    with served.person("eve", project="*") as eve:
        assert {each["tool"] for each in eve.get("/stats").json()["by_tool"]} == {"launch", "pay"}


@pytest.mark.parametrize(
    "query",
    [
        "since=soon",
        "until=inf",
        "since=nan",
        "status=closed",
        "limit=0",
        "limit=1001",
        "colour=red",
        "before=x",
        "status=all&after=x",
        "limit=many",
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(served: Served, query: str) -> None:
    with served.person() as ann:
        answer = ann.get(f"/approvals?{query}")
    assert (answer.status_code, answer.json()["title"]) == (422, "Unprocessable Entity")


@pytest.mark.proves("R69")
def test_the_mapping_of_what_waits_by_id(served: Served) -> None:
    request = served.ask({"amount": 5}, description="")
    told = served.ask({"amount": 6}, description="Pay six")
    with served.person() as ann:
        assert ann.get("/approvals/pending").json() == {
            request.id: {"tool": "pay", "args": {"amount": 5}, "message": "Allow pay to execute?"},
            told.id: {"tool": "pay", "args": {"amount": 6}, "message": "Pay six"},
        }
        assert ann.post(f"/approvals/{request.id}", json={"outcome": "cancel"}).status_code == 200
        assert list(ann.get("/approvals/pending").json()) == [told.id], "what is answered does not wait"


@pytest.mark.proves("R69")
def test_one_request_is_told_and_an_unknown_one_is_not_found(served: Served) -> None:
    request = served.ask({"amount": 12**4000})
    with served.person() as ann:
        assert ann.get(f"/approvals/{request.id}").json()["args"]["amount"] == hex(12**4000)
        answer = ann.get("/approvals/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json() == {"title": "Not Found", "status": 404, "detail": "no request has this id"}


def test_markup_in_every_field_comes_back_as_data(served: Served) -> None:
    shown = ApprovalPresentation(title=MARKUP, content=MARKUP, diff=MARKUP, language=MARKUP, content_type=MARKUP)
    facts: dict[str, Any] = {
        "description": MARKUP,
        "summary": MARKUP,
        "reason": MARKUP,
        "presentation": shown,
        "agent_path": (MARKUP,),
    }
    request = served.ask({MARKUP: MARKUP}, tool=MARKUP, **facts)
    with served.person() as ann:
        ann.post(f"/approvals/{request.id}", json={"approved": False, "note": MARKUP})
        for path in ("/approvals?status=all", "/approvals/pending", f"/approvals/{request.id}", "/audit", "/stats"):
            answer = ann.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            assert answer.headers["x-content-type-options"] == "nosniff"
        row = ann.get(f"/approvals/{request.id}").json()
    assert (row["tool"], row["args"], row["presentation"]["diff"]) == (MARKUP, {MARKUP: MARKUP}, MARKUP)
    assert row["decision"]["note"] == MARKUP


def test_who_has_a_request_before_them_is_noted(served: Served) -> None:
    request = served.ask()
    with served.person() as ann:
        assert ann.post(f"/approvals/{request.id}/seen", json={}).status_code == 204
        assert ann.post("/approvals/nothing/seen").status_code == 404
    assert [(each.who, each.channel) for each in served.get(request).seen] == [("ann", "page")]


def test_somebody_is_told_who_they_are(served: Served) -> None:
    with served.person(project="shop", roles=("ops", "dba")) as ann:
        told = ann.get("/me").json()
    assert told.pop("hub").keys() == {"version"}
    assert told == {"name": "ann", "kind": "approver", "project": "shop", "roles": ["ops", "dba"]}


# --- Projects ----------------------------------------------------------------------------------------


@pytest.mark.proves("H11")
@ON_EACH_STORE
def test_requests_of_another_project_do_not_exist(served: Served) -> None:
    mine, other, default = served.ask(project="shop"), served.ask(project="bank"), served.ask()
    with served.person(project="shop") as ann:
        assert ids(ann.get("/approvals")) == [mine.id]
        assert list(ann.get("/approvals/pending").json()) == [mine.id]
        for request in (other, default):
            assert ann.get(f"/approvals/{request.id}").status_code == 404
            assert ann.get(f"/approvals/{request.id}", params={"wait": 1}).status_code == 404
            assert ann.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 404
            assert ann.post(f"/approvals/{request.id}/seen").status_code == 404
        assert {each["request_id"] for each in ann.get("/audit").json()["items"]} == {mine.id}
        assert sum(each["asked"] for each in ann.get("/stats").json()["by_hour"]) == 1
    with served.person("eve", project="*") as eve:
        assert ids(eve.get("/approvals")) == [mine.id, other.id, default.id]
        assert len(eve.get("/audit").json()["items"]) == 3
    assert {served.get(each).status for each in (mine, other, default)} == {"open"}


# --- What stays --------------------------------------------------------------------------------------


@ON_EACH_STORE
def test_what_is_remembered_is_listed_and_taken_back(served: Served) -> None:
    request = served.ask(project="shop")
    with served.person(project="shop") as ann, served.person("bob", project="bank") as bob:
        told = ann.post(f"/approvals/{request.id}", json={"approved": True, "remember": "always"}).json()["remembered"]
        assert ann.get("/remembered").json() == {"items": told}
        assert [(each["scope"]["kind"], each["request_id"]) for each in told] == [("call", request.id)]
        assert bob.get("/remembered").json() == {"items": []}
        assert bob.delete(f"/remembered/{told[0]['id']}").status_code == 404
        assert ann.delete(f"/remembered/{told[0]['id']}").status_code == 204
        assert ann.delete(f"/remembered/{told[0]['id']}").status_code == 404
        assert ann.get("/remembered").json() == {"items": []}


def test_the_audit_is_read_in_pages_and_says_whether_it_is_whole(served: Served) -> None:
    for _ in range(5):
        served.ask()
    with served.person(project="*") as ann:
        first = ann.get("/audit", params={"limit": 3}).json()
        assert [each["number"] for each in first["items"]] == [1, 2, 3]
        rest = ann.get("/audit", params={"after": first["next"]}).json()
        assert ([each["number"] for each in rest["items"]], rest["next"]) == ([4, 5], None)
        state = ann.get("/audit/state").json()
        assert (state["entries"], state["verified"], state["problem"]) == (5, True, None)
        served.ask()
        assert ann.get("/audit/state").json()["entries"] == 6


def test_an_audit_that_somebody_changed_is_found_out(served: Served) -> None:
    for _ in range(3):
        served.ask()
    with closing(sqlite3.connect(served.file)) as forger:
        forger.execute("UPDATE audit SET line = ? WHERE number = 2", (b'{"step":"asked"}',))
        forger.commit()
    with served.person() as ann:
        state = ann.get("/audit/state").json()
    assert (state["verified"], state["problem"]) == (
        False, "audit entry 2 was changed, or moved here: its hash does not fit",
    )  # fmt: skip


def test_numbers_tell_what_was_asked_how_it_ended_and_how_long_it_took(served: Served) -> None:
    now = served.hub.clock.now()
    approved, denied, _ = (served.ask(asked_at=now) for _ in range(3))
    served.ask(tool="mail", asked_at=now - 90 * 3600)
    for request, yes, seconds in ((approved, True, 10.0), (denied, False, 20.0)):
        decision = ApprovalDecision(approved=yes, who="ann", decided_at=now + seconds)
        served.do(served.store.close(request.id, "approved" if yes else "denied", decision, now=now))
    with served.person() as ann:
        told = ann.get("/stats", params={"hours": 2}).json()
    assert len(told["by_hour"]) == 2
    assert told["by_hour"][-1] | {"at": 0} == {
        "at": 0, "asked": 3, "approved": 1, "denied": 1, "expired": 0, "withdrawn": 0,
    }  # fmt: skip
    within = told["waiting"].pop("within")
    assert told["waiting"] == {"p50": 10.0, "p90": 20.0, "max": 20.0}
    assert [(each["up_to"], each["answers"]) for each in within if each["answers"]] == [(10.0, 1), (60.0, 1)]
    counts = {"asked": 3, "approved": 1, "denied": 1, "expired": 0, "withdrawn": 0, "p50": 10.0, "p90": 20.0}
    assert told["by_tool"] == [{"tool": "pay", **counts}]
    assert told["by_agent"] == [{"agent": "report > payer", **counts}]
    assert told["by_person"] == [{"who": "ann", "answered": 2, "approved": 1, "denied": 1, "p50": 10.0, "p90": 20.0}]
    assert told["busiest"] == {"at": told["by_hour"][-1]["at"], "asked": 3}
    assert told["complete"]


# --- The hub itself ----------------------------------------------------------------------------------


def test_health_needs_no_token_and_numbers_for_prometheus_are_for_this_machine(served: Served) -> None:
    request = served.ask()
    with served.client() as nobody, served.person() as ann:
        assert nobody.get("/healthz").json() == {"status": "ok"}
        assert nobody.get("/readyz").json() == {"status": "ok"}
        ann.post(f"/approvals/{request.id}", json={"approved": False})
        with ann.stream("GET", "/events", params={"after": 0}) as stream:  # until the hub has heard of the answer
            next(line for line in stream.iter_lines() if '"denied"' in line)
        numbers = nobody.get("/metrics").text
        assert nobody.get("/metrics", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 401
        assert ann.get("/metrics", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 200
    assert "sayso_requests_opened_total 1.0" in numbers
    assert 'sayso_requests_closed_total{outcome="denied"} 1.0' in numbers
    assert "sayso_requests_waiting 0.0" in numbers
    assert "sayso_answer_seconds_count 1.0" in numbers


async def test_a_call_asked_elsewhere_runs_when_it_was_answered_here(served: Served) -> None:
    """An agent of another process, on the same store, waits for the answer."""

    async def tool(args: dict[str, Any]) -> int:
        return args["amount"]

    results: list[int] = []

    def answer() -> None:
        with served.person() as ann, ann.stream("GET", "/events", params={"after": 0}) as stream:
            next(line for line in stream.iter_lines() if line.startswith("event: request"))
            request = ann.get("/approvals").json()["items"][0]
            body = {"outcome": "modify", "args": {"amount": 7}}
            assert ann.post(f"/approvals/{request['id']}", json=body).status_code == 200

    async with ApprovalController(store=served.file, policy=POLICY) as agent, anyio.create_task_group() as tasks:

        async def run() -> None:
            results.append(await agent.run(ToolCall(tool="pay", args={"amount": 5}), tool))

        tasks.start_soon(run)
        with anyio.fail_after(20):
            await to_thread.run_sync(answer)
    assert results == [7]
