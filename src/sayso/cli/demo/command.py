"""`sayso demo`: shows sayso at work in this terminal.

Tests: tests/cli/test_demo.py
"""

from __future__ import annotations

import click

from sayso.cli.main import EXIT_CODES


@click.command("demo", epilog=f"Example: sayso demo\n\nEnds with: {EXIT_CODES}.")
def demo() -> None:
    """See a worker at work in a temporary folder, and have the say about it.

    It needs no key: the model is a script. The worker, its files, its shell, the store and the audit are real. Where
    there is no terminal nobody can be asked, so what would be asked is refused.
    """
    try:
        from sayso.cli.demo.walkthrough import run_demo  # noqa: PLC0415 - help does without the framework
    except ImportError as error:
        raise click.ClickException(str(error)) from None  # it names the extra to install
    run_demo()
