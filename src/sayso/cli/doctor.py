"""`sayso doctor`: diagnoses of policy, store or hub, audit and libraries."""

from __future__ import annotations

import asyncio
import contextlib
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

from sayso.channels.display.durations import format_rough_duration
from sayso.cli import policy_input
from sayso.cli.open_store import epilog, existing_store, json_option, store_option, with_hub, with_store
from sayso.cli.screen import say, say_lines, short_path, visible, wrap_text
from sayso.core import audit
from sayso.core.json_codec import to_json
from sayso.core.tokens import EVERY_PROJECT
from sayso.engine import settings
from sayso.engine.clock import clock_of
from sayso.engine.settings import DEFAULT_STORE
from sayso.errors import AuditError, ConfigurationError, PolicyError

if TYPE_CHECKING:
    from sayso.client.hub_http import HubClient, HubReply
    from sayso.core.ports import Store
    from sayso.stores.postgres.diagnostics import Health

State = Literal["ok", "warning", "problem"]
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}
_MANY = 1000
_EXTRA_REQUIREMENT = re.compile(r"([\w.-]+).*extra == [\x27\"]([^\x27\"]+)")
_CROWDED, _CLOCKS_DIFFER = 0.8, 5.0
_CODES = "Ends with: 0 nothing is broken, 1 something is, 2 wrong usage."


class Diagnosis(NamedTuple):
    """Result of one check: severity, subject and sentence."""

    state: State
    what: str
    told: str


@click.command(epilog=epilog("sayso doctor --store sayso.db", _CODES))
@store_option
@json_option
def doctor(where: str | None, *, as_json: bool) -> None:
    """Say what is set up here, and what of it does not work."""
    found = [
        *_check_policies(),
        *_check_store(where),
        *_check_hooks(),
        *_check_versions(),
        _check_confinement(),
        *_check_terminal(),
    ]
    if as_json:
        say(to_json([each._asdict() for each in found], indent=2))
    else:
        for each in found:
            say_lines(_lines(each))
    if any(each.state == "problem" for each in found):
        raise click.exceptions.Exit(1)


def _lines(each: Diagnosis) -> Iterator[str]:
    head = click.style(each.state, fg=_COLOURS[each.state], bold=each.state != "ok")
    yield from wrap_text(f"{each.what}: {each.told}", head=head, indent=9)


def _check_policies() -> Iterator[Diagnosis]:
    try:
        files = policy_input.policy_files()
    except policy_input.FileMistakes as error:
        yield Diagnosis("problem", "policy", error.format_message())
        return
    for path in files:
        yield _check_policy(path)
    if not files:
        sentence = "there is no policy file for this folder; `sayso init` writes one"
        yield Diagnosis("warning", "policy", sentence)


def _check_policy(path: Path) -> Diagnosis:
    what = f"policy {short_path(str(path))}"
    try:
        policy, warnings = policy_input.load_with_warnings(path)
    except PolicyError as error:
        return Diagnosis("problem", what, f"it has mistakes ({len(error.mistakes)}); see them with `sayso check`")
    except ConfigurationError as error:
        return Diagnosis("problem", what, str(error))
    rules = f"loads, with {len(policy.rules)} rules"
    if warnings:
        return Diagnosis("warning", what, f"{rules} and {len(warnings)} warnings; see them with `sayso check`")
    return Diagnosis("ok", what, rules)


def _check_store(where: str | None) -> Iterator[Diagnosis]:
    if not where and not Path(DEFAULT_STORE).exists():
        sentence = (
            f"there is no {DEFAULT_STORE} in this folder, and no other store is named; `sayso serve` makes one, and "
            "--store FILE or SAYSO_STORE names another"
        )
        yield Diagnosis("warning", "store", sentence)
        return
    where = where or DEFAULT_STORE
    try:
        yield from _check_hub(where) if settings.is_hub(where) else _check_local_store(where)
    except click.ClickException as error:
        yield Diagnosis("problem", "hub" if settings.is_hub(where) else "store", error.message)


