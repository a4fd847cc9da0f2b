"""Other arguments, in the person's own editor: checked, judged, shown again, and never lost."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.channels.terminal.asking import ALLOW, ask, elsewhere, program, until_it_ran
from tests.terminal import KEYS

from sayso import ApprovalController, ApprovalRequest

AGAIN = "[e] edit again  [b] back"
OFFER = "with these arguments"
PARTS = "[1-2] edit  [b] back"
POLICY = {
    "default": "none",
    "tools": {
        "set_*": {"approval": "required"},
        "set_price": {"approval": "blocked", "when": {"args.price": {"gt": 100}}, "reason": "too dear"},
    },
}


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that writes what stands in a file of drafts, one at each start, and keeps what it was given."""
    script = (
        f'n=$(ls {tmp_path}/given-* 2>/dev/null | wc -l)\ncp "$1" {tmp_path}/given-$n\ncat {tmp_path}/draft-$n > "$1"'
    )
    monkeypatch.setenv("EDITOR", program(tmp_path / "editor", script))
    monkeypatch.delenv("VISUAL", raising=False)
    return tmp_path


def requests_in(store: Path) -> list[ApprovalRequest]:
    async def read() -> list[ApprovalRequest]:
        async with ApprovalController(store=store, mode="defer") as controller:
            return await controller.store.recent()

    return asyncio.run(read())


def test_an_edit_is_asked_about_until_it_fits_and_no_draft_is_lost(editor: Path) -> None:
    drafts = ["{ broken", '{"item": 7, "price": 5}', '{"item": "tea", "price": 500}', '{"item": "tea", "price": 5}']
    for number, draft in enumerate(drafts):
        (editor / f"draft-{number}").write_text(draft)
    terminal = ask(policy=POLICY)
    terminal.press("e")
    terminal.wait_for("This cannot be read:")
    terminal.press("e", at=AGAIN)
    terminal.wait_for("This does not fit the tool: item: 7 is not of type 'string'")
    terminal.press("e", at=AGAIN)
    terminal.wait_for("These arguments cannot run: too dear.")
    terminal.press("e", at=AGAIN)
    screen = terminal.wait_for(OFFER)
    assert "tool says   Change the price of tea to 5" in screen  # what the tool says of the new ones
    assert "price: 5\n" in screen
    terminal.press("y", at=OFFER)
    screen, _ = terminal.end()
    assert "Allowed once, with the arguments as you edited them." in screen
    assert "RAN: tea costs 5" in screen
    assert [(editor / f"given-{number}").read_text() for number in range(1, 4)] == drafts[:3]


REVIEW = """\
arguments, as you edited them
  │ item: tea
  │ price: 5
    edited · was 4
"""


def test_the_review_says_whose_arguments_these_are_and_marks_what_was_edited(editor: Path) -> None:
    (editor / "draft-0").write_text('{"item": "tea", "price": 5}')
    terminal = ask()
    terminal.press("e")
    assert REVIEW in terminal.wait_for(OFFER)
    terminal.press("n", at=OFFER)
    screen, _ = terminal.end()
    assert "Denied." in screen
    assert "RAN" not in screen


def test_an_edit_can_be_denied_with_a_note(editor: Path) -> None:
    (editor / "draft-0").write_text('{"item": "tea", "price": 5}')
    terminal = ask()
    terminal.press("e")
    terminal.press("m", at=OFFER)
    terminal.wait_for("Why not?")
    terminal.write("no tea\r")
    assert "refused by ann (note: no tea)" in terminal.end()[0]


def test_an_edit_that_only_moves_blanks_changes_nothing(editor: Path) -> None:
    (editor / "draft-0").write_text('{"price":4,"item":"tea"}')
    terminal = ask()
    terminal.press("e")
    terminal.wait_for("Nothing was changed.")
    terminal.press("b", at=AGAIN)
    terminal.press("n")
    assert OFFER not in terminal.end()[0]


