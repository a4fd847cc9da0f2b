"""REST routes for approvers: list, read and answer requests, follow events, read statistics."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Body, Header, HTTPException, Path, Query
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from sayso.client.statistics import MOST_HOURS
from sayso.core import json_codec
from sayso.core.approvers import Seen
from sayso.core.canonical import thaw
from sayso.core.decide import is_overdue
from sayso.core.filters import RequestFilter, StatusFilter
from sayso.core.model import ApprovalRequest, ScopeKind
from sayso.server import identity
from sayso.server.http import schemas
from sayso.server.http.headers import header
from sayso.server.http.problems import HttpProblem
from sayso.server.http.schemas import AnswerModel
from sayso.server.http.strict_json import StrictRoute, is_json_media, read_object
from sayso.server.identity import Anybody, Person, TheHub
from sayso.server.openapi import json_answer, ok_response, problem_responses, request_response
from sayso.server.routes import listing
from sayso.server.routes.answering import covered_requests, question_text, submit_answer
from sayso.server.routes.sse import EventStream

routes = APIRouter(route_class=StrictRoute, responses=problem_responses(401, 403, 429, 503))

T = TypeVar("T")
RequestId = Annotated[str, Path(max_length=100, description="The id of a request.")]
Moment = Annotated[float, Field(allow_inf_nan=False)]
Outcome = Literal["proceed_once", "proceed_always", "cancel"]
_REQUEST_ID: TypeAdapter[str] = TypeAdapter(RequestId)
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)
_ANSWER = TypeAdapter(AnswerModel)
_NO_BODY = AnswerModel()  # the outcome may be in the address instead
_LONGEST_WAIT = 60
_MOST = 1000
_MOST_COVERED = 100
_LARGEST_POINT = 2**62


class ListQuery(BaseModel):
    """Which requests to list."""

    model_config = ConfigDict(extra="forbid")

    status: StatusFilter = Field(default="pending", description="`pending` is what is open, oldest first.")
    tool: str = Field(default="", max_length=500, description="The tool; * stands for any characters.")
    agent: str = Field(default="", max_length=500, description="An agent in the path; * stands for any characters.")
    q: str = Field(
        default="",
        max_length=500,
        description="Words that all occur in the tool, agents, description, reason, arguments or notes.",
    )
    who: str = Field(default="", max_length=500, description="A person who has answered.")
    since: Moment | None = Field(default=None, description="Asked then or later, in seconds since 1970.")
    until: Moment | None = Field(default=None, description="Asked before then.")
    id: str = Field(default="", max_length=100, description="The start or the end of the id.")
    limit: int = Field(default=100, ge=1, le=_MOST)
    before: str = Field(default="", max_length=100, description="Those that came before this id.")
    after: str = Field(default="", max_length=100, description="With status=pending: those that came after this id.")

    def as_filter(self) -> RequestFilter:
        """Return the criteria."""
        return RequestFilter(
            status=self.status,
            tool=self.tool,
            agent=self.agent,
            text=self.q,
            who=self.who,
            since=self.since,
            until=self.until,
            id_part=self.id,
        )


@routes.get("/approvals", responses=ok_response(schemas.PageModel))
async def requests(hub: TheHub, person: Person, wanted: Annotated[ListQuery, Query()]) -> Response:
    """List requests, in pages."""
    unusable = wanted.before if wanted.status == "pending" else wanted.after
    if unusable:
        sentence = "`after` goes with status=pending, which is oldest first; `before` with all others"
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence)
    point = await hub.events.start_point()  # first: later changes come as events after this point
    query = listing.Query(token=person.token, now=hub.clock.now(), wanted=wanted.as_filter())
    cursor = wanted.before or wanted.after
    found = await listing.page(hub.store, query, wanted.limit, cursor, json_codec.request_to_json)
    return json_answer(listing.page_json(found.rows, next=found.following, point=point, searched=found.searched))


@routes.get("/approvals/pending", responses=ok_response(dict[str, schemas.WaitingModel]))
async def pending(hub: TheHub, person: Person) -> Response:
    """List open requests by id, in the original REST form: the oldest thousand, or as many as a page holds."""
    query = listing.Query(token=person.token, now=hub.clock.now(), wanted=RequestFilter(status="pending"))
    found = await listing.page(hub.store, query, _MOST, "", _simple_json)
    return json_answer(f"{{{', '.join(found.rows)}}}")


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
    request_id: RequestId,
    body: Annotated[AnswerModel, Body()] = _NO_BODY,
    outcome: Annotated[Outcome | None, Query()] = None,
) -> Response:
    """Answer a request; the first answer stands, and the same answer again changes nothing."""
    raise NotImplementedError  # for the OpenAPI document only: `answer_route` is matched first


async def _answer(sent: Request) -> Response:
    person = await identity.person(sent)
    if sent.path_params["request_id"] == "pending":  # an address of its own, which is only read
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
    request_id = _validated(_REQUEST_ID, sent.path_params["request_id"], "path", "request_id")
    channel = "page" if person.token.kind == "session" else "rest"
    given = await submit_answer(identity.hub_of(sent), person, request_id, _read_answer(sent), channel=channel)
    return await request_response(
        given.request,
        remembered=[json_codec.remembered_to_dict(each) for each in given.remembered],
        also_answered=given.also_answered,
    )


# A plain Starlette route, matched before FastAPI's: FastAPI's parsing costs more than the answer itself.
answer_route = Route("/approvals/{request_id}", _answer, methods=["POST"])


def _read_answer(sent: Request) -> AnswerModel:
    answer = outcome = None
    if body := sent.scope["sayso.body"]:
        is_json = is_json_media(header(sent.scope, b"content-type") or "")
        answer = _validated(_ANSWER, read_object(body) if is_json else body, "body")
    outcomes = sent.query_params.getlist("outcome")
    if outcomes:
        outcome = _validated(_OUTCOME, outcomes[0], "query", "outcome")
    if len(outcomes) > 1 or (answer is None) == (outcome is None):  # two outcomes may contradict each other
        sentence = "say the answer in the body, or the outcome in the address"
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence)
    return answer or AnswerModel(outcome=outcome)


def _validated(kind: TypeAdapter[T], value: object, *place: str) -> T:
    """Validate a value; raises FastAPI's validation error, with the location in the request."""
    try:
        return kind.validate_python(value, from_attributes=True)
    except ValidationError as error:
        mistakes = [{**each, "loc": (*place, *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(mistakes) from None


class CoveredQuery(BaseModel):
    """A yes that is to be remembered."""

    model_config = ConfigDict(extra="forbid")

    remember: Literal["session", "always"]
    scope: ScopeKind | None = Field(default=None, description="For which calls it is remembered.")
    uses: int | None = Field(default=None, ge=1, le=1_000_000, description="For how many more calls.")


@routes.get("/approvals/{request_id}/covered", responses=ok_response(schemas.CoveredModel) | problem_responses(404))
async def covered(
    hub: TheHub, person: Person, request_id: RequestId, wanted: Annotated[CoveredQuery, Query()]
) -> Response:
    """Say which other open requests a remembered yes would answer too; nothing is answered by this."""
    asked = await person.request(hub, request_id)
    yes = AnswerModel(approved=True, remember=wanted.remember, scope=wanted.scope, uses=wanted.uses)
    others = await covered_requests(hub, person, asked, yes)
    items = [
        {"id": each.id, "tool": each.tool, "agent_path": list(each.agent_path), "asked_by": each.asked_by}
        for each in others[:_MOST_COVERED]
    ]
    return json_answer(json_codec.to_json({"count": len(others), "items": items}))


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
async def numbers(hub: TheHub, person: Person, hours: Annotated[int, Query(ge=1, le=MOST_HOURS)] = 24) -> Response:
    """Count the requests that were asked in the last hours."""
    return json_answer(json_codec.to_json(await hub.stats.last_hours(person.token, hours)))


@routes.get("/me", responses=ok_response(schemas.Me))
async def me(connection: HTTPConnection, principal: Anybody) -> Response:
    """Say who the token stands for, a person's or an agent's."""
    token = principal.token
    facts = {"name": token.name, "kind": token.kind, "project": token.project, "roles": list(token.roles)}
    return json_answer(json_codec.to_json({**facts, "hub": {"version": connection.app.version}}))
