"""What others print while a question is open: it can be read, and cannot be taken for the question."""

import pytest
from tests.channels.terminal.asking import ask
from tests.terminal import KEYS

from sayso.channels.terminal.patched_output import marked_rows

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
        ("x" * 20 + "An agent wants", ["┊ " + "x" * 18, "↪ xxAn agent wants"]),
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
    terminal.wait_for("Not all of it was on the screen yet")
    terminal.press("v")
    terminal.press("y")
    screen, _ = terminal.end()
    assert "RAN: tea costs 4" in screen
    assert "\nAn agent wants to run read_file" not in screen
    assert KEYS not in screen
