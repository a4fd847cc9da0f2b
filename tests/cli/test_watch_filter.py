"""The filter of the live inbox in a real terminal: what is listed, what is counted, and what a key can hit."""

import sys
from pathlib import Path

import pytest
from tests.channels.terminal.asking import ALLOW, SEE, a_second_later, elsewhere
from tests.cli.places import Place
from tests.cli.questions import STORE, ask, stored
from tests.terminal import KEYS, Terminal

from sayso.channels.display.answer_keys import ANSWER_KEYS, FILTER_KEY
from sayso.channels.terminal.dialog import KEY_LABELS

ESCAPE = "\x1b"


def watch(*options: str, store: str = STORE, columns: int = 80) -> Terminal:
    command = [sys.executable, "-m", "sayso", "watch", "--store", store, "--who", "ann", *options]
    return Terminal(command, columns=columns, rows=24)


def leave(terminal: Terminal) -> None:
    terminal.write("q")
    assert terminal.end()[1] == 0


def filter_by(terminal: Terminal, line: str) -> None:
    terminal.wait_for("[/] filter")
    terminal.write("/")
    terminal.wait_for("Filter:")
    terminal.write(line)
    terminal.wait_for(f"Filter: {line}")
    terminal.write("\r")
    terminal.wait_for("Filter:", gone=True)


def test_the_key_that_filters_is_no_answer_anywhere() -> None:
    assert FILTER_KEY.key not in {each.key for each in ANSWER_KEYS}
    assert FILTER_KEY.key not in KEY_LABELS


@pytest.mark.parametrize("columns", [40, 80])
def test_only_what_matches_is_listed_and_the_title_counts_the_others(columns: int) -> None:
    ask(tool="pay")
    ask({"to": "ann"}, tool="git_push")
    ask(tool="git_pull")
    terminal = watch(columns=columns)
    terminal.wait_for(KEYS)
    filter_by(terminal, "tool:git* ann")
    screen = terminal.wait_for("1 matches, 2 others wait")
    assert "· tool:git* ann" in screen
    assert ("git_push" in screen, "git_pull" in screen, "pay(" in screen) == (True, False, False)
    terminal.wait_for("wants to run git_push")  # the list and the request below it agree
    filter_by(terminal, "agent:nobody")  # a new filter begins with an empty line
    screen = terminal.wait_for("none match, 3 others wait")
    terminal.wait_for("wants to run", gone=True)
    terminal.write(ESCAPE)
    terminal.wait_for("3 wait for an answer")
    terminal.wait_for("wants to run pay")
    leave(terminal)


def test_what_comes_in_and_does_not_match_is_counted_and_what_matches_is_listed() -> None:
    first = ask(tool="pay")
    terminal = watch("--tool", "git*")
    terminal.wait_for("none match, 1 other waits · tool:git*")
    ask(tool="mail")
    terminal.wait_for("none match, 2 others wait")
    ask(tool="git_push")
    terminal.wait_for("1 matches, 2 others wait")
    terminal.wait_for("wants to run git_push")
    elsewhere(Path(STORE), f"if request.tool != 'git_push': {ALLOW}")
    screen = terminal.wait_for("1 matches, no others wait")
    assert "allowed by bob" not in screen, "what is not listed goes without a word"
    assert stored(first).status == "approved"
    leave(terminal)


def test_an_answer_hits_what_is_on_the_screen_and_the_next_is_one_that_matches() -> None:
    pay, push, mail, pull = (ask(tool=tool) for tool in ("pay", "git_push", "mail", "git_pull"))
    terminal = watch()
    terminal.wait_for(KEYS)
    filter_by(terminal, "tool:git*")
    terminal.wait_for("wants to run git_push")
    terminal.press("y")
    terminal.wait_for("wants to run git_pull")
    terminal.press("n")
    terminal.wait_for("none match, 2 others wait")
    terminal.wait_for("wants to run", gone=True)
    terminal.write("y")
    elsewhere(Path(STORE), SEE)  # takes long enough for a key to come alone
    terminal.write("n")
    terminal.write(ESCAPE)
    terminal.wait_for("wants to run pay")
    assert [stored(each).status for each in (pay, push, mail, pull)] == ["open", "approved", "open", "denied"]
    leave(terminal)


def test_what_is_typed_behind_the_line_answers_nothing() -> None:
    pay, push = ask(tool="pay"), ask(tool="git_push")
    terminal = watch()
    for line in ("tool:pay", "tool:git*", "tool:git* amount"):
        terminal.wait_for(KEYS)
        terminal.write("/" + line)
        terminal.wait_for(f"Filter: {line}")
        elsewhere(Path(STORE), SEE)  # takes longer than the time in which two keys are taken for pasted
        terminal.write("\ry")
        a_second_later(terminal)
    terminal.wait_for(KEYS)
    terminal.write("/\ry")
    terminal.wait_for("2 wait for an answer")
    a_second_later(terminal)
    assert [stored(each).status for each in (pay, push)] == ["open", "open"]
    leave(terminal)


def test_while_the_line_is_open_no_key_is_an_answer_and_escape_lists_all() -> None:
    request = ask(tool="pay")
    terminal = watch()
    terminal.wait_for(KEYS)
    terminal.write("/")
    terminal.wait_for("Filter:")
    assert KEYS not in terminal.screen
    terminal.write("y")
    terminal.wait_for("Filter: y")
    elsewhere(Path(STORE), SEE)  # takes long enough for a key to have its effect
    terminal.write(ESCAPE)
    terminal.wait_for(KEYS)
    terminal.wait_for("1 waits for an answer")
    assert stored(request).status == "open"
    leave(terminal)


def test_a_filter_with_control_characters_is_shown_as_their_codes() -> None:
    ask(tool="pay")
    terminal = watch("--text", "\x1b[31mred")
    assert r"none match, 1 other waits · \x1b[31mred" in terminal.wait_for("1 other waits")
    leave(terminal)


def test_the_filter_works_over_every_kind_of_store(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYSO_TOKEN", place.token)
    pay, push = place.ask("pay"), place.ask("git_push", agent_path=("coder",))
    terminal = watch("--agent", "coder", store=place.where)
    terminal.wait_for("1 matches, 1 other waits · agent:coder")
    terminal.press("y")
    terminal.wait_for("none match, 1 other waits")
    assert [place.get(each).status for each in (pay, push)] == ["open", "approved"]
    leave(terminal)
