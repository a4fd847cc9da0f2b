"""`sayso hook`: decides about one call of a coding agent, whose hook it is.

Tests: tests/cli/gateways/test_hook.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from typing import Literal

import click
import msgspec

from sayso.adapters.coding_agents.clients import CLIENTS, Client
from sayso.adapters.coding_agents.hook_answers import RECORDED, HookAnswer, answer_text, deny
from sayso.adapters.coding_agents.hook_events import HookEvent, read_event
from sayso.cli.gateways.decision_pipe import FAREWELL_SECONDS, DecisionPipe
from sayso.cli.main import EXIT_CODES
from sayso.cli.screen import say
from sayso.cli.times import read_span
from sayso.errors import AuditError, StoreError

_STOPPED = "Not executed: the client does not wait for the call any more."
_LATE = "Not executed: sayso did not come to a decision in time."
_ATTENDED = "CLAUDE_CODE_SESSION_ATTENDED"  # 0 under `claude -p`
_MOST_BYTES = 64 * 1024 * 1024


class _HookOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed options of the command."""

    client: Literal["claude", "codex", "gemini", "qwen", "copilot", "opencode"]
    policy: str
    store: str
    hold: float | None
    expires: float
    unanswered: Literal["deny", "defer"]
    check: bool


@click.command(
    "hook",
    epilog=(
        "Example: sayso hook claude --policy /home/ann/sayso.yaml --store /home/ann/sayso.db\n\n"
        f"Ends with: {EXIT_CODES}. A refusal is a decision that is printed, and no error."
    ),
)
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--policy", type=click.Path(), metavar="FILE", required=True, help="The policy; write the whole path.")
@click.option(
    "--store",
    type=click.Path(),
    metavar="FILE",
    envvar="SAYSO_STORE",
    required=True,
    help="Where people answer: a file, postgresql://… or https://… of a hub; else what SAYSO_STORE names.",
)
@click.option(
    "--hold",
    callback=read_span,
    metavar="TIME",
    help="How long a call waits for its answer; below the client's own limit, and left out, a little below its usual.",
)
@click.option(
    "--expires",
    default="1h",
    callback=read_span,
    metavar="TIME",
    help="How long a question can be answered, unless its rule says it; else 1h.",
)
@click.option(
    "--then",
    "unanswered",
    type=click.Choice(["deny", "defer"]),
    default="defer",
    help="What becomes of an unanswered call: 'defer' stops a run of `claude -p`, which can be resumed; else, and with "
    "'deny', the model is told to ask again later.",
)
@click.option(
    "--check", is_flag=True, help="Decide nothing: print when it was last asked, if all that it needs is there."
)
def hook(**given: object) -> None:
    """Decide about one call of a coding agent.

    The agent's settings name this command as a hook; `sayso setup` writes them. It reads one event, and prints one
    decision. Calls that ask wait for an answer at the store: by `sayso watch`, `sayso approve`, or a hub's page.
    """
    options = msgspec.convert(given, _HookOptions)
    client = CLIENTS[options.client]
    if options.check:
        say(json.dumps({"asked_at": asyncio.run(_last_time(options))}))
        return
    pipe = DecisionPipe(lambda sentence: answer_text(deny(sentence), client))
    hold = client.hold if options.hold is None else options.hold
    pipe.limit(hold + 2 * FAREWELL_SECONDS)
    try:
        pipe.write(answer_text(_answer(options, client, hold), client))
    except Exception as error:
        logging.getLogger("sayso").debug("the hook has failed", exc_info=error)
        pipe.refuse(f"Not executed: sayso could not decide about it ({error}).")


def _answer(options: _HookOptions, client: Client, hold: float) -> HookAnswer:
    logging.basicConfig(stream=sys.stderr, format="sayso: %(message)s", level=logging.WARNING)
    data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        return deny(f"Not executed: the event is longer than {_MOST_BYTES:,} bytes.")
    event = read_event(data.decode(), client)
    if event.kind == "other":
        return RECORDED
    try:
        return asyncio.run(_decide(options, client, event, hold))
    except TimeoutError:
        return deny(_LATE)
    except asyncio.CancelledError:
        return deny(_STOPPED)
    except (StoreError, ValueError) as error:
        if event.kind == "before":
            raise
        logging.getLogger("sayso").warning("the result of a call was not recorded: %s", error)
        return RECORDED


async def _last_time(options: _HookOptions) -> float | None:
    """Return when the client has last asked at this store, if it can be read; fail where a call could not be judged."""
    from sayso.config.load_policy import load_policy  # noqa: PLC0415 - only an event needs them
    from sayso.core import audit  # noqa: PLC0415 - as above
    from sayso.engine.controller import ApprovalController  # noqa: PLC0415 - as above

    async with ApprovalController(policy=load_policy(options.policy), store=options.store) as controller:
        await controller.pending()
        with contextlib.suppress(StoreError, AuditError):
            run = f"hook:{options.client}"
            times = [each["at"] async for each in audit.entries(controller.store) if each.get("run") == run]
            return max(times, default=None)
    return None


def _unanswered(options: _HookOptions) -> Literal["deny", "defer"]:
    """Return what becomes of an unanswered call: only a run without a person at its terminal is resumed."""
    return options.unanswered if os.environ.get(_ATTENDED) == "0" else "deny"


async def _decide(options: _HookOptions, client: Client, event: HookEvent, hold: float) -> HookAnswer:
    """Decide about the call of an event, or record its result."""
    from sayso.adapters.coding_agents.client_calls import policy_for  # noqa: PLC0415 - only an event needs them
    from sayso.adapters.coding_agents.hook_gate import HookGate  # noqa: PLC0415 - as above
    from sayso.adapters.kit import Gate  # noqa: PLC0415 - as above
    from sayso.config.load_policy import load_policy  # noqa: PLC0415 - as above
    from sayso.engine.controller import ApprovalController  # noqa: PLC0415 - as above

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(RuntimeError):  # not in the main thread
            loop.add_signal_handler(number, lambda: task and task.cancel())
    async with asyncio.timeout(hold + FAREWELL_SECONDS):
        policy = policy_for(load_policy(options.policy), event.folder)
        async with ApprovalController(
            policy=policy, store=options.store, session=event.session, timeout=options.expires
        ) as controller:
            gate = HookGate(Gate(controller), client, hold=hold, unanswered=_unanswered(options))
            if event.kind == "before":
                return await gate.decide(event)
            await gate.record(event)
            return RECORDED
