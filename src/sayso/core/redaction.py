"""Redaction for the audit, logs and notices: a copy as JSON without secrets, cut where it is long.

None of the code of foreign objects is called.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
import uuid
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntFlag
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

from sayso.core.canonical import FrozenDict, FrozenList, FrozenSet
from sayso.core.secret_patterns.names import Secrecy, looks_random, mentions_secret, secrecy
from sayso.core.secret_patterns.program_options import PROGRAMS, find_in_commands
from sayso.core.secret_patterns.search import find_secrets
from sayso.core.secret_patterns.token_formats import Span

REDACTED = "[redacted]"
_SHORT = 200
_LONGEST = 2000
# Characters past the cut that are searched too, for a secret that begins before it. No pattern needs to see more to
# recognise one.
_OVERLAP = 1000
_MOST_VALUES = 500  # per audit line; an agent could send any number
_MOST_JOINED = 100  # items of a list that are read as one command line


class _Role(IntFlag):
    """What a key of a mapping says about another key's value."""

    NONE = 0
    VALUE = 1  # of the name that is the value of the next
    NAME = 2
    LABEL = 4  # of a field on a page: words, or a selector
    COMMAND = 8
    ARGUMENTS = 16


_ROLES: dict[str, _Role] = {
    word: role
    for role, words in (
        (_Role.VALUE, "value val values v content contents data text default plaintext string body"),
        (_Role.NAME, "name key variable var header field parameter param option setting property env k"),
        (_Role.LABEL, "selector element locator label placeholder css xpath"),
        (_Role.COMMAND, "command cmd program executable"),
        (_Role.ARGUMENTS, "args arguments argv"),
    )
    for word in words.split()
}
_LAST_WORD = re.compile(r"(?:[A-Z]?[a-z]{1,20}|(?<![A-Za-z])[A-Z]{1,20})\Z")  # `Value` of `parameterValue`
_PLAIN_NAME = re.compile(r"[\w-]+")  # no file and no title
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.-]*|[A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+|Authorization|Cookie")


class _Budget:
    """Number of values that may still be written."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


def redact(value: object) -> Any:  # noqa: ANN401 - JSON of any shape
    """Copy a value as redacted JSON, truncated after a few hundred nested values."""
    return _redact(value, _Budget(_MOST_VALUES))


def _redact(value: object, budget: _Budget) -> Any:  # noqa: ANN401 - JSON of any shape
    kind = type(value)
    budget.left -= 1
    if kind is str:
        return redact_text(cast("str", value))
    container = _CONTAINERS.get(kind)
    if container is not None:
        return container(value, budget)
    write = _WRITERS.get(kind)  # by exact type: a subclass runs foreign code
    return f"<{kind.__module__}.{kind.__qualname__}>" if write is None else write(value)


def redact_text(value: str) -> str:
    """Return a text with secrets removed, truncated if it is long."""
    if len(value) <= _SHORT:
        return _short_text(value)
    if len(value) <= _LONGEST:
        return _without_secrets(value)
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:16]
    shown = _without_secrets(value[: _LONGEST + _OVERLAP], _LONGEST)
    return f"{shown}… ({len(value)} characters, sha256 {digest})"


def shorten(text: str, most: int) -> str:
    """Return a text that is short as it is, and the beginning and end of a longer one, which has lost its secrets.

    Redaction recognises a secret by its beginning or its name, so it has to come before the cut.
    """
    if len(text) <= most:
        return text
    if len(text) > _LONGEST:
        return f"{_without_secrets(text[: most + _OVERLAP], most)}…"
    shown, half = redact_text(text), most // 2
    return shown if len(shown) <= most else f"{shown[:half]}…{shown[-half:]}"


def _without_secrets(value: str, end: int | None = None) -> str:
    """Return the text up to a place, without its secrets.

    The place is one of the text as it was: what secrets before it leave free is not filled with text that had less
    behind it to be recognised by.
    """
    end = len(value) if end is None else end
    spans = find_secrets(value)
    value = "".join(_pieces(value, spans, end)) if spans else value[:end]
    return value if value.isascii() else value.encode(errors="backslashreplace").decode()


def _pieces(value: str, spans: Iterable[Span], end: int) -> Iterator[str]:
    at = 0
    for start, stop in spans:
        if start >= end:
            break
        yield value[at:start]
        yield REDACTED
        at = stop
    yield value[at:end]


_short_text = lru_cache(maxsize=4096)(_without_secrets)  # names, reasons and rules recur


def _as_is(value: object) -> object:
    return value


def _redact_integer(value: int) -> int | str:
    if -(2**63) <= value < 2**63:
        return value
    digits = hex(value)
    return digits if len(digits) <= _SHORT else f"{digits[:_SHORT]}… ({value.bit_length()} bits)"


def _redact_float(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def _redact_mapping(value: Mapping[object, object], budget: _Budget) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    roles = 0
    for key, item in value.items():
        if budget.left <= 0:
            shown["…"] = f"{len(value) - len(shown)} more"
            break
        name, level, role = _short_key(key) if type(key) is str and len(key) <= _SHORT else _redact_key(key)
        shown[name] = REDACTED if level and _is_secret(name, level, item) else _redact(item, budget)
        roles |= role
    return shown if roles < _Role.NAME else _with_pairs_hidden(value, shown)


def _redact_key(key: object) -> tuple[str, Secrecy, int]:
    """Return the redacted key, how much it says about its value, and its role among the others."""
    if type(key) is not str:
        return str(redact(key)), Secrecy.NONE, 0
    last_word = re.split(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])", key[-_SHORT:])[
        -1
    ]  # `value` of `Value` and `parameterValue`
    return redact_text(key), secrecy(key), _ROLES.get(last_word.lower(), _Role.NONE).value


_short_key = lru_cache(maxsize=4096)(_redact_key)


def _is_secret(name: str, level: Secrecy, item: object) -> bool:
    """Whether a value of this name is a secret; one that says nothing but yes, no or how many is none."""
    kind = type(item)
    if kind is bool or item is None or (kind is str and not item):
        return False
    if kind is int or kind is float:
        return level >= Secrecy.CODE and not name.endswith("s") and not -1000 < cast("float", item) < 1000  # noqa: PLR2004
    if level is Secrecy.WEAK or (kind is str and name.lower().endswith("pwd") and cast("str", item)[:1] in "/~."):
        return kind is str and looks_random(cast("str", item))
    return True


def _with_pairs_hidden(value: Mapping[object, object], shown: dict[str, Any]) -> dict[str, Any]:
    """Hide the value of `{"name": "DB_PASSWORD", "value": …}`, of a form's field, and of a program's argument."""
    rows = [(*_redact_key(key), item) for key, item in value.items() if type(key) is str]
    named = any(_names_secret(item, role) for _, _, role, item in rows)
    command = next((item for _, _, role, item in rows if role == _Role.COMMAND and type(item) is str), "")
    for name, _, role, item in rows:
        if named and role == _Role.VALUE and name in shown:
            shown[name] = REDACTED
        elif command and role == _Role.ARGUMENTS and type(item) in _LISTS and type(shown.get(name)) is list:
            for at in _secret_items(cast("Collection[object]", item), command):
                shown[name][at : at + 1] = [REDACTED]
    return shown


def _names_secret(name: object, role: int) -> bool:
    if type(name) is not str or len(name) > _SHORT:
        return False
    if role == _Role.NAME:
        return secrecy(name) >= Secrecy.CODE and _PLAIN_NAME.fullmatch(name) is not None
    return role == _Role.LABEL and mentions_secret(name)


def _redact_items(value: Collection[object], budget: _Budget) -> list[Any]:
    shown: list[Any] = []
    secret = _secret_items(value) if len(value) > 1 and type(value) in _LISTS else ()
    for at, item in enumerate(value):
        if budget.left <= 0:
            return [*shown, f"… {len(value) - len(shown)} more"]
        shown.append(REDACTED if at in secret else _redact(item, budget))
    return shown


def _secret_items(value: Collection[object], command: str = "") -> Collection[int]:
    """Return the places of items that are secrets for what stands before them: `["--password", "x"]`."""
    words = [_as_word(item) for item in islice(value, _MOST_JOINED)]
    if not any(words):
        return ()
    if len(words) == 2 and words[1][:1] not in {"-", ""} and secrecy(words[0]) >= Secrecy.CODE:  # noqa: PLR2004 - a pair
        return {1}
    found = {
        at + 1 for at, word in enumerate(words[:-1]) if _is_flag_of_secret(word) and words[at + 1][:1] not in {"-", ""}
    }
    if not PROGRAMS.isdisjoint((*words, command, (command or words[0]).rpartition("/")[2])):
        found.update(_secret_arguments(words, command))
    return found


def _as_word(item: object) -> str:
    return item[:_SHORT] if type(item) is str else "0" if type(item) is int else ""


@lru_cache(maxsize=4096)
def _is_flag_of_secret(word: str) -> bool:
    return _FLAG.fullmatch(word) is not None and secrecy(word) >= Secrecy.CODE


def _secret_arguments(words: Sequence[str], command: str) -> Iterator[int]:
    """Read a list as the command line that it stands for, and yield the words that have a secret only there."""
    line, starts = command, list[int]()
    for word in words:
        starts.append(len(line) + 1)
        line += f" {word}"
    for start, _ in find_in_commands(line, line.lower()):
        yield bisect_right(starts, start) - 1


def _as_text(value: object) -> str:
    return redact_text(str(value))


def _time_text(value: dt.datetime | dt.time) -> str:
    zone = type(value.tzinfo)
    known = value.tzinfo is None or zone is dt.timezone
    return redact_text(str(value)) if known else f"{value.replace(tzinfo=None)} <{zone.__module__}.{zone.__qualname__}>"


_LISTS = (list, FrozenList, tuple)
_CONTAINERS: dict[type, Callable[[Any, _Budget], Any]] = {
    dict: _redact_mapping,
    FrozenDict: _redact_mapping,
    list: _redact_items,
    FrozenList: _redact_items,
    tuple: _redact_items,
    set: _redact_items,
    frozenset: _redact_items,
    FrozenSet: _redact_items,
}
_WRITERS: dict[type, Callable[[Any], Any]] = {
    int: _redact_integer,
    float: _redact_float,
    bool: _as_is,
    type(None): _as_is,
    bytes: lambda value: f"<{len(value)} bytes>",
    type(Path()): _as_text,
    PurePosixPath: _as_text,
    PureWindowsPath: _as_text,
    dt.datetime: _time_text,
    dt.date: _as_text,
    dt.time: _time_text,
    dt.timedelta: _as_text,
    uuid.UUID: _as_text,
}
