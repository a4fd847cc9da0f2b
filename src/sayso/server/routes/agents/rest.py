"""REST for agents in other languages: ask, wait, claim, withdraw, report a result, as JSON.

Tests: tests/server/routes/agents/test_rpc.py
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, TypeVar, cast

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from sayso.core import json_codec
from sayso.core.agent_protocol import Id, Note, Text
from sayso.core.approvers import Approvers
from sayso.core.conversation import ConversationMessage
from sayso.core.model import ApprovalDecision, ApprovalPresentation, ApprovalRequest, Result, ToolCall, new_id
from sayso.core.ports import STORABLE_TEXT
from sayso.errors import CanonicalError
from sayso.server.http import problems, schemas
from sayso.server.http.problems import HttpProblem
from sayso.server.http.strict_json import read_object
from sayso.server.identity import Agent
from sayso.server.middleware import LARGEST_BODY
from sayso.server.openapi import ok_response, problem_responses
from sayso.server.routes.agents.namespace import LATEST, LONG, LONGEST_EXPIRY, MOST_NAMES, SHORT
from sayso.server.routes.agents.operations import AgentOperations, map_errors

routes = APIRouter(prefix="/requests", tags=["agents"])

_REFUSALS = (400, 401, 403, 404, 408, 413, 429, 503)

T = TypeVar("T")
Name = Annotated[str, msgspec.Meta(max_length=SHORT, pattern=STORABLE_TEXT)]
LongText = Annotated[str, msgspec.Meta(max_length=LONG, pattern=STORABLE_TEXT)]
Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to wait for it to be closed.")]


Kind = Annotated[str, msgspec.Meta(max_length=60, pattern=STORABLE_TEXT)]
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=LATEST)]


class EscalationBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See `Escalation`."""

    role: Name
    after: Seconds


class ApproversBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See `Approvers`."""

    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_NAMES)] = 1
    roles: Annotated[
        tuple[Name, ...], msgspec.Meta(max_length=MOST_NAMES - 1)
    ] = ()  # one more may be that of `escalate`
    remind: Seconds | None = None
    escalate: EscalationBody | None = None


class PresentationBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See `ApprovalPresentation`."""

    title: Text | None = None
    content: str | None = None
    content_type: Kind | None = None
    language: Kind | None = None
    diff: str | None = None
    type: Kind | None = None
    metadata: dict[str, Any] = {}


class AskBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether this tool may run with these arguments.

    A call id names one call of its run, or of its session where no `run` is given: asked again, the same call finds its
    question, and another call is refused.
    """

    tool: Name
    args: dict[str, Any] = {}
    description: LongText = ""
    reason: LongText = ""
    session: Text = ""
    run: Text = ""
    call_id: Text = msgspec.field(default_factory=new_id)
    agent_path: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_NAMES)] = ()
    expires_in: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_EXPIRY)] | None = None
    parameters: dict[str, Any] | None = None
    presentation: PresentationBody | None = None
    approvers: ApproversBody | None = None
    conversation: tuple[ConversationMessage, ...] = ()


class WithdrawBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why no answer is wanted any more; `unattended` if nobody can be asked where the agent runs."""

    note: Note | None = None
    unattended: bool = False


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim. Under the same `attempt`, made again because the answer was lost, it gets the same answer."""

    attempt: Id = ""


class ResultBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came of the call."""

    result: Result


def _request_body(kind: type[msgspec.Struct]) -> dict[str, Any]:
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
    whole = parts.pop(kind.__name__) if "$ref" in schema else schema
    schema = _inlined(whole, parts)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inlined(schema: object, parts: dict[str, Any]) -> Any:  # noqa: ANN401 - a piece of a JSON Schema
    """Return the schema with its references inlined, as `openapi_extra` cannot add components."""
    if isinstance(schema, dict):
        pieces = cast("dict[str, Any]", schema)
        name = str(pieces.get("$ref", "")).rpartition("/")[2]
        return _inlined(parts[name], parts) if name else {key: _inlined(each, parts) for key, each in pieces.items()}
    return [_inlined(each, parts) for each in cast("list[Any]", schema)] if isinstance(schema, list) else schema


class Claimed(schemas.RequestModel):
    """A request after a claim."""

    claimed: bool


class RestOperations(AgentOperations):
    """Operations with JSON bodies."""

    async def read_json(self, kind: type[Any]) -> Any:  # noqa: ANN401 - an instance of `kind`
        """Parse the body strictly into a struct."""
        body = await self.read_body(LARGEST_BODY)
        try:
            return msgspec.convert(read_object(body or b"{}"), kind)
        except (CanonicalError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            sentence = problems.in_words(str(error)).replace("the arguments", "the body")
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"this cannot be read: {sentence}") from error

    def respond(self, request: ApprovalRequest, status: HTTPStatus = HTTPStatus.OK, **facts: Any) -> Response:  # noqa: ANN401
        """Return a request as JSON, with the agent's session name."""
        shown = json_codec.request_to_json(self.namespace.to_agent(request), **facts)
        return Response(shown, status, media_type="application/json")


