"""Several questions at once: listed, and those that are alike answered together."""

from pathlib import Path
from typing import Any

import pytest
from tests.channels.terminal.asking import ALLOW, a_second_later, ask, elsewhere, program
from tests.terminal import Terminal

TOGETHER = "[l] leave all"
THREE: dict[str, Any] = {
    "tools": ["set_price", "set_date", "set_price"],
    "args": [{"item": name, "price": 1} for name in ("tea", "milk", "cake")],
}


def others(terminal: Terminal, count: int) -> str:
    terminal.wait_for(f"1 of {count}")
    terminal.press("o")
    return terminal.wait_for(TOGETHER)


def test_a_yes_to_those_that_are_alike_leaves_the_others_with_their_numbers() -> None:
    terminal = ask(**THREE)
    screen = others(terminal, 3)
    assert "   1 = set_price(item='tea', price=1)" in screen
    assert "   2   set_date(item='milk', price=1)" in screen
    assert "   3 = set_price(item='cake', price=1)" in screen
    below = screen[screen.index("3 wait for an answer") :]
    assert below.index("│ item: tea") < below.index("│ item: cake")  # what is answered is shown in full
    assert "│ item: milk" not in below
    terminal.press("y", at="[y] allow these 2 alike once  [v] view them  [n] deny all 3")
    screen = terminal.wait_for("2 of 3")
    assert "Allowed once: 1, 3." in screen
    terminal.press("n")
    screen, _ = terminal.end()
    assert "RAN: tea costs 1" in screen
    assert "RAN: cake costs 1" in screen
    assert "NOT: 'set_date' did not run" in screen


def test_what_cannot_be_shown_whole_stays_out_of_a_yes() -> None:
    long = "\n".join(f"line {number}" for number in range(100))
    terminal = ask(args=[{"item": "tea", "price": 1}, {"item": long, "price": 1}])
    others(terminal, 2)
    terminal.wait_for("Number 2, set_price, is too long to be shown here, so a yes does not include")
    terminal.press("y", at="[y] allow number 1 once  [v] view it  [n] deny all 2")
    terminal.wait_for("2 of 2")
    terminal.press("n")
    screen, _ = terminal.end()
    assert screen.count("RAN:") == 1
    assert screen.count("NOT:") == 1


@pytest.mark.proves("H10")
def test_those_that_have_scrolled_away_have_to_be_opened_before_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", program(tmp_path / "pager", f"cat > {tmp_path}/shown"))
    terminal = ask(args=[{"item": name, "price": 1} for name in ("tea", "milk", "cake")], rows=24)
    others(terminal, 3)
    terminal.press("y", at="[y] allow these 3 alike once")
    terminal.wait_for("Not all of this is on the screen: press v")
    terminal.press("v", at="[y] allow these 3 alike once")
    assert "Not all of this" not in terminal.wait_for("[y] allow these 3 alike once")  # a yes works now
    terminal.press("y", at="[y] allow these 3 alike once")
    terminal.end()
    shown = (tmp_path / "shown").read_text()
    assert [name for name in ("tea", "milk", "cake") if f"│ item: {name}\n" in shown] == ["tea", "milk", "cake"]


def test_where_nothing_can_be_shown_whole_no_yes_is_offered() -> None:
    long = "\n".join(f"line {number}" for number in range(100))
    terminal = ask(args=[{"item": long, "price": 1}, {"item": long, "price": 1}])
    screen = others(terminal, 2)
    assert "alike once" not in screen
    terminal.write("y")
    a_second_later(terminal)  # a key that comes right behind another one does not count
    terminal.press("b", at=TOGETHER)
    terminal.press("n")
    terminal.wait_for("2 of 2")
    terminal.press("n")
    assert "RAN" not in terminal.end()[0]


def test_all_can_be_denied_at_once() -> None:
    terminal = ask(**THREE)
    others(terminal, 3)
    terminal.press("n", at=TOGETHER)
    screen, _ = terminal.end()
    assert "Denied: 1, 2, 3." in screen
    assert screen.count("refused by ann") == 3


def test_all_can_be_left_to_others(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    terminal = ask(store=str(store), **THREE)
    others(terminal, 3)
    terminal.press("l", at=TOGETHER)
    terminal.wait_for("Left to others: 1, 2, 3.")
    elsewhere(store, ALLOW)
    assert terminal.end()[0].count("RAN:") == 3


def test_one_that_is_answered_elsewhere_meanwhile_is_not_answered_again(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    terminal = ask(store=str(store), **THREE)
    others(terminal, 3)
    elsewhere(store, f"if request.args['item'] == 'cake': {ALLOW}")
    terminal.wait_for("RAN: cake costs 1")
    terminal.press("n", at=TOGETHER)
    screen, _ = terminal.end()
    assert "Denied: 1, 2." in screen
    assert screen.count("NOT:") == 2


def test_alone_there_are_no_others() -> None:
    terminal = ask()
    assert "[o]" not in terminal.wait_for("[y] allow once")
    terminal.press("n")
    terminal.end()


def test_what_a_program_prints_meanwhile_goes_above_each_question_and_leaves_it_whole() -> None:
    words = [f"working on part {number}" for number in range(60)]
    terminal = ask(args=[{"item": name, "price": 1} for name in ("tea", "milk", "rice")], say=words)
    for number in (1, 2, 3):
        terminal.wait_for(f"Run set_price? · {number} of 3 · waiting")
        screen = terminal.wait_for(words[-1])
        assert screen.count("Run set_price?") == 1
        terminal.press("n")
    screen, _ = terminal.end()
    said = [line.removeprefix("┊ ") for line in screen.split("\n")]
    assert [line for line in said if line in words] == words
    assert screen.count("refused by ann") == 3
    assert "Run set_price?" not in screen
