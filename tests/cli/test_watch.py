"""The live inbox in a real terminal: what people see, what their keys do, and what never happens under their finger."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.channels.terminal.asking import ALLOW, SEE, a_second_later, elsewhere, program
from tests.cli.questions import STORE, ask, stored
from tests.terminal import KEYS, Terminal

from sayso import ConversationMessage, Policy, conversation

WATCH = [sys.executable, "-m", "sayso", "watch", "--store", STORE, "--who", "ann"]
LONG = {"to": "bob", "text": "\n".join(f"line {number}" for number in range(60))}
# An agent in a process of its own, which waits for the answer and says what came of it.
AGENT = f"""
from sayso import ApprovalController, ApprovalError, Policy, guard
def pay(to: str, amount: int) -> str:
    return f"paid {{amount}} to {{to}}"
try:
    print(guard(pay, ApprovalController(policy=Policy({{"pay": "required"}}), store="{STORE}"))("cem", 7))
except ApprovalError as error:
    print(error)
"""


def watch(*, columns: int = 80, rows: int = 24) -> Terminal:
    return Terminal(WATCH, columns=columns, rows=rows)


def leave(terminal: Terminal) -> None:
    terminal.write("q")
    assert terminal.end()[1] == 0


@contextmanager
def agent() -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", AGENT], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0]


# --- What people see ---------------------------------------------------------------------------------

PANE = """\
report > payer wants to run pay
  because     no rule names this tool, and the default is 'required'
  rule        policy default

arguments, as the agent wrote them
  │ amount: 5
  │ to: ann
