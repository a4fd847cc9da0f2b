"""What stays: decisions that stand for later calls, and the audit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from sayso import plain
from sayso.server import shapes
from sayso.server.describing import json_answer, refusals, told
from sayso.server.hub import Hub
from sayso.server.identity import Person, Principal, TheHub
from sayso.server.problems import Problem
from sayso.tokens import EVERY_PROJECT

routes = APIRouter(responses=refusals(401, 403, 429, 503))

_PIECE = 250
_MOST_PIECES = 40


@routes.get("/remembered", responses=told(shapes.AllRemembered))
async def remembered(hub: TheHub, person: Person) -> Response:
    """List the decisions that stand for later calls, oldest first."""
    known = [plain.of_remembered(each) for each in hub.controller.memory.list() if person.token.is_for(each.project)]
    return json_answer(plain.to_json({"items": known}))


@routes.delete("/remembered/{remembered_id}", status_code=HTTPStatus.NO_CONTENT, responses=refusals(404))
async def revoke(hub: TheHub, person: Person, remembered_id: Annotated[str, Path(max_length=100)]) -> Response:
    """Take a decision back: who runs such a call is asked again."""
    memory = hub.controller.memory
    known = [each for each in memory.list() if each.id == remembered_id and person.token.is_for(each.project)]
    if not known or not await asyncio.to_thread(memory.revoke, remembered_id, who=person.name):
        raise Problem(HTTPStatus.NOT_FOUND, "nothing is remembered under this id")
    return Response(status_code=HTTPStatus.NO_CONTENT)


@routes.get("/audit", responses=told(shapes.AuditPage))
async def audit(
    hub: TheHub,
    person: Person,
    after: Annotated[int, Query(ge=0, le=2**62, description="Those that came after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List entries of the audit; who belongs to one project sees those about its requests."""
    found: list[dict[str, Any]] = []
    last = after
    async for number, entry in _entries(hub, after):
        last = number
        if await _concerns(hub, person, entry):
            found.append({"number": number, **entry})
        if len(found) >= limit:
            break
    following = last if last < (await hub.store.audit_ends())[1][0] else None
    return json_answer(plain.to_json({"items": found, "next": following}))


async def _entries(hub: Hub, after: int) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    for _ in range(_MOST_PIECES):
        page = await hub.store.audit(after, _PIECE)
        for number, line, _hash in page:
            yield number, msgspec.json.decode(line)
        if len(page) < _PIECE:
            return
        after = page[-1][0]


async def _concerns(hub: Hub, person: Principal, entry: dict[str, Any]) -> bool:
    if person.token.project == EVERY_PROJECT:
        return True
    request_id = entry.get("request_id")
    request = await hub.store.get(request_id) if isinstance(request_id, str) else None
    return request is not None and person.token.is_for(request.project)


@routes.get("/audit/state", responses=told(shapes.AuditState))
async def audit_state(hub: TheHub, person: Person) -> Response:  # noqa: ARG001 - only people may know
    """Say how far the audit goes, and whether nobody has changed it."""
    return json_answer(plain.to_json(await hub.chain.state()))
