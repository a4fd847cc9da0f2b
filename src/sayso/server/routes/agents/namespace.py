"""Namespace of one agent: which requests are its own, and validation of the requests that it sends.

Tests: tests/server/test_forging.py
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from sayso.core.canonical import canonical, freeze
from sayso.core.conversation import LARGEST_CONVERSATION, last_messages
from sayso.core.model import new_id
from sayso.engine.asking import LONGEST_OPEN
from sayso.errors import CanonicalError
from sayso.policy import scopes
from sayso.server.http.problems import HttpProblem
from sayso.server.middleware import is_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sayso.core.model import ApprovalRequest, ParkedRun, Remembered, Scope

_ID = re.compile(r"[0-9a-f]{12}7[0-9a-f]{19}")
_TIME = 12  # hex digits of an id that hold its creation time in milliseconds
_DAY = 24 * 3600 * 1000
SHORT, LONG = 200, 100_000  # characters
_MIDDLE = 1000
MOST_NAMES = 50  # names of an agent's path, scopes, parts of a scope, roles, people
_MOST_OF_RUN = 200  # requests and external calls that one run waits for
LATEST = 1e11  # seconds since the epoch
LONGEST_EXPIRY = 365 * 24 * 3600.0  # seconds
# What a call says may contain NUL, as its arguments may: stores keep that packed.
_NAMES = frozenset({"tool", "digest", "schema hash", "rule", "language", "agent path"})
_LONGEST_STATE_NAME = 200
_HAS_NUL = "contains the character NUL, which a store cannot keep"


class AgentNamespace(msgspec.Struct, frozen=True):
    """Namespace of one agent in one project: a prefix keeps its sessions apart from those of all other agents."""

    project: str
    agent: str

    @property
    def prefix(self) -> str:
        """The prefix of its sessions, parked runs and attempts; neither part can contain a slash."""
        return f"{self.project}/{self.agent}/"

    def owns(self, request: ApprovalRequest) -> bool:
        """Whether the agent has opened this request."""
        return (request.project, request.asked_by) == (self.project, self.agent) and self._has(request.session)

    def sees(self, remembered: Remembered) -> bool:
        """Whether a remembered decision applies to calls of the agent."""
        return remembered.project == self.project and (remembered.session is None or self._has(remembered.session))

    def to_store(self, request: ApprovalRequest, now: float) -> ApprovalRequest:
        """Validate a new request, and set owner, session prefix, scopes and times from the hub's own data."""
        _check_request(request, now)
        return replace(
            request,
            project=self.project,
            asked_by=self.agent,
            session=self.prefix + request.session,
            scopes=_checked_scopes(request),
            conversation=last_messages(reversed(request.conversation), LARGEST_CONVERSATION),
            asked_at=now,
            expires_at=now + LONGEST_OPEN if request.expires_at is None else request.expires_at,
        )

    def to_agent(self, request: ApprovalRequest) -> ApprovalRequest:
        """Return a request with the session name that the agent uses."""
        return replace(request, session=request.session.removeprefix(self.prefix))

    def remembered_to_agent(self, remembered: Remembered) -> Remembered:
        """Return a remembered decision with the project and session that the agent uses."""
        session = remembered.session
        return replace(remembered, project="", session=None if session is None else session.removeprefix(self.prefix))

    def state_name(self, name: str) -> str:
        """Return the name under which a state of the agent is parked, with a plain prefix, by which states are counted.

        Names of nested runs contain NUL, and a store would hash such a name as a whole.
        """
        plain = name.isascii() and name.isprintable() and len(name) <= _LONGEST_STATE_NAME
        digest = "" if plain else hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return self.prefix + (name if plain else f"sha256:{digest}")

    def parked(self, run: ParkedRun) -> bool:
        """Whether the agent has parked this run."""
        return (run.project, run.parked_by) == (self.project, self.agent)

    def run_to_store(self, run: ParkedRun, now: float) -> ParkedRun:
        """Set owner, session prefix and time of a parked run from the hub's own data."""
        if not all(map(_ID.fullmatch, (run.id, *run.requests))):
            raise _rejection("the ids of its run, and of what that waits for, are not ones that sayso makes")
        if int(run.id[:_TIME], 16) > int(new_id()[:_TIME], 16) + _DAY:  # runs are sorted by id
            raise _rejection("the id of its run is of a later day; check the clock of the agent's machine")
        names = (run.agent, run.framework, *run.calls)
        if any(len(name) > SHORT for name in names) or len(run.session) > _MIDDLE:
            raise _rejection("its run has names that are too long")
        if any("\0" in name for name in (run.agent, run.framework)):
            raise _rejection(f"a name of its run {_HAS_NUL}")
        if len(run.requests) + len(run.calls) > _MOST_OF_RUN:
            raise _rejection(f"its run waits for more than {_MOST_OF_RUN} answers and results")
        session = self.prefix + run.session
        return replace(run, project=self.project, parked_by=self.agent, session=session, parked_at=now)

    def run_to_agent(self, run: ParkedRun) -> ParkedRun:
        """Return a parked run with the session name that the agent uses."""
        return replace(run, project="", parked_by="", session=run.session.removeprefix(self.prefix))

    def _has(self, session: str) -> bool:
        return session.startswith(self.prefix)


