"""Wire protocol between an agent and its hub: one msgpack message per store operation.

Tests: tests/server/routes/agents/test_rpc.py
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sayso.core.ports import QueuedWrite

MEDIA = "application/vnd.sayso.v1+msgpack"
FAMILY = "application/vnd.sayso."  # another version of the same
LONGEST_WAIT = 60.0  # seconds
MOST_ROWS = 1000
MOST_NEWS = 500
UNKNOWN_REQUEST = "unknown_request"  # the kind of a problem that is no failure: nobody has asked that

Id = Annotated[str, msgspec.Meta(max_length=64)]
Text = Annotated[str, msgspec.Meta(max_length=1000)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
Wait = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)]
Time = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]


class AgentMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What an agent asks its hub to do."""


class Open(AgentMessage, frozen=True):
    """Add a request."""

    request: bytes


class Find(AgentMessage, frozen=True):
    """Look for what was asked about a call."""

    session: str
    key: str


class Get(AgentMessage, frozen=True):
    """Read requests."""

    ids: Annotated[tuple[Id, ...], msgspec.Meta(max_length=MOST_ROWS)]


class GetPending(AgentMessage, frozen=True):
    """Read the open requests."""

    limit: Limit
    after: Id


class GetRecent(AgentMessage, frozen=True):
    """Read the newest requests."""

    limit: Limit
    part: Id
    before: Id


class GetChanges(AgentMessage, frozen=True):
    """Read what has changed after a point; with `wait`, when there is something, or something else is remembered."""

    after: Annotated[int, msgspec.Meta(ge=0)] | None
    limit: Limit = MOST_ROWS
    wait: Wait = 0.0
    known: Text = ""  # what the agent knows of the remembered decisions


class MarkSeen(AgentMessage, frozen=True):
    """Note who has a request before them."""

    id: Id
    who: Text
    channel: Text
    at: Time


class Close(AgentMessage, frozen=True):
    """End a request without an answer."""

    id: Id
    status: Literal["withdrawn", "expired"]
    now: Time
    note: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None
    decided_at: Time | None = None


class Claim(AgentMessage, frozen=True):
    """Use up an approval."""

    id: Id
    now: Time
    attempt: Id


class Spend(AgentMessage, frozen=True):
    """Take one use of a remembered decision."""

    id: Id
    attempt: Id


class Park(AgentMessage, frozen=True):
    """Keep the state of a run."""

    name: Text
    state: bytes


class GetParked(AgentMessage, frozen=True):
    """Read the state of a run."""

    name: Text


class Unpark(AgentMessage, frozen=True):
    """Take the state of a run."""

    name: Text
    attempt: Id


class Append(AgentMessage, frozen=True):
    """Tell what came of requests, and what else happened."""

    news: Annotated[list[QueuedWrite], msgspec.Meta(max_length=MOST_NEWS)]
    attempt: Id


class ChangesReply(AgentMessage, frozen=True):
    """The answer to `Changes`: how far it reaches, and what is remembered if that is not what the agent knows."""

    point: int
    rows: list[bytes]
    known: str
    remembered: list[bytes] | None
