"""A program that asks in a real terminal, and what goes on around it: editors, pagers, other processes."""

import asyncio
import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.terminal import Terminal
from tests.waiting import within

from sayso import ApprovalController

CHILD = str(Path(__file__).with_name("terminal_child.py"))


def ask(how: str = "async", *, columns: int = 80, rows: int = 200, **facts: Any) -> Terminal:
    return Terminal([sys.executable, CHILD, how, json.dumps(facts)], columns=columns, rows=rows)


def program(path: Path, script: str) -> str:
    """Write a shell script that can be run as the person's editor or pager."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def elsewhere(store: Path, work: str) -> None:
    """Do something with the store in another process; `requests` are those that wait."""
    script = (
        "import asyncio, sys, time\n"
        "from sayso import ApprovalController, ApprovalDecision\n"
        "from sayso.core.model import Seen\n"
        "async def main():\n"
        "    async with ApprovalController(store=sys.argv[1], mode='defer') as controller:\n"
        "        requests = await controller.pending()\n"
        f"        for request in requests:\n            {work}\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", script, str(store)], check=True, timeout=60)


ALLOW = "await controller.answer(request.id, ApprovalDecision(approved=True, who='bob'))"
SEE = "await controller.store.mark_seen(request.id, Seen(who='bob', channel='page', at=time.time()))"


def until_it_ran(store: Path) -> None:
    """Wait until the newest request in a store was used."""

    async def wait() -> None:
        async with ApprovalController(store=store, mode="defer") as controller:
            point, newest = 0, (await controller.store.recent(1))[0]
            with within(30, lambda: newest):
                while newest.status != "used":
                    await controller.store.changed(point)
                    point, _ = await controller.store.changes(point)
                    newest = (await controller.store.recent(1))[0]

    asyncio.run(wait())


def a_second_later(terminal: Terminal) -> None:
    """Wait until the clock on the screen has moved: whatever was to happen at once has happened."""
    found = re.search(r"waiting \d+:\d\d", terminal.wait_for("waiting "))
    assert found
    terminal.wait_for(found[0], gone=True)