@routes.post(
    "",
    status_code=HTTPStatus.CREATED,
    responses={
        201: {"model": schemas.RequestModel},
        **ok_response(schemas.RequestModel),
        **problem_responses(*_REFUSALS, 409),
    },
    openapi_extra=_request_body(AskBody),
)
async def ask(request: Request, agent: Agent) -> Response:
    """Ask whether a tool may run; answers 201 with a new question, or 200 with the one that this call already has."""
    operations = RestOperations(request, agent)
    asked = _request(await operations.read_json(AskBody), operations.hub.clock.now())
    with map_errors():
        found = await operations.open_request(asked)
    if found.digest != asked.digest:
        sentence = "this call id has another tool or other arguments; give each call an id of its own"
        raise HttpProblem(
            HTTPStatus.CONFLICT, sentence, request=json_codec.request_to_dict(operations.namespace.to_agent(found))
        )
    return operations.respond(found, HTTPStatus.CREATED if found.id == asked.id else HTTPStatus.OK)


def _as(kind: type[T], part: object) -> T | None:
    """Return a part of the body as the record that it describes."""
    return None if part is None else msgspec.convert(part, kind, from_attributes=True)


def _request(question: AskBody, now: float) -> ApprovalRequest:
    call = ToolCall(tool=question.tool, args=question.args)
    return ApprovalRequest(
        id=new_id(),
        tool_name=call.tool,
        args=call.args,
        description=question.description or f"Run {call.tool}",
        described_by="tool" if question.description else "default",
        reason=question.reason,
        session=question.session,
        run=question.run,
        tool_call_id=question.call_id,
        agent_path=question.agent_path,
        parameters="" if question.parameters is None else json_codec.to_json(question.parameters),
        presentation=_as(ApprovalPresentation, question.presentation),
        approvers=_as(Approvers, question.approvers),
        conversation=question.conversation,
        digest=call.digest(),
        asked_at=now,
        expires_at=None if question.expires_in is None else now + question.expires_in,
    )


@routes.get("/{request_id}", responses=ok_response(schemas.RequestModel) | problem_responses(*_REFUSALS))
async def read(request_id: str, request: Request, agent: Agent, wait: Wait = 0.0) -> Response:
    """Return a question of this agent; with `wait`, when it is closed or the time is up."""
    operations = RestOperations(request, agent)
    with map_errors():
        found = await operations.own_request(request_id)
        if found.status == "open" and wait:
            with operations.hub.connections.admit(agent.token) as connection:
                found = await operations.hub.wait(request_id, wait, connection)
    return operations.respond(found)


@routes.post(
    "/{request_id}/claim",
    responses=ok_response(Claimed) | problem_responses(*_REFUSALS),
    openapi_extra=_request_body(ClaimBody),
)
async def claim(request_id: str, request: Request, agent: Agent) -> Response:
    """Use up an approval: where `claimed` is true, the call may run, once, with the decision's `args` or its own."""
    operations = RestOperations(request, agent)
    use = await operations.read_json(ClaimBody)
    with map_errors():
        won = await operations.claim_request(request_id, use.attempt)
        return operations.respond(await operations.own_request(request_id), claimed=won)


@routes.post(
    "/{request_id}/withdraw",
    responses=ok_response(schemas.RequestModel) | problem_responses(*_REFUSALS),
    openapi_extra=_request_body(WithdrawBody),
)
async def withdraw(request_id: str, request: Request, agent: Agent) -> Response:
    """Take a question back; returns it as it stands, which may be answered."""
    operations = RestOperations(request, agent)
    body, now = await operations.read_json(WithdrawBody), operations.hub.clock.now()
    decision = ApprovalDecision(approved=False, note=body.note, decided_at=now, unattended=body.unattended)
    with map_errors():
        await operations.own_request(request_id)
        return operations.respond(await operations.store.close(request_id, "withdrawn", decision, now=now))


@routes.post(
    "/{request_id}/result",
    responses=ok_response(schemas.RequestModel) | problem_responses(*_REFUSALS),
    openapi_extra=_request_body(ResultBody),
)
async def result(request_id: str, request: Request, agent: Agent) -> Response:
    """Tell what came of a call that was claimed; the first report stands."""
    operations = RestOperations(request, agent)
    outcome = await operations.read_json(ResultBody)
    with map_errors():
        await operations.own_request(request_id)
        await operations.store.append([(request_id, outcome.result)])
        return operations.respond(await operations.own_request(request_id))
