"""`sayso serve`: runs a hub."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click
import msgspec

from sayso.cli.open_store import CODES_OF_READING, ELSE_STORE, Failure, epilog, login_name
from sayso.cli.operators.token import LINK_SECONDS
from sayso.cli.policy_input import FileMistakes
from sayso.cli.screen import say, say_lines, short_path, visible, wrap_text
from sayso.config.load_policy import load_policy
from sayso.core import tokens
from sayso.core.tokens import EVERY_PROJECT
from sayso.engine import settings
from sayso.engine.settings import DEFAULT_STORE
from sayso.errors import ConfigurationError, PolicyError, StoreError

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from sayso.policy.policy import Policy
    from sayso.server.hub import Hub, HubStore

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the address for links on this machine


class _ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed options of the command."""

    where: str
    host: str
    port: int
    tls_cert: str | None
    tls_key: str | None
    behind_proxy: str | None
    host_names: tuple[str, ...]
    policy: str | None
    insecure: bool
    log_json: bool
    url: str | None
    notify: str | None
    oidc_issuer: str | None
    oidc_client: str | None
    oidc_domains: tuple[str, ...]
    oidc_roles: str
    most_open: int | None
    most_parked: int | None
    metrics: Literal["local", "token", "nobody"]

    @property
    def is_secure(self) -> bool:
        return bool(self.tls_cert or self.behind_proxy or self.insecure)


@click.command(epilog=epilog("sayso serve --store sayso.db", CODES_OF_READING))
@click.option(
    *("--store", "where"),
    type=click.Path(),
    metavar="FILE",
    envvar="SAYSO_STORE",
    default=DEFAULT_STORE,
    help=f"The store, a file or postgresql://…; {ELSE_STORE}. A new file is made.",
)
@click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help="The address to serve; this machine alone if not said."
)
@click.option(
    "--port",
    default=8484,
    type=click.IntRange(0, 65535),
    metavar="NUMBER",
    help="The port; 8484 if not said, 0 for any.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="A name by which the hub is called; may be repeated.",
)
@click.option("--tls-cert", type=click.Path(), metavar="FILE", help="The certificate, for https.")
@click.option("--tls-key", type=click.Path(), metavar="FILE", help="Its key.")
@click.option(
    "--behind-proxy",
    metavar="ADDRESS",
    help="A proxy does https, from this address: what it says of a client is believed.",
)
@click.option("--insecure", is_flag=True, help="Serve others without https: whoever listens can take tokens.")
@click.option(
    "--policy", type=click.Path(), metavar="FILE", help="Judge edited arguments by this policy, here as well."
)
@click.option("--url", metavar="URL", help="The address by which people reach the hub, for links.")
@click.option("--notify", type=click.Path(), metavar="FILE", help="Who is told of questions, by chat, mail or webhook.")
@click.option("--oidc-issuer", metavar="URL", help="Let people sign in with their accounts there (OpenID Connect).")
@click.option("--oidc-client", metavar="ID", help="The hub's id there; SAYSO_OIDC_SECRET has its secret.")
@click.option("--oidc-domain", "oidc_domains", multiple=True, metavar="NAME", help="Only addresses of this domain.")
@click.option("--oidc-roles", default="groups", metavar="CLAIM", help="The claim with their roles; else groups.")
@click.option(
    "--most-open",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="How many questions of one agent may wait at once; else 10000.",
)
@click.option(
    "--most-parked",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="How many parked runs, with those nested in them, one agent may have; else 10000.",
)
@click.option(
    "--metrics",
    type=click.Choice(["local", "token", "nobody"]),
    default="local",
    metavar="WHO",
    help="Who reads /metrics: local (this machine, and people with a token), token, or nobody; local if not said.",
)
@click.option("--log-json", is_flag=True, help="Write the log as lines of JSON.")
def serve(**given: object) -> None:
    """Serve a hub: one place where people answer what all agents ask.

    It prints a link that signs a browser in, once, within 10 minutes; `sayso token link` makes another.
    """
    from sayso.server.serve import run_hub  # noqa: PLC0415 - the help of this command does without a server

    options = msgspec.convert(given, _ServeOptions)
    _check_options(options)
    _configure_logging(as_json=options.log_json)
    place = options.where if settings.is_database(options.where) else settings.store_file(options.where)
    if place is None:
        raise Failure(
            f"{settings.redact_address(options.where)} is not a store that a hub can serve; use a file such as "
            "sayso.db, or postgresql://…"
        )
    try:
        policy = None if options.policy is None else load_policy(Path(options.policy))
    except ConfigurationError as error:
        raise FileMistakes(error) from None
    try:
        run_hub(_serve(options, place, policy, is_new=isinstance(place, Path) and not place.exists()))
    except PolicyError as error:  # of the notices file
        raise FileMistakes(error) from None
    except (ConfigurationError, StoreError, ImportError) as error:
        raise Failure(str(error)) from None


