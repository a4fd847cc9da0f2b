"""Health check of a PostgreSQL store, for `sayso doctor`.

Tests: tests/stores/postgres/test_promises.py
"""

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
    """Result of the health check; times are in seconds."""

    version: str
    round_trip: float
    hint: float | None  # delay of a notification; None if it only polls
    connections: int
    most_connections: int
    own_connections: int  # connections of sayso to this database
    private: bool  # encrypted, or local to this machine
    durable: bool
    replica_lag: float | None  # of the slowest replica, if this user may read it
    clock_ahead: float  # server clock minus local clock
    missing: list[str]  # rights that this user needs for writing and lacks


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
        private=server.is_private if server.pooler else private,  # the server sees only the connection of the pooler
        durable=durable,
        replica_lag=lag,
        clock_ahead=clock.now() - time.time(),
        missing=missing,
    )