def test_an_edit_can_be_taken_up_again_after_going_back(editor: Path) -> None:
    for number, draft in enumerate(['{"item": "tea", "price": 5}', '{"item": "tea", "price": 6}']):
        (editor / f"draft-{number}").write_text(draft)
    terminal = ask()
    terminal.press("e")
    terminal.press("b", at=OFFER)
    assert terminal.wait_for(KEYS).count("│ price: 4") == 2
    terminal.press("e")
    terminal.press("y", at=OFFER)
    assert "RAN: tea costs 6" in terminal.end()[0]
    assert (editor / "given-1").read_text() == '{"item": "tea", "price": 5}'


def test_having_seen_an_edit_is_not_having_seen_the_request(editor: Path) -> None:
    """The request is folded, the edit is short, and the second start of the editor fails."""
    (editor / "draft-0").write_text('{"item": "tea", "price": 5}')
    terminal = ask(args=[{"item": "\n".join(f"line {number}" for number in range(100)), "price": 4}])
    terminal.press("e")
    terminal.press("2", at=PARTS)
    terminal.wait_for(OFFER)
    (editor / "editor").unlink()
    terminal.press("e", at=OFFER)
    terminal.wait_for("Nothing was changed:")
    terminal.press("y")
    terminal.wait_for("Not all of it is on the screen")
    terminal.press("n")
    assert "RAN" not in terminal.end()[0]


@pytest.mark.parametrize(
    ("text", "file", "draft", "ran"),
    [
        (
            "a\n\tb",
            "a\n\tb\n",
            'a\n\t"c"\n',
            'a\n\t"c"',
        ),  # the editor needs the last line end, the tool did not have it
        ("a\nb", "a\nb\n", "a\nb\nc\n\n", "a\nb\nc\n"),
        ("a\nb\n", "a\nb\n", "a\nc", "a\nc"),
        ("a\nb\n", "a\nb\n", "a\r\nc\r\n", "a\r\nc\r\n"),  # no line end is converted
        ("x" * 61, "x" * 61 + "\n", "\n", ""),
    ],
)
def test_a_long_text_is_edited_as_it_is_and_runs_exactly_so(
    editor: Path, text: str, file: str, draft: str, ran: str
) -> None:
    (editor / "draft-0").write_bytes(draft.encode())
    terminal = ask(args=[{"item": "tea", "price": text}], store=str(editor / "state.db"))
    terminal.press("e")
    terminal.press("1", at=PARTS)
    terminal.press("y", at=OFFER)
    terminal.end()
    assert (editor / "given-0").read_bytes() == file.encode()
    (request,) = requests_in(editor / "state.db")
    assert request.decision is not None
    assert request.decision.override_args == {"item": "tea", "price": ran}


@pytest.mark.parametrize("text", ["short", "a\r\nb", "a\u200bb\nc", "a\x1b[2Jb\nc"])
def test_a_text_that_an_editor_would_not_show_or_keep_is_edited_as_json(editor: Path, text: str) -> None:
    (editor / "draft-0").write_text('{"item": "tea", "price": 5}')
    terminal = ask(args=[{"item": "tea", "price": text}])
    terminal.press("e")
    terminal.press("y", at=OFFER)
    assert "RAN: tea costs 5" in terminal.end()[0]
    assert json.loads((editor / "given-0").read_text()) == {"item": "tea", "price": text}
    assert (editor / "given-0").read_text().isascii()


@pytest.mark.parametrize(("text", "size"), [("a\nb\nc\n", "3 lines"), ("a\nb", "2 lines"), ("a\n", "1 line")])
def test_the_lines_of_a_text_are_counted_as_an_editor_counts_them(text: str, size: str) -> None:
    terminal = ask(args=[{"item": "tea", "price": text}])
    terminal.press("e")
    terminal.wait_for(f"[1] price, a text of {size}\n")
    terminal.press("b", at=PARTS)
    terminal.press("n")
    terminal.end()