def _check_options(options: _ServeOptions) -> None:
    from sayso.server.serve import is_loopback  # noqa: PLC0415 - as above

    if bool(options.tls_cert) != bool(options.tls_key):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if bool(options.oidc_issuer) != bool(options.oidc_client):
        raise click.UsageError("--oidc-issuer and --oidc-client go together")
    if not is_loopback(options.host) and not options.is_secure:
        raise click.UsageError(
            f"others can reach {visible(options.host)}, so tokens would travel in the open: say --tls-cert and "
            "--tls-key, or --behind-proxy, or --insecure if you mean it"
        )


def _configure_logging(*, as_json: bool) -> None:
    from sayso.server.http.logs import JsonLines, ShortLines  # noqa: PLC0415 - as above

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else ShortLines())
    for name, level in (("sayso", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)


async def _serve(options: _ServeOptions, place: Path | str, policy: Policy | None, *, is_new: bool) -> None:
    from sayso.server.app import create_app  # noqa: PLC0415 - as above
    from sayso.server.hub import MOST_OPEN, MOST_PARKED, Hub  # noqa: PLC0415
    from sayso.server.serve import bind, create_server  # noqa: PLC0415

    with contextlib.closing(bind(options.host, options.port)) as listener:
        store = cast("HubStore", settings.open_store(place))  # every shared store keeps tokens
        try:
            hub = Hub(
                store,
                policy=policy,
                most_open=options.most_open or MOST_OPEN,
                most_parked=options.most_parked or MOST_PARKED,
                metrics_for=options.metrics,
            )
            app = create_app(hub, allowed_hosts=(*options.host_names, options.host))
            url = options.url or _url(options, listener)
            _install_oidc(app, options, url)
            notices = _start_notices(hub, options, url)
            server = create_server(
                app, hub, certificate=options.tls_cert, key=options.tls_key, proxy=options.behind_proxy
            )
            _load_certificate(server.config.load, options)
            link, text = tokens.make(
                "link", _token_name(), now=hub.clock.now(), seconds=LINK_SECONDS, project=EVERY_PROJECT
            )
            await store.add_token(link)
            where = short_path(str(place)) if isinstance(place, Path) else str(store)
            _print_sign_in_link(url, where, link.name, text, is_new=is_new)
            await server.serve(sockets=[listener])
            if notices is not None:
                notices.cancel()
                await asyncio.wait({notices})
            await hub.aclose()
        finally:
            await store.aclose()


def _install_oidc(app: FastAPI, options: _ServeOptions, url: str) -> None:
    if options.oidc_issuer is None:
        return
    from sayso.server.routes.oidc import Provider, install  # noqa: PLC0415 - needs the extra `oidc`

    provider = Provider(
        issuer=options.oidc_issuer,
        client_id=options.oidc_client or "",
        client_secret=os.environ.get("SAYSO_OIDC_SECRET", ""),
        roles_claim=options.oidc_roles,
        domains=tuple(domain.lower() for domain in options.oidc_domains),
    )
    install(app, provider, url=url)


def _start_notices(hub: Hub, options: _ServeOptions, url: str) -> asyncio.Task[None] | None:
    if options.notify is None:
        return None
    from sayso.server.notices.scheduler import Notices  # noqa: PLC0415 - as above
    from sayso.server.notices.settings_file import read_notices  # noqa: PLC0415

    return asyncio.ensure_future(Notices(hub, read_notices(Path(options.notify)), url=url).run())


def _load_certificate(load: Callable[[], None], options: _ServeOptions) -> None:
    try:
        load()
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"the certificate {options.tls_cert} or its key cannot be used: {reason}") from None


def _token_name() -> str:
    """Return the login name as the name of a token."""
    return re.sub(r"[^A-Za-z0-9._@+-]", "-", login_name())[:100].lstrip("._@+-") or "owner"


def _url(options: _ServeOptions, listener: socket.socket) -> str:
    host = options.host_names[0] if options.host_names else _EVERYWHERE.get(options.host, options.host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if options.tls_cert or options.behind_proxy else "http"
    port = "" if options.behind_proxy and options.host_names else f":{listener.getsockname()[1]}"
    return f"{scheme}://{shown}{port}"


def _print_sign_in_link(url: str, store: str, name: str, text: str, *, is_new: bool) -> None:
    made = " which was made just now," if is_new else ""
    say_lines(wrap_text(f"The hub serves the store {store},{made} at {url}; Ctrl+C stops it."))
    say(f"Sign in as {name}, once, within 10 minutes:")
    say(f"  {tokens.sign_in_address(url, text)}")
