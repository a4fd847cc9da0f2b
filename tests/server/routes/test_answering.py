"""Answers over REST: every word for them, who may give them, and what comes of two at once."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from tests.server.served import POLICY, Served

from sayso import Policy
from sayso.core.approvers import Approvers
from sayso.policy.policy import ToolRules
from sayso.server.hub import Hub

ONCE = Policy.from_dict({"tools": {"pay": {"approval": "once_per_session"}}, "default": "none"})
NEVER = Policy.from_dict({"tools": {"pay": {"approval": "required", "remember": False}}, "default": "none"})
TWO = Approvers(count=2, roles=("ops",))


def answer(client: httpx2.Client, request: Any, **body: Any) -> httpx2.Response:
    return client.post(f"/approvals/{request.id}", json=body)


@pytest.mark.proves("R69")
@pytest.mark.parametrize(
    ("body", "status", "remember"),
    [
        ({"outcome": "proceed_once"}, "approved", "none"),
        ({"outcome": "proceed_always"}, "approved", "session"),
        ({"outcome": "cancel", "note": "no"}, "denied", "none"),
        ({"outcome": "modify", "args": {"amount": 7}}, "approved", "none"),
        ({"approved": True, "args": {"amount": 7}}, "approved", "none"),
        ({"approved": True, "remember": "always", "scope": "call", "seconds": 60, "uses": 3}, "approved", "always"),
        ({"approved": False, "remember": "session"}, "denied", "session"),
    ],
)
def test_every_word_for_an_answer(served: Served, body: dict[str, Any], status: str, remember: str) -> None:
    request = served.ask()
    with served.person() as ann:
        told = answer(ann, request, **body)
    row = told.json()
    assert (told.status_code, row["status"]) == (200, status)
    decision = served.get(request).decision
    assert decision is not None
    assert (decision.who, decision.channel, decision.note) == ("ann", "rest from 127.0.0.1", body.get("note"))
    assert (decision.remember, bool(row["remembered"])) == (remember, remember != "none")
    assert (None if decision.override_args is None else dict(decision.override_args)) == body.get("args")


@pytest.mark.proves("R69")
def test_the_seeds_answer_in_the_address(served: Served) -> None:
    request = served.ask()
    with served.person() as ann:
        assert ann.post(f"/approvals/{request.id}", params={"outcome": "proceed_once"}).json()["status"] == "approved"
        assert ann.post(f"/approvals/{request.id}").status_code == 422


def test_always_is_as_wide_as_the_rule_offers_and_says_what_was_remembered(served: Served) -> None:
    wide, narrow, never = served.ask(policy=ONCE), served.ask(tool="mail"), served.ask({"amount": 9}, policy=NEVER)
    with served.person() as ann:
        told = [answer(ann, each, outcome="proceed_always").json() for each in (wide, narrow, never)]
    assert [each["status"] for each in told] == ["approved"] * 3
    offered = [[scope.kind for scope in each.scopes] for each in (wide, narrow, never)]
    expected = [["tool" if "tool" in kinds else kinds[0]] if kinds else [] for kinds in offered]
    assert [[each["scope"]["kind"] for each in row["remembered"]] for row in told] == expected
    assert expected[2] == []


def test_what_a_rule_does_not_let_be_remembered_is_not_answered_so(served: Served) -> None:
    request = served.ask(policy=NEVER)
    with served.person() as ann:
        told = answer(ann, request, approved=True, remember="session")
    assert (told.status_code, served.get(request).status) == (422, "open")
    assert "cannot be remembered" in told.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{", b'"yes"', b"{}", b'{"outcome": "yes"}', b'{"approved": 1}', b'{"approved": "true"}',
        b'{"approved": true, "outcome": "cancel"}', b'{"approved": false, "approved": true}',
        b'{"approved": true, "colour": "red"}', b'{"outcome": "modify"}', b'{"outcome": "cancel", "args": {}}',
        b'{"approved": true, "args": {"amount": NaN}}', b'{"approved": true, "args": []}',
        b'{"approved": true, "uses": 3}', b'{"approved": true, "remember": "session", "scope": "folder"}',
        b'{"approved": true, "remember": "ever"}', b'{"approved": true, "remember": "session", "uses": 0}',
        b'{"approved": true, "remember": "session", "until": 5, "seconds": 5}',
        b'{"approved": true, "remember": "session", "seconds": 1e400}', b'{"approved": true, "note": 5}',
        b'{"outcome": "proceed_always", "remember": "none"}', b'{"approved": true, "note": "\\ud800"}',
        b"\xff\xfe", b'{"approved": true, "args": {"amount": 1' + b"0" * 5000 + b"}}",
    ],
)  # fmt: skip
def test_an_answer_that_could_be_read_in_two_ways_or_none_decides_nothing(served: Served, body: bytes) -> None:
    request = served.ask()
    with served.person() as ann:
        told = ann.post(f"/approvals/{request.id}", content=body, headers={"Content-Type": "application/json"})
    assert (told.status_code, told.headers["content-type"]) == (422, "application/problem+json")
    assert served.get(request).status == "open"


def test_a_form_or_a_plain_text_is_no_answer(served: Served) -> None:
    request = served.ask()
    with served.person() as ann:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            body = b'{"approved": true}'
            told = ann.post(f"/approvals/{request.id}", content=body, headers={"Content-Type": kind})
            assert told.status_code == 422
    assert served.get(request).status == "open"


def test_edited_arguments_have_to_fit_the_tool(served: Served) -> None:
    schema = '{"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}'
    request = served.ask(parameters=schema)
    with served.person() as ann:
        told = answer(ann, request, outcome="modify", args={"amount": "much"})
        assert (told.status_code, served.get(request).status) == (422, "open")
        assert "amount: 'much' is not of type 'integer'" in told.json()["detail"]
        assert answer(ann, request, outcome="modify", args={"amount": 7}).status_code == 200


@pytest.mark.parametrize(
    "part",
    [
        {"properties": {"text": {"pattern": "^(a+)+$"}}},
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False},
        {"propertyNames": {"pattern": "^(a+)+$"}},
    ],
)
def test_a_schema_cannot_hold_up_the_hub_with_a_pattern(served: Served, part: dict[str, Any]) -> None:
    """A regular expression that takes years would stop everybody; where the call runs, it is tried all the same."""
    request = served.ask(parameters=json.dumps({"type": "object", "required": ["text"], **part}))
    long = "a" * 60 + "!"
    with served.person() as ann:
        assert answer(ann, request, outcome="modify", args={long: 1}).status_code == 422
        assert answer(ann, request, outcome="modify", args={"text": long, long: 1}).status_code == 200


TWICE = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(60)}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$defs": {**TWICE, "a60": {}}, "$ref": "#/$defs/a0"}, id="a billion steps"),
        pytest.param({"$ref": "#"}, id="itself"),
        pytest.param({"$ref": "https://evil.example/schema"}, id="somewhere else"),
        pytest.param({"properties": {"amount": 5}}, id="no schema"),
        pytest.param({"properties": {"amount": {"multipleOf": 0}}}, id="no number"),
        pytest.param({"required": [["amount"]]}, id="no name"),
    ],
)
def test_a_schema_that_cannot_be_used_lets_no_edit_through_and_breaks_nothing(
    served: Served, schema: dict[str, Any]
) -> None:
    request = served.ask(parameters=json.dumps(schema))
    with served.person() as ann:
        told = answer(ann, request, outcome="modify", args={"amount": 7})
        assert (told.status_code, "an edit cannot be checked" in told.text) == (422, True)
        assert answer(ann, request, approved=True).status_code == 200


async def test_edited_arguments_that_the_hubs_policy_blocks_are_not_taken(served: Served) -> None:
    policy = Policy.from_dict({"default": "required", "tools": {"pay": {"approval": "blocked"}}})
    served.hub.controller = Hub(served.store, policy=policy).controller
    request = served.ask()
    with served.person() as ann:
        told = answer(ann, request, outcome="modify", args={"amount": 7})
    assert (told.status_code, served.get(request).status) == (422, "open")


def test_the_same_answer_twice_is_fine_and_another_one_is_not(served: Served) -> None:
    for policy in (POLICY, ONCE):
        request = served.ask({"amount": 7}, policy=policy)
        with served.person() as ann, served.person("bob") as bob:
            first = answer(ann, request, approved=True, note="fine")
            assert answer(ann, request, approved=True, note="fine").json() == first.json()
            for client, body in (
                (ann, {"approved": False}),
                (ann, {"approved": True}),
                (bob, {"approved": True, "note": "fine"}),
            ):
                late = answer(client, request, **body)
                assert (late.status_code, late.json()["request"]["status"]) == (409, "approved")
                assert late.json()["request"]["decision"]["who"] == "ann"


def test_an_answer_with_data_of_another_type_is_another_answer(served: Served) -> None:
    request = served.ask({"amount": 7})
    with served.person() as ann:
        assert answer(ann, request, outcome="modify", args={"amount": [1]}).status_code == 200
        for other, status in (([1], 200), ([True], 409), ([1.0], 409)):
            assert answer(ann, request, outcome="modify", args={"amount": other}).status_code == status


def test_an_answer_again_with_its_own_time_is_the_same_answer(served: Served) -> None:
    request = served.ask()
    with served.person() as ann:
        for _ in range(2):
            told = answer(ann, request, approved=True, remember="session", seconds=60)
            assert (told.status_code, len(told.json()["remembered"])) == (200, 1)


def test_a_request_that_is_over_is_not_answered(served: Served) -> None:
    request = served.ask(expires_at=1.0)
    with served.person() as ann:
        told = answer(ann, request, approved=True)
    assert (told.status_code, told.json()["request"]["status"]) == (409, "expired")


def test_of_two_people_at_once_one_answers_and_the_other_hears_of_it(served: Served) -> None:
    gate = threading.Barrier(2)

    def give(name: str, request: Any) -> tuple[str, int]:
        with served.person(name) as client:
            client.get("/me")
            gate.wait(10)
            return name, answer(client, request, approved=name == "ann").status_code

    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            request = served.ask()
            given = [pool.submit(give, name, request) for name in ("ann", "bob")]
            codes = dict(each.result(20) for each in given)
            assert sorted(codes.values()) == [200, 409]
            decision = served.get(request).decision
            assert decision is not None
            assert codes[str(decision.who)] == 200


# --- Who may ------------------------------------------------------------------------------------------


@pytest.mark.proves("H11")
def test_whoever_asked_cannot_answer(served: Served) -> None:
    request = served.ask(asked_by="ann")
    with served.person("ann") as ann, served.browser("ann") as page:
        for client in (ann, page):
            for yes in (True, False):
                told = answer(client, request, approved=yes)
                assert (told.status_code, served.get(request).status) == (403, "open")
    assert told.json()["detail"] == "whoever asks cannot answer, and ann asked this"


@pytest.mark.proves("H11")
def test_two_people_have_to_say_yes_and_each_counts_once(served: Served) -> None:
    request = served.ask(approvers=TWO)
    with (
        served.person("ann", roles=("ops",)) as ann,
        served.browser("ann", roles=("ops",)) as page,
        served.person("bob", roles=("ops",)) as bob,
        served.person("eve") as eve,
    ):
        assert answer(eve, request, approved=True).status_code == 403
        for client in (ann, ann, page):
            told = answer(client, request, approved=True)
            assert (told.status_code, told.json()["status"], len(told.json()["votes"])) == (200, "open", 1)
        assert answer(bob, request, outcome="modify", args={"amount": 1}).status_code == 422
        assert answer(bob, request, approved=True).json()["status"] == "approved"
        assert answer(ann, request, approved=True).status_code == 200


def test_one_no_is_enough(served: Served) -> None:
    request = served.ask(approvers=TWO)
    with served.person("ann", roles=("ops",)) as ann, served.person("eve") as eve:
        assert answer(ann, request, approved=True).json()["status"] == "open"
        assert answer(eve, request, approved=False).json()["status"] == "denied"
        assert answer(ann, request, approved=True).status_code == 200  # what she said before


def test_an_answer_from_a_browser_says_so(served: Served) -> None:
    request = served.ask(tool_rules=ToolRules())
    with served.browser("ann") as page:
        assert answer(page, request, approved=True).json()["decision"]["channel"] == "page from 127.0.0.1"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('{"outcome": "cancel"}', 200),
        ("", 422),
        ("null", 422),
        ("[1]", 422),
        ("{", 422),
        ('{"approved": true, "approved": false}', 422),
        ('{"approved": 1}', 422),
        ('{"approve": true, "note": 5}', 422),
    ],
)
def test_an_answer_with_a_charset_is_told_what_one_without_is_told(served: Served, body: str, status: int) -> None:
    told: list[Any] = []
    for kind in ("application/json", "application/json; charset=utf-8"):
        request = served.ask()
        with served.person() as ann, served.client() as nobody:
            headers = {"Content-Type": kind}
            answer = ann.post(f"/approvals/{request.id}", content=body, headers=headers)
            assert answer.status_code == status
            told.append({name: answer.json().get(name) for name in ("title", "detail", "errors", "status")})
            assert ann.post(f"/approvals/{'x' * 101}", content=body, headers=headers).status_code == 422
            assert ann.post("/approvals/x?outcome=cancel", headers=headers).status_code == 404
            assert nobody.post(f"/approvals/{request.id}", content="{}", headers=headers).status_code == 401
    assert told[0] == told[1]


@pytest.mark.parametrize("kind", ["", "text/plain", "text/plain; application/json", "application/x/json", "text/json"])
def test_an_answer_that_does_not_say_that_it_is_json_is_refused(served: Served, kind: str) -> None:
    """What a form on a foreign page can send without being asked first is never an answer."""
    request = served.ask()
    with served.person() as ann:
        told = ann.post(f"/approvals/{request.id}", content='{"approved": true}', headers={"Content-Type": kind})
        assert (told.status_code, "Content-Type: application/json" in told.json()["detail"]) == (422, True)
        assert ann.post(f"/approvals/{request.id}?outcome=maybe").status_code == 422
        assert ann.post(f"/approvals/{request.id}?outcome=cancel&outcome=proceed_once").status_code == 422
        both = ann.post(f"/approvals/{request.id}?outcome=cancel", json={"approved": True})
    assert (both.status_code, served.get(request).status) == (422, "open")


def test_of_edited_arguments_those_that_were_left_as_shown_stay_what_they_were(served: Served) -> None:
    schema = '{"properties": {"content": {"type": "string"}, "parts": {"type": "array"}}}'
    asked = {"amount": 5, "content": b"\x00", "parts": (1, 2), "on": True}
    request = served.ask(asked, tool_rules=ToolRules(parameters=lambda: schema))
    with served.person() as ann:
        shown = ann.get(f"/approvals/{request.id}").json()["args"]
        body = {"outcome": "modify", "args": {**shown, "amount": 7, "on": 1}}
        for _ in range(2):
            assert ann.post(f"/approvals/{request.id}", json=body).status_code == 200, "also when it is said again"
    decision = served.get(request).decision
    assert decision is not None
    assert decision.override_args is not None
    assert dict(decision.override_args) == {"amount": 7, "content": b"\x00", "parts": (1, 2), "on": 1}
    assert type(decision.override_args["on"]) is int


def test_a_remembered_answer_names_the_other_requests_that_it_answers_before_and_after(served: Served) -> None:
    wide = Policy.from_dict({"tools": {"pay": {"approval": "required", "scope": "tool"}}, "default": "none"})
    facts: dict[str, Any] = {"policy": wide, "project": "shop"}
    first, second, later = (served.ask({"amount": at}, **facts) for at in (1, 2, 3))
    elsewhere = served.ask({"amount": 4}, policy=wide, project="lab")
    by_two = served.ask({"amount": 5}, **facts, approvers=TWO)
    terms = {"remember": "always", "scope": "tool"}
    with served.person(project="shop") as ann, served.person("bob", project="lab") as bob:
        address = f"/approvals/{first.id}/covered"
        told = ann.get(address, params=terms).json()
        assert (told["count"], [each["id"] for each in told["items"]]) == (2, [second.id, later.id])
        assert told["items"][0]["tool"] == "pay"
        assert ann.get(address, params={**terms, "uses": 2}).json() == {"count": 0, "items": []}
        assert "not offered" in ann.get(address, params={**terms, "scope": "folder"}).json()["detail"]
        assert bob.get(address, params=terms).status_code == 404
        assert served.get(first).status == served.get(second).status == "open"
        assert answer(ann, first, approved=True, **terms).json()["also_answered"] == [second.id, later.id]
        assert ann.get(address, params=terms).json()["count"] == 0
    assert [served.get(each).status for each in (second, later, elsewhere, by_two)] == [
        "approved",
        "approved",
        "open",
        "open",
    ]


def test_a_yes_that_needs_another_one_answers_no_other_request_yet(served: Served) -> None:
    wide = Policy.from_dict({"tools": {"pay": {"approval": "required", "scope": "tool"}}, "default": "none"})
    first, _ = (served.ask({"amount": at}, policy=wide, approvers=TWO) for at in (1, 2))
    terms = {"remember": "always", "scope": "tool"}
    with served.person(roles=("ops",)) as ann, served.person("bob", roles=("ops",)) as bob:
        assert ann.get(f"/approvals/{first.id}/covered", params=terms).json()["count"] == 0
        assert answer(ann, first, approved=True, **terms).json()["also_answered"] == []
        assert bob.get(f"/approvals/{first.id}/covered", params=terms).json()["count"] == 1
