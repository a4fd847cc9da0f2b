"""Walkthrough of the demo: a worker in a real folder, questions about what it does, and then files and audit.

Tests: tests/cli/test_demo.py
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sayso.channels.display.sanitize import visible
from sayso.channels.terminal import TerminalChannel
from sayso.channels.terminal.channel import unavailable_reason
from sayso.cli.screen import bold, say, say_lines, wrap_text
from sayso.core import audit
from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry
from sayso.core.ports import RequestHandle
from sayso.engine.controller import ApprovalController
from sayso.tools.worker_file import read_worker
from sayso.tools.workers import Workers, policy_of

_FILES = Path(__file__).with_name("files")
_HINTS = {
    "write_file": "y",
    "worker_call": "y",
    "edit_file": "y",
    "send_mail": "m, and a note such as: ask me for the address first",
}
_STEPS = {"allowed": "The policy lets this run.", "stopped": "This does not run, and nobody is asked."}


class _HintingChannel(TerminalChannel):
    """Channel that asks as `sayso run` does, with a hint of what to try."""

    async def ask_interactively(self, request: ApprovalRequest, handle: RequestHandle) -> ApprovalDecision | None:
        """Print the hint, and ask."""
        say(f"\n{_dim('Try: ' + _HINTS.get(request.tool_name, 'n'))}")
        return await super().ask_interactively(request, handle)


def _print_step(entry: AuditEntry) -> None:
    """Print the calls that run or are blocked without a question."""
    why = _STEPS.get(entry.step)
    if why is not None and entry.outcome is not None:
        who = " > ".join(entry.about.agent_path)
        say(f"\n{bold(visible(f'{who}: {entry.about.tool}'))} {visible(_args_text(entry.about.args))}\n  {_dim(why)}")
        if entry.step == "stopped":
            say_lines(map(_dim, wrap_text(entry.outcome.reason, head=" ", indent=2)))


def _args_text(args: Mapping[str, Any]) -> str:
    return ", ".join(json.dumps(value, ensure_ascii=False) for value in args.values())


async def _work(folder: Path) -> None:
    """Run the worker, and print the audit of its calls."""
    worker = read_worker(folder / "report.md")
    problem = unavailable_reason()
    say(
        f"The worker {bold(worker.name)} wants to work in a folder. You have the say."
        if problem is None
        else f"{problem[0].upper()}{problem[1:]}, so calls that ask do not run."
    )
    settings: dict[str, Any] = {"channels": [_HintingChannel(who="you")]} if problem is None else {"mode": "auto_deny"}
    store = folder.with_name("sayso.db")
    async with ApprovalController(policy=policy_of(worker), store=store, hooks=[_print_step], **settings) as controller:
        with Workers(controller) as workers:
            result = await workers.run(worker, "The orders of today, please.")
        say(f"\n{bold(worker.name)} says: {visible(result.output)}")
        await _print_audit(controller)


async def _print_audit(controller: ApprovalController) -> None:
    """Print the audit, and check its chain."""
    say(f"\n{bold('The audit')}, as the store has it:\n")
    say(_dim(_row("no", "time", "tool", "step", "who", "outcome or reason")))
    async for entry in audit.entries(controller.store):
        moment = time.strftime("%H:%M:%S", time.localtime(entry["at"]))
        who = entry.get("who") or entry.get("by") or ""
        say(_row(entry["number"], moment, entry["tool"], entry["step"], who, _outcome_text(entry)))
    last = await audit.verify(controller.store)
    say(f"\nThe chain is whole: {last} entries, each sealed by a hash over the one before.")


def _outcome_text(entry: Mapping[str, Any]) -> str:
    match entry:
        case {"step": "asked" | "allowed"}:
            return _args_text(entry["args"])
        case {"step": "claimed"}:
            return "this approval is used up"
        case _:
            return next((str(entry[key]) for key in ("note", "result", "reason") if key in entry), "")


def _row(*cells: object) -> str:
    widths = (2, 8, 11, 9, 6, 33)
    return "  ".join(_fit(visible(str(cell)), width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def _print_files(folder: Path) -> None:
    say(f"\n{bold('The files')} that are really there:\n")
    found = [file for name in ("orders", "output", "scratch") for file in sorted((folder / name).rglob("*"))]
    for file in [*found, *folder.glob("outbox.txt")]:
        text = file.read_text(encoding="utf-8").strip().replace("\n", " | ")
        say(f"   {_fit(visible(str(file.relative_to(folder))), 18)} {_fit(visible(text), 55).rstrip()}")


def _dim(text: str) -> str:
    return click.style(text, dim=True)


def write_worker(folder: Path) -> None:
    """Write the worker of the demo, and the folders that it works in."""
    shutil.copytree(_FILES, folder, dirs_exist_ok=True)
    (folder / "tools.py.txt").rename(folder / "tools.py")  # a module of the worker, and none of sayso
    for name in ("output", "scratch"):
        (folder / name).mkdir(exist_ok=True)


def run_demo() -> None:
    """Run the demo in a temporary folder."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # a banner would disturb the prompt
    with tempfile.TemporaryDirectory(prefix="sayso-demo-") as scratch:
        folder = Path(scratch, "work")
        write_worker(folder)
        try:
            asyncio.run(_work(folder))
        except KeyboardInterrupt:
            say("\n   Ctrl-C is a no: the worker stops here.")
        _print_files(folder)