def test_after_a_text_the_rest_of_the_draft_can_be_edited_too_or_left(editor: Path) -> None:
    (editor / "draft-0").write_text("a\nc\n")
    terminal = ask(args=[{"item": "tea", "price": "a\nb"}])
    terminal.press("e")
    terminal.press("b", at=PARTS)
    terminal.press("e")
    terminal.press("1", at=PARTS)
    terminal.press("e", at=OFFER)
    (editor / "draft-1").write_text('{"item": "milk", "price": "a\\nc"}')
    terminal.press("2", at=PARTS)
    screen = terminal.wait_for(OFFER)
    assert '│ item: milk\n    edited · was "tea"\n' in screen
    terminal.press("y", at=OFFER)
    terminal.end()
    assert json.loads((editor / "given-1").read_text()) == {"item": "tea", "price": "a\nc"}


def test_an_edit_that_is_long_can_be_seen_in_the_pager_too(
    editor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", program(tmp_path / "pager", f"cat > {tmp_path}/shown"))
    (editor / "draft-0").write_text('{"item": "tea", "price": 5}')
    terminal = ask()
    terminal.press("e")
    terminal.press("v", at=OFFER)
    terminal.press("y", at=OFFER)
    assert "RAN: tea costs 5" in terminal.end()[0]
    assert "│ price: 5\n" in (tmp_path / "shown").read_text()


@pytest.mark.parametrize(
    ("script", "why"),
    [("exit 1", "Nothing was changed:"), ("exit 0", "Nothing was changed.")],
)
def test_an_edit_that_came_to_nothing_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setenv("EDITOR", program(tmp_path / "editor", script))
    terminal = ask()
    terminal.press("e")
    terminal.wait_for(why)
    terminal.press("n")
    assert "NOT:" in terminal.end()[0]


def test_a_pattern_that_would_take_years_is_not_tried(editor: Path) -> None:
    """The schema is the agent's: a person who edits must not wait for it."""
    (editor / "draft-0").write_text('{"item": "%s!", "price": 5}' % ("a" * 60))
    terminal = ask(pattern="^(a+)+$")
    terminal.press("e")
    terminal.press("y", at=OFFER)
    assert "costs 5" in terminal.end()[0]


@pytest.mark.parametrize(("visual", "editor", "price"), [("  ", "", 5), ("", "  ", 5), ("  ", "other", 6)])
def test_an_editor_that_is_named_by_blanks_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visual: str, editor: str, price: int
) -> None:
    """Else the file with the arguments would be run as a program."""
    program(tmp_path / "vi", 'sed -i s/4/5/ "$1"')
    program(tmp_path / "other", 'sed -i s/4/6/ "$1"')
    for name, value in (("PATH", f"{tmp_path}:{os.environ['PATH']}"), ("VISUAL", visual), ("EDITOR", editor)):
        monkeypatch.setenv(name, value)
    terminal = ask()
    terminal.press("e")
    terminal.press("y", at=OFFER)
    assert f"RAN: tea costs {price}" in terminal.end()[0]


@pytest.mark.parametrize("variable", ["VISUAL", "EDITOR"])
@pytest.mark.parametrize(("editor", "why"), [("no-such-editor", "was not found"), ("/", "cannot be run (Permission")])
def test_an_editor_that_cannot_be_run_is_told_and_where_to_name_another(
    monkeypatch: pytest.MonkeyPatch, variable: str, editor: str, why: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv(variable, editor)
    terminal = ask(columns=150)
    terminal.press("e")
    screen = terminal.wait_for(f"Nothing was changed: the editor '{editor}' {why}")
    assert f"; set ${variable} to another one." in screen
    terminal.press("n")
    terminal.end()


def test_a_question_that_is_closed_meanwhile_ends_after_the_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, store = tmp_path / "begun", tmp_path / "go-on", tmp_path / "state.db"
    os.mkfifo(begun)
    os.mkfifo(go_on)
    script = f'echo x > {begun}\ncat {go_on} > /dev/null\nsed -i s/4/5/ "$1"'
    monkeypatch.setenv("EDITOR", program(tmp_path / "editor", script))
    terminal = ask(store=str(store))
    terminal.press("e")
    begun.read_text()  # waits until the editor is there
    elsewhere(store, ALLOW)
    until_it_ran(store)  # which is at once
    assert "RAN" not in terminal.screen  # what is printed must not run over the editor's screen
    go_on.write_text("")
    screen, _ = terminal.end()
    assert "RAN: tea costs 4" in screen
    assert OFFER not in screen
