"""What people do over REST: see what waits, and answer it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Header, Path, Query
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from sayso.core import json_codec
from sayso.core.approvers import Seen
from sayso.core.canonical import thaw
from sayso.core.decide import is_overdue
from sayso.core.model import ApprovalRequest
from sayso.server import identity
from sayso.server.http import schemas
from sayso.server.http.fast_path import LONGEST_ID, Way
from sayso.server.http.problems import HttpProblem
from sayso.server.http.schemas import AnswerModel
from sayso.server.http.strict_json import StrictRoute, read_object
from sayso.server.hub import Hub
from sayso.server.identity import Person, Principal, TheHub
from sayso.server.openapi import json_answer, ok_response, problem_responses, request_response
from sayso.server.routes import listing
from sayso.server.routes.answering import question_text, submit_answer
from sayso.server.routes.sse import EventStream

routes = APIRouter(route_class=StrictRoute, responses=problem_responses(401, 403, 429, 503))

RequestId = Annotated[str, Path(max_length=LONGEST_ID, description="The id of a request.")]
_LONGEST_WAIT = 60
_MOST = 1000
_LARGEST_POINT = 2**62


class ListQuery(BaseModel):
    """Which requests to list."""

    model_config = ConfigDict(extra="forbid")

    status: listing.StatusFilter = Field(default="pending", description="`pending` is what is open, oldest first.")
    tool: str = Field(default="", max_length=500)
    q: str = Field(default="", max_length=500, description="Part of the tool, agent, description, reason or arguments.")
    limit: int = Field(default=100, ge=1, le=_MOST)
    before: str = Field(default="", max_length=100, description="Those that came before this id.")
    after: str = Field(default="", max_length=100, description="With status=pending: those that came after this id.")


@routes.get("/approvals", responses=ok_response(schemas.PageModel))
async def requests(hub: TheHub, person: Person, wanted: Annotated[ListQuery, Query()]) -> Response:
    """List requests, in pages."""
    wrong = wanted.before if wanted.status == "pending" else wanted.after
    if wrong:
        sentence = "`after` goes with status=pending, which is oldest first; `before` with all others"
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence)
    point = await hub.events.start_point()  # first: what changes from now on is told by the events after it
    chosen = listing.Filter(token=person.token, now=hub.clock.now(), status=wanted.status, tool=wanted.tool, q=wanted.q)
    cursor = wanted.before or wanted.after
    rows, following = await listing.page(hub.store, chosen, wanted.limit, cursor, json_codec.request_to_json)
    return json_answer(listing.page_json(rows, next=following, point=point))


@routes.get("/approvals/pending", responses=ok_response(dict[str, schemas.WaitingModel]))
async def pending(hub: TheHub, person: Person) -> Response:
    """List what waits for an answer, by id, as the seeds do: the oldest thousand, or as many as a page holds."""
    chosen = listing.Filter(token=person.token, now=hub.clock.now(), status="pending")
    rows, _ = await listing.page(hub.store, chosen, _MOST, "", _simple_json)
    return json_answer(f"{{{', '.join(rows)}}}")


def _simple_json(request: ApprovalRequest) -> str:
    facts = {"tool": request.tool, "args": thaw(request.args), "message": question_text(request)}
    return f"{json_codec.to_json(request.id)}: {json_codec.to_json(facts)}"


@routes.get("/approvals/{request_id}", responses=ok_response(schemas.RequestModel) | problem_responses(404))
async def request(
    hub: TheHub,
    person: Person,
    request_id: RequestId,
    wait: Annotated[float, Query(ge=0, le=_LONGEST_WAIT, description="Seconds to wait for an answer.")] = 0,
) -> Response:
    """Return a request as it stands; with `wait`, when it is closed or the time is up."""
    found = await person.request(hub, request_id)
    if wait and found.status == "open":
        with hub.connections.admit(person.token) as connection:
            found = await hub.wait(request_id, wait, connection)
    elif is_overdue(found, hub.clock.now()):
        found = await hub.store.close(request_id, "expired", None, now=hub.clock.now())
    return await request_response(found)


@routes.post("/approvals/{request_id}", responses=ok_response(schemas.AnsweredModel) | problem_responses(404, 409, 413))
async def answer(
    hub: TheHub,
    person: Person,
    request_id: RequestId,
    body: Annotated[AnswerModel | None, Body()] = None,
    outcome: Annotated[Literal["proceed_once", "proceed_always", "cancel"] | None, Query()] = None,
) -> Response:
    """Answer a request; the first answer stands, and the same answer again changes nothing."""
    if (body is None) == (outcome is None):
        raise _missing_answer()
    return await _answer_response(hub, person, request_id, body or AnswerModel(outcome=outcome))


async def _answer_swiftly(sent: Request, request_id: str) -> Response:
    """Do what `answer` does, for a body of JSON."""
    who = await identity.person(sent)
    body: bytes = sent.scope["sayso.body"]
    if not body:
        raise _missing_answer()
    try:
        said = AnswerModel.model_validate(read_object(body))
    except ValidationError as error:
        mistakes = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(mistakes) from None
    return await _answer_response(identity.hub_of(sent), who, request_id, said)


swift = Way(folder="/approvals", endpoint=_answer_swiftly, media="application/json")


def _missing_answer() -> HttpProblem:
    return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "say the answer in the body, or the outcome in the address")


async def _answer_response(hub: Hub, person: Principal, request_id: str, said: AnswerModel) -> Response:
    channel = "page" if person.token.kind == "session" else "rest"
    given = await submit_answer(hub, person, request_id, said, channel=channel)
    return await request_response(
        given.request, remembered=[json_codec.remembered_to_dict(each) for each in given.remembered]
    )


@routes.post("/approvals/{request_id}/seen", status_code=HTTPStatus.NO_CONTENT, responses=problem_responses(404))
async def seen(hub: TheHub, person: Person, request_id: RequestId) -> Response:
    """Note that this person has a request before them."""
    await person.request(hub, request_id)
    await hub.store.mark_seen(request_id, Seen(who=person.name, channel="page", at=hub.clock.now()))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@routes.get(
    "/events",
    responses={
        200: {
            "description": "Events: `hello` once, and `request` for each change, with the request as data.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
    response_class=EventStream,
    status_code=HTTPStatus.OK,
)
async def events(
    hub: TheHub,
    person: Person,
    after: Annotated[int | None, Query(ge=0, le=_LARGEST_POINT, description="From which point on.")] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=_LARGEST_POINT)] = None,
) -> Response:
    """Follow the changes of requests, as server-sent events."""
    return EventStream(hub, person, after if last_event_id is None else last_event_id)


@routes.get("/stats", responses=ok_response(schemas.StatsModel))
async def numbers(hub: TheHub, person: Person, hours: Annotated[int, Query(ge=1, le=24 * 31)] = 24) -> Response:
    """Count the requests that were asked in the last hours."""
    return json_answer(json_codec.to_json(await hub.stats.last_hours(person.token, hours)))


@routes.get("/me", responses=ok_response(schemas.Me))
async def me(connection: HTTPConnection, person: Person) -> Response:
    """Say who the token stands for."""
    token = person.token
    facts = {"name": token.name, "kind": token.kind, "project": token.project, "roles": list(token.roles)}
    return json_answer(json_codec.to_json({**facts, "hub": {"version": connection.app.version}}))
