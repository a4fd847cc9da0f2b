"""Shell completion: the script that enables it, and completion of ids.

A shell runs the program for every press of Tab, in the middle of a command line. So completion prints nothing but
candidates, changes no request, and has a time limit.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from sayso.cli.main import COMPLETE, EXIT_CODES

if TYPE_CHECKING:
    from sayso.core.ports import Store

    IdQuery = Callable[[Store], Awaitable[dict[str, str]]]

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_TIME_LIMIT = 5.0  # seconds; a store may be locked by another process
_DESCRIPTION_COLUMNS = 70  # for the description of an id
_ID = re.compile(r"[0-9a-f]{6,32}")  # a shell executes the completed line, so a candidate is nothing but an id


@click.command(epilog=f"Example: sayso completion bash\n\nEnds with: {EXIT_CODES}.")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options and ids.

    For bash 4.4 or newer, write this line into ~/.bashrc:

    \b
      eval "$(sayso completion bash)"

    For zsh, write this line into ~/.zshrc, below the one with compinit:

    \b
      eval "$(sayso completion zsh)"

    For fish, write this line into ~/.config/fish/config.fish:

    \b
      sayso completion fish | source

    Shells that are started from then on complete with the Tab key. Behind show, approve, deny and remembered revoke
    they offer the ids in the store that --store or SAYSO_STORE names, else in sayso.db here.
    """  # noqa: D301 - click leaves the lines behind a \b as they are
    click.echo(_SHELLS[shell](context.find_root().command, {}, "sayso", COMPLETE).source(), nl=False)


def enter_completion_mode() -> None:
    """Silence this process except for candidates, and set a time limit."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    end = threading.Timer(_TIME_LIMIT, os._exit, [0])  # a blocking read of the store cannot be cancelled
    end.daemon = True
    end.start()


# --- Ids ---------------------------------------------------------------------------------------------


def complete_request_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete ids of open requests, except those already on the line."""
    return _other_ids(context, _open_requests, incomplete)


def complete_remembered_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete ids of remembered decisions, except those already on the line."""
    return _other_ids(context, _remembered_decisions, incomplete)


def _other_ids(context: click.Context, query: IdQuery, incomplete: str) -> list[CompletionItem[str]]:
    given = context.params.get("ids") or ()
    return [each for each in _completion_items(context, query, incomplete) if each.value not in given]


async def _open_requests(store: Store) -> dict[str, str]:
    from sayso.cli.render_request import call_text  # noqa: PLC0415 - as below

    now = time.time()
    found = await store.pending()  # the controller's `pending` would also close expired requests
    return {each.id: call_text(each) for each in found if each.expires_at is None or now < each.expires_at}


async def _remembered_decisions(store: Store) -> dict[str, str]:
    from sayso.cli.render_request import call_text  # noqa: PLC0415 - as below
    from sayso.engine.remembered import ApprovalMemory  # noqa: PLC0415 - as below

    descriptions: dict[str, str] = {}
    for each in ApprovalMemory(store=store).list():
        request = await store.get(each.request_id) if each.request_id else None
        first = f": {call_text(request)}" if request is not None else ""
        descriptions[each.id] = f"{'yes' if each.decision.approved else 'no'} to {each.scope.label}{first}"
    return descriptions


def _completion_items(context: click.Context, query: IdQuery, incomplete: str) -> Iterator[CompletionItem[str]]:
    """Yield short ids with this prefix, each with a description; none if the store cannot be read."""
    # Imported late: a shell loads this module at its start, when no store is needed.
    from sayso.cli.open_store import Failure, short_ids, with_store  # noqa: PLC0415
    from sayso.cli.screen import truncate_visible  # noqa: PLC0415

    try:
        found = with_store(_store(context), query)
    except Failure:
        return
    names = short_ids(found)
    for whole, about in found.items():
        if names[whole].startswith(incomplete) and _ID.fullmatch(names[whole]):
            yield CompletionItem(names[whole], help=_escape_for_shell(truncate_visible(about, _DESCRIPTION_COLUMNS)))


def _store(context: click.Context) -> str | None:
    """Return the store named on the line; the shell passes words unexpanded, so ~ is replaced here."""
    where = context.params.get("where")
    if where is None or context.get_parameter_source("where") is not ParameterSource.COMMANDLINE:
        return where
    return os.path.expandvars(os.path.expanduser(where))  # noqa: PTH111 - it may be a URL


def _escape_for_shell(about: str) -> str:
    """Escape backslashes for zsh; cut at the first comma for fish, where click's script splits."""
    shell = os.environ.get(COMPLETE)
    if shell == "zsh_complete":
        return about.replace("\\", "\\\\")
    start, comma, _ = about.partition(",")
    return f"{start}…" if comma and shell == "fish_complete" else about
