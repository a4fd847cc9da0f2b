"""The program that test_terminal.py runs in a terminal: asks about calls, and says what came of each.

Usage: terminal_child.py HOW [FACTS]; FACTS is JSON: store, timeout, args (of one call each), say (printed meanwhile).
"""

import asyncio
import json
import sys
import threading
from typing import Any

from sayso import ApprovalController, ApprovalError, ApprovalPresentation, Policy, Preview, guard
from sayso.channels.terminal import TerminalChannel

how = sys.argv[1]
facts: dict[str, Any] = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
calls: list[dict[str, Any]] = facts.get("args", [{"item": "tea", "price": 4}])


def preview(item: str, price: object) -> Preview:
    shown = facts.get("diff")
    return Preview(
        description=f"Change the price of {item}"[:60],
        presentation=None if shown is None else ApprovalPresentation(title="prices", diff=shown),
    )


async def set_price(item: str, price: object) -> str:
    return f"{item} costs {price}"


def set_price_now(item: str, price: object) -> str:
    return f"{item} costs {price}"


controller = ApprovalController(
    policy=Policy({"set_price": "required"}),
    channels=[TerminalChannel(who="ann")],
    store=facts.get("store"),
    timeout=facts.get("timeout"),
    session="s1",
)


async def one(args: dict[str, Any]) -> None:
    try:
        print("RAN:", await guard(set_price, controller, preview=preview)(**args), flush=True)
    except ApprovalError as error:
        print("NOT:", error, flush=True)


async def work() -> None:
    async with controller:
        async with asyncio.TaskGroup() as group:
            for args in calls:
                group.create_task(one(args))
            for line in facts.get("say", []):
                await asyncio.to_thread(sys.stdin.fileno)
                print(line, flush=True)
        print("remembered:", [each.scope.kind for each in controller.memory.list()], flush=True)


if how == "async":
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
