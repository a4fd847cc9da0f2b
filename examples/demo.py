"""A worker does its work in a real folder, and nothing that matters happens there without your say-so.

Run it in a terminal, and you are asked. Run it without one (`< /dev/null`), and every call that would have to be asked
about is refused. The model is a script; the worker, its files, its shell, the store and the audit are real.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal import TerminalChannel
from sayso.channels.terminal.channel import unavailable_reason
from sayso.core import audit
from sayso.core.model import AuditEntry
from sayso.core.ports import RequestHandle
from sayso.tools.worker_file import read_worker
from sayso.tools.workers import Workers, policy_of

EXAMPLE = Path(__file__).with_name("workers")
HINTS = {
    "write_file": "y",
    "worker_call": "y",
    "edit_file": "y",
    "send_mail": "m, and a note such as: ask me for the address first",
}
STEPS = {"allowed": "The policy lets this run.", "stopped": "This does not run, and nobody is asked."}


class Asking(TerminalChannel):
    """Channel that asks as `sayso run` does, with a hint of what to try."""

    async def ask_interactively(self, request: ApprovalRequest, handle: RequestHandle) -> ApprovalDecision | None:
        """Print the hint, and ask."""
        print(f"\n{dim('Try: ' + HINTS.get(request.tool_name, 'n'))}", flush=True)
        return await super().ask_interactively(request, handle)


def tell(entry: AuditEntry) -> None:
    """Print the calls that run or are blocked without a question."""
    why = STEPS.get(entry.step)
    if why is not None and entry.outcome is not None:
        who = " > ".join(entry.about.agent_path)
        print(f"\n{bold(visible(f'{who}: {entry.about.tool}'))} {visible(shown(entry.about.args))}\n  {dim(why)}")
        if entry.step == "stopped":
            print(f"  {dim(visible(entry.outcome.reason))}")


def shown(args: Mapping[str, Any]) -> str:
    return ", ".join(json.dumps(value, ensure_ascii=False) for value in args.values())


async def work(folder: Path) -> None:
    """Run the worker, and print the audit of its calls."""
    worker = read_worker(folder / "report.md")
    problem = unavailable_reason()
    print(
        f"The worker {bold(worker.name)} wants to work in a folder. You have the say."
        if problem is None
        else f"What would be asked is refused, because {problem}."
    )
    settings: dict[str, Any] = {"channels": [Asking(who="you")]} if problem is None else {"mode": "auto_deny"}
    store = folder.with_name("sayso.db")
    async with ApprovalController(policy=policy_of(worker), store=store, hooks=[tell], **settings) as controller:
        with Workers(controller) as workers:
            result = await workers.run(worker, "The orders of today, please.")
        print(f"\n{bold(worker.name)} says: {visible(result.output)}")
        await report(controller)


async def report(controller: ApprovalController) -> None:
    """Print the audit, and check its chain."""
    print(f"\n{bold('The audit')}, as the store has it:\n")
    print(dim(row("no", "time", "tool", "step", "who", "outcome or reason")))
    async for entry in audit.entries(controller.store):
        moment = time.strftime("%H:%M:%S", time.localtime(entry["at"]))
        who = entry.get("who") or entry.get("by") or ""
        print(row(entry["number"], moment, entry["tool"], entry["step"], who, outcome(entry)))
    last = await audit.verify(controller.store)
    print(f"\nThe chain is whole: {last} entries, each sealed by a hash over the one before.")


def outcome(entry: Mapping[str, Any]) -> str:
    match entry:
        case {"step": "asked" | "allowed"}:
            return shown(entry["args"])
        case {"step": "claimed"}:
            return "this approval is used up"
        case _:
            return next((str(entry[key]) for key in ("note", "result", "reason") if key in entry), "")


def row(*cells: object) -> str:
    widths = (2, 8, 11, 9, 6, 33)
    return "  ".join(fit(visible(str(cell)), width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def show_files(folder: Path) -> None:
    print(f"\n{bold('The files')} that are really there:\n")
    found = [file for name in ("orders", "output", "scratch") for file in sorted((folder / name).rglob("*"))]
    for file in [*found, *folder.glob("outbox.txt")]:
        text = file.read_text(encoding="utf-8").strip().replace("\n", " | ")
        print(f"   {fit(visible(str(file.relative_to(folder))), 18)} {fit(visible(text), 55).rstrip()}")


def colour(code: int) -> Callable[[str], str]:
    plain = bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty()
    return str if plain else lambda text: f"\x1b[{code}m{text}\x1b[0m"


bold, dim = colour(1), colour(2)


def main() -> None:
    """Run the demo in a temporary folder."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    with tempfile.TemporaryDirectory(prefix="sayso-demo-") as scratch:
        folder = Path(scratch, "work")
        shutil.copytree(EXAMPLE, folder)
        for name in ("output", "scratch"):
            (folder / name).mkdir(exist_ok=True)
        try:
            asyncio.run(work(folder))
        except KeyboardInterrupt:
            print("\n   Ctrl-C is a no: the worker stops here.")
        show_files(folder)


if __name__ == "__main__":
    main()
