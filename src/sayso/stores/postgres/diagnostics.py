"""How the way to a PostgreSQL server is, for people who want to know."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from sayso.stores.postgres.schema import statement

if TYPE_CHECKING:
    from sayso.stores.postgres.connection import ReadPool, Server
    from sayso.stores.postgres.follower import PostgresFollower
    from sayso.stores.postgres.server_clock import ServerClock

_TRIPS = 5


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured and found; times are in seconds."""

    version: str
    round_trip: float
    hint: float | None  # how long it takes to hear of a change; None if it is only polled
    connections: int
    most_connections: int
    own_connections: int  # of sayso, in this database
    private: bool  # nobody can listen on the way there: it is encrypted, or does not leave this machine
    durable: bool
    replica_lag: float | None  # of the slowest replica, where there is one and it may be seen
    clock_ahead: float  # the server's clock against this machine's
    missing: list[str]  # the rights that this user needs for writing, and does not have


async def measure_health(server: Server, readers: ReadPool, follower: PostgresFollower, clock: ServerClock) -> Health:
    """Measure, with a few small statements."""
    trips: list[float] = []
    for _ in range(_TRIPS):
        began = time.perf_counter()
        await readers.fetch("SELECT 1")
        trips.append(time.perf_counter() - began)
    found = (await readers.fetch(statement("health")))[0]
    version, connections, most, own, private, durable, lag, missing = found
    return Health(
        version=version,
        round_trip=median(trips),
        hint=await follower.measure_hint_delay(),
        connections=connections,
        most_connections=most,
        own_connections=own,
        private=server.is_private if server.pooler else private,  # the server sees the pooler, and not who is behind it
        durable=durable,
        replica_lag=lag,
        clock_ahead=clock.now() - time.time(),
        missing=missing,
    )
