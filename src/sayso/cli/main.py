"""Root command group with lazy loading, and the exit code of the process.

Tests: tests/cli/test_help.py
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

COMPLETE = "_SAYSO_COMPLETE"  # variable by which a shell requests completion
EXIT_CODES = "0 done, 1 error, 2 wrong usage"
CODES_OF_GROUPS = f"Ends with: {EXIT_CODES}. Some commands have more codes; the help of each tells them."
_INTERRUPTED = 130
_NARROW = 52  # columns; with fewer, click writes help that does not fit
_NARROWEST = 20
_UNCUT = 1000  # characters; every summary is shorter

# Module and summary of each command, in the order of use. Help is made of this table alone, so that it loads no
# module of a command; a test compares the table with the commands.
_COMMANDS = {
    "demo": ("demo.command", "See a worker at work in a temporary folder, and have the say about it."),
    "init": ("policy_files", "Write a policy to start from, with comments that explain it."),
    "check": ("policy_files", "Find every mistake in policy files."),
    "explain": ("policy_files", "Say what happens to a call, and why."),
    "test": ("policy_tests", "Run the cases of a policy, and say which rules no case exercises."),
    "schema": ("policy_files", "Print the JSON Schema of the policy file, for editors."),
    "run": ("run", "Run a worker, and be asked about its calls."),
    "pending": ("approve_deny", "List the requests that wait for an answer, oldest first."),
    "show": ("approve_deny", "Show everything about one request, or about several."),
    "approve": (
        "approve_deny",
        "Say yes to a request: the call may run once, with exactly the arguments that it shows.",
    ),
    "deny": ("approve_deny", "Say no to a request: the call does not run, and the agent gets your note."),
    "watch": ("watch", "Watch what waits for an answer, live and on the whole screen, and answer it with single keys."),
    "stats": (
        "operators.stats",
        "Count what was asked: by tool, agent and person, how it ended, and how long answers took.",
    ),
    "remembered": ("operators.remembered", "List remembered decisions, and revoke them."),
    "runs": (
        "operators.runs",
        "List the runs that are parked until their requests are answered, oldest first; drop one.",
    ),
    "audit": ("operators.audit", "See what was decided and done, and check that nobody has changed the record of it."),
    "prune": (
        "operators.prune",
        "Remove requests that were closed long ago and, into an archive, the audit of that time.",
    ),
    "mcp": (
        "gateways.mcp_gateway",
        "Put a policy before an MCP server: what its tools do is decided here, asked about and recorded.",
    ),
    "hook": ("gateways.hook_gateway", "Decide about one call of a coding agent."),
    "setup": ("gateways.setup_hook", "Put sayso before every tool call of a coding agent."),
    "serve": ("serve", "Serve a hub: one place where people answer what all agents ask."),
    "token": ("operators.token", "Make, list and revoke the tokens by which a hub knows agents and people."),
    "doctor": ("doctor", "Say what is set up here, and what of it does not work."),
    "completion": ("completion", "Print what makes a shell complete commands, options and ids."),
}


class LazyCommand(click.Command):
    """Command whose module is imported on first use; until then its name and summary represent it."""

    def __init__(self, name: str, module: str, sentence: str) -> None:
        super().__init__(name, help=sentence)
        self._module = f"sayso.cli.{module}"

    def load(self) -> click.Command:
        """Import the module and return the command."""
        return getattr(import_module(self._module), str(self.name))

    def make_context(self, *given: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - as click has it
        """Delegate parsing to the loaded command."""
        return self.load().make_context(*given, **extra)


def command_summary(command: click.Command) -> str:
    """Return the summary of a command, uncut."""
    return command.get_short_help_str(limit=_UNCUT)


class Commands(click.Group):
    """Command group in the order of definition, with help wrapped to the terminal."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        """Return the names in the order of definition."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click has it
        """Write every summary in full; click would cut it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command_summary(each)) for name, each in self.commands.items()])

    def make_context(self, *given: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - as click has it
        """Pass the width of a narrow terminal to click, and so to every command."""
        import shutil  # noqa: PLC0415 - click loads it late too

        columns = shutil.get_terminal_size().columns
        if columns < _NARROW:
            extra.setdefault("terminal_width", max(columns - 2, _NARROWEST))
        return super().make_context(*given, **extra)


@click.group(
    "sayso",
    cls=Commands,
    commands=[LazyCommand(name, *rest) for name, rest in _COMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Start with: sayso demo, then sayso init\n\n{CODES_OF_GROUPS}",
)
@click.version_option(package_name="sayso", message="%(prog)s %(version)s")
def commands() -> None:
    """Nothing runs without your say-so.

    Write a policy for the tool calls of your agents, find its mistakes, ask what it says and why, and test it. Run a
    worker: an agent with its tools and its policy in one file. Answer what agents ask, from any terminal.
    """
    import logging  # noqa: PLC0415 - help does without

    # Commands show a policy's warnings themselves; without a handler, logging would show them once more.
    logging.getLogger("sayso").addHandler(logging.NullHandler())


def run() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no error
    if os.environ.get(COMPLETE, "").endswith("_complete"):
        from sayso.cli.completion import enter_completion_mode  # noqa: PLC0415 - only a shell that completes needs it

        enter_completion_mode()
    try:
        sys.exit(commands.main(prog_name="sayso", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except ImportError as error:
        if "sayso[" not in str(error):
            raise
        _exit_with_error(error)  # it names the extra to install
    except OSError as error:
        _exit_with_error(error)


def _exit_with_error(error: Exception) -> NoReturn:
    from sayso.cli.screen import visible  # noqa: PLC0415 - help does without

    with contextlib.suppress(OSError):
        sys.stderr.write(f"Error: {visible(str(error))}\n")
    with contextlib.suppress(OSError):
        sys.stdout.close()  # flushing it at exit would fail again
    sys.exit(1)
