"""The prompt in a real terminal: every key, what people see, and what cannot fool them."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.terminal import KEYS, Terminal

CHILD = str(Path(__file__).with_name("terminal_child.py"))


def ask(how: str = "async", *, columns: int = 80, rows: int = 200, **facts: Any) -> Terminal:
    return Terminal([sys.executable, CHILD, how, json.dumps(facts)], columns=columns, rows=rows)


SCREEN_80 = """\

An agent wants to run set_price
  tool says Change the price of tea
  because   tools.set_price is 'required'
  rule      policy tools.set_price

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
[y] allow once  [a] allow for…  [e] edit  [n] deny  [m] deny, with a note  [v]
view all  [l] leave it  [q] quit"""
SCREEN_40 = """\

An agent wants to run set_price
  tool says Change the price of tea
  because   tools.set_price is 'required
↪ '
  rule      policy tools.set_price

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
[y] allow once  [a] allow for…  [e]
edit  [n] deny  [m] deny, with a note
[v] view all  [l] leave it  [q] quit"""
SCREEN_120 = SCREEN_80.rpartition("\n[y]")[0] + (
    "\n[y] allow once  [a] allow for…  [e] edit  [n] deny  [m] deny, with a note  [v] view all  [l] leave it  [q] quit"
)
DIFF = "--- a/prices\n+++ b/prices\n@@ -9,3 +9,3 @@\n milk\n-tea 3\n+tea 4\n cake\n"


@pytest.mark.proves("R71")
@pytest.mark.parametrize(("columns", "screen"), [(40, SCREEN_40), (80, SCREEN_80), (120, SCREEN_120)])
def test_a_question_at_every_width(columns: int, screen: str) -> None:
    terminal = ask(columns=columns, diff=DIFF)
    shown = terminal.wait_for(KEYS)
    terminal.press("n")
    terminal.end()
    assert shown.replace("waiting 0:01", "waiting 0:00") == screen.strip("\n").join(("\n", ""))


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


def test_an_answer_can_be_remembered_for_what_the_request_offers() -> None:
    terminal = ask(args=[{"item": "tea", "price": 4}])
    terminal.press("a")
    screen = terminal.wait_for("[1-")
    assert "[1] " in screen
    terminal.press("t", at="for this session")
    terminal.press("1", at="for an hour")
    screen, _ = terminal.end()
    assert "RAN: tea costs 4" in screen
    assert "remembered: ['call']" in screen


def test_arguments_can_be_edited_in_the_persons_own_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/4/5/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    terminal = ask()
    terminal.press("e")
    screen = terminal.wait_for("with these arguments")
    assert "price: 5" in screen
    terminal.press("y", at="with these arguments")
    assert "RAN: tea costs 5" in terminal.end()[0]


@pytest.mark.parametrize("script", ["exit 1", "echo '{' > \"$1\"", 'echo \'{"a": 1, "a": 2}\' > "$1"'])
def test_an_edit_that_went_wrong_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("EDITOR", str(editor))
    terminal = ask()
    terminal.press("e")
    terminal.wait_for("Nothing was changed")
    terminal.press("n")
    assert "NOT:" in terminal.end()[0]


def test_what_is_long_is_folded_and_nobody_says_yes_to_what_they_have_not_seen() -> None:
    terminal = ask(args=[{"item": "\n".join(f"line {number}" for number in range(100)), "price": 4}])
    screen = terminal.wait_for(KEYS)
    assert "more lines; press v to see them" in screen
    assert "line 50\n" not in screen
    terminal.press("y")
    terminal.wait_for("Press v to see all of it first")
    terminal.press("v")
    assert "line 50\n" in terminal.wait_for(KEYS)
    terminal.press("y")
    assert "RAN: line 0" in terminal.end()[0]


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


@pytest.mark.parametrize("paste", ["yes\ny\ny\n", "\x1b[200~y\ny\n\x1b[201~", "y" * 500])
def test_what_is_pasted_is_no_answer(paste: str) -> None:
    terminal = ask()
    terminal.wait_for(KEYS)
    terminal.write(paste)
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
    assert sorted(line.split(":")[0] for line in screen.splitlines() if line.startswith(("RAN", "NOT"))) == [
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
    script = (
        "import asyncio, sys\nfrom sayso import ApprovalController, ApprovalDecision\n"
        "async def main():\n"
        "    async with ApprovalController(store=sys.argv[1], mode='defer') as controller:\n"
        "        (request,) = await controller.pending()\n"
        "        await controller.answer(request.id, ApprovalDecision(approved=True, who='bob'))\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", script, str(store)], check=True, timeout=60)
    terminal.wait_for("answered elsewhere, has expired or was withdrawn")
    screen, code = terminal.end()
    assert "RAN: tea costs 4" in screen
    assert code == 0


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
    lines = terminal.screen.splitlines()
    assert lines.index("the agent goes on talking") < next(
        at for at, line in enumerate(lines) if line.startswith("Run set_price?")
    )
    terminal.press("y")
    assert "RAN: tea costs 4" in terminal.end()[0]


def test_another_size_of_the_window_is_followed() -> None:
    terminal = ask(columns=120)
    terminal.wait_for(KEYS)
    terminal.resize(40, 60)
    terminal.signal(28)  # SIGWINCH
    terminal.wait_for("[y] allow once  [a] allow for…  [e]\n")
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
def test_nothing_that_an_agent_writes_can_play_with_the_screen(item: str, shown: str) -> None:
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
