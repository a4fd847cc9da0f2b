"""The published OpenAPI document: that it is true, and that nothing it allows breaks the hub."""

# schemathesis is half typed.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false

import re
from collections.abc import Generator
from itertools import product
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from pydantic import BaseModel, TypeAdapter
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.served import Served

from sayso import ApprovalDecision
from sayso.core import json_codec
from sayso.core.approvers import Approvers, Escalation, Seen
from sayso.core.model import ApprovalPresentation, Rule, Scope
from sayso.engine.remembered import ApprovalMemory
from sayso.server.app import create_app
from sayso.server.http import schemas
from sayso.server.http.problems import HttpProblem
from sayso.server.hub import Hub
from sayso.server.routes.answering import decision_of
from sayso.server.services.throttle import Throttle
from sayso.stores.memory import MemoryStore
from sayso.testing.samples import sample_request

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

OUTCOMES = ("proceed_once", "proceed_always", "cancel", "modify")

PATHS = create_app(Hub(MemoryStore())).openapi()["paths"]
OPERATIONS = [
    (path, method, mode)
    for path, methods in PATHS.items()
    for method, facts in methods.items()
    for mode in GenerationMode
    if path != "/events"  # a stream has no end
    and (mode is GenerationMode.POSITIVE or "parameters" in facts or "requestBody" in facts)
]
BOUNDED = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """One hub for all that is tried: what one leaves behind is what the next one finds."""
    hub = Served(tmp_path_factory.mktemp("hub"), throttle=Throttle(failures=10_000, answers=10_000))
    hub.start()
    yield hub
    hub.stop()


# The hub draws random numbers in another thread, which Hypothesis takes for a strategy that does.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_nothing_that_the_document_allows_or_forbids_breaks_the_hub(
    shared: Served, path: str, method: str, mode: GenerationMode
) -> None:
    headers = {"Authorization": f"Bearer {shared.token(project='*')}"}
    described = schemathesis.openapi.from_url(f"{shared.url}/openapi.json")

    @BOUNDED
    @given(described[path][method].as_strategy(generation_mode=mode))
    def call(case: Case) -> None:
        if mode is GenerationMode.POSITIVE and "request_id" in case.path_parameters:
            case.path_parameters["request_id"] = shared.ask(expires_at=shared.hub.clock.now() + 0.5).id
        case.call_and_validate(headers=headers, checks=CHECKS)

    call()


def test_the_document_names_every_route_and_its_token(served: Served) -> None:
    with served.client() as client:
        document = client.get("/openapi.json").json()
    assert document["info"]["title"] == "sayso hub"
    open_to_all = {"/healthz", "/readyz", "/sign-in", "/sign-in/link"}
    for path, methods in document["paths"].items():
        for each in methods.values():
            assert bool(each.get("security")) == (path not in open_to_all), path
            assert each["description"].endswith(".")


def test_a_method_that_the_document_does_not_name_is_refused_with_those_that_it_names(served: Served) -> None:
    with served.person(project="*") as ann:
        for path, methods in PATHS.items():
            declared = {each.upper() for each in methods}
            for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - declared:
                answer = ann.request(method, re.sub(r"{\w+}", "x", path))
                assert answer.status_code == 405, (method, path)
                assert set(answer.headers["allow"].split(", ")) == declared, (method, path)


