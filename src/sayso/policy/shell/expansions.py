"""Expansions: the texts that bash may expand a line to before it runs, for the block scan.

Tests: tests/policy/shell/test_block_scan.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sayso.policy.shell.nesting import parse_script

_MOST_ALTERNATIVES = 4
_VARIABLE = re.compile(r"\$\{[^}'\"\s]{0,200}\}|\$(?:[A-Za-z_][A-Za-z0-9_]*|[@*#?!0-9$-])")
_EMPTY = re.compile(r"\$\([ \t]{0,9}:?[ \t]{0,9}\)|`[ \t]{0,9}:?[ \t]{0,9}`")
_DEFAULT_WORD = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:?[-=+]([^}]{0,200})\}")
_BRACES = re.compile(r"\{([^{}\s]{1,500})\}")
_NAME = r"[A-Za-z_]\w*"
_PLAIN = r"[\w./:@%+,=-]"
_SET_OR_USED = re.compile(
    rf"(?:^|(?<=[\s;&|(]))({_NAME})=(?:(['\"])((?:{_PLAIN}| ){{1,100}})\2|({_PLAIN}{{1,100}}))(?=[\s;&|)]|$)"
    rf"|\$(?:\{{({_NAME})\}}|({_NAME}))"
)


def possible_expansions(text: str) -> Iterator[str]:
    """Yield the line itself, and the lines that bash may expand it to."""
    yield text
    if "&>" in text:
        yield text.replace("&>", "& >")  # as shells other than bash parse it
    joined = text.replace("\\\n", "")
    yield joined
    if "$" in joined or "`" in joined:
        yield _VARIABLE.sub(" ", joined)  # `rm${IFS}-rf`
        yield _VARIABLE.sub("", _EMPTY.sub("", joined))  # `r$@m`, `r$(:)m`
        yield _DEFAULT_WORD.sub(r"\1", joined)  # `${x:-rm}`
        yield _substitute_values(joined)  # `a=r; b=m; $a$b`
    if "{" in joined:
        yield _BRACES.sub(lambda match: match[1].replace(",", " "), joined)
        for number in range(_MOST_ALTERNATIVES):
            yield _BRACES.sub(lambda match, at=number: _pick_alternative(match[1], at), joined)
    if parse_script(text).broken:
        yield from _without_quotes(joined)


def _pick_alternative(inside: str, number: int) -> str:
    words = inside.split(",")
    return words[number % len(words)]


def _substitute_values(text: str) -> str:
    """Return the line with plain values in place of the variables that it has set to them."""
    values: dict[str, str] = {}

    def read(match: re.Match[str]) -> str:
        name, _, quoted, bare, braced, used = match.groups()
        if name is None:
            return values.get(braced or used, match[0])
        values[name] = quoted or bare
        return match[0]

    return _SET_OR_USED.sub(read, text)


def _without_quotes(text: str) -> Iterator[str]:
    """Yield a line with unbalanced quotes as if it had no quotes or comments, and each of its lines separately."""
    bare = text.replace("'", " ").replace('"', " ")
    yield bare
    yield bare.replace("#", " ")
    yield from text.split("\n")
