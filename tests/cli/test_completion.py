"""Completion: the scripts of the shells, the ids that are offered, and how quiet it is whatever goes wrong."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.cli.questions import STORE, ask, in_store, sayso
from tests.terminal import Terminal

from sayso.cli.main import commands

SCRIPT = Path(sys.executable).with_name("sayso")
BASH = shutil.which("bash") or "bash"


def answered(line: str, *, by: str = "zsh", **settings: str) -> subprocess.CompletedProcess[str]:
    """Ask the program, as the script of a shell does, how a line could go on; its last word is the unfinished one."""
    words = line.split(" ")
    place = words[-1] if by == "fish" else str(len(words) - 1)
    asked = {"COMP_WORDS": line, "COMP_CWORD": place, "_SAYSO_COMPLETE": f"{by}_complete", "SAYSO_STORE": STORE}
    return subprocess.run(
        [SCRIPT], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **asked, **settings}
    )


def offered(line: str, **settings: str) -> dict[str, str]:
    """Return the candidates with their descriptions, as zsh shows them: it takes a backslash away."""
    done = answered(line, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    return dict(zip(told[1::3], (each.replace("\\\\", "\\") for each in told[2::3]), strict=True))


# --- Ids ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["show", "approve", "deny"])
def test_the_ids_of_open_requests_are_offered_oldest_first_with_their_calls(command: str) -> None:
    first, second = ask({"amount": 5, "to": "ann"}), ask(tool="shell")
    told = {first.id[-6:]: "pay(amount=5, to='ann')", second.id[-6:]: "shell(amount=5)"}
    assert list(offered(f"sayso {command} ").items()) == list(told.items())
    assert offered(f"sayso {command} {first.id[-6:-2]}") == {first.id[-6:]: told[first.id[-6:]]}
    assert offered(f"sayso {command} nothing") == {}
    assert list(offered(f"sayso {command} {first.id[-6:]} ")) == [second.id[-6:]], "each once on a line"


def test_every_character_of_a_description_can_be_seen_and_it_is_one_line() -> None:
    request = ask({"to": "p\u0430ypal\n\x1b[2J\u202e"})
    assert offered("sayso show ") == {request.id[-6:]: r"pay(to='p⟨U+0430⟩ypal\n\x1b[2J\u202e')"}


def test_a_long_description_is_cut_where_that_can_be_seen() -> None:
    request = ask({"text": "x" * 500, "more": "y" * 500})
    told = offered("sayso show ")[request.id[-6:]]
    assert (len(told), told[-1]) == (69, "…")


def test_what_is_closed_or_has_expired_is_not_offered_and_stays_as_it_is() -> None:
    request = ask()
    assert sayso("deny", request.id).exit_code == 0
    expired = ask({"amount": 6}, timeout=0.001)
    while time.time() < (expired.expires_at or 0):
        pass
    assert offered("sayso approve ") == {}
    with closing(sqlite3.connect(STORE)) as connection:
        states = connection.execute("SELECT status FROM requests ORDER BY id").fetchall()
    assert states == [("denied",), ("open",)]


def test_an_id_that_a_shell_would_run_is_not_offered() -> None:
    good, bad = ask(), "';touch$IFS$9owned;'"
    in_store(lambda store: store.open(replace(good, id=bad, tool_call_id="another")))
    with closing(sqlite3.connect(STORE)) as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone() == (2,)
    assert list(offered("sayso show ")) == [good.id[-6:]]


def test_remembered_decisions_are_offered_but_not_twice_on_a_line() -> None:
    for number in (1, 2):
        assert sayso("approve", ask({"amount": number}).id, "--always").exit_code == 0
    told = offered("sayso remembered revoke ")
    assert len(told) == 2
    assert set(told.values()) == {f"yes to this exact call of pay: pay(amount={number})" for number in (1, 2)}
    first, second = told
    assert list(offered(f"sayso remembered revoke {first} ")) == [second]


def test_the_store_of_the_line_counts_before_that_of_the_environment(folder: Path) -> None:
    request = ask()
    home = Path(os.environ["HOME"])
    shutil.copy(STORE, home / "own.db")
    here = f"{folder}/{STORE}"
    for where in (here, f"sqlite:///{here}", "~/own.db", "$HOME/own.db"):
        assert list(offered(f"sayso show --store {where} ", SAYSO_STORE="nowhere.db")) == [request.id[-6:]]
    assert offered("sayso show --store nowhere.db ") == {}


def test_click_itself_completes_commands_options_choices_and_files() -> None:
    assert list(offered("sayso re")) == ["remembered"]
    assert offered("sayso doc") == {"doctor": "Say what is set up here, and what of it..."}
    assert list(offered("sayso audit ")) == ["list", "show", "verify", "export"]
    assert list(offered("sayso approve --scope ")) == ["call", "prefix", "folder", "tool"]
    assert list(offered("sayso pending --js")) == ["--json"]
    assert answered("sayso show --store ", by="bash").stdout == "file,\n"


# --- Whatever goes wrong -----------------------------------------------------------------------------


def broken_row() -> None:
    ask()
    with closing(sqlite3.connect(STORE)) as connection, connection:
        connection.execute("UPDATE requests SET packed = x'00'")


def foreign() -> None:
    with closing(sqlite3.connect(STORE)) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")


STATES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "empty": lambda: Path(STORE).touch(),
    "no database": lambda: Path(STORE).write_bytes(b"x" * 5000),
    "of another program": foreign,
    "a folder": lambda: Path(STORE).mkdir(),
    "a pipe": lambda: os.mkfifo(STORE),
    "a loop": lambda: Path(STORE).symlink_to(STORE),
    "a row that cannot be read": broken_row,
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("line", ["sayso show ", "sayso remembered revoke "])
def test_a_store_that_cannot_be_read_offers_nothing_says_nothing_and_stays(state: str, line: str) -> None:
    STATES[state]()
    before = sorted(Path().iterdir())
    assert offered(line) == {}
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("where", ["", "memory:", "postgres://somewhere", "x" * 5000])
def test_what_is_no_store_offers_nothing_and_makes_nothing(where: str) -> None:
    assert offered("sayso show ", SAYSO_STORE=where) == {}
    assert list(Path().iterdir()) == []


def test_a_store_that_somebody_holds_is_not_waited_for() -> None:
    ask()
    with closing(sqlite3.connect(STORE, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        done = answered("sayso show ")
    # Who waits as long as a command does is told of it, and prints at least the end of an empty list.
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("line", ["", "sayso", "sayso show 'x", "sayso bogus ", "sayso deny --uses x --for y --who "])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_line_makes_it_say_anything_but_candidates(line: str, shell: str) -> None:
    assert answered(line, by=shell).stderr == ""
    assert answered(line, by=shell, COMP_CWORD="odd").stderr == ""


# --- The shells --------------------------------------------------------------------------------------


def in_bash(*lines: str, **settings: str) -> str:
    """Switch completion on in a real bash as its help says, and run these lines there."""
    path = os.pathsep.join([str(SCRIPT.parent), os.environ["PATH"]])
    script = "\n".join(['eval "$(sayso completion bash)"', *lines])
    done = subprocess.run(
        [BASH, "--norc", "-eu", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": path, "SAYSO_STORE": STORE, **settings},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def words(*given: str) -> list[str]:
    """Return what bash does when Tab is pressed behind these words."""
    return [
        f"COMP_WORDS=(sayso {' '.join(each or repr('') for each in given)}) COMP_CWORD={len(given)} COMPREPLY=()",
        "_sayso_completion sayso",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]


def test_bash_knows_how_to_complete_once_the_script_is_read() -> None:
    assert in_bash("complete -p sayso") == "complete -o nosort -F _sayso_completion sayso\n"


def test_bash_completes_ids_commands_and_options() -> None:
    first, second = ask(), ask(tool="shell")
    assert in_bash(*words("show", "")).split() == [first.id[-6:], second.id[-6:]]
    assert in_bash(*words("approve", first.id[-6:-1])).split() == [first.id[-6:]]
    assert in_bash(*words("show", "--store", STORE, ""), SAYSO_STORE="").split() == [first.id[-6:], second.id[-6:]]
    assert in_bash(*words("pen")).split() == ["pending"]
    assert in_bash(*words("deny", "--al")).split() == ["--always"]
    assert in_bash(*words("show", ""), SAYSO_STORE="nowhere.db").split() == []


def test_the_tab_key_completes_an_id_in_a_bash_that_somebody_sits_at(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ask()
    Path("rc").write_text('PS1="ready> "\neval "$(sayso completion bash)"\n', encoding="utf-8")
    monkeypatch.setenv("PATH", str(SCRIPT.parent), prepend=os.pathsep)
    monkeypatch.setenv("SAYSO_STORE", STORE)
    terminal = Terminal([BASH, "--rcfile", "rc", "-i"])
    terminal.wait_for("ready>")
    terminal.write("sayso show \t")
    screen = terminal.wait_for(request.id[-6:])
    assert screen.splitlines()[-1] == f"ready> sayso show {request.id[-6:]}"
    terminal.write("\x15exit\n")
    assert terminal.end()[1] == 0


def test_fish_is_told_where_a_description_is_cut_short_at_a_comma() -> None:
    first, second = ask({"amount": 5, "to": "ann"}), ask(tool="shell")
    done = answered("sayso show ", by="fish")
    assert done.stdout == f"plain,{first.id[-6:]}\tpay(amount=5…\nplain,{second.id[-6:]}\tshell(amount=5)\n"
    assert answered(f"sayso show {second.id[-6:-1]}", by="fish").stdout.count("plain") == 1


@pytest.mark.parametrize(
    ("shell", "start", "variable"),
    [
        ("bash", "_sayso_completion() {", "_SAYSO_COMPLETE=bash_complete"),
        ("zsh", "#compdef sayso", "_SAYSO_COMPLETE=zsh_complete"),
        ("fish", "function _sayso_completion;", "_SAYSO_COMPLETE=fish_complete"),
    ],
)
def test_the_script_of_each_shell_is_printed(shell: str, start: str, variable: str) -> None:
    done = sayso("completion", shell)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(start)
    assert variable in done.stdout


def test_help_teaches_how_completion_is_switched_on_for_each_shell() -> None:
    told = sayso("completion", "--help").stdout
    for line in ('    eval "$(sayso completion bash)"\n', '    eval "$(sayso completion zsh)"\n'):
        assert line in told
    assert "    sayso completion fish | source\n" in told


@pytest.mark.parametrize("arguments", [[], ["tcsh"], ["bash", "zsh"]])
def test_another_shell_is_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(commands, ["completion", *arguments]).exit_code == 2
