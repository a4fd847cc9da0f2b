"""Text from anybody, shown so that it deceives nobody: what cannot be seen or seems something else, as its code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from sayso.policy.shell.lexer import hidden_character

_MOST_BLANKS = 40  # in a row; more push what follows out of sight
_MOST_MARKS = 4  # accents on one letter; more run over the lines around
_BLANKS = re.compile(rf" {{{_MOST_BLANKS + 1},}}")
_WORD = re.compile(r"\w+")
_ASCII_LAST = "\x7f"
# Letters of other scripts that look like Latin ones; a word of nothing else is meant to be taken for a Latin word.
_TWINS = frozenset("асеорхуіјѕԁһӏԛԝАВЕЅІЈКМНОРСТХУҮαοενικρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")


def visible(text: str) -> str:
    """Return a text with every character that people cannot see, or would take for another one, as its code."""
    if text.isascii() and text.isprintable() and len(text) <= _MOST_BLANKS:
        return text
    shown = "".join(_coded(text))
    return _BLANKS.sub(lambda run: f"⟨{len(run[0]):,} blanks⟩", shown)


def _coded(text: str) -> Iterator[str]:
    deceiving: set[int] = (
        set() if text.isascii() else {at for word in _WORD.finditer(text) for at in _look_alikes(word)}
    )
    marks = 0
    for at, each in enumerate(text):
        marks = marks + 1 if each > _ASCII_LAST and unicodedata.combining(each) else 0
        if each in "\n\t" or hidden_character(each) is not None:
            yield each.encode("unicode_escape").decode() if each <= "\uffff" else f"\\U{ord(each):08x}"
        elif at in deceiving or marks > _MOST_MARKS:
            yield f"⟨U+{ord(each):04X}⟩"
        else:
            yield each


def _look_alikes(word: re.Match[str]) -> Iterator[int]:
    """Yield where a word has letters that are not what they seem: of another script, or in fancy dress."""
    text = word[0]
    if text.isascii():
        return
    latin = any(each <= _ASCII_LAST and each.isalpha() for each in text)
    disguised = all(each in _TWINS or not each.isalpha() for each in text)
    for at, each in enumerate(text, word.start()):
        plain = unicodedata.normalize("NFKC", each)
        dressed = each > _ASCII_LAST and plain != each and plain.isascii()
        foreign = each.isalpha() and each > _ASCII_LAST and not unicodedata.name(each, "").startswith("LATIN")
        if dressed or (foreign and (latin or disguised)):
            yield at
