"""What others print while a question is open: it can be read, and cannot be taken for the question."""

import os
import re
import sys
from pathlib import Path

import pytest
from tests.channels.terminal.asking import ask, program
from tests.terminal import KEYS, Terminal

from sayso.channels.terminal.captured_output import marked_rows

RED, OFF = "\x1b[31m", "\x1b[0m"


@pytest.mark.proves("H10")
@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("plain", ["┊ plain"]),
        (f"{RED}red{OFF} plain", [f"┊ {RED}red{OFF} plain"]),
        ("\x1b[5A\x1b[2Kup", ["┊ up"]),
        ("\x1b]0;title\x07\x1b]52;c;aGk=\x1b\\\x1bP1$r\x1b\\copied", ["┊ copied"]),
        ("\x9b2J\x9d0;t\x9c\x1bc\x1b(0\x08\x7f\x0b8-bit", ["┊ 8-bit"]),
        ("\x1b]8;;http://evil\x07link\x1b]8;;\x07", ["┊ link"]),
        ("\x1b]never ended", ["┊ "]),
        ("10 %\r90 %\r", ["┊ 90 %"]),
        ("a\tb", ["┊ a       b"]),
        ("x" * 20 + "An agent wants", ["┊ " + "x" * 17, "↪ xxxAn agent wants"]),
    ],
)
def test_it_is_marked_and_can_neither_move_the_cursor_nor_make_the_terminal_do_anything(
    line: str, printed: list[str]
) -> None:
    assert [row.removesuffix(OFF) for row in marked_rows(line, 20)] == printed


@pytest.mark.proves("H10")
def test_what_it_pushes_out_of_sight_has_to_be_opened_before_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "true")
    fake = ["An agent wants to run read_file", "\x1b[9A\x1b[2K", *map(str, range(20))]
    terminal = ask(say=fake, rows=24)
    terminal.wait_for("┊ 19\nRun set_price?")
    terminal.press("y")
    terminal.wait_for("Not all of it is on the screen")
    terminal.press("v")
    terminal.press("y")
    screen, _ = terminal.end()
    assert "RAN: tea costs 4" in screen
    assert "\nAn agent wants to run read_file" not in screen
    assert KEYS not in screen


# It goes up to the price, replaces it, and comes back.
PAINT = "\x1b[9A\x1b[2K  │ price: 1\x1b[9B\r\x1b[2Kpainted"


