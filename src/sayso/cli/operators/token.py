"""Commands of bearer tokens for a hub: create, list, revoke, and sign-in links."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import click

from sayso.channels.display.durations import format_rough_duration
from sayso.cli.main import CODES_OF_GROUPS, Commands
from sayso.cli.open_store import (
    CODES_OF_IDS,
    CODES_OF_READING,
    combine_options,
    epilog,
    find_by_id,
    json_option,
    own_store_option,
    short_ids,
    with_store,
)
from sayso.cli.screen import bold, say, say_lines, wrap_text
from sayso.cli.times import read_span
from sayso.core import json_codec, tokens
from sayso.core.tokens import EVERY_PROJECT, Token, TokenKind
from sayso.engine.clock import clock_of

if TYPE_CHECKING:
    from sayso.core.ports import Keyring, Store

LINK_SECONDS = 600.0
_DEFAULT_URL = "http://127.0.0.1:8484"


@click.group(cls=Commands, epilog=epilog("sayso token list --store sayso.db", CODES_OF_GROUPS))
def token() -> None:
    """Make, list and revoke the tokens by which a hub knows agents and people."""


_identity_options = combine_options(
    click.option("--name", required=True, metavar="NAME", help="Who it stands for."),
    click.option("--project", default="", metavar="NAME", help="Whose requests; * for all projects."),
    click.option("--role", "roles", multiple=True, metavar="NAME", help="A role of this person; may be repeated."),
    own_store_option,
    json_option,
)


@token.command(epilog=epilog("sayso token create approver --name ann --project shop --for 30d", CODES_OF_READING))
@click.argument("kind", metavar="KIND", type=click.Choice(["agent", "approver"]))
@_identity_options
@click.option("--for", "seconds", metavar="SPAN", callback=read_span, help="How long it is valid: 12h, 30d.")
def create(kind: str, where: str | None, *, seconds: float | None, as_json: bool, **whose: Any) -> None:  # noqa: ANN401 - options
    """Make a token: an agent asks with it, an approver answers.

    KIND is agent or approver. Its text is shown this once and kept nowhere: whoever has it is taken for NAME. Without
    --for it is valid until it is revoked.
    """
    made, text = _make_token(where, cast("TokenKind", kind), seconds, **whose)
    if as_json:
        say(json_codec.to_json({**token_json(made), "text": text}, indent=2))
        return
    say(text)
    say("This is shown once and kept nowhere; send it as `Authorization: Bearer …`.", err=True)


@token.command(epilog=epilog("sayso token link --name ann --project shop", CODES_OF_READING))
@_identity_options
@click.option("--opens", default="", metavar="ID", help="The request that it leads to.")
@click.option("--url", metavar="URL", help=f"Where the hub is; {_DEFAULT_URL} if left out.")
def link(where: str | None, *, url: str | None, as_json: bool, **whose: Any) -> None:  # noqa: ANN401 - options
    """Make a link that signs a browser in as NAME: once, within 10 minutes."""
    made, text = _make_token(where, "link", LINK_SECONDS, **whose)
    address = tokens.sign_in_address(url or _DEFAULT_URL, text, made.opens)
    say(json_codec.to_json({**token_json(made), "url": address}, indent=2) if as_json else address)
    if url is None:
        say(f"This is for a hub at {_DEFAULT_URL}, the default; give another address with --url.", err=True)


def _make_token(where: str | None, kind: TokenKind, seconds: float | None, **whose: Any) -> tuple[Token, str]:  # noqa: ANN401 - options
    async def work(store: Store) -> tuple[Token, str]:
        made, text = tokens.make(kind, now=clock_of(store).now(), seconds=seconds, **whose)
        await keyring(store).add_token(made)
        return made, text

    return with_store(where, work)


def keyring(store: Store) -> Keyring:
    """Return the store as a `Keyring`, which every shared store is."""
    return cast("Keyring", store)


@token.command("list", epilog=epilog("sayso token list --store sayso.db", CODES_OF_READING))
@own_store_option
@json_option
def list_tokens(where: str | None, *, as_json: bool) -> None:
    """List the tokens that are valid, oldest first; the tokens themselves are stored nowhere."""
    known = with_store(where, _valid_tokens)
    if as_json:
        say(json_codec.to_json([token_json(each) for each in known], indent=2))
        return
    names = short_ids(each.id for each in known)
    for each in known:
        say_lines(_lines(each, names[each.id]))
    if not known:
        say("There are no tokens.")


@token.command(epilog=epilog("sayso token revoke 4f2a91 --store sayso.db", CODES_OF_IDS))
@own_store_option
@json_option
@click.argument("part", metavar="ID")
def revoke(part: str, where: str | None, *, as_json: bool) -> None:
    """Revoke a token: no hub accepts it any more.

    ID is the start or the end of its id, 4 characters or more.
    """

    async def work(store: Store) -> Token:
        unknown = "no token has the id {!r}; see `sayso token list`"
        chosen = find_by_id(await keyring(store).tokens(), part, unknown, _token_text)
        return await keyring(store).take_token(chosen.id) or chosen

    gone = with_store(where, work)
    if as_json:
        say(json_codec.to_json(token_json(gone), indent=2))
        return
    say_lines(wrap_text(_token_text(gone), head="revoked", indent=9))


def token_json(each: Token) -> dict[str, Any]:
    """Return the public fields of a token."""
    return {
        "id": each.id,
        "kind": each.kind,
        "name": each.name,
        "project": each.project,
        "roles": list(each.roles),
        "opens": each.opens,
        "made_at": each.made_at,
        "expires_at": each.expires_at,
    }


async def _valid_tokens(store: Store) -> list[Token]:
    now = clock_of(store).now()
    return [each for each in await keyring(store).tokens() if not each.is_expired(now)]


def _lines(each: Token, name: str) -> Iterator[str]:
    yield from wrap_text(_token_text(each), head=bold(name), indent=len(name) + 2)


def _token_text(each: Token) -> str:
    parts = [f"{each.kind} {each.name}"]
    if each.project:
        parts.append("of every project" if each.project == EVERY_PROJECT else f"of the project {each.project}")
    if each.roles:
        parts.append(f"in the role {' and '.join(each.roles)}")
    left = "" if each.expires_at is None else f", for another {format_rough_duration(each.expires_at - time.time())}"
    return f"{' '.join(parts)}{left}"
