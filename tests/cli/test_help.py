"""Help: what it tells, that it fits the terminal, and how little is loaded for it."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from sayso.cli.main import LazyCommand, command_summary, commands

HEAVY = {
    "pydantic", "pydantic_core", "pydantic_ai", "fastapi", "starlette", "uvicorn", "httpx", "rich", "prompt_toolkit",
    "streamlit", "ruamel",
}  # fmt: skip


def everything(group: click.Group = commands, *before: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, those of groups too."""
    for name, listed in group.commands.items():
        yield (*before, name)
        command = listed.load() if isinstance(listed, LazyCommand) else listed
        if isinstance(command, click.Group):
            yield from everything(command, *before, name)


ALL = [(), *everything()]
NAMES = [" ".join(("sayso", *words)) for words in ALL]


def shown(*words: str, columns: int = 80) -> str:
    done = CliRunner().invoke(commands, [*words, "--help"], prog_name="sayso", env={"COLUMNS": str(columns)})
    assert done.exit_code == 0
    return done.stdout


# --- What is loaded ----------------------------------------------------------------------------------


SCRIPT = """
import atexit, runpy, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
runpy.run_module("sayso", run_name="__main__")
"""


def loaded(*words: str) -> set[str]:
    """Run the program and return every module that is loaded at its end, by its full name."""
    command = [sys.executable, "-c", SCRIPT, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("Usage: sayso ")
    return set(done.stderr.split())


def packages(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_help_loads_click_and_nothing_of_sayso_but_the_list_of_commands() -> None:
    names = loaded("--help")
    assert {name for name in names if name.startswith("sayso")} == {"sayso", "sayso.cli", "sayso.cli.main"}
    assert "click" in names
    assert not packages(names) & (HEAVY | {"msgspec", "anyio", "uuid_utils"})


def test_the_help_of_a_command_loads_that_command_and_no_framework() -> None:
    names = loaded("pending", "--help")
    assert "sayso.cli.approve_deny" in names
    others = {f"sayso.cli.{name}" for name in ("operators.audit", "cases", "doctor", "run", "edited")}
    assert not names & (others | {"sayso.tools", "sayso.adapters", "sayso.stores.sqlite.store"})
    assert not packages(names) & HEAVY


def test_a_shell_that_switches_completion_on_waits_for_click_alone() -> None:
    names = loaded("completion", "--help")
    ours = {name for name in names if name.startswith("sayso")}
    assert ours == {"sayso", "sayso.cli", "sayso.cli.main", "sayso.cli.completion"}


# --- What it tells -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", commands.commands)
def test_what_is_listed_of_a_command_is_what_it_says_of_itself(name: str) -> None:
    listed = commands.commands[name]
    assert isinstance(listed, LazyCommand)
    command = listed.load()
    assert (command.name, command_summary(command)) == (name, command_summary(listed))


def test_help_lists_every_command_in_the_order_of_need_and_cuts_no_sentence() -> None:
    told = " ".join(shown().split("Commands:\n")[1].split())
    places = [told.index(f"{name} {command_summary(each)}") for name, each in commands.commands.items()]
    assert places == sorted(places)
    assert next(iter(commands.commands)) == "demo"


@pytest.mark.parametrize("words", ALL, ids=NAMES)
@pytest.mark.parametrize("columns", [40, 80])
def test_every_help_fits_the_terminal_and_has_an_example(words: tuple[str, ...], columns: int) -> None:
    text = shown(*words, columns=columns)
    assert max(map(len, text.splitlines())) <= columns
    start = "Start with: " if not words else "Example: "
    assert start + " ".join(("sayso", *words)) in " ".join(text.split())


@pytest.mark.parametrize("words", ALL, ids=NAMES)
def test_every_help_tells_how_the_command_can_end(words: tuple[str, ...]) -> None:
    told = " ".join(shown(*words).split())
    assert "Ends with: 0 " in told
    assert "2 wrong usage" in told


@pytest.mark.parametrize("columns", [1, 20, 51, 52, 200])
def test_no_width_is_too_small_or_too_large_for_help(columns: int) -> None:
    assert "Nothing runs" in shown(columns=columns)
    assert "Ends with" in shown("approve", columns=columns)


# --- What is no command ------------------------------------------------------------------------------


def test_a_command_that_is_misspelt_is_wrong_usage_and_the_right_one_is_named() -> None:
    command = [sys.executable, "-m", "sayso", "pendin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("Error: No such command 'pendin'. Did you mean 'pending'?\n")
