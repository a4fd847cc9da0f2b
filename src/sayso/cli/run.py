"""`sayso run`: runs a worker in this terminal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Generator
from pathlib import Path

import click

from sayso.cli.main import EXIT_CODES
from sayso.cli.screen import mistake_line, say, visible
from sayso.config.load_policy import load_policy, policy_files_here
from sayso.core.decide import refusal
from sayso.core.model import AuditEntry
from sayso.engine.controller import ApprovalController
from sayso.errors import ApprovalError, ConfigurationError, PolicyError, StoreError, ToolError

_STEP_WORDS = {
    "returned": "ran", "raised": "failed", "stopped": "did not run", "denied": "was refused",
    "expired": "did not run", "withdrawn": "did not run",
}  # fmt: skip


@click.command(
    "run",
    epilog=f"Example: sayso run report.md 'Sum up the orders of today.'\n\nEnds with: {EXIT_CODES}, 130 interrupted.",
)
@click.option("--model", help="Use this model instead of the one that the worker names, such as openai:gpt-5.")
@click.option(
    "--store",
    metavar="FILE",
    envvar="SAYSO_STORE",
    help="Keep questions, answers and the audit there; SAYSO_STORE names it too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.argument("worker")
@click.argument("prompt", required=False)
def run(worker: str, prompt: str | None, *, model: str | None, store: str | None, as_json: bool) -> None:
    """Run a worker, and be asked about its calls.

    WORKER is a worker file, or the name of one in this folder. Without PROMPT, what comes in at the standard input is
    the prompt. Where there is no terminal nobody can be asked, so a call that asks does not run.
    """
    try:
        with _printed_warnings():
            output = asyncio.run(_run(worker, _read_prompt(prompt), model, store))
    except PolicyError as error:
        for mistake in error.mistakes:
            say(mistake_line(mistake), err=True)
        raise click.ClickException("there are mistakes, so nothing was run") from None
    except (ConfigurationError, ApprovalError, StoreError, ToolError, ImportError) as error:
        raise click.ClickException(visible(str(error))) from None
    except KeyboardInterrupt:
        raise click.Abort from None
    say(json.dumps({"worker": worker, "output": output}) if as_json else _visible_lines(output))


class _WarningPrinter(logging.Handler):
    """Log handler that prints each warning once: a worker that is called again is read again."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._printed:
            self._printed.add(message)
            say(visible(f"{record.levelname.lower()}: {message}"), err=True)


@contextlib.contextmanager
def _printed_warnings() -> Generator[None]:
    """Print what sayso logs as a warning, such as a rule that names no tool."""
    logger, printer = logging.getLogger("sayso"), _WarningPrinter()
    logger.addHandler(printer)
    try:
        yield
    finally:
        logger.removeHandler(printer)


def _visible_lines(output: str) -> str:
    return "\n".join(visible(line) for line in output.split("\n"))


def _read_prompt(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise click.UsageError("say what the worker has to do: sayso run WORKER 'PROMPT'")
    prompt = sys.stdin.read() if given is None else given
    if not prompt.strip():
        raise click.UsageError("the prompt is empty; say what the worker has to do")
    return prompt


async def _run(name: str, prompt: str, model: str | None, store: str | None) -> str:
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # a banner would disturb the prompt
    # Imported late: help and the other commands should not wait for the framework to load.
    from sayso.channels.terminal import TerminalChannel  # noqa: PLC0415
    from sayso.channels.terminal.channel import unavailable_reason  # noqa: PLC0415
    from sayso.tools.worker_file import find_worker, read_worker  # noqa: PLC0415
    from sayso.tools.workers import Workers, policy_of  # noqa: PLC0415

    file = Path(name if name.endswith(".md") else f"{name}.md")
    path = file if name.endswith(".md") or "/" in name else find_worker(name, Path.cwd())
    worker = read_worker(path)
    problem = unavailable_reason()
    if problem is not None:
        say(f"Calls that ask will not run, because {problem}.", err=True)
    policy = policy_of(worker)
    if any(policy_files_here(worker.folder)):
        policy = policy.over(load_policy(extra_folder=worker.folder))  # a worker cannot relax these
    channels, hooks = [TerminalChannel()], [_print_step]
    async with ApprovalController(policy=policy, store=store or None, channels=channels, hooks=hooks) as controller:
        with Workers(controller, model=model) as workers:
            return (await workers.run(worker, prompt)).output


def _print_step(entry: AuditEntry) -> None:
    """Print an audit step of a call as it happens."""
    word = _STEP_WORDS.get(entry.step)
    if word is not None:
        who = " > ".join(entry.about.agent_path)
        say(click.style(visible(f"· {who}: {entry.about.tool} {word}{_reason_text(entry)}"), dim=True), err=True)


def _reason_text(entry: AuditEntry) -> str:
    if entry.step == "stopped" and entry.outcome is not None:
        return f": {entry.outcome.reason}"
    closed = entry.request if entry.step in {"expired", "withdrawn"} else None
    return "" if closed is None else f": {refusal(closed).reason}"