def _check_local_store(where: str) -> list[Diagnosis]:
    place = existing_store(where)
    if isinstance(place, str):
        return list(with_store(where, _check_database))
    inside = with_store(where, _check_contents)
    sentence = f"{short_path(str(place))} can be read and written, {_size_with_wal(place):,} bytes"
    return [Diagnosis("ok", "store", sentence), *inside]


def _check_hub(where: str) -> list[Diagnosis]:
    from sayso.client.hub_http import HubClient  # noqa: PLC0415 - needs the extra `remote`

    return with_hub(HubClient, where, _query_hub)


async def _query_hub(hub: HubClient) -> list[Diagnosis]:
    await hub.get("/readyz")
    start = time.perf_counter()
    me = await hub.get("/me")
    seconds = time.perf_counter() - start
    reached = f"{hub.address} is ready, sayso {me['hub']['version']}, {seconds * 1000:.1f} ms away"
    found = [Diagnosis("ok", "hub", reached), Diagnosis("ok", "token", f"you are {_identity_text(me)}")]
    return [*found, *(await _check_as_agent(hub) if me["kind"] == "agent" else await _check_as_approver(hub))]


def _identity_text(me: HubReply) -> str:
    roles = f", in the roles {', '.join(me['roles'])}" if me["roles"] else ""
    projects = {EVERY_PROJECT: ", for every project", "": ", for requests without a project"}
    project = projects.get(me["project"], f", project {me['project']}")
    return f"{'the agent ' if me['kind'] == 'agent' else ''}{me['name']}{project}{roles}"


async def _check_as_agent(hub: HubClient) -> list[Diagnosis]:
    """Ask the hub as an agent's store does, over the same protocol."""
    async with contextlib.aclosing(await asyncio.to_thread(settings.open_store, hub.address)) as store:
        own = await store.pending()
    asked = (
        f"{len(own)} of yours {'waits' if len(own) == 1 else 'wait'} for an answer" if own else "none of yours waits"
    )
    return [Diagnosis("ok", "requests", f"you can ask at this hub; {asked}")]


async def _check_as_approver(hub: HubClient) -> list[Diagnosis]:
    waiting = await hub.get("/approvals", status="pending", limit=_MANY)
    state = await hub.get("/audit/state")
    return [
        _open_requests_diagnosis(
            [each["asked_at"] for each in waiting["items"]], time.time(), more=waiting["next"] is not None
        ),
        Diagnosis("ok", "audit", f"the hub says that the chain is whole, {state['entries']} entries")
        if state["verified"]
        else Diagnosis("problem", "audit", f"the hub says of the chain: {state['problem']}"),
    ]


def _size_with_wal(path: Path) -> int:
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


async def _check_database(store: Store) -> list[Diagnosis]:
    from sayso.stores.postgres import PostgresStore  # noqa: PLC0415 - needs the extra `postgres`

    if not isinstance(store, PostgresStore):
        raise TypeError(f"{store!r} is not the store of that address")
    await store.flush()
    health = await store.health()
    return [
        _check_rights(str(store), health),
        *_check_connection(health),
        *await _check_contents(store),
    ]


def _check_rights(store: str, health: Health) -> Diagnosis:
    if not health.missing:
        return Diagnosis("ok", "store", f"{store} can be read and written, PostgreSQL {health.version}")
    sentence = f"{store} does not give this user {', '.join(health.missing)}; have its owner run deploy/rights.sql"
    return Diagnosis("problem", "store", sentence)


