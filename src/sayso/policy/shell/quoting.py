"""Quote removal: the text of a quoted token after bash has removed its quotes, for the block scan.

Tests: tests/policy/shell/test_block_scan.py
"""

from __future__ import annotations

import re

# In single quotes these characters are literal, unless the quoted text is a script.
_MASK = str.maketrans("$`", "\ue000\ue001")
_UNMASK = str.maketrans("\ue000\ue001", "$`")
MARK = re.compile(r"[$`\ue000\ue001]")  # the start of a substitution, quoted or not
_ESCAPED = re.compile(r"\\([$`\"\\])")
_ANSI = re.compile(
    r"\\(?:x\{([0-9a-fA-F]+)\}?|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))",
    re.DOTALL,
)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def masked(text: str) -> str:
    """Return the text with its substitutions masked by private characters."""
    return text.translate(_MASK)


def unmasked(text: str) -> str:
    """Return the text unmasked, as a shell reads it as its script."""
    return text.translate(_UNMASK)


def dequoted(kind: str | None, token: str) -> str:
    """Return the value of a quoted token of this kind."""
    if kind == "single":
        return masked(token[1:].removesuffix("'"))
    if kind == "double":
        inside = token.removeprefix("$")[1:].removesuffix('"')
        return _ESCAPED.sub(lambda match: masked(match[1]), inside)
    if kind == "ansi":
        return _ANSI.sub(_decode_ansi, token[2:].removesuffix("'")).partition("\0")[0]
    return token[1:].replace("\n", "") if kind == "escape" else token


def _decode_ansi(match: re.Match[str]) -> str:
    braced, byte, octal, *unicode, letter = match.groups()
    if braced or byte or octal:
        number = int(octal, 8) if octal else int(byte or braced[-2:], 16)
        return chr(number % 256)  # bash drops the higher bits
    hexadecimal = unicode[0] or unicode[1]
    if hexadecimal:
        number = int(hexadecimal, 16)
        return chr(number) if number < 0x110000 else ""  # noqa: PLR2004 - the end of Unicode
    return _ANSI_LETTERS.get(letter, letter)