"""
PANE_40 = PANE.replace(", and the default is ", ",\n              and the default is\n              ")
SCREEN_40 = f"""\
sayso watch · 2 wait for an answer
▸ xxxxxx  0s  report > payer: pay(amou…
  xxxxxx  0s  report > payer: delete_f…
{"╌" * 40}
{PANE_40}


{"╌" * 40}
Run report > payer: pay? · 1 of 2 ·
waiting 0:00
[y] allow once  [a] allow for…
[e] edit  [n] deny
[m] deny, with a note  [v] view all
[r] the rule  [j/k] move  [/] filter
[?] help  [q] leave"""
SCREEN_80 = f"""\
sayso watch · 2 wait for an answer
▸ xxxxxx  0s             report > payer: pay(amount=5, to='ann')
  xxxxxx  0s    9m left  report > payer: delete_file(path='a')
{"╌" * 80}
{PANE}








{"╌" * 80}
Run report > payer: pay? · 1 of 2 · waiting 0:00
[y] allow once  [a] allow for…  [e] edit  [n] deny  [m] deny, with a note
[v] view all  [r] the rule  [j/k] move  [/] filter  [?] help  [q] leave"""
SCREEN_120 = (
    SCREEN_80.replace("╌" * 80, "╌" * 120)
    .replace("\n[v] view all  [r] the rule  [j/k] move  ", "  [v] view all  [r] the rule  [j/k] move\n")
)  # fmt: skip


@pytest.mark.proves("R71")
@pytest.mark.parametrize(("columns", "screen"), [(40, SCREEN_40), (80, SCREEN_80), (120, SCREEN_120)])
def test_the_inbox_at_every_width(columns: int, screen: str) -> None:
    ask({"amount": 5, "to": "ann"})
    ask({"path": "a"}, tool="delete_file", timeout=600)
    terminal = watch(columns=columns)
    shown = terminal.wait_for(KEYS)
    leave(terminal)
    shown = re.sub(r"\b\ds\b", "0s", re.sub(r"waiting 0:0\d", "waiting 0:00", shown))
    assert re.sub(r"(?m)^([▸ ] )[0-9a-f]{6}", r"\1xxxxxx", shown) == screen


def test_an_empty_inbox_says_so_and_waits() -> None:
    (request,) = (ask(),)
    elsewhere(Path(STORE), ALLOW)
    assert stored(request).status == "approved"
    terminal = watch()
    terminal.wait_for("sayso watch · nothing waits")
    leave(terminal)


def test_help_tells_the_keys_and_hides_the_request_from_them() -> None:
    request = ask()
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.write("?")
    terminal.wait_for("Press any key to go back.")
    elsewhere(Path(STORE), SEE)  # takes long enough for a key to come alone
    terminal.write("y")
    terminal.wait_for(KEYS)
    a_second_later(terminal)
    assert stored(request).status == "open"
    leave(terminal)


def test_who_else_has_it_before_them_is_said_and_they_are_told_in_turn() -> None:
    request = ask()
    terminal = watch()
    terminal.wait_for(KEYS)
    elsewhere(Path(STORE), SEE)
    assert "ann" not in terminal.wait_for("also seen by bob (page)")
    assert ("ann", "watch") in [(each.who, each.channel) for each in stored(request).seen]
    leave(terminal)


def test_another_size_of_the_window_is_followed() -> None:
    request = ask()
    terminal = watch(columns=120)
    terminal.wait_for(KEYS)
    terminal.resize(40, 20)
    terminal.signal(signal.SIGWINCH)
    terminal.wait_for("[y] allow once  [a] allow for…\n[e] edit  [n] deny")
    assert "╌" * 40 + "\n" in terminal.screen
    terminal.write("y")
    terminal.wait_for("nothing waits")
    assert stored(request).status == "approved"
    leave(terminal)


# --- What comes and goes -----------------------------------------------------------------------------


def test_a_request_comes_in_live_and_the_agent_goes_on_when_it_is_answered() -> None:
    elsewhere(Path(STORE), "pass")  # makes the store
    terminal = watch()
    terminal.wait_for("nothing waits")
    with agent() as process:
        assert "│ to: cem" in terminal.wait_for(KEYS)
        terminal.write("y")
        terminal.wait_for("Allowed once. (pay)")
        assert said(process) == "paid 7 to cem\n"
    leave(terminal)


def test_one_that_is_answered_elsewhere_goes_and_no_other_takes_its_place_under_the_finger() -> None:
    first, second = ask({"amount": 1}), ask({"amount": 2})
    terminal = watch()
    terminal.wait_for(KEYS)
    elsewhere(Path(STORE), f"if request.args['amount'] == 1: {ALLOW}")
    terminal.wait_for("report > payer: pay was allowed by bob.")
    screen = terminal.wait_for("1 waits for an answer")
    assert "▸" not in screen
    assert KEYS not in screen
    terminal.write("y")  # was meant for the first
    terminal.write("j")
    terminal.wait_for("▸")
    terminal.wait_for(KEYS)
    assert (stored(first).status, stored(second).status) == ("approved", "open")
    terminal.write("y")
    terminal.wait_for("nothing waits")
    assert stored(second).status == "approved"
    leave(terminal)


def test_the_selection_stays_with_its_request_whatever_goes_before_it() -> None:
    first, second, third = (ask({"amount": amount}) for amount in (1, 2, 3))
    terminal = watch()
    terminal.wait_for(KEYS)
    for key, place in (("\x1b[B", "2 of 3"), ("j", "3 of 3"), ("j", "3 of 3"), ("\x1b[A", "2 of 3"), ("k", "1 of 3")):
        terminal.write(key)
        terminal.wait_for(place)
    terminal.write("j")
    terminal.wait_for("2 of 3")
    terminal.wait_for(KEYS)
    elsewhere(Path(STORE), f"if request.args['amount'] == 1: {ALLOW}")
    terminal.wait_for("1 of 2")
    terminal.write("n")
    terminal.wait_for("Denied.")
    assert [stored(each).status for each in (first, second, third)] == ["approved", "denied", "open"]
    leave(terminal)


def test_an_answer_that_comes_too_late_says_who_was_faster() -> None:
    request = ask()
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.signal(signal.SIGSTOP)
    elsewhere(Path(STORE), ALLOW)
    terminal.write("n")
    terminal.signal(signal.SIGCONT)
    terminal.wait_for("by bob")
    decision = stored(request).decision
    assert decision is not None
    assert (decision.approved, decision.who) == (True, "bob")
    leave(terminal)


def test_where_only_a_hub_can_count_the_yeses_none_is_offered() -> None:
    rule = {"approval": "required", "approvers": {"count": 2, "role": "ops"}}
    request = ask({"amount": 7}, policy=Policy.from_dict({"default": "none", "tools": {"pay": rule}}))
    ask({"amount": 8})
    terminal = watch(columns=100)
    screen = terminal.wait_for("[n] deny")
    assert "  needs       2 people in the role ops; answer through a hub, which knows who they are\n" in screen
    assert KEYS not in screen
    terminal.write("n")  # it can be denied still
    terminal.wait_for("Denied.")
    assert stored(request).status == "denied"
    leave(terminal)


def test_one_whose_time_is_up_goes_and_says_so_even_if_nobody_else_is_there() -> None:
    request = ask(timeout=8)
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.wait_for("has expired: nobody answered in time.")
    assert stored(request).status == "expired"
    leave(terminal)


# --- Keys --------------------------------------------------------------------------------------------


@pytest.mark.proves("H10")
def test_a_yes_needs_that_all_of_it_was_on_the_screen() -> None:
    request = ask(LONG)
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.write("y")
    terminal.wait_for("Not all of it is on the screen: scroll to its end with space, or press v.")
    while "more row" in terminal.wait_for(KEYS):
        before = terminal.screen
        terminal.write(" ")
        terminal.wait_for(before, gone=True)
        terminal.wait_for(KEYS)
    assert "│   line 59" in terminal.wait_for("Not all of it", gone=True)  # a yes works now
    assert stored(request).status == "open"
    a_second_later(terminal)  # a key that comes right behind another one does not count
    terminal.write("y")
    terminal.wait_for("nothing waits")
    assert stored(request).status == "approved"
    leave(terminal)


def test_the_end_alone_is_not_all_of_it() -> None:
    """The rule is told below, out of sight; going there skips what is between."""
    request = ask(LONG)
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.write("r")
    terminal.wait_for("why this is asked")
    terminal.wait_for(KEYS)
    terminal.write("y")
    terminal.wait_for("Not all of it is on the screen")
    assert stored(request).status == "open"
    leave(terminal)


@pytest.mark.proves("H10")
@pytest.mark.parametrize("typed", ["yyy", "\x1b[200~y\n\x1b[201~", "jjjjy"])
def test_what_was_typed_before_or_is_pasted_is_no_answer(typed: str) -> None:
    requests = [ask({"amount": amount}) for amount in (1, 2)]
    terminal = watch()
    terminal.write("y" * 20)
    terminal.wait_for("sayso watch")
    terminal.write("y")
    terminal.wait_for(KEYS)
    terminal.write(typed)
    a_second_later(terminal)
    assert [stored(each).status for each in requests] == ["open", "open"]
    leave(terminal)


def test_a_note_goes_to_the_agent() -> None:
    elsewhere(Path(STORE), "pass")
    terminal = watch()
    with agent() as process:
        terminal.wait_for(KEYS)
        terminal.write("m")
        terminal.wait_for("Why not?")
        terminal.write("jky too much\r")
        terminal.wait_for("Denied: jky too much (pay)")
        assert "note: jky too much" in said(process)
    leave(terminal)


def test_an_answer_can_stand_and_says_what_it_answers_too() -> None:
    first, second = ask({"amount": 1}), ask({"amount": 1})
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.write("a")
    terminal.wait_for("[1] also answers 1 more open request")
    terminal.write("t")
    terminal.wait_for("allow for an hour, in every session")
    terminal.write("1")
    screen = terminal.wait_for("Allowed, and remembered. (report > payer: pay)")
    assert "The same answer was given to 1 more open request." in " ".join(screen.split())
    terminal.wait_for("nothing waits")
    assert [stored(each).status for each in (first, second)] == ["approved", "approved"]
    leave(terminal)


def test_arguments_are_edited_until_they_fit_and_judged_where_the_call_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"if [ -e {tmp_path}/once ]; then price=8; else price='\"many\"'; touch {tmp_path}/once; fi\n"
    script += """echo '{"to": "cem", "amount": '"$price"'}' > "$1\""""
    monkeypatch.setenv("EDITOR", program(tmp_path / "editor", script))
    monkeypatch.delenv("VISUAL", raising=False)
    elsewhere(Path(STORE), "pass")
    terminal = watch()
    with agent() as process:
        terminal.wait_for(KEYS)
        terminal.write("e")
        terminal.wait_for("This does not fit the tool: amount: 'many' is not of type 'integer'")
        terminal.wait_for("[e] edit again")
        terminal.write("e")
        terminal.wait_for("with these arguments")
        assert "judge these arguments where the call runs" in terminal.screen
        assert "arguments, as you edited them\n" in terminal.screen
        assert "│ amount: 8\n    edited · was 7\n" in terminal.screen
        assert "[n] deny" in terminal.screen
        terminal.write("y")
        terminal.wait_for("nothing waits")
        assert said(process) == "paid 8 to cem\n"
    leave(terminal)


def test_all_of_it_opens_in_the_pager_and_counts_as_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "gate")  # or it could be gone again before anybody has looked
    pager = program(tmp_path / "pager", f"cat > {tmp_path}/shown; echo PAGED; cat {tmp_path}/gate")
    monkeypatch.setenv("PAGER", pager)
    request = ask(LONG)
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.write("v")
    terminal.wait_for("PAGED")
    assert "│   line 59\n" in (tmp_path / "shown").read_text()
    (tmp_path / "gate").write_text("")
    terminal.wait_for("PAGED", gone=True)
    terminal.wait_for(KEYS)
    terminal.write("y")
    terminal.wait_for("nothing waits")
    assert stored(request).status == "approved"
    leave(terminal)