def test_an_answer_without_an_outcome_does_not_fit_the_document() -> None:
    sent = PATHS["/approvals/{request_id}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "null" not in str(sent), "no body is not the same as null"
    document = create_app(Hub(MemoryStore())).openapi()
    answer = {**document["components"]["schemas"]["Answer"], "components": document["components"]}
    for body, fits in (
        ({"outcome": "cancel"}, True),
        ({"approved": True, "outcome": None}, True),
        ({}, False),
        ({"outcome": None}, False),
        ({"approved": True, "outcome": "cancel"}, False),
    ):
        assert Draft202012Validator(answer).is_valid(body) is fits, body


@pytest.mark.parametrize("given", [{"outcome": each} for each in OUTCOMES] + [{"approved": True}, {"approved": False}])
def test_an_answer_fits_the_document_if_and_only_if_it_can_be_an_answer(given: dict[str, Any]) -> None:
    """Where it depends on the answer alone: this request takes every scope."""
    document = create_app(Hub(MemoryStore())).openapi()
    fits = Draft202012Validator({**document["components"]["schemas"]["Answer"], "components": document["components"]})
    offered = tuple(Scope(kind=kind, key=kind, label=kind) for kind in ("call", "tool"))
    request, memory = replace(sample_request(), scopes=offered), ApprovalMemory()
    values: dict[str, list[Any]] = {
        "args": [None, {"a": 1}],
        "remember": [None, "none", "session", "always"],
        "scope": [None, "call", "tool"],
        "uses": [None, 3],
        "until": [None, 5.0],
        "seconds": [None, 5.0],
    }
    for chosen in product(*values.values()):
        body = given | dict(zip(values, chosen, strict=True))
        try:
            decision = decision_of(schemas.AnswerModel(**body), request, 1.0)
            if decision.remember != "none":
                memory.build(request, decision, now=1.0)
        except (HttpProblem, ValueError):
            assert not fits.is_valid(body), body
        else:
            assert fits.is_valid(body), body
            assert fits.is_valid({name: value for name, value in body.items() if value is not None}), body


def test_a_question_fits_the_document_if_and_only_if_the_hub_takes_it(served: Served) -> None:
    sent = PATHS["/requests"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    fits = Draft202012Validator(sent)
    numbers = [-1, -0.5, 0, 1, 1.5, 50, 51, 1e11, 99_999_999_999, 1e300, None, True, "1"]
    texts = ["", "x", "x" * 60, "x" * 61, "x" * 200, "x" * 201, "x" * 1000, "x" * 1001, "a\0b", None, 1]
    parts: list[dict[str, Any]] = [
        *({"approvers": {"count": each}} for each in numbers),
        *({"approvers": {"remind": each}} for each in numbers),
        *({"approvers": {"escalate": {"role": "lead", "after": each}}} for each in numbers),
        *({"approvers": {"escalate": {"role": each, "after": 1}}} for each in texts),
        *({"approvers": {"roles": [each]}} for each in texts),
        *({"approvers": {"roles": ["x"] * size, "escalate": {"role": "y", "after": 1}}} for size in (49, 50)),
        *({"presentation": {"title": each}} for each in texts),
        *({"presentation": {"content_type": each, "language": each, "type": each}} for each in texts),
        *({"agent_path": ["x"] * size} for size in (50, 51)),
        *({"expires_in": each} for each in (*numbers, 365 * 86400, 365 * 86400 + 1)),
    ]
    with served.client(served.token("agent", "builder", project="shop")) as agent:
        for part in parts:
            body = {"tool": "pay", **part}
            answer = agent.post("/requests", json=body)
            assert (answer.status_code == 201) is fits.is_valid(body), (part, answer.text)


# --- The shapes ---------------------------------------------------------------------------------------


def names(shape: type[BaseModel]) -> set[str]:
    return set(shape.model_fields)


def test_the_published_shape_of_a_request_is_what_is_told(served: Served) -> None:
    decision = ApprovalDecision(approved=True, who="ann", override_args={"a": [1]})
    request = replace(
        served.ask(),
        presentation=ApprovalPresentation(title="x"),
        rule=Rule(source="x", key="y"),
        scopes=(Scope(kind="call", key="k", label="l"),),
        approvers=Approvers(count=2, roles=("ops",), escalate=Escalation(role="boss", after=1.0)),
        seen=(Seen(who="ann", channel="page", at=1.0),),
        votes=(decision,),
        decision=decision,
    )
    told = json_codec.request_to_dict(request)
    assert told.keys() == names(schemas.RequestModel)
    assert TypeAdapter(schemas.RequestModel).validate_python(told).model_dump() == told


def test_the_published_shape_of_what_is_remembered_is_what_is_told(served: Served) -> None:
    request = served.ask()
    with served.person() as ann:
        ann.post(f"/approvals/{request.id}", json={"approved": True, "remember": "always"})
        (told,) = ann.get("/remembered").json()["items"]
    assert told.keys() == names(schemas.RememberedModel)
    assert TypeAdapter(schemas.RememberedModel).validate_python(told).model_dump() == told
