"""REST routes for parked runs: list, and drop."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from sayso.client.records import DROPPED
from sayso.core import json_codec
from sayso.core.model import ParkedRun
from sayso.server.http import schemas
from sayso.server.http.problems import HttpProblem
from sayso.server.hub import Hub
from sayso.server.identity import Person, Principal, TheHub
from sayso.server.openapi import json_answer, ok_response, problem_responses

_MOST = 1000

routes = APIRouter(responses=problem_responses(401, 403, 429, 503))


@routes.get("/runs", responses=ok_response(schemas.RunPage))
async def runs(
    hub: TheHub,
    person: Person,
    after: Annotated[str, Query(max_length=200, description="Those that come after this id.")] = "",
    limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST,
) -> Response:
    """List the runs of agents that are parked until their requests are answered, oldest first, in pages."""
    known = [each for each in await _visible_runs(hub, person) if each.id > after]
    last = known[limit - 1].id if len(known) > limit else ""
    # Two agents may have parked a run under one id: a page has both, or none of them could be next.
    found = [each for each in known if each.id <= last] if last else known
    following = last if len(found) < len(known) else None
    items = [json_codec.run_to_dict(each) for each in found]
    return json_answer(json_codec.to_json({"items": items, "next": following}))


@routes.delete("/runs/{run_id}", status_code=HTTPStatus.NO_CONTENT, responses=problem_responses(404, 409))
async def drop(hub: TheHub, person: Person, run_id: Annotated[str, Path(max_length=200)]) -> Response:
    """Drop a run that nobody will resume: the requests that it waits for are withdrawn."""
    known = [each for each in await _visible_runs(hub, person) if each.id == run_id]
    if len(known) > 1:
        raise HttpProblem(HTTPStatus.CONFLICT, "several agents have parked a run under this id, so none is dropped")
    if not known or not await hub.controller.drop_run(known[0], DROPPED.format(person.name)):
        raise HttpProblem(HTTPStatus.NOT_FOUND, "no run is parked under this id")
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _visible_runs(hub: Hub, person: Principal) -> list[ParkedRun]:
    return [each for each in await hub.controller.parked_runs() if person.token.is_for(each.project)]
