"""Search for secrets in a text: known formats, values beside names, passwords on command lines and in addresses.

Tests: tests/core/secret_patterns/test_corpus.py
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from sayso.core.secret_patterns.named_values import NAME_HINTS, SCHEME_HINTS, SET_HINTS, find_named
from sayso.core.secret_patterns.program_options import COMMAND_HINTS, find_in_commands
from sayso.core.secret_patterns.token_formats import LEAST, Span, find_tokens

_USERINFO = re.compile(r"(?<=://)[^\s/?#\"'<>`\\]{1,400}(?=@)")
_DATABASE = re.compile(  # their passwords are often written as they are, with `/`, `?` and `#`
    r"\b(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|clickhouse|cockroachdb|oracle|ldaps?|smtps?|s?ftp)"
    r"(?:\+\w{1,20})?://([^\s:/@\"']{0,128}:(?!\d{2,5}[/,?])[^\s\"'<>`\\]{1,256})@"
)
_ODD = re.compile(r"(?<=://)[^\s:/@\"'?#]{1,128}:(?!\d{1,5}[/,?#])[^\s\"'<>`\\]{1,256}?(?=@(?!sha256:))")
_ORACLE = re.compile(r"\bjdbc:oracle:\w{1,10}:[^/\s:]{1,80}/([^@\s]{1,256})@")
_PLACEHOLDER = re.compile(r"(?:\$\{?[A-Z_][A-Z0-9_]*\}?|\$?\{[\w.]*\}|<[^>]*>|\*+|x+|%s|\{\{.*\}\}|\.{3})")
_TOKEN_AS_USER = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z]).{16,}|.{24,}")


def _one_of(hints: Iterable[str]) -> re.Pattern[str]:
    """Compile texts into one search, grouped by their first character."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for hint in sorted(set(hints)):
        groups[hint[0]].append(re.escape(hint[1:]))
    return re.compile("|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items()))


# Without any of these, a text has no value beside a name and no command with a password: one search tells, which is
# what most texts cost.
_HINT = _one_of((*NAME_HINTS, *SCHEME_HINTS, *SET_HINTS, *COMMAND_HINTS))

_SEPARATES = re.compile(r"[\s=:>]")  # a name from its value


def find_secrets(text: str) -> list[Span]:
    """Return where a text holds secrets, in order and apart from each other."""
    lower = text.lower()
    found: list[Span] = []
    if len(text) >= LEAST:
        found += find_tokens(text, lower)
    if _SEPARATES.search(text) is not None:  # else it is one word
        if _HINT.search(lower) is not None:
            found += find_named(text, lower)
            found += find_in_commands(text, lower)
        elif " -" in text or "\n-" in text:
            found += find_in_commands(text, lower)
    if "@" in text:
        found += _in_urls(text)
    return _merged(found) if found else found


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif start < end:
            found.append((start, end))
    return found


def _in_urls(text: str) -> Iterator[Span]:
    if "://" in text:
        yield from (found.span() for found in _USERINFO.finditer(text) if _is_credential(found[0]))
        yield from (found.span() for found in _ODD.finditer(text) if _is_credential(found[0]))
        yield from (found.span(1) for found in _DATABASE.finditer(text) if _is_credential(found[1]))
    if "jdbc:oracle" in text:
        yield from (found.span(1) for found in _ORACLE.finditer(text))


def _is_credential(userinfo: str) -> bool:
    """Whether the part of a URL before `@` has a password, or is a token itself."""
    user, _, password = userinfo.partition(":")
    if not password:
        return _TOKEN_AS_USER.fullmatch(user) is not None and not _PLACEHOLDER.fullmatch(user)
    return not _PLACEHOLDER.fullmatch(password)
