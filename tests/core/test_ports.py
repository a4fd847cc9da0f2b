"""The ports: `Store` is the sum of small protocols, and still says at run time what is one."""

import typing

import pytest

from sayso.core import ports
from sayso.stores.memory import MemoryStore

PARTS = (
    ports.Requests,
    ports.ChangeFeed,
    ports.RememberedDecisions,
    ports.Parking,
    ports.AuditLog,
    ports.QueuedWrites,
)


def members(protocol: type) -> set[str]:
    found = {name for each in protocol.__mro__[:-1] for name in (*vars(each), *getattr(each, "__annotations__", ()))}
    return {name for name in found if not name.startswith("_")} - set(dir(typing.Protocol))


def test_every_method_of_a_store_belongs_to_exactly_one_small_port() -> None:
    parts = [name for part in PARTS for name in members(part)]
    assert len(parts) == len(set(parts))
    assert members(ports.Store) == {*parts, "shared", "files"}


def test_a_store_is_known_at_run_time() -> None:
    assert isinstance(MemoryStore(), ports.Store)


@pytest.mark.parametrize("missing", sorted(members(ports.Store)))
def test_an_object_that_lacks_one_method_is_no_store(missing: str) -> None:
    most = {name: print for name in members(ports.Store) if name != missing}
    assert not isinstance(type("Most", (), most)(), ports.Store)
    assert isinstance(type("All", (), {**most, missing: print})(), ports.Store)
