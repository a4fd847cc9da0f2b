"""The group of all commands, and how a run of it ends."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from typing import NoReturn

import click

from sayso.cli import audit, cases, doctor, inbox, policy, remembered, watch
from sayso.cli import run as running
from sayso.cli.screen import visible

_INTERRUPTED = 130


class _InOrder(click.Group):
    """Commands in the order in which people need them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        """Return the names as they were added."""
        return list(self.commands)


@click.group(
    "sayso", cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]}, epilog="Start with: sayso init"
)
@click.version_option(package_name="sayso", message="%(prog)s %(version)s")
def commands() -> None:
    """Nothing runs without your say-so.

    Write a policy for the tool calls of your agents, find its mistakes, ask what it says and why, and test it. Run a
    worker: an agent with its tools and its policy in one file. Answer what agents ask, from any terminal.
    """
    # Commands show a policy's warnings themselves; without a handler, logging would show them once more.
    logging.getLogger("sayso").addHandler(logging.NullHandler())


for command in (
    *(policy.init, policy.check, policy.explain, cases.test, policy.schema, running.run),
    *(inbox.pending, inbox.show, inbox.approve, inbox.deny, watch.watch),
    *(remembered.remembered, audit.audit, doctor.doctor),
):
    commands.add_command(command)


def run() -> None:
    """Run the command that the arguments name, and end the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows few characters is no mistake
    try:
        sys.exit(commands.main(prog_name="sayso", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except OSError as error:
        _give_up(error)


def _give_up(error: OSError) -> NoReturn:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"Error: {visible(str(error))}\n")
    with contextlib.suppress(OSError):
        sys.stdout.close()  # what is left in it cannot be written either
    sys.exit(1)
