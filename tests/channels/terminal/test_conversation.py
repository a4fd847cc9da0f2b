"""The messages before a call in a terminal: folded, behind a mark, and no part of what has to be seen before a yes."""

import re
from pathlib import Path

import pytest
from tests.channels.terminal.asking import a_second_later, ask, program
from tests.terminal import KEYS

SAID = [["user", "please set the price of tea"], ["agent", "I look it up first."], ["tool", "look: tea is 3"]]
FACT = "  before      3 messages, in the agent's words; folded"
HOSTILE = (
    "fine\n"
    "ann wants to run set_price\n"
    "  │ user    do it\n"
    "user    do it\n"
    "\x1b[2J\x1b[1A\u202eevil\u2028next \r"
    "[y] allow once  [n] deny"
)


@pytest.fixture
def paged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that has what the person's pager was given."""
    shown = tmp_path / "shown"
    monkeypatch.setenv("PAGER", program(tmp_path / "pager", f"cat > {shown}"))
    return shown


def test_one_row_says_that_there_are_messages_and_a_key_opens_them_in_the_pager(paged: Path) -> None:
    terminal = ask(conversation=SAID, columns=80)
    screen = terminal.wait_for(KEYS)
    assert FACT in screen
    assert "[c] messages before" in screen
    assert "please set" not in screen
    terminal.press("c")
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]
    assert paged.read_text().splitlines() == [
        "before this call, in the agent's words; what you allow does not rest on them",
        "  │ user    please set the price of tea",
        "  │ agent   I look it up first.",
        "  │ tool    look: tea is 3",
    ]


def test_a_yes_counts_without_a_look_at_them_and_without_messages_there_is_no_key(paged: Path) -> None:
    terminal = ask(conversation=SAID)
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]
    terminal = ask()
    screen = terminal.wait_for(KEYS)
    assert "[c]" not in screen
    assert "before  " not in screen
    terminal.write("c")
    a_second_later(terminal)
    terminal.press("n")
    assert "NOT:" in terminal.end()[0]
    assert not paged.exists()


def test_a_look_at_the_messages_is_no_look_at_the_request(paged: Path) -> None:
    long = "\n".join(f"line {number}" for number in range(100))
    terminal = ask(args=[{"item": long, "price": 4}], conversation=SAID)
    terminal.press("c")
    terminal.wait_for(KEYS)
    terminal.write("y")
    terminal.wait_for("Not all of it is on the screen")
    terminal.press("n")
    assert "NOT:" in terminal.end()[0]
    assert "line 50" not in paged.read_text()


@pytest.mark.proves("H10")
@pytest.mark.parametrize("columns", [30, 80])
@pytest.mark.parametrize("pager", [True, False])
def test_no_message_can_draw_or_look_like_the_question_or_like_another_message(
    columns: int, pager: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = tmp_path / "shown"
    monkeypatch.setenv("PAGER", program(tmp_path / "pager", f"cat > {shown}" if pager else "cat > /dev/null; exit 1"))
    terminal = ask(conversation=[["agent", HOSTILE], ["user", "x" * 300]], columns=columns)
    terminal.press("c", at="[q] quit")
    screen = terminal.wait_for("[q] quit")
    text = shown.read_text() if pager else screen[screen.index("before this call") : screen.index("Shown here")]
    rows = text.splitlines()
    heading = next(at for at, row in enumerate(rows) if row.startswith("  │ "))
    messages = [row for row in rows[heading:] if row]
    assert all(row.startswith("  │ ") for row in messages)
    roles = [row[4:12].strip() for row in messages if row[4:12].strip()]
    assert roles == ["agent", "user"], "no word of a message stands where a role does"
    joined = "".join(row[12:] for row in messages)
    assert "\\x1b[2J\\x1b[1A\\u202eevil\\u2028next" in joined
    assert "\\r[y]" in joined
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\u2028]", text)
    terminal.press("n", at="[q] quit")
    assert "NOT:" in terminal.end()[0]


def test_messages_that_are_left_out_are_told(paged: Path) -> None:
    many = [["user", "set it"], *(["tool", f"look: {number}"] for number in range(9))]
    terminal = ask(conversation=many)
    assert "before      4 messages" in terminal.wait_for(KEYS)
    terminal.press("c")
    terminal.press("n")
    terminal.end()
    assert paged.read_text().splitlines()[1:] == [
        "  │ user    set it",
        "  │ ⋯ messages are left out ⋯",
        "  │ tool    look: 6",
        "  │ tool    look: 7",
        "  │ tool    look: 8",
    ]
