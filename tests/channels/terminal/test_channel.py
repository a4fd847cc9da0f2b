"""The prompt in a real terminal: every key, what people see, and what cannot fool them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.channels.terminal.asking import ALLOW, CHILD, a_second_later, ask, elsewhere
from tests.terminal import KEYS, Terminal

SCREEN = """\

An agent wants to run set_price
  tool says   Change the price of tea to 4
  because     tools.set_price is 'required'
  rule        policy tools.set_price

arguments, as the agent wrote them
  │ item: tea
  │ price: 4

what the tool shows: prices
  │ --- a/prices
  │ +++ b/prices
  │ @@ -9,3 +9,3 @@
  │    9    9  milk
  │   10      -tea 3
  │        10 +tea 4
  │   11   11  cake
Run set_price? · 1 of 1 · waiting 0:00
"""
KEYS_40 = """\
[y] allow once  [a] allow for…
[e] edit  [n] deny
[m] deny, with a note  [v] view all
[r] the rule  [l] leave it  [q] quit"""
KEYS_80 = """\
[y] allow once  [a] allow for…  [e] edit  [n] deny  [m] deny, with a note
[v] view all  [r] the rule  [l] leave it  [q] quit"""
KEYS_120 = """\
[y] allow once  [a] allow for…  [e] edit  [n] deny  [m] deny, with a note  [v] view all  [r] the rule  [l] leave it
[q] quit"""
SCREEN_40 = (
    SCREEN.replace("tea to 4", "tea to\n              4")
    .replace("is 'required'", "is\n              'required'")
    .replace("waiting 0:00", "waiting\n0:00")
    + KEYS_40
)
DIFF = "--- a/prices\n+++ b/prices\n@@ -9,3 +9,3 @@\n milk\n-tea 3\n+tea 4\n cake\n"


@pytest.mark.proves("R71")
@pytest.mark.parametrize(("columns", "screen"), [(40, SCREEN_40), (80, SCREEN + KEYS_80), (120, SCREEN + KEYS_120)])
def test_a_question_at_every_width(columns: int, screen: str) -> None:
    terminal = ask(columns=columns, diff=DIFF)
    shown = terminal.wait_for(KEYS)
    terminal.press("n")
    terminal.end()
    assert shown.replace("0:01", "0:00") == screen


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("y", "RAN: tea costs 4"),
        ("y", "Allowed once."),
        ("n", "Denied."),
        ("n", "NOT: 'set_price' did not run: refused by ann"),
        ("\r", "NOT: 'set_price' did not run: refused by ann"),
    ],
)
def test_one_key_is_an_answer_and_enter_is_a_no(key: str, said: str) -> None:
    terminal = ask()
    terminal.press(key)
    screen, code = terminal.end()
    assert said in screen
    assert code == 0
    assert KEYS not in screen


def test_a_no_can_have_a_note() -> None:
    terminal = ask()
    terminal.press("m")
    terminal.press("too cheap\r", at="Why not?")
    assert "refused by ann (note: too cheap)" in terminal.end()[0]


def test_what_is_long_is_folded_and_nobody_says_yes_to_what_they_have_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "cat")
    terminal = ask(args=[{"item": "\n".join(f"line {number}" for number in range(100)), "price": 4}])
    screen = terminal.wait_for(KEYS)
    assert "more lines; press v to see them" in screen
    assert "line 50\n" not in screen
    terminal.press("y")
    terminal.wait_for("press v to see all of it first")
    terminal.press("v")
    assert "line 50\n" in terminal.wait_for(KEYS)
    terminal.press("y")
    assert "RAN: line 0" in terminal.end()[0]


@pytest.mark.proves("H10")
def test_in_a_low_window_what_has_scrolled_away_has_to_be_opened_before_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "true")
    terminal = ask(rows=10)
    assert "wants to run" not in terminal.wait_for(KEYS)
    terminal.press("y")
    terminal.wait_for("Not all of it is on the screen: press v to see all of it first.")
    terminal.press("v")
    assert "Not all of it" not in terminal.wait_for(KEYS)  # a yes works now
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]


def test_where_only_a_hub_knows_who_may_say_yes_no_yes_is_offered(tmp_path: Path) -> None:
    rule = {"approval": "required", "approvers": {"count": 2, "role": "ops"}}
    terminal = ask(policy={"default": "none", "tools": {"set_price": rule}}, store=str(tmp_path / "state.db"))
    screen = terminal.wait_for("[n] deny  [m] deny, with a note  [v] view all")
    assert "2 people in the role ops; only a hub knows who they are" in screen
    terminal.write("y")
    a_second_later(terminal)  # a key that comes right behind another one does not count
    terminal.press("n", at="[n] deny")
    screen, _ = terminal.end()
    assert "refused by ann" in screen
    assert "Allowed" not in screen


@pytest.mark.proves("H10")
def test_keys_that_were_typed_before_the_question_was_there_do_not_count() -> None:
    terminal = ask()
    for _ in range(20):
        terminal.write("y")
    terminal.wait_for("Run set_price?")
    terminal.write("yyy")
    terminal.wait_for(KEYS)
    assert "RAN" not in terminal.screen
    terminal.press("n")
    assert "NOT:" in terminal.end()[0]


def test_a_key_for_a_question_that_went_away_does_not_answer_the_one_in_its_place(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    terminal = ask(store=str(store), args=[{"item": "tea", "price": 1}, {"item": "milk", "price": 2}])
    terminal.wait_for("1 of 2")
    terminal.wait_for(KEYS)
    elsewhere(store, f"if request.args['item'] == 'tea': {ALLOW}")
    terminal.wait_for("2 of 2")
    terminal.write("y")  # in the instant in which the other one appears
    terminal.press("n")
    screen, _ = terminal.end()
    assert "RAN: tea costs 1" in screen
    assert "milk costs" not in screen


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"tools": ["set_price" + "x" * 50_000], "policy": {"default": "required"}}, "set_price" + "x" * 30),
        ({"args": [{"item": "tea", "price": {"k" * 50_000: 4}}]}, "set_price"),
    ],
    ids=["of a tool", "of an argument"],
)
def test_an_endless_name_pushes_nothing_off_the_screen_and_has_to_be_seen_before_a_yes(
    asked: dict[str, Any], name: str
) -> None:
    terminal = ask(rows=24, **asked)
    assert f"Run {name}" in terminal.wait_for(KEYS)
    terminal.press("y")
    terminal.wait_for("Not all of it is on the screen")
    terminal.press("n")
    assert "RAN" not in terminal.end()[0]


def test_a_diff_of_a_hundred_thousand_lines_is_folded_and_the_question_comes() -> None:
    terminal = ask(rows=50, diff_lines=100_000)
    screen = terminal.wait_for(KEYS)
    assert " more lines; press v to see them" in screen
    assert "100000 +line 99999: ünï字" in screen
    assert len(terminal.raw) < 20_000
    terminal.press("n")
    assert "RAN" not in terminal.end()[0]


@pytest.mark.parametrize("paste", ["yes\ny\ny\n", "\x1b[200~y\ny\n\x1b[201~", "y" * 500, "xy", "yx"])
def test_what_is_pasted_is_no_answer(paste: str) -> None:
    terminal = ask()
    terminal.wait_for(KEYS)
    terminal.write(paste)
    a_second_later(terminal)
    assert KEYS in terminal.screen  # it still waits
    terminal.press("n")
    screen, _ = terminal.end()
    assert "NOT:" in screen
    assert "RAN" not in screen


def test_several_questions_are_numbered_and_answered_one_by_one() -> None:
    terminal = ask(args=[{"item": name, "price": 1} for name in ("tea", "milk", "cake")])
    for number, key in enumerate("yny", 1):
        terminal.wait_for(f"{number} of 3")
        terminal.press(key)
    screen, _ = terminal.end()
    said = [line.removeprefix("┊ ") for line in screen.splitlines()]
    assert sorted(line.split(":")[0] for line in said if line.startswith(("RAN", "NOT"))) == [
        "NOT",
        "RAN",
        "RAN",
    ]


def test_control_c_ends_the_run_and_withdraws_the_question() -> None:
    terminal = ask()
    terminal.press("\x03")
    screen, code = terminal.end()
    assert code != 0
    assert "RAN" not in screen


def test_a_question_that_is_answered_elsewhere_goes_away_and_says_so(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    terminal = ask(store=str(store))
    terminal.wait_for(KEYS)
    elsewhere(store, ALLOW)
    terminal.wait_for("answered elsewhere, has expired or was withdrawn")
    screen, code = terminal.end()
    assert "RAN: tea costs 4" in screen
    assert code == 0


@pytest.mark.parametrize("rest", ["y", "n", "l"])
def test_the_rest_of_a_note_is_no_answer_to_the_next_question(tmp_path: Path, rest: str) -> None:
    """The first question is answered elsewhere while its note is being typed; the second must not get the letters."""
    store = tmp_path / "state.db"
    terminal = ask(store=str(store), args=[{"item": "tea", "price": 1}, {"item": "milk", "price": 2}])
    terminal.wait_for("1 of 2")
    terminal.press("m")
    terminal.wait_for("Why not?")
    terminal.write("too chea")
    terminal.wait_for("too chea")
    elsewhere(store, f"if request.args['item'] == 'tea': {ALLOW}")
    terminal.wait_for("The question is closed; press Enter")
    for each in f"p {rest} ":
        terminal.write(each)
        terminal.wait_for("press Enter. too chea" + f"p {rest} "[: f"p {rest} ".index(each) + 1].rstrip())
    terminal.press("\r", at="The question is closed")
    terminal.wait_for("2 of 2")
    terminal.press("y")
    screen, _ = terminal.end()
    assert "RAN: tea costs 1" in screen
    assert "RAN: milk costs 2" in screen


def test_control_c_while_a_note_is_typed_ends_the_run() -> None:
    terminal = ask()
    terminal.press("m")
    terminal.press("\x03", at="Why not?")
    screen, code = terminal.end()
    assert code != 0
    assert "RAN" not in screen


def test_a_question_whose_time_is_up_goes_away_and_says_so() -> None:
    terminal = ask(timeout=2)
    terminal.wait_for("expires in 0:0")
    terminal.wait_for("answered elsewhere, has expired or was withdrawn")
    assert "NOT: 'set_price' did not run: nobody answered in time" in terminal.end()[0]


def test_synchronous_hosts_are_asked_too() -> None:
    terminal = ask("sync", args=[{"item": "tea", "price": 4}])
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]


def test_what_the_host_prints_meanwhile_goes_above_the_question() -> None:
    terminal = ask(say=["the agent goes on talking"])
    terminal.wait_for("the agent goes on talking")
    terminal.wait_for(KEYS)
    screen = terminal.screen
    assert screen.index("the agent goes on talking") < screen.index("Run set_price?")
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]


def test_another_size_of_the_window_is_followed() -> None:
    terminal = ask(columns=120)
    terminal.wait_for(KEYS)
    terminal.resize(40, 60)
    terminal.signal(28)  # SIGWINCH
    terminal.wait_for("[y] allow once  [a] allow for…\n[e] edit")
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]


FAKE = "x" + "\n" * 40 + "An agent wants to run read_file\n  because all is well\nRun read_file? · 1 of 1\n[y] allow"


@pytest.mark.proves("H10")
@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ("\x1b[2J\x1b[Hcleared", "\\x1b[2J\\x1b[Hcleared"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("before\rafter", "before\\rafter"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("pаypal", "p⟨U+0430⟩ypal"),  # noqa: RUF001 - a look-alike is what this is about
        ("x" + " " * 10_000 + "hidden", "x⟨10,000 blanks⟩hidden"),
        (FAKE, "  │   An agent wants to run read_file"),
    ],
)
def test_nothing_that_an_agent_writes_can_play_with_the_screen(
    item: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "cat")
    terminal = ask(args=[{"item": item, "price": 4}])
    terminal.wait_for(KEYS)
    if "more lines" in terminal.screen:
        terminal.press("v")
        terminal.wait_for(KEYS)
    screen = terminal.screen
    assert shown in screen
    ours = [line for line in screen.splitlines() if line.startswith("Run ")]
    assert ours == [line for line in ours if line.startswith("Run set_price?")]
    terminal.press("n")
    terminal.end()


@pytest.mark.parametrize(("ci", "why"), [("", "there is no terminal"), ("true", "this is a CI run")])
def test_where_there_is_nobody_the_answer_is_no_with_that_reason(
    ci: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    done = subprocess.run(
        [sys.executable, CHILD, "async"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert f"nobody can be asked: {why}" in done.stdout


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ("TERM=dumb", "this terminal cannot move its cursor (TERM=dumb; use one that can)"),
        ("PYTHONIOENCODING=ascii", "this terminal takes ascii, which cannot"),
        ("PYTHONIOENCODING=latin-1", "this terminal takes iso8859-1, which cannot"),
    ],
)
def test_a_terminal_that_cannot_show_a_question_as_it_is_is_nobody(environ: str, why: str) -> None:
    """What it cannot write would become a question mark, and two texts one."""
    screen, _ = Terminal(["/usr/bin/env", environ, sys.executable, CHILD, "async"]).end()
    assert f"nobody can be asked: {why}" in screen.replace("\n", "")
    assert "RAN" not in screen


def test_in_the_plainest_locale_a_question_is_whole() -> None:
    terminal = Terminal(["/usr/bin/env", "LC_ALL=C", "LANG=C", sys.executable, CHILD, "async"])
    assert "│ item: tea" in terminal.wait_for(KEYS)
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]