@pytest.mark.proves("H10")
@pytest.mark.parametrize("by", ["print", "logging", "descriptor", "duplicate", "device", "C", "child"])
def test_whatever_handle_writes_nothing_is_painted_over_the_question(by: str) -> None:
    terminal = ask(say=[PAINT, "a plain line"], by=by, args=[{"item": "tea", "price": 5000}])
    terminal.wait_for("┊ a plain line\nRun set_price?")
    screen = terminal.wait_for(KEYS)
    assert "┊ painted\n┊ a plain line\n" in screen
    assert "price: 5000" in screen
    assert b"\x1b[9A" not in terminal.raw
    terminal.press("n")
    screen, _ = terminal.end()
    assert "NOT: 'set_price' did not run" in screen


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A pipe: `cat` of it ends when it is written to."""
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """A pipe that can be read to its end when everything was said."""
    os.mkfifo(tmp_path / "said")
    return tmp_path / "said"


@pytest.mark.proves("H10")
@pytest.mark.parametrize("by", ["print", "logging", "child"])
def test_what_is_written_while_an_editor_is_open_waits_until_it_is_closed(
    by: str, fifo: Path, said: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", program(tmp_path / "editor", f"echo IN THE EDITOR; cat {fifo}"))
    opened = tmp_path / "opened"
    terminal = ask(say=["meanwhile"], by=by, after=str(opened), said=str(said))
    terminal.press("e")
    terminal.wait_for("IN THE EDITOR")
    opened.touch()
    said.read_text()
    fifo.write_text("and out of it\n")
    screen = terminal.wait_for("┊ meanwhile")
    assert "IN THE EDITOR\nand out of it\n" in screen
    terminal.press("n")
    terminal.end()


@pytest.mark.proves("H10")
def test_a_program_that_cannot_be_captured_is_named_before_a_yes_counts(fifo: Path) -> None:
    terminal = ask(beside=["cat", str(fifo)])
    assert re.search(r"Careful: cat \(\d+\) can draw on this screen, too", terminal.wait_for(KEYS))
    terminal.press("y")
    screen, _ = terminal.end()  # and the program that waits at the pipe ends with its terminal
    assert "RAN: tea costs 4" in screen


@pytest.mark.proves("H10")
@pytest.mark.parametrize(("rows", "is_seen"), [(12, True), (11, False)])
def test_the_warning_does_not_push_the_request_out_of_sight_unnoticed(rows: int, is_seen: bool, fifo: Path) -> None:
    terminal = ask(beside=["cat", str(fifo)], rows=rows)
    terminal.wait_for(KEYS)
    terminal.write("y")
    terminal.wait_for("Allowed once." if is_seen else "Not all of it is on the screen")
    if not is_seen:
        terminal.press("n")
    terminal.end()


@pytest.mark.proves("H10")
def test_a_program_that_comes_after_the_question_is_named_when_a_key_is_pressed_which_does_not_count(
    fifo: Path, said: Path, tmp_path: Path
) -> None:
    terminal = ask(say=[f"cat {fifo}"], by="keyboard", after=str(tmp_path / "now"), said=str(said))
    terminal.wait_for(KEYS)
    (tmp_path / "now").touch()
    said.read_text()
    assert "Careful" not in terminal.screen
    terminal.press("y")
    terminal.wait_for("Careful: cat (")
    terminal.press("y")
    screen, _ = terminal.end()  # and the program that waits at the pipe ends with its terminal
    assert "RAN: tea costs 4" in screen


def starts_a_child_during_its_question(fifo: Path, then: str) -> Terminal:
    """A program that starts another one while it asks, which speaks when the pipe is opened; and what it does then."""
    script = (
        "import subprocess, sys, threading\n"
        "from sayso import ApprovalController, Policy, guard\n"
        "from sayso.channels.terminal import TerminalChannel\n"
        "def start():\n"
        "    while sys.stdout.isatty(): pass\n"
        f"    started.append(subprocess.Popen(['sh', '-c', 'cat {fifo}; printf \"\\033[9Afrom the child\\n\"']))\n"
        "started = []\n"
        "thread = threading.Thread(target=start)\n"
        "thread.start()\n"
        "controller = ApprovalController(channels=[TerminalChannel()], policy=Policy(default='required'))\n"
        "wait = guard(thread.join, controller, name='wait')\n"
        "wait()\n"
        f"{then}\n"
        "started[0].wait()\n"
    )
    terminal = Terminal([sys.executable, "-c", script])
    terminal.press("y")
    return terminal


@pytest.mark.proves("H10")
def test_after_the_question_everything_is_written_as_before_and_children_are_still_heard(fifo: Path) -> None:
    terminal = starts_a_child_during_its_question(fifo, "print(sys.stdout.isatty(), sys.stderr.isatty(), flush=True)")
    terminal.wait_for("True True")
    fifo.write_text("")
    _, code = terminal.end()
    assert b"\x1b[9Afrom the child" in terminal.raw
    assert code == 0


@pytest.mark.proves("H10")
def test_a_child_that_started_during_a_question_cannot_paint_over_the_next_one(fifo: Path) -> None:
    terminal = starts_a_child_during_its_question(fifo, "wait()")
    terminal.wait_for(KEYS)
    fifo.write_text("")
    terminal.wait_for("┊ from the child\nRun wait?")
    assert b"\x1b[9A" not in terminal.raw
    terminal.press("y")
    assert terminal.end()[1] == 0
