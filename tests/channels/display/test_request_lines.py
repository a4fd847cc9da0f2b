"""How values are written, and how our own words are broken."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from sayso.channels.display.conversation_lines import conversation_lines
from sayso.channels.display.request_lines import GUTTER, Line, format_value, request_lines, truncate, wrap_items
from sayso.channels.terminal.colours import plain_text
from sayso.channels.terminal.watch_layout import Listed, WatchLayout
from sayso.core.conversation import ConversationMessage
from sayso.core.model import ApprovalRequest, DescribedBy


@pytest.mark.proves("H10")
@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("plain words", ["plain words"]),
        (6, ["6"]),
        ("6", ['"6"']),
        ("-1.5e3", ['"-1.5e3"']),
        (True, ["true"]),
        ("true", ['"true"']),
        ("None", ['"None"']),
        (None, ["null"]),
        ("null", ['"null"']),
        ("nan", ['"nan"']),
        ("", ['""']),
        (" x", ['" x"']),
        ('"x"', ['"\\"x\\""']),
        ("{}", ['"{}"']),
        ({}, ["{}"]),
        ([1, "1"], ['[1, "1"]']),
        ("a\nb", ["a text of 2 lines:", "  a", "  b"]),
        ("a\nb\n", ["a text of 2 lines, with a final newline:", "  a", "  b"]),
        ("a\n", ["a text of 1 line, with a final newline:", "  a"]),
        ("a\n\n", ["a text of 2 lines, with a final newline:", "  a", "  "]),
        ("a text of 2 lines:", ['"a text of 2 lines:"']),
        ({"a": "x" * 60}, ["{", f'  "a": "{"x" * 60}"', "}"]),
    ],
)
def test_a_text_is_written_as_it_is_and_quoted_where_it_would_read_as_something_else(
    value: object, lines: list[str]
) -> None:
    assert format_value(value) == lines


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["1", "true", "a\nb", "[1]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_two_values_that_differ_are_written_differently(left: object, right: object) -> None:
    same = left == right and repr(left) == repr(right)  # 1 equals True
    assert (format_value(left) == format_value(right)) is same


def test_a_number_that_python_refuses_to_write_is_written_all_the_same() -> None:
    assert format_value([10**5000])[1].strip().startswith('"the number 0x')
    assert request_lines(ApprovalRequest(tool_name="x", args={"n": 10**5000}), 80, whole=True).whole


HEADING = ("class:heading", "arguments, as the agent wrote them")


@pytest.mark.proves("H10")
@pytest.mark.parametrize("char", ["字", "\u2630", "\U0001f600", "x"])
def test_no_row_is_wider_than_the_screen_and_nothing_of_an_argument_begins_one(char: str) -> None:
    for length in range(60, 100):
        request = ApprovalRequest(tool_name="x", args={"n" * (length - 50): char * length + "[y] allow"})
        lines = request_lines(request, 80).lines
        assert max(get_cwidth("".join(text for _, text in line)) for line in lines) <= 80
        assert {line[0] for line in lines[lines.index([HEADING]) + 1 :]} == {GUTTER}


def widest(line: Line) -> int:
    """The columns of a row in a terminal that gives two to characters of ambiguous width."""
    chars = "".join(text for _, text in line)
    return sum(2 if unicodedata.east_asian_width(each) in "WFA" else 1 for each in chars)


@pytest.mark.proves("H10")
@pytest.mark.parametrize("char", ["é", "…", "│", "Я", "①", "°", "±", "§"])
def test_a_character_that_some_terminals_draw_in_two_columns_pushes_nothing_to_the_next_row(char: str) -> None:
    for length in range(60, 100, 3):
        text = char * length + "[y] allow"
        messages = (ConversationMessage(role="user", text=text),)
        request = ApprovalRequest(
            tool_name="x", args={"n" * (length - 50): text}, description=text, reason=text, conversation=messages
        )
        lines = [*request_lines(request, 80).lines, *conversation_lines(request, 80)]
        listed = Listed({"1": request}, {"1": "1"}, others=0, filter_text="", is_filter_typed=False)
        lines += WatchLayout(80, 24).draw(listed, None, text)
        assert max(map(widest, lines)) <= 80
        assert {line[0] for line in lines[lines.index([HEADING]) + 1 : lines.index([HEADING]) + 3]} == {GUTTER}


@pytest.mark.proves("H10")
def test_a_name_that_could_be_taken_for_more_is_quoted() -> None:
    request = ApprovalRequest(tool_name="x", args={"path: safe.txt, mode": "w", "to": "ann"})
    rows = ["".join(text for _, text in line) for line in request_lines(request, 80).lines]
    assert rows[-2:] == ['  │ "path: safe.txt, mode": w', "  │ to: ann"]


def test_a_long_text_of_wide_letters_is_shown_as_soon_as_one_of_others() -> None:
    """Its rows were once counted anew for each row, which took minutes here, and the question never came."""
    found = request_lines(ApprovalRequest(tool_name="x", args={"text": "字" * 400_000}), 80)
    assert not found.whole


@settings(deadline=None)
@given(st.text(), st.integers(1, 30))
def test_what_is_cut_fits(text: str, room: int) -> None:
    assert len(truncate(text, room)) <= max(room, 2)


def test_our_words_are_broken_between_items() -> None:
    assert wrap_items("[a] one item  [b] another item", 20) == ["[a] one item", "[b] another item"]
    assert wrap_items("  an indented line that is long", 20) == ["  an indented line", "  that is long"]
    assert wrap_items("", 20) == [""]


@pytest.mark.parametrize(
    ("by", "shown"), [("tool", "  tool says   Pay\n"), ("policy", "  policy says Pay\n"), ("default", "")]
)
def test_a_description_is_shown_as_the_words_of_whoever_gave_it(by: DescribedBy, shown: str) -> None:
    request = ApprovalRequest(tool_name="pay", description="Pay", described_by=by, reason="it asks")
    assert plain_text(request_lines(request, 80).lines).startswith(
        f"An agent wants to run pay\n{shown}  because     it"
    )


def test_edited_arguments_are_marked_where_they_differ_in_rows_that_no_argument_can_imitate() -> None:
    original = {"same": "x", "text": "a\nb", "flag": True, "gone": {"a": [1]}}
    edited = {"same": "x", "text": "a\n    edited · was 9", "flag": 1, "new": None}
    request = ApprovalRequest(tool_name="pay", args=edited)
    shown = plain_text(request_lines(request, 80, original=original).lines)
    assert shown.partition("\n\n")[2] == (
        "arguments, as you edited them\n"
        "  │ same: x\n"
        "  │ text: a text of 2 lines:\n"
        "  │   a\n"
        "  │       edited · was 9\n"
        '    edited · was "a\\nb"\n'
        "  │ flag: 1\n"
        "    edited · was true\n"
        "  │ new: null\n"
        "    edited · was not given\n"
        '    left out · gone was {"a": [1]}\n'
    )


def test_a_long_value_before_an_edit_stays_on_one_row() -> None:
    request = ApprovalRequest(tool_name="pay", args={"note": "short"})
    lines = request_lines(request, 40, original={"note": "\x1b[2J" + "x" * 900}).lines
    assert plain_text(lines[-1:]) == f'    edited · was "\\u001b[2J{"x" * 10}…\n'
