"""`sayso mcp`: puts a policy before an MCP server.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from sayso.cli.open_store import CODES_OF_READING, ELSE_STORE, epilog
from sayso.cli.screen import visible
from sayso.cli.times import read_span
from sayso.config.load_policy import load_policy
from sayso.engine.controller import ApprovalController
from sayso.engine.settings import DEFAULT_STORE
from sayso.errors import ConfigurationError, StoreError, ToolError

if TYPE_CHECKING:
    from sayso.adapters.mcp.relay import Relay

_LISTED_SECONDS = 30.0  # over HTTP nobody may be there to hear of a change
_SESSION = "CLAUDE_CODE_SESSION_ID"  # what Claude Code tells the servers that it starts
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed options of the command."""

    name: str
    policy: str | None
    where: str
    hold: float
    expires: float
    session: str | None
    pins: str | None
    believe_annotations: bool
    listen: str | None
    upstream: str | None
    header_env: tuple[str, ...]
    token_env: str | None
    pass_authorization: bool
    command: tuple[str, ...]


@click.command(
    "mcp",
    epilog=epilog("sayso mcp --name files -- npx -y @modelcontextprotocol/server-filesystem .", CODES_OF_READING),
)
@click.option("--name", required=True, metavar="NAME", help="What policies call the server: its tools are NAME.tool.")
@click.option("--policy", type=click.Path(), metavar="FILE", help="The policy; else those that apply here.")
@click.option(
    *("--store", "where"),
    type=click.Path(),
    metavar="FILE",
    envvar="SAYSO_STORE",
    default=DEFAULT_STORE,
    help=f"Where people answer: a file, postgresql://… or https://… of a hub; {ELSE_STORE}. A new file is made.",
)
@click.option(
    "--hold",
    default="45s",
    callback=read_span,
    metavar="TIME",
    help="How long a call waits for its answer before the client is told 'not yet'; else 45s.",
)
@click.option(
    "--expires",
    default="1h",
    callback=read_span,
    metavar="TIME",
    help="How long a question can be answered, unless its rule says it; else 1h.",
)
@click.option("--session", metavar="NAME", help="The session of its calls; else that of the client, or of this start.")
@click.option(
    "--pins",
    type=click.Path(),
    metavar="FILE",
    help="Trust the tools as this file has them, which is written at the first start; else as the store has them.",
)
@click.option(
    "--believe-annotations",
    is_flag=True,
    help="Let conditions of the policy look at the server's own words, such as annotations.readOnlyHint.",
)
@click.option("--upstream", metavar="URL", help="The server, if it is one over HTTP; then no command follows.")
@click.option("--listen", metavar="HOST:PORT", help="Where clients find the relay before it, such as 127.0.0.1:8485.")
@click.option(
    "--header-env",
    multiple=True,
    metavar="NAME=VAR",
    help="A header for that server, such as Authorization=CRM_TOKEN, with the value of this environment variable.",
)
@click.option("--pass-authorization", is_flag=True, help="Pass on the Authorization of clients, which else stays here.")
@click.option(
    "--token-env",
    metavar="VARIABLE",
    help="Admit only clients with the token in this environment variable; needed to listen beyond this machine.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def mcp(**given: object) -> None:
    """Put a policy before an MCP server: what its tools do is decided here, asked about and recorded.

    Write this command into your MCP client in the place of the server's own, which follows after --. Before a server
    over HTTP, start it with --listen and --upstream, and give the client the address that it prints. Calls that ask
    wait for an answer at the store: by `sayso watch`, `sayso approve`, or the page of `sayso serve`.
    """
    options = msgspec.convert(given, _Options)
    logging.basicConfig(stream=sys.stderr, format="sayso: %(message)s", level=logging.WARNING)
    if not _NAME.fullmatch(options.name):
        raise click.BadParameter(f"{options.name!r} is no name; use letters, digits, - and _", param_hint="--name")
    if bool(options.command) == bool(options.upstream) or bool(options.upstream) != bool(options.listen):
        raise click.UsageError("give the command of a server after --, or --upstream with --listen")
    sys.exit(asyncio.run(_relay(options) if options.upstream is None else _serve(options)))


async def _relay(options: _Options) -> int:
    from sayso.adapters.mcp.stdio import refuse_client, relay_stdio  # noqa: PLC0415 - help does without it

    try:
        controller = _build_controller(options, os.environ.get(_SESSION) or None)
    except (ConfigurationError, StoreError, ImportError) as error:
        logging.getLogger("sayso").error("%s", error)  # noqa: TRY400 - a sentence for a person, without a traceback
        await refuse_client(str(error))
        return 1
    async with controller:
        try:
            return await relay_stdio(_build_relay(controller, options, lasts=math.inf), options.command)
        except (ConfigurationError, StoreError, ToolError) as error:
            raise click.ClickException(visible(str(error))) from None


async def _serve(options: _Options) -> int:
    try:
        from sayso.cli.gateways.http_gateway import read_listener, serve_http  # noqa: PLC0415 - it needs two extras

        listener = read_listener(
            options.listen or "",
            options.upstream or "",
            header_env=options.header_env,
            token_env=options.token_env,
            pass_authorization=options.pass_authorization,
        )
        async with _build_controller(options, None) as controller:
            return await serve_http(_build_relay(controller, options, lasts=_LISTED_SECONDS), listener)
    except (ConfigurationError, StoreError, ImportError) as error:
        raise click.ClickException(visible(str(error))) from None


def _build_controller(options: _Options, session: str | None) -> ApprovalController:
    return ApprovalController(
        policy=load_policy(options.policy),
        store=options.where,
        session=options.session or session,
        timeout=options.expires,
    )


def _build_relay(controller: ApprovalController, options: _Options, *, lasts: float) -> Relay:
    """Return the relay before the server, with the pins that the owner has chosen."""
    from sayso.adapters.kit import Gate  # noqa: PLC0415 - help does without it
    from sayso.adapters.mcp.pins import PinFile, StoredPins  # noqa: PLC0415 - as above
    from sayso.adapters.mcp.relay import Relay  # noqa: PLC0415 - as above
    from sayso.adapters.mcp.tool_listing import Listing  # noqa: PLC0415 - as above

    gate, name = Gate(controller), options.name
    pins = StoredPins(name, controller.store) if options.pins is None else PinFile(Path(options.pins))
    listing = Listing(gate, name, pins, lasts=lasts, believes_annotations=options.believe_annotations)
    return Relay(gate, name, listing, hold=options.hold)
