"""Validation of settings that a host passes in Python, and the factory of stores by address.

Tests: tests/engine/test_controller.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

from sayso.core.ports import Channel, Hook, Store
from sayso.errors import ConfigurationError
from sayso.policy.data_schema import describe_value
from sayso.policy.policy import Policy
from sayso.policy.vocabulary import APPROVALS

if TYPE_CHECKING:
    StoreLike = Store | str | os.PathLike[str]

T = TypeVar("T")

DEFAULT_STORE = "sayso.db"  # in this folder; for hubs, commands and inboxes that no store was named for

# The parts of an address that may hold a password: before an @, after a ? or the like, or after a colon but no port.
_SECRET = re.compile(r"(?<=[:/]).*@|(?<=[?#;&]).*|(?<=:)(?!//|\d+(/|$)).+|(?<=password=).*", re.DOTALL | re.IGNORECASE)
_NO_FILE = re.compile(r":|password=", re.IGNORECASE)  # a mistyped address, or one in the key=value form of libpq

_FORMS = (
    "'memory:', a file such as 'sayso.db', 'sqlite:///sayso.db', a database, 'postgresql://…', "
    "the address of a hub, 'https://…', or an object with all that `sayso.core.ports.Store` names"
)


def open_store(where: StoreLike | None) -> Store:
    """Open a store, given as an object, a URL or a file.

    None means the hub or the database in the environment variable SAYSO_STORE, else a store in memory.
    """
    if isinstance(where, Store):
        return where
    named = os.environ.get("SAYSO_STORE")
    if where is None and (is_hub(named) or is_database(named)):
        where = named
    if is_hub(where):
        from sayso.stores.remote import RemoteStore  # noqa: PLC0415 - each store loads its own libraries

        return RemoteStore(where, token=hub_token(), insecure=is_insecure())
    if is_database(where):
        from sayso.stores.postgres import PostgresStore  # noqa: PLC0415 - each store loads its own libraries

        return PostgresStore(where)
    if where is None or where == "memory:":
        from sayso.stores.memory import MemoryStore  # noqa: PLC0415 - each store loads its own libraries

        return MemoryStore()
    path = store_file(where)
    if path is None:
        raise ConfigurationError(f"the store {redact_address(where)} cannot be opened; use {_FORMS}")
    from sayso.stores.sqlite import SqliteStore  # noqa: PLC0415 - each store loads its own libraries

    return SqliteStore(path)


def named_store() -> str:
    """Return the store that SAYSO_STORE names, else the default file."""
    return os.environ.get("SAYSO_STORE") or DEFAULT_STORE


def redact_address(where: object) -> str:
    """Quote the address of a store without its password, even if the address is mistyped."""
    return repr(_SECRET.sub("…", where) if isinstance(where, str) else where)


def is_hub(where: object) -> TypeGuard[str]:
    """Whether this is the address of a hub."""
    return isinstance(where, str) and where.lower().startswith(("https://", "http://"))


def is_database(where: object) -> TypeGuard[str]:
    """Whether this is the address of a PostgreSQL database."""
    return isinstance(where, str) and where.lower().startswith(("postgresql://", "postgres://"))


def hub_token() -> str:
    """Return the token for a hub from the environment."""
    return os.environ.get("SAYSO_TOKEN", "").strip()


def is_insecure() -> bool:
    """Whether the environment permits a hub without TLS."""
    said = os.environ.get("SAYSO_INSECURE", "")
    if said not in {"", "0", "1"}:
        raise ConfigurationError(f"SAYSO_INSECURE is {said!r}; use 1, or leave it out")
    return said == "1"


def store_file(where: object) -> Path | None:
    """Return the file of a SQLite address, or None if the address is of another kind."""
    if isinstance(where, os.PathLike):
        return Path(os.fsdecode(cast("os.PathLike[str]", where)))
    if not isinstance(where, str) or not where:
        return None
    if where.startswith("sqlite:///"):
        return Path(where.removeprefix("sqlite:///")) if len(where) > len("sqlite:///") else None
    return None if _NO_FILE.search(where) else Path(where)


def check_timeout(seconds: object, name: str) -> float | None:
    """Validate a time limit: a positive number of seconds, or None for no limit."""
    if seconds is None or (isinstance(seconds, (int, float)) and 0 < seconds < float("inf")):
        return seconds if seconds is None else float(seconds)
    raise ConfigurationError(f"{name} is {seconds!r}; use a positive number of seconds, or None to wait without limit")


def check_kind(value: object, kind: type[T], name: str) -> T:
    """Check the type of a setting."""
    if isinstance(value, kind):
        return value
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    raise ConfigurationError(f"{name} is {value!r}; pass {article} {kind.__name__}")


def check_policy(value: object, prefix: str = "policy=") -> Policy:
    """Check that this is a policy; for a path, a text or a mapping, the error has the call that makes one of it."""
    if isinstance(value, Policy):
        return value
    raise ConfigurationError(f"{describe_value(value)} is not a Policy; pass {_policy_call(value, prefix)}")


def _policy_call(value: object, prefix: str) -> str:
    if isinstance(value, str | os.PathLike):
        given = os.fsdecode(cast("str | os.PathLike[str]", value))
        if "\n" in given:
            return f"{prefix}load_policy(…), with the path of a file that has this text"
        return f"{prefix}Policy(default={given!r})" if given in APPROVALS else f"{prefix}load_policy({given!r})"
    if isinstance(value, Mapping):
        rules = cast("Mapping[object, object]", value)
        is_file = "default" in rules or "tools" in rules
        return f"{prefix}Policy.from_dict({{…}})" if is_file else f"{prefix}Policy({{…}})"
    return "a Policy"


def check_channels(channels: Iterable[object]) -> list[Channel]:
    """Check that every channel can announce a request."""
    given = list(channels)
    for each in given:
        if not isinstance(each, Channel) or isinstance(each, type):
            raise ConfigurationError(f"{each!r} is not a channel; pass an object with `async def announce(request)`")
    return cast("list[Channel]", given)


def check_hooks(hooks: Iterable[object]) -> tuple[Hook, ...]:
    """Check that every hook can be called."""
    given = tuple(hooks)
    for each in given:
        if not callable(each):
            raise ConfigurationError(f"{each!r} is not a hook; pass a function of one AuditEntry")
    return cast("tuple[Hook, ...]", given)