def _check_connection(health: Health) -> Iterator[Diagnosis]:
    trip, clock = f"{health.round_trip * 1000:.1f} ms", f"{abs(health.clock_ahead):.1f} s"
    yield Diagnosis("ok", "round trip", f"{trip} there and back")
    if health.hint is None:
        yield Diagnosis("warning", "hints", "a pooler is in between, so changes are polled, twice a second")
    else:
        yield Diagnosis("ok", "hints", f"a change is heard of after {health.hint * 1000:.1f} ms")
    crowded = health.connections > health.most_connections * _CROWDED
    text = f"{health.connections} of {health.most_connections} at the server, {health.own_connections} of sayso here"
    yield Diagnosis("warning" if crowded else "ok", "connections", text)
    if health.replica_lag is not None:
        yield Diagnosis("ok", "replicas", f"the last one is {health.replica_lag:.1f} s behind")
    off = abs(health.clock_ahead) > _CLOCKS_DIFFER
    text = f"the server's is {clock} {'ahead' if health.clock_ahead > 0 else 'behind'}; expiry goes by the server's"
    yield Diagnosis("warning" if off else "ok", "clock", text)
    if not health.private:
        yield Diagnosis(
            "warning",
            "TLS",
            "nothing makes sure that the connection is encrypted; add sslmode=verify-full to the address",
        )
    if not health.durable:
        yield Diagnosis("warning", "disk", "fsync is off at the server: a power cut can lose answers that were given")


async def _check_contents(store: Store) -> list[Diagnosis]:
    return [await _check_open_requests(store), await _check_chain(store)]


async def _check_open_requests(store: Store) -> Diagnosis:
    return _open_requests_diagnosis([each.asked_at for each in await store.pending()], clock_of(store).now())


def _open_requests_diagnosis(asked_at: Sequence[float], now: float, *, more: bool = False) -> Diagnosis:
    if not asked_at:
        return Diagnosis("ok", "requests", "none is open")
    many = f"{len(asked_at)}{' or more' if more else ''} open"
    sentence = f"{many}, the oldest for {format_rough_duration(now - asked_at[0])}; see `sayso pending`"
    return Diagnosis("ok", "requests", sentence)


async def _check_chain(store: Store) -> Diagnosis:
    try:
        return Diagnosis("ok", "audit", f"the chain is whole, {await audit.verify(store)} entries")
    except AuditError as error:
        return Diagnosis("problem", "audit", f"the chain is broken: {error}")


def _check_hooks() -> Iterator[Diagnosis]:
    from sayso.cli.gateways.hook_diagnosis import diagnose_hooks  # noqa: PLC0415 - only this command needs it

    yield from (Diagnosis(*each) for each in diagnose_hooks())


def _check_versions() -> Iterator[Diagnosis]:
    from importlib import metadata  # noqa: PLC0415 - slow to load, and only this command needs it

    yield Diagnosis("ok", "Python", f"{platform.python_version()} on {platform.system()}")
    yield Diagnosis("ok", "sayso", metadata.version("sayso"))
    for name, extra in _libraries(metadata.requires("sayso") or ()):
        try:
            sentence = metadata.version(name)
        except metadata.PackageNotFoundError:
            sentence = f"not installed; if you need it, install sayso[{extra}]"
        yield Diagnosis("ok", name, sentence)


def _libraries(requirements: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the optional libraries, each with the smallest extra that installs it."""
    extras = [found.groups() for line in requirements if (found := _EXTRA_REQUIREMENT.match(line))]
    sizes = Counter(extra for _, extra in extras)
    for name in dict.fromkeys(name for name, _ in extras):
        yield name, min((extra for known, extra in extras if known == name), key=lambda extra: sizes[extra])


def _check_confinement() -> Diagnosis:
    from sayso.tools.exec.confine import unavailable_reason  # noqa: PLC0415 - only this command needs it

    problem = unavailable_reason()
    return Diagnosis("ok" if problem is None else "warning", "bubblewrap", problem or "programs can be confined")


def _check_terminal() -> Iterator[Diagnosis]:
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    sentence = (
        "questions can be asked here"
        if asks
        else "standard input or error is not a terminal, so nobody can be asked here, and `sayso run` refuses instead"
    )
    yield Diagnosis("ok", "terminal", sentence)
    plain = next((f"off, since {name} says so" for name in ("NO_COLOR", "TERM") if _is_plain(name)), None)
    colours = plain or ("on" if sys.stdout.isatty() else "off, since the output is no terminal")
    size = shutil.get_terminal_size()
    yield Diagnosis("ok", "screen", f"{size.columns} columns, {sys.stdout.encoding}, colours {visible(colours)}")


def _is_plain(name: str) -> bool:
    value = os.environ.get(name)
    return value == "dumb" if name == "TERM" else bool(value)
