"""What is left of quoted text when bash has taken the quotes away, for those who look for what is blocked."""

from __future__ import annotations

import re

# In single quotes these do nothing, unless what is quoted is a script.
_MASK = str.maketrans("$`", "\ue000\ue001")
_UNMASK = str.maketrans("\ue000\ue001", "$`")
MARK = re.compile(r"[$`\ue000\ue001]")  # of what runs, or would if it were not quoted
_ESCAPED = re.compile(r"\\([$`\"\\])")
_ANSI = re.compile(
    r"\\(?:x\{([0-9a-fA-F]+)\}?|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))",
    re.DOTALL,
)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def masked(text: str) -> str:
    """Return the text with what would run in it made harmless."""
    return text.translate(_MASK)


def unmasked(text: str) -> str:
    """Return the text as a shell reads it that is given it as a script."""
    return text.translate(_UNMASK)


def dequoted(kind: str | None, token: str) -> str:
    """Return what a quoted token of this kind stands for."""
    if kind == "single":
        return masked(token[1:].removesuffix("'"))
    if kind == "double":
        inside = token.removeprefix("$")[1:].removesuffix('"')
        return _ESCAPED.sub(lambda match: masked(match[1]), inside)
    if kind == "ansi":
        return _ANSI.sub(_ansi, token[2:].removesuffix("'")).partition("\0")[0]
    return token[1:].replace("\n", "") if kind == "escape" else token


def _ansi(match: re.Match[str]) -> str:
    braced, byte, octal, *unicode, letter = match.groups()
    if braced or byte or octal:
        number = int(octal, 8) if octal else int(byte or braced[-2:], 16)
        return chr(number % 256)  # bash drops what does not fit into a byte
    hexadecimal = unicode[0] or unicode[1]
    if hexadecimal:
        number = int(hexadecimal, 16)
        return chr(number) if number < 0x110000 else ""  # noqa: PLR2004 - the last character there is
    return _ANSI_LETTERS.get(letter, letter)
