"""Sign-in of a browser by one-time link, its session cookie, and sign-out.

Tests: tests/server/test_identity.py
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sayso.core import json_codec, tokens
from sayso.server.http import schemas
from sayso.server.http.problems import HttpProblem
from sayso.server.http.schemas import SignInModel
from sayso.server.http.strict_json import StrictRoute
from sayso.server.identity import Person, TheHub, address_of, cookie_name, require_kind
from sayso.server.openapi import json_answer, ok_response, problem_responses

if TYPE_CHECKING:
    from sayso.core.tokens import Token
    from sayso.server.hub import Hub

routes = APIRouter(route_class=StrictRoute, responses=problem_responses(403, 429, 503))

SESSION_SECONDS = 12 * 3600.0


@routes.post("/sign-in", responses=ok_response(schemas.SignedIn) | problem_responses(410, 413))
async def sign_in(request: Request, hub: TheHub, body: SignInModel) -> Response:
    """Take a link, exactly once, and keep who it was made for in a cookie."""
    link = await _redeem_link(hub, body.code, address_of(request))
    answer = json_answer(json_codec.to_json({"opens": link.opens}))
    await start_session(request, answer, hub, name=link.name, project=link.project, roles=link.roles)
    return answer


@routes.post("/sign-in/link", responses=ok_response(schemas.LinkModel) | problem_responses(410, 413))
async def link(request: Request, hub: TheHub, body: SignInModel) -> Response:
    """Say whom a link would sign in; this does not use it up."""
    found = await _valid_link(hub, body.code, address_of(request))
    return json_answer(json_codec.to_json({"name": found.name, "opens": found.opens}))


async def start_session(
    request: Request, answer: Response, hub: Hub, *, name: str, project: str, roles: tuple[str, ...]
) -> None:
    """Start a session: store its token, and set the session cookie on the response."""
    session, text = tokens.make(
        "session", name, now=hub.clock.now(), seconds=SESSION_SECONDS, project=project, roles=roles
    )
    await hub.store.add_token(session)
    answer.set_cookie(cookie_name(request), text, max_age=int(SESSION_SECONDS), **cookie_options(request, "strict"))


async def _redeem_link(hub: Hub, code: str, address: str) -> Token:
    """Consume the one-time link with this code; a second use fails."""
    known = await _valid_link(hub, code, address)
    taken = await hub.store.take_token(known.id)
    if taken is None:
        raise _gone()
    return taken


async def _valid_link(hub: Hub, code: str, address: str) -> Token:
    """Return the link with this code; a wrong code counts as a failed attempt."""
    token_id = tokens.parse_token_id(code)
    known = None if token_id is None else await hub.store.token(token_id)
    if known is not None and known.kind == "link" and tokens.is_valid(known, code, hub.clock.now()):
        return known
    hub.throttle.count_failure(address)
    raise _gone()


def _gone() -> HttpProblem:
    sentence = "this link was used already, or its time is up; ask the person who runs the hub for a new one"
    return HttpProblem(HTTPStatus.GONE, sentence)


@routes.post("/sign-out", status_code=HTTPStatus.NO_CONTENT, responses=problem_responses(401))
async def sign_out(request: Request, hub: TheHub, person: Person) -> Response:
    """Sign this browser out, wherever else its cookie may have got to."""
    await hub.store.take_token(require_kind(person, "session").token.id)
    answer = Response(status_code=HTTPStatus.NO_CONTENT)
    answer.delete_cookie(cookie_name(request), **cookie_options(request, "strict"))
    return answer


def cookie_options(request: Request, same_site: Literal["lax", "strict"]) -> dict[str, Any]:
    """Return the attributes of a cookie, which a browser needs to set and to delete it; scripts cannot read it."""
    is_https = request.url.scheme == "https"
    return {"path": mount_of(request), "secure": is_https, "httponly": True, "samesite": same_site}


def mount_of(request: Request) -> str:
    """Return the path under which the hub is mounted, to which the cookie is restricted."""
    return request.scope.get("root_path") or "/"
