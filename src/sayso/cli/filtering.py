"""Filter options of the lists, and the sentences about a filter.

Tests: tests/cli/test_filtering.py
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator

import click

from sayso.cli.open_store import combine_options
from sayso.cli.times import moment, read_moment
from sayso.core.filters import RequestFilter

tool_option = click.option("--tool", metavar="NAME", default="", help="Only this tool; * stands for any characters.")
agent_option = click.option(
    "--agent", metavar="NAME", default="", help="Only where this agent is in the path; * as for --tool."
)
text_option = click.option(
    "--text", metavar="WORDS", default="", help="Only where all these words occur: in names, arguments, reasons, notes."
)
filter_options = combine_options(
    tool_option,
    agent_option,
    text_option,
    click.option("--who", metavar="NAME", default="", help="Only what this person has answered."),
    click.option("--since", metavar="TIME", callback=read_moment, help="Only from then on: 2026-01-31, or 2h ago."),
    click.option("--until", metavar="TIME", callback=read_moment, help="Only before then."),
)


def options_text(wanted: RequestFilter) -> str:
    """Return a filter as the options that made it; empty if it lets everything through."""
    words = {"tool": wanted.tool, "agent": wanted.agent, "text": wanted.text, "who": wanted.who}
    times = {"since": wanted.since, "until": wanted.until}
    given = {name: text for name, text in words.items() if text}
    given |= {name: moment(at) for name, at in times.items() if at is not None}
    return " ".join(f"--{name} {text!r}" if " " in text else f"--{name} {text}" for name, text in given.items())


@contextlib.contextmanager
def search_progress() -> Generator[Callable[[int], None]]:
    """Show on a terminal how far a long search has come, on a line that is erased at its end."""
    shown = ""

    def show(searched: int) -> None:
        nonlocal shown
        if sys.stderr.isatty():
            shown = f"{searched:,} requests searched…"
            click.echo(f"\r{shown}", nl=False, err=True)

    try:
        yield show
    finally:
        if shown:
            click.echo(f"\r{' ' * len(shown)}\r", nl=False, err=True)
