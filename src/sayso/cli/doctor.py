"""What is set up here, and what of it does not work."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from sayso.cli import policy_input
from sayso.cli.open_store import epilog, existing, json_option, store_option, with_hub, with_store
from sayso.cli.screen import say, short_path, visible, wrapped
from sayso.cli.times import span
from sayso.core import audit
from sayso.core.json_codec import to_json
from sayso.core.tokens import EVERY_PROJECT
from sayso.engine import settings
from sayso.engine.clock import clock_of
from sayso.errors import AuditError, ConfigurationError, PolicyError

if TYPE_CHECKING:
    from sayso.client.hub_http import HubClient
    from sayso.core.ports import Store
    from sayso.stores.postgres.diagnostics import Health

State = Literal["ok", "warning", "problem"]
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}
_MANY = 1000
_BROUGHT = re.compile(r"([\w.-]+).*extra == [\x27\"]([^\x27\"]+)")
_CROWDED, _CLOCKS_DIFFER = 0.8, 5.0
_CODES = "Ends with: 0 nothing is broken, 1 something is, 2 wrong usage."


class Finding(NamedTuple):
    """How something is, what it is, and what there is to say about it."""

    state: State
    what: str
    told: str


@click.command(epilog=epilog("sayso doctor --store sayso.db", _CODES))
@store_option
@json_option
def doctor(where: str | None, *, as_json: bool) -> None:
    """Say what is set up here, and what of it does not work."""
    found = [*_policies(), *_store(where), *_versions(), _confinement(), *_terminal()]
    if as_json:
        say(to_json([each._asdict() for each in found], indent=2))
    else:
        for each in found:
            for line in _lines(each):
                say(line)
    if any(each.state == "problem" for each in found):
        raise click.exceptions.Exit(1)


def _lines(each: Finding) -> Iterator[str]:
    head = click.style(each.state, fg=_COLOURS[each.state], bold=each.state != "ok")
    yield from wrapped(f"{each.what}: {each.told}", head=head, indent=9)


def _policies() -> Iterator[Finding]:
    try:
        files = policy_input.policy_files()
    except policy_input.Mistakes as error:
        yield Finding("problem", "policy", error.format_message())
        return
    for path in files:
        yield _policy(path)
    if not files:
        told = "there is no policy file here, so only tools that are marked ask; run `sayso init` to write one"
        yield Finding("warning", "policy", told)


def _policy(path: Path) -> Finding:
    what = f"policy {short_path(str(path))}"
    try:
        policy, warnings = policy_input.load_with_warnings(path)
    except PolicyError as error:
        return Finding("problem", what, f"it has mistakes ({len(error.mistakes)}); see them with `sayso check`")
    except ConfigurationError as error:
        return Finding("problem", what, str(error))
    rules = f"loads, with {len(policy.rules)} rules"
    if warnings:
        return Finding("warning", what, f"{rules} and {len(warnings)} warnings; see them with `sayso check`")
    return Finding("ok", what, rules)


def _store(where: str | None) -> Iterator[Finding]:
    if not where:
        told = "none is named, so requests live in memory; name one with --store FILE or in SAYSO_STORE"
        yield Finding("warning", "store", told)
        return
    try:
        yield from _hub(where) if settings.is_hub(where) else _at_hand(where)
    except click.ClickException as error:
        yield Finding("problem", "hub" if settings.is_hub(where) else "store", error.message)


def _at_hand(where: str) -> list[Finding]:
    place = existing(where)
    if isinstance(place, str):
        return list(with_store(where, _database))
    inside = with_store(where, _inside)
    told = f"{short_path(str(place))} can be read and written, {_size(place):,} bytes"
    return [Finding("ok", "store", told), *inside]


def _hub(where: str) -> list[Finding]:
    from sayso.client.hub_http import HubClient  # noqa: PLC0415 - only who has a hub needs what it needs

    return with_hub(HubClient, where, _at_hub)


async def _at_hub(hub: HubClient) -> list[Finding]:
    await hub.get("/readyz")
    start = time.perf_counter()
    me = await hub.get("/me")
    seconds = time.perf_counter() - start
    roles = f", in the roles {', '.join(me['roles'])}" if me["roles"] else ""
    project = "every project" if me["project"] == EVERY_PROJECT else f"the project {me['project']!r}"
    waiting = await hub.get("/approvals", status="pending", limit=_MANY)
    state = await hub.get("/audit/state")
    return [
        Finding("ok", "hub", f"{hub.where} is ready, sayso {me['hub']['version']}, {seconds * 1000:.1f} ms away"),
        Finding("ok", "token", f"you are {me['name']}, for {project}{roles}"),
        _waiting([each["asked_at"] for each in waiting["items"]], time.time(), more=waiting["next"] is not None),
        Finding("ok", "audit", f"the hub says that the chain is whole, {state['entries']} entries")
        if state["verified"]
        else Finding("problem", "audit", f"the hub says of the chain: {state['problem']}"),
    ]


def _size(path: Path) -> int:
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


async def _database(store: Store) -> list[Finding]:
    from sayso.stores.postgres import PostgresStore  # noqa: PLC0415 - only who has one needs it

    if not isinstance(store, PostgresStore):
        raise TypeError(f"{store!r} is not the store of that address")
    await store.flush()
    health = await store.health()
    return [
        _rights(str(store), health),
        *_way_there(health),
        *await _inside(store),
    ]


def _rights(store: str, health: Health) -> Finding:
    if not health.missing:
        return Finding("ok", "store", f"{store} can be read and written, PostgreSQL {health.version}")
    told = f"{store} does not give this user {', '.join(health.missing)}; have its owner run deploy/rights.sql"
    return Finding("problem", "store", told)


def _way_there(health: Health) -> Iterator[Finding]:
    trip, clock = f"{health.round_trip * 1000:.1f} ms", f"{abs(health.clock_ahead):.1f} s"
    yield Finding("ok", "round trip", f"{trip} there and back")
    if health.hint is None:
        yield Finding("warning", "hints", "a pooler is in between, so changes are polled, twice a second")
    else:
        yield Finding("ok", "hints", f"a change is heard of after {health.hint * 1000:.1f} ms")
    crowded = health.connections > health.most_connections * _CROWDED
    told = f"{health.connections} of {health.most_connections} at the server, {health.own_connections} of sayso here"
    yield Finding("warning" if crowded else "ok", "connections", told)
    if health.replica_lag is not None:
        yield Finding("ok", "replicas", f"the last one is {health.replica_lag:.1f} s behind")
    off = abs(health.clock_ahead) > _CLOCKS_DIFFER
    told = f"the server's is {clock} {'ahead' if health.clock_ahead > 0 else 'behind'}; expiry goes by the server's"
    yield Finding("warning" if off else "ok", "clock", told)
    if not health.private:
        yield Finding(
            "warning",
            "TLS",
            "nothing makes sure that the connection is encrypted; add sslmode=verify-full to the address",
        )
    if not health.durable:
        yield Finding("warning", "disk", "fsync is off at the server: a power cut can lose answers that were given")


async def _inside(store: Store) -> list[Finding]:
    return [await _open_requests(store), await _chain(store)]


async def _open_requests(store: Store) -> Finding:
    return _waiting([each.asked_at for each in await store.pending()], clock_of(store).now())


def _waiting(asked_at: Sequence[float], now: float, *, more: bool = False) -> Finding:
    if not asked_at:
        return Finding("ok", "requests", "none is open")
    many = f"{len(asked_at)}{' or more' if more else ''} open"
    told = f"{many}, the oldest for {span(now - asked_at[0])}; see `sayso pending`"
    return Finding("ok", "requests", told)


async def _chain(store: Store) -> Finding:
    try:
        return Finding("ok", "audit", f"the chain is whole, {await audit.verify(store)} entries")
    except AuditError as error:
        return Finding("problem", "audit", f"the chain is broken: {error}")


def _versions() -> Iterator[Finding]:
    from importlib import metadata  # noqa: PLC0415 - slow to load, and only this command needs it

    yield Finding("ok", "Python", f"{platform.python_version()} on {platform.system()}")
    yield Finding("ok", "sayso", metadata.version("sayso"))
    for name, extra in _libraries(metadata.requires("sayso") or ()):
        try:
            told = metadata.version(name)
        except metadata.PackageNotFoundError:
            told = f"not installed; if you need it, install sayso[{extra}]"
        yield Finding("ok", name, told)


def _libraries(requirements: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the libraries that sayso can use, each with the smallest extra that installs it."""
    brought = [found.groups() for line in requirements if (found := _BROUGHT.match(line))]
    sizes = Counter(extra for _, extra in brought)
    for name in dict.fromkeys(name for name, _ in brought):
        yield name, min((extra for known, extra in brought if known == name), key=lambda extra: sizes[extra])


def _confinement() -> Finding:
    from sayso.tools.exec.confine import problem  # noqa: PLC0415 - only this command needs it

    told = problem()
    return (
        Finding("ok", "bubblewrap", "programs can be confined")
        if told is None
        else Finding("warning", "bubblewrap", told)
    )


def _terminal() -> Iterator[Finding]:
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    told = "questions can be asked here" if asks else "this is none, so `sayso run` refuses what it would ask"
    yield Finding("ok", "terminal", told)
    plain = next((f"off, since {name} says so" for name in ("NO_COLOR", "TERM") if _is_plain(name)), None)
    colours = plain or ("on" if sys.stdout.isatty() else "off, since the output is no terminal")
    size = shutil.get_terminal_size()
    yield Finding("ok", "screen", f"{size.columns} columns, {sys.stdout.encoding}, colours {visible(colours)}")


def _is_plain(name: str) -> bool:
    value = os.environ.get(name)
    return value == "dumb" if name == "TERM" else bool(value)
