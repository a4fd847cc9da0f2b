"""Sanitises untrusted text for display: control, invisible and confusable characters become their codes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache

from sayso.policy.shell.lexer import hidden_character

_MOST_BLANKS = 40  # in a row; more push the rest off the screen
_MOST_MARKS = 4  # accents on one letter; more overlap the lines around
_BLANKS = re.compile(rf" {{{_MOST_BLANKS + 1},}}")
_WORD = re.compile(r"\w+")
_NOT_PLAIN = re.compile(r"[^ -~]+")
_ASCII_LAST = "\x7f"
# Letters of other scripts that look like Latin ones; a word of such letters alone imitates a Latin word.
_HOMOGLYPHS = frozenset("асеорхуіјѕԁһӏԛԝѵАВЕЅІЈКМНОРСТХУҮԚԜαγοενικρτυχωϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսհոցզքՕՍԼՏ")
# Rarely used scripts and letters that look like Latin ones.
_LOOKALIKE_SCRIPTS = ("CHEROKEE ", "LISU ", "COPTIC ", "DESERET ", "OLD ITALIC ", "LATIN LETTER SMALL CAPITAL ")
# Other characters that look like separators of a path, an address or a number.
_LOOKALIKE_SIGNS = frozenset("⁄∕⧸╱⟋∖⧵╲‐‑−∶꞉ː։׃∣ǀǃɡɑɩ")  # noqa: RUF001 - confusable on purpose
_JAMO = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb]")  # parts of a Korean letter that combine with its first part
_OVERLAY = 1  # combining class of overlays, which strike a letter through


def visible(text: str) -> str:
    """Escape every character of a text that is invisible, acts on a terminal or looks like another one."""
    if not (text.isascii() and text.isprintable()):
        words = () if text.isascii() else _WORD.finditer(text)
        confusable = {at for word in words for at in _confusable_positions(word)}
        text = _NOT_PLAIN.sub(lambda run: "".join(_escape_run(run, confusable)), text)
    return _BLANKS.sub(lambda run: f"⟨{len(run[0]):,} blanks⟩", text) if len(text) > _MOST_BLANKS else text


def _escape_run(run: re.Match[str], confusable: AbstractSet[int]) -> Iterator[str]:
    marks = 0 if run.start() else _MOST_MARKS  # at the start, a mark would combine with the character before the text
    for at, each in enumerate(run[0], run.start()):
        marks = marks + 1 if _is_mark(each) else 0
        if each in "\n\t" or _is_hidden(each):
            yield each.encode("unicode_escape").decode() if each <= "\uffff" else f"\\U{ord(each):08x}"
        elif at in confusable or marks > _MOST_MARKS or _is_overlay(each) or _is_lookalike_sign(run.string, at):
            yield f"⟨U+{ord(each):04X}⟩"
        else:
            yield each


@lru_cache(10_000)  # a long text has few different characters
def _is_hidden(char: str) -> bool:
    return hidden_character(char) is not None


@lru_cache(10_000)
def _is_mark(char: str) -> bool:
    return unicodedata.category(char).startswith("M") or _JAMO.match(char) is not None


@lru_cache(10_000)
def _is_overlay(char: str) -> bool:
    """Whether a combining character covers the letter before it."""
    return unicodedata.combining(char) == _OVERLAY or unicodedata.category(char) == "Me"


def _is_lookalike_sign(text: str, at: int) -> bool:
    """Whether a sign is confusable: always, or as a styled variant between ASCII characters."""
    plain = unicodedata.normalize("NFKC", text[at])
    styled = len(plain) == 1 and plain.isascii() and plain != text[at]
    return text[at] in _LOOKALIKE_SIGNS or (styled and text[at - 1 : at].isascii() and text[at + 1 : at + 2].isascii())


def _confusable_positions(word: re.Match[str]) -> Iterator[int]:
    """Yield the positions of confusable letters in a word: of another script, or styled variants."""
    text = word[0]
    if text.isascii():
        return
    has_latin = any(each <= _ASCII_LAST and each.isalpha() for each in text)
    is_imitation = all(each in _HOMOGLYPHS or not each.isalpha() for each in text)
    for at, each in enumerate(text, word.start()):
        plain = unicodedata.normalize("NFKC", each)
        name = unicodedata.name(each, "")
        styled = each > _ASCII_LAST and plain != each and plain.isascii()
        # A wide character does not pass for a Latin letter.
        is_narrow = unicodedata.east_asian_width(each) != "W"
        is_foreign = each.isalpha() and each > _ASCII_LAST and is_narrow and not name.startswith("LATIN")
        if styled or name.startswith(_LOOKALIKE_SCRIPTS) or (is_foreign and (has_latin or is_imitation)):
            yield at