def _check_request(request: ApprovalRequest, now: float) -> None:
    """Reject a request that is not a new question, or that could not be shown."""
    if not _ID.fullmatch(request.id):
        raise _rejection("its id is not one that sayso makes")
    if abs(int(request.id[:_TIME], 16) - int(new_id()[:_TIME], 16)) > _DAY:  # lists are sorted by id
        raise _rejection("its id was made on another day; check the clock of the agent's machine")
    answered = request.decision or request.votes or request.seen or request.used_at is not None or request.result
    if request.status != "open" or answered:
        raise _rejection("it is not a new question: only people at the hub answer")
    if request.approval not in {"required", "once_per_session"}:
        raise _rejection("nobody needs to be asked about it")
    _check_texts(request)
    _check_numbers(request, now)
    _check_parameters(request.parameters)
    try:
        shown = None if request.presentation is None else request.presentation.metadata
        for values in (request.args, request.payload, request.metadata, shown):
            if values is not None:
                canonical(freeze(values))
    except CanonicalError as error:
        raise _rejection(str(error)) from error


def _check_texts(request: ApprovalRequest) -> None:
    for name, text, most in (*_texts(request), *_scope_texts(request.scopes)):
        if len(text) > most:
            raise _rejection(f"its {name} is longer than {most} characters")
        if name in _NAMES and "\0" in text:
            raise _rejection(f"its {name} {_HAS_NUL}")


def _texts(request: ApprovalRequest) -> Iterator[tuple[str, str, int]]:
    yield "tool", request.tool_name, SHORT
    yield "session", request.session, _MIDDLE
    yield "run", request.run, _MIDDLE
    yield "call id", request.tool_call_id, _MIDDLE
    yield "digest", request.digest, SHORT
    yield "schema hash", request.schema_hash, SHORT
    yield "description", request.description, LONG
    yield "summary", request.summary or "", LONG
    yield "reason", request.reason, LONG
    yield "parameters", request.parameters, LONG
    if request.rule is not None:
        yield "rule", request.rule.source + request.rule.key, _MIDDLE
    shown = request.presentation
    if shown is not None:
        yield "title", shown.title or "", _MIDDLE
        yield "language", (shown.language or "") + (shown.content_type or "") + (shown.type or ""), SHORT
    if len(request.agent_path) > MOST_NAMES:
        raise _rejection(f"it comes through more than {MOST_NAMES} agents")
    yield from (("agent path", name, SHORT) for name in request.agent_path)


def _scope_texts(offered: tuple[Scope, ...], depth: int = 0) -> Iterator[tuple[str, str, int]]:
    if len(offered) > MOST_NAMES or (offered and depth > 1):
        raise _rejection(f"it offers more than {MOST_NAMES} scopes, or parts of parts")
    for scope in offered:
        yield "scope", scope.key, LONG
        yield "label of a scope", scope.label, LONG
        yield from _scope_texts(scope.parts, depth + 1)


def _checked_scopes(request: ApprovalRequest) -> tuple[Scope, ...]:
    """Return the scopes with labels derived from their keys: a remembered decision applies to other agents, too.

    The exact call must come first: an answer that names no scope is remembered for the first one.
    """
    found = [_checked_scope(request, scope) for scope in request.scopes]
    if [scope.kind == "call" for scope in found] != [at == 0 for at in range(len(found))]:
        raise _rejection("it offers scopes, but not the exact call once and first")
    return tuple(found)


def _checked_scope(request: ApprovalRequest, scope: Scope) -> Scope:
    parts = [_checked_scope(request, part) for part in scope.parts]
    named = scopes.combined_scope(parts) if parts else scopes.scope_from_key(scope.key, request)
    if named is None or (named.kind, named.key) != (scope.kind, scope.key):
        raise _rejection(f"its scope {scope.label[:SHORT]!r} is not one that sayso offers for this call")
    return named


def _check_numbers(request: ApprovalRequest, now: float) -> None:
    wanted = request.approvers
    numbers = [request.asked_at, request.expires_at, request.remember_max]
    if wanted is not None:
        numbers += [wanted.remind, None if wanted.escalate is None else wanted.escalate.after]
        roles = [*wanted.roles, *([wanted.escalate.role] if wanted.escalate else [])]
        if not 1 <= wanted.count <= MOST_NAMES or len(roles) > MOST_NAMES or any(len(role) > SHORT for role in roles):
            raise _rejection("it asks for too many people, or for roles with long names")
        if any("\0" in role for role in roles):
            raise _rejection(f"a role {_HAS_NUL}")
    if any(number is not None and not (math.isfinite(number) and 0 <= number < LATEST) for number in numbers):
        raise _rejection("one of its times is not a time")
    if request.expires_at is not None and request.expires_at > now + LONGEST_EXPIRY + _DAY / 1000:  # clocks differ
        raise _rejection(f"it would stay open for more than {LONGEST_EXPIRY / 86400:.0f} days")


def _check_parameters(parameters: str) -> None:
    if not parameters:
        return
    try:
        schema = None if is_deep(parameters.encode()) else json.loads(parameters)
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        raise _rejection("the schema of its arguments is not a JSON object, or nested too deep")


def _rejection(why: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"the request is refused: {why}")
