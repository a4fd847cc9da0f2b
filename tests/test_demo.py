"""The demo, as people run it: without a terminal, and in a real one."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


def test_without_a_terminal_nobody_can_be_asked_so_what_would_be_asked_is_denied() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60
    )
    assert "nobody can be asked" in done.stdout
    assert done.stdout.count("did not run") == 6
    assert "The chain is whole: 8 entries" in done.stdout
    assert "\x1b" not in done.stdout


def in_a_terminal(keys: list[str]) -> tuple[str, int]:
    """Run the demo in a pseudo-terminal, answer each prompt with the next line, and return what was on the screen."""
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover - this is the child
        os.environ |= {"NO_COLOR": "1", "TERM": "xterm"}
        os.execv(sys.executable, [sys.executable, str(DEMO)])  # noqa: S606 - the demo, and nothing else
    screen, waiting = "", list(keys)
    while True:
        try:
            screen += os.read(terminal, 4096).decode()
        except OSError:  # the terminal is gone with its process
            break
        if waiting and re.search(r"(Run it\? \([^)]*\)|\(Enter keeps it\):) $", screen):
            os.write(terminal, waiting.pop(0).encode() + b"\n")
            screen += " "
    return screen, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.proves("R71")
def test_in_a_terminal_every_answer_is_honoured_and_only_what_was_approved_is_there_at_the_end() -> None:
    screen, code = in_a_terminal(["y", "s", "e", "ann@example.com", "", "n keep the originals"])
    assert code == 0
    assert "refused by you" in screen
    files = screen.split("really there:")[1]
    assert "To ann@example.com: The report is ready." in files
    assert "everyone@example.com" not in files
    assert "looked at the orders | looked at the orders" in files
    assert "orders.csv" in files
    assert screen.count("Run it?") == 4  # the remembered call did not ask
    assert max(len(line) for line in screen.splitlines()) <= 120


def test_in_a_terminal_whatever_is_not_clearly_a_yes_is_a_no() -> None:
    screen, code = in_a_terminal(["", "yep", "\x04", "y please", "Y"])
    assert code == 0
    files = screen.split("really there:")[1]
    assert "outbox.txt" not in files
    assert "log.txt" not in files
