"""REST routes for remembered decisions and for the audit.

Tests: tests/server/routes/test_approvals.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from sayso.core import json_codec
from sayso.core.audit import as_dict as entry_as_dict
from sayso.core.tokens import EVERY_PROJECT
from sayso.server.http import schemas
from sayso.server.http.problems import HttpProblem
from sayso.server.hub import Hub
from sayso.server.identity import Person, Principal, TheHub
from sayso.server.openapi import json_answer, ok_response, problem_responses

routes = APIRouter(responses=problem_responses(401, 403, 429, 503))

_PIECE = 250
_MOST_PIECES = 40
_LARGEST = 8_000_000  # bytes of one page; a single entry can have a million

Row = tuple[int, bytes, str]
After = Annotated[int, Query(ge=0, le=2**62, description="Those that came after this number.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@routes.get("/remembered", responses=ok_response(schemas.AllRemembered))
async def remembered(hub: TheHub, person: Person) -> Response:
    """List the decisions that stand for later calls, oldest first."""
    known = [
        json_codec.remembered_to_dict(each)
        for each in hub.controller.memory.list()
        if person.token.is_for(each.project)
    ]
    return json_answer(json_codec.to_json({"items": known}))


@routes.delete("/remembered/{remembered_id}", status_code=HTTPStatus.NO_CONTENT, responses=problem_responses(404))
async def revoke(hub: TheHub, person: Person, remembered_id: Annotated[str, Path(max_length=100)]) -> Response:
    """Take a decision back: who runs such a call is asked again."""
    memory = hub.controller.memory
    known = [each for each in memory.list() if each.id == remembered_id and person.token.is_for(each.project)]
    if not known or not await asyncio.to_thread(memory.revoke, remembered_id, who=person.name):
        raise HttpProblem(HTTPStatus.NOT_FOUND, "nothing is remembered under this id")
    return Response(status_code=HTTPStatus.NO_CONTENT)


@routes.get("/audit", responses=ok_response(schemas.AuditPage))
async def audit(
    hub: TheHub,
    person: Person,
    after: After = 0,
    limit: Limit = 100,
) -> Response:
    """List entries of the audit; who belongs to one project sees those about its requests."""
    rows, following = await _rows(hub, person, after, limit)
    return json_answer(json_codec.to_json({"items": [entry_as_dict(*row) for row in rows], "next": following}))


@routes.get("/audit/lines", responses=ok_response(schemas.AuditLines))
async def audit_lines(hub: TheHub, person: Person, after: After = 0, limit: Limit = 1000) -> Response:
    """List the same entries as they were written, with what seals them, so that others can check the chain."""
    rows, following = await _rows(hub, person, after, limit)
    start, end = await hub.store.audit_ends()
    facts = {
        "items": [
            _chain_position(number, sealed) | {"line": line.decode(errors="replace")} for number, line, sealed in rows
        ],
        "next": following,
        "start": _chain_position(*start),
        "end": _chain_position(*end),
        "whole": person.token.project == EVERY_PROJECT,
    }
    return json_answer(json_codec.to_json(facts))


def _chain_position(number: int, sealed: str) -> dict[str, Any]:
    return {"number": number, "hash": sealed}


async def _rows(hub: Hub, person: Principal, after: int, limit: int) -> tuple[list[Row], int | None]:
    """Return a page of entries that this person may see, and the cursor for the next one."""
    found: list[Row] = []
    last, room = after, _LARGEST
    async for row in _all_rows(hub, after):
        last = row[0]
        if await _may_see(hub, person, row):
            found.append(row)
            room -= len(row[1])
        if len(found) >= limit or room <= 0:
            break
    has_more = after < last < (await hub.store.audit_ends())[1][0]
    return found, last if has_more else None


async def _all_rows(hub: Hub, after: int) -> AsyncIterator[Row]:
    for _ in range(_MOST_PIECES):
        page = await hub.store.audit(after, _PIECE)
        for row in page:
            yield row
        if len(page) < _PIECE:
            return
        after = page[-1][0]


async def _may_see(hub: Hub, person: Principal, row: Row) -> bool:
    if person.token.project == EVERY_PROJECT:
        return True
    request_id = entry_as_dict(*row).get("request_id")
    request = await hub.store.get(request_id) if isinstance(request_id, str) else None
    return request is not None and person.token.is_for(request.project)


@routes.get("/audit/state", responses=ok_response(schemas.AuditState))
async def audit_state(hub: TheHub, person: Person) -> Response:  # noqa: ARG001 - authenticates a person
    """Say how far the audit goes, and whether nobody has changed it."""
    return json_answer(json_codec.to_json(await hub.audit_check.state()))
