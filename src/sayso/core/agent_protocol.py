"""Wire protocol between an agent and its hub: one msgpack message per store operation.

Tests: tests/server/routes/agents/test_rpc.py
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sayso.core.model import ParkedRun, Result
from sayso.core.ports import STORABLE_TEXT

MEDIA = "application/vnd.sayso.v1+msgpack"
FAMILY = "application/vnd.sayso."  # the prefix of all versions
LONGEST_WAIT = 60.0  # seconds
MOST_ROWS = 1000
MOST_NEWS = 500
LONGEST_LINE = 1_000_000  # bytes of an audit line: readers load hundreds at once
UNKNOWN_REQUEST = "unknown_request"  # the kind of a problem that the client raises as `UnknownRequest`

Id = Annotated[str, msgspec.Meta(max_length=64, pattern=STORABLE_TEXT)]
Text = Annotated[str, msgspec.Meta(max_length=1000, pattern=STORABLE_TEXT)]
Key = Annotated[str, msgspec.Meta(max_length=1000)]  # any text: names of nested runs contain NUL, and stores hash them
Note = Annotated[str, msgspec.Meta(max_length=10_000, pattern=STORABLE_TEXT)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
Wait = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)]
Time = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]  # by the agent's clock: the hub goes by its own
News = tuple[Id, Result] | bytes  # `QueuedWrite`, within bounds


class AgentMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A message from an agent to its hub."""


class Open(AgentMessage, frozen=True):
    """Add a request."""

    request: bytes


class Find(AgentMessage, frozen=True):
    """Find the request for a call."""

    session: str
    key: str


class FindCallId(AgentMessage, frozen=True):
    """Find the requests for calls with an id, of any run."""

    session: str
    call_id: str
    limit: Limit


class Get(AgentMessage, frozen=True):
    """Read requests."""

    ids: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_ROWS)]


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
    """Read the changes after a cursor; with `wait`, a long poll for a change or for other remembered decisions."""

    after: Annotated[int, msgspec.Meta(ge=0)] | None
    limit: Limit = MOST_ROWS
    wait: Wait = 0.0
    known: Text = ""  # the version of the remembered decisions that the agent has


class MarkSeen(AgentMessage, frozen=True):
    """Mark a request as viewed."""

    id: Id
    who: Text
    channel: Text
    at: Time


class Close(AgentMessage, frozen=True):
    """Close a request without an answer."""

    id: Id
    status: Literal["withdrawn", "expired"]
    now: Time
    note: Note | None = None
    decided_at: Time | None = None
    unattended: bool = False


class Claim(AgentMessage, frozen=True):
    """Use up an approval."""

    id: Id
    now: Time
    attempt: Id


class Spend(AgentMessage, frozen=True):
    """Consume one use of a remembered decision."""

    id: Id
    attempt: Id


class Park(AgentMessage, frozen=True):
    """Store the state of a suspended run."""

    name: Key
    state: bytes
    run: ParkedRun | None = None


class GetParked(AgentMessage, frozen=True):
    """Read the state of a suspended run."""

    name: Key


class Unpark(AgentMessage, frozen=True):
    """Delete the state of a suspended run, and return it."""

    name: Key
    attempt: Id


class GetRuns(AgentMessage, frozen=True):
    """Read the list of suspended runs."""


class Append(AgentMessage, frozen=True):
    """Append results of requests and audit lines."""

    news: Annotated[list[News], msgspec.Meta(max_length=MOST_NEWS)]
    attempt: Id


class ChangesReply(AgentMessage, frozen=True):
    """Reply to `GetChanges`: the new cursor, and the remembered decisions if the agent has another version of them."""

    point: int
    rows: list[bytes]
    known: str
    remembered: list[bytes] | None
