"""Whatever an agent writes, people see what is there."""
# ruff: noqa: RUF001 - look-alikes are what this is about

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.channels.display.sanitize import visible


@pytest.mark.proves("H10")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, with umlauts äöü and 日本語", "plain text, with umlauts äöü and 日本語"),
        ("привет, мир", "привет, мир"),
        ("γειά σου", "γειά σου"),
        ("naïve Zoë", "naïve Zoë"),
        ("tab\tand\nline", "tab\\tand\\nline"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]8;;http://evil\x07here\x1b]8;;\x07", "\\x1b]8;;http://evil\\x07here\\x1b]8;;\\x07"),
        ("a\rb", "a\\rb"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("zero\u200bwidth\u2060joined\ufeff", "zero\\u200bwidth\\u2060joined\\ufeff"),
        ("no\u00a0break\u3000wide", "no\\xa0break\\u3000wide"),
        ("\U000e0041tag", "\\U000e0041tag"),
        ("pаypal.com", "p⟨U+0430⟩ypal.com"),
        ("аррӏе", "⟨U+0430⟩⟨U+0440⟩⟨U+0440⟩⟨U+04CF⟩⟨U+0435⟩"),
        ("ｒｍ -rf", "⟨U+FF52⟩⟨U+FF4D⟩ -rf"),
        ("𝐫𝐦", "⟨U+1D42B⟩⟨U+1D426⟩"),
        ("x" + " " * 10_000 + "y", "x⟨10,000 blanks⟩y"),
        ("    indented", "    indented"),
        ("报告v2.pdf", "报告v2.pdf"),
        ("https://github.com∕login.evil.com", "https://github.com⟨U+2215⟩login.evil.com"),
        ("github.com／login", "github.com⟨U+FF0F⟩login"),
        ("你好：世界", "你好：世界"),
        ("−5", "⟨U+2212⟩5"),
        ("ɢit ᎪᏴ", "⟨U+0262⟩it ⟨U+13AA⟩⟨U+13F4⟩"),
        ("r\u0336m\u0336 \u20dd", "r⟨U+0336⟩m⟨U+0336⟩ ⟨U+20DD⟩"),
        ("\u0301x", "⟨U+0301⟩x"),
        ("각" + "\u11a8" * 6, "각" + "\u11a8" * 4 + "⟨U+11A8⟩" * 2),
        ("नमस्ते", "नमस्ते"),
        ("a" + "\u0301" * 50, "a" + "\u0301" * 4 + "⟨U+0301⟩" * 46),
    ],
)
def test_what_cannot_be_seen_or_seems_something_else_is_shown_as_a_code(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = visible(text)
    assert all(each.isprintable() for each in shown)


@given(st.text(), st.text())
def test_two_texts_that_look_alike_are_alike_or_told_apart(left: str, right: str) -> None:
    if left != right and "\\" not in left + right and "⟨" not in left + right:
        assert visible(left) != visible(right)