# --- How it ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130), ("TERM", 130), ("HUP", 130)])
def test_the_terminal_is_as_it_was_afterwards(key: str, code: int) -> None:
    ask()
    started = f"{' '.join(WATCH)} & echo $! > process; fg" if len(key) > 1 else " ".join(WATCH)
    terminal = Terminal(["/bin/bash", "-c", f'set -m; {started}; echo "ended with $?"; stty -a'])
    terminal.wait_for(KEYS)
    if len(key) > 1:
        os.kill(int(Path("process").read_text()), signal.Signals[f"SIG{key}"])
    else:
        terminal.write(key)
    screen, _ = terminal.end()
    assert f"ended with {code}\n" in screen
    assert " icanon" in screen
    assert not re.search(r"(^| )-(echo|icanon|isig)( |$)", screen, re.MULTILINE)
    assert b"\x1b[?1049l" in terminal.raw
    assert terminal.raw.rindex(b"\x1b[?25h") > terminal.raw.rindex(b"\x1b[?25l")


def test_without_a_terminal_one_sentence_says_what_to_do() -> None:
    ask()
    done = subprocess.run(WATCH, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "Error: `sayso watch` needs a terminal; without one, use `sayso pending`" in done.stderr


def test_a_store_that_is_not_there_is_told_in_a_sentence() -> None:
    terminal = watch()
    screen, code = terminal.end()
    assert code == 1
    assert "there is no store state.db" in screen
    assert os.listdir() == []  # noqa: PTH208 - the names are the point


def test_in_a_terminal_that_cannot_show_it_one_sentence_says_what_to_do() -> None:
    screen, code = Terminal(["/usr/bin/env", "TERM=dumb", *WATCH]).end()
    said = screen.replace("\n", "")  # it is longer than a line
    assert code == 2
    assert "Error: this terminal cannot move its cursor (TERM=dumb; use one that can); or use `sayso pending`" in said


# --- What was said before ----------------------------------------------------------------------------


def test_the_messages_before_a_call_are_folded_and_open_in_the_pager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", program(tmp_path / "pager", f"cat > {tmp_path}/shown"))
    with conversation([ConversationMessage(role="user", text="pay bob\n\u202eand eve")]):
        request = ask({"to": "bob"})
    terminal = watch()
    screen = terminal.wait_for("[c] messages before")
    assert "  before      1 message, in the agent's words; folded" in screen
    assert "pay bob" not in screen
    terminal.press("c", at="[c] messages before")
    terminal.press("y", at="[c] messages before")
    terminal.wait_for("nothing waits")
    leave(terminal)
    assert stored(request).status == "approved"
    shown = (tmp_path / "shown").read_text()
    assert "  │ user    pay bob\n  │         \\u202eand eve\n" in shown
