"""Static files of the web page, with its content security policy; the page shows nothing before the sign-in.

Tests: tests/browser/test_reach.py
"""

from __future__ import annotations

import hashlib
from functools import cache
from http import HTTPStatus
from pathlib import Path

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sayso.channels.display.answer_keys import ANSWER_KEYS, FILTER_KEY
from sayso.core import json_codec
from sayso.server.http.problems import HttpProblem
from sayso.server.openapi import Responses, json_answer

routes = APIRouter()

FOLDER = Path(__file__).parents[1] / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"  # text that would become markup raises an error (XSS)
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-cache",  # revalidated by ETag, so that an update is visible at once
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


# The only address of the page that is published: the API has another method there.
_PAGE: Responses = {200: {"content": {_TYPES[".html"]: {}}}, 304: {"description": "Not Modified"}}


class _StaticFile(msgspec.Struct, frozen=True, kw_only=True):
    content: bytes
    kind: str
    tag: str


@cache
def _files() -> dict[str, _StaticFile]:
    """Read all files once, by name: no request reads a path (path traversal)."""
    contents = {each.name: each.read_bytes() for each in sorted(FOLDER.iterdir()) if each.suffix in _TYPES}
    contents["answer_keys.js"] = _answer_keys()
    return {name: _static_file(name, content) for name, content in contents.items()}


def _answer_keys() -> bytes:
    """Return the tables of keys as a script, so that the page has the keys of the terminal."""
    answers = json_codec.to_json([each._asdict() for each in ANSWER_KEYS])
    search = json_codec.to_json(FILTER_KEY._asdict())
    return f"export const ANSWER_KEYS = {answers};\nexport const FILTER_KEY = {search};\n".encode()


def _static_file(name: str, content: bytes) -> _StaticFile:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _StaticFile(content=content, kind=_TYPES[Path(name).suffix], tag=tag)


@routes.head("/", include_in_schema=False)
@routes.get("/", include_in_schema=False)
def index(request: Request) -> Response:
    """Return the page."""
    return _static_response(request, "index.html")


@routes.head("/sign-in", responses=_PAGE, response_class=Response)
@routes.get("/sign-in", responses=_PAGE, response_class=Response)
def sign_in(request: Request) -> Response:
    """Return the page with a button; a link that somebody only looks at signs nobody in."""
    return _static_response(request, "sign-in.html")


@routes.get("/sign-in/accounts", include_in_schema=False)
def accounts(request: Request) -> Response:
    """Return where people have accounts with which they can sign in, for a button that says so."""
    return json_answer(json_codec.to_json({"at": request.app.state.accounts}))


@routes.head("/page/{name}", include_in_schema=False)
@routes.get("/page/{name}", include_in_schema=False)
def file(request: Request, name: str) -> Response:
    """Return a file of the page."""
    return _static_response(request, name)


def _static_response(request: Request, name: str) -> Response:
    found = _files().get(name)
    if found is None:
        raise HttpProblem(HTTPStatus.NOT_FOUND, "the page has no such file")
    headers = {**_HEADERS, "ETag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    return Response(found.content, headers=headers, media_type=found.kind)
