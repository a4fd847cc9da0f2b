"""The program that the tests run in a terminal: asks about calls, and says what came of each.

Usage: terminal_child.py HOW [FACTS]; FACTS is JSON: store, timeout, args (of one call each), tools (their names),
say (written meanwhile), by (the handle that writes it), after (a file: nothing is said before it is there), said (a
pipe that is then opened and closed), beside (a command that runs from the start), policy (a dict or the path of a
file), diff, diff_lines (of a diff that is made up), pattern (that the item must fit), conversation (role and text of
each message before the calls).
"""

import asyncio
import ctypes
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from sayso import (
    ApprovalController,
    ApprovalError,
    ApprovalPresentation,
    ConversationMessage,
    Policy,
    Preview,
    conversation,
    guard,
    load_policy,
)
from sayso.channels.terminal import TerminalChannel

how = sys.argv[1]
facts: dict[str, Any] = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
calls: list[dict[str, Any]] = facts.get("args", [{"item": "tea", "price": 4}])
tools: list[str] = facts.get("tools", ["set_price"] * len(calls))


logging.basicConfig(level=logging.INFO, format="%(message)s")  # holds the stderr of now, as in many programs
early = os.dup(1)
device = os.open("/dev/tty", os.O_WRONLY) if facts.get("by") == "device" else 2
beside = subprocess.Popen(facts["beside"]) if "beside" in facts else None


def write_to(descriptor: int) -> Callable[[str], object]:
    return lambda line: os.write(descriptor, f"{line}\n".encode())


HANDLES: dict[str, Callable[[str], object]] = {
    "print": lambda line: print(line, flush=True),
    "logging": logging.info,
    "descriptor": write_to(2),
    "duplicate": write_to(early),
    "device": write_to(device),
    "C": lambda line: ctypes.CDLL(None).puts(line.encode()) and ctypes.CDLL(None).fflush(None),
    "keyboard": lambda line: subprocess.Popen(line.split(), stdout=0),
    "child": lambda line: subprocess.run(["/usr/bin/printf", "%s\n", line], check=True),
}


def policy() -> Policy:
    given = facts.get("policy", {"default": "none", "tools": {"set_price": "required", "set_date": "required"}})
    return load_policy(given) if isinstance(given, str) else Policy.from_dict(given)


def long_diff(lines: int) -> str | None:
    return "\n".join(["@@ -1 +1 @@", *(f"+line {number}: ünï字" for number in range(lines))]) if lines else None


def preview(item: str, price: object) -> Preview:
    shown = facts.get("diff") or long_diff(facts.get("diff_lines", 0))
    return Preview(
        description=f"Change the price of {item} to {price}"[:60],
        presentation=None if shown is None else ApprovalPresentation(title="prices", diff=shown),
    )


Item = Annotated[str, msgspec.Meta(pattern=facts.get("pattern", ""))]


async def set_price(item: Item, price: object) -> str:
    return f"{item} costs {price}"


def set_price_now(item: str, price: object) -> str:
    return f"{item} costs {price}"


controller = ApprovalController(
    policy=policy(),
    channels=[TerminalChannel(who="ann")],
    store=facts.get("store"),
    timeout=facts.get("timeout"),
    session="s1",
)


def question_is_there() -> bool:
    # Handles are captured one after the other, before the question is drawn: the one that writes counts.
    handle = {"descriptor": 2, "logging": 2, "duplicate": early, "device": device}.get(facts.get("by", "print"), 1)
    return not os.isatty(handle) and not sys.stdout.isatty() and Path(facts.get("after", "/")).exists()


async def one(tool: str, args: dict[str, Any]) -> None:
    try:
        print("RAN:", await guard(set_price, controller, name=tool, preview=preview)(**args), flush=True)
    except ApprovalError as error:
        print("NOT:", error, flush=True)


async def work() -> None:
    async with controller:
        async with asyncio.TaskGroup() as group:
            for tool, args in zip(tools, calls, strict=True):
                group.create_task(one(tool, args))
            for line in facts.get("say", []):
                while not question_is_there():
                    await asyncio.to_thread(sys.stdin.fileno)
                HANDLES[facts.get("by", "print")](line)
            if "said" in facts:
                Path(facts["said"]).write_text("")
        for each in controller.memory.list():
            seconds = None if each.expires_at is None else round(each.expires_at - each.remembered_at)
            print("remembered:", each.scope.kind, each.session, seconds, each.uses_left, flush=True)


if how == "async":
    with conversation([ConversationMessage(role=role, text=text) for role, text in facts.get("conversation", [])]):
        asyncio.run(work())
else:
    tool = guard(set_price_now, controller, name="set_price", preview=preview)

    def now(args: dict[str, Any]) -> None:
        print("RAN:", tool(**args), flush=True)

    threads = [threading.Thread(target=now, args=[args]) for args in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    controller.close()
