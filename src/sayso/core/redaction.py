"""Redaction for the audit and logs: secrets by key and pattern, truncation of long texts, no foreign code called.

Tests: tests/core/test_audit.py
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

from sayso.core.canonical import FrozenDict, FrozenList, FrozenSet

REDACTED = "[redacted]"
_LONGEST = 2000
_OVERLAP = 1000  # characters past the cut that are searched too, for a secret that begins before it
_SHORT = 200
_MOST_VALUES = 500  # per audit line; an agent could send any number

_SECRET_KEY = re.compile(
    r"passw|passphrase|passcode|secret|token|api[_-]?key|apikey|access[_-]?key|authorization|credential"
    r"|private[_-]?key|encryption[_-]?key|cookie|session[_-]?key|connection[_-]?string"
    r"|(?<![a-z])(?:pwd|auth|jwt|dsn|pin|otp)(?![a-z])",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----|\Z)"
    r"|\bsayso_(?:agent|approver|session|link)_[A-Za-z0-9_-]{16,}"
    r"|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}"
    r"|\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bx(?:ox[abposr]|app)-[A-Za-z0-9-]{10,}|\b(?:npm|hf)_[A-Za-z0-9]{20,}|hooks\.slack\.com/services/[A-Za-z0-9/]+"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{10,}"
    r"|\bSG\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
    r"|(?P<scheme>(?i:bearer|basic)\s{1,4})[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^/\s:@]{0,256}:[^/\s@]{1,256}(?=@)"
    r"|(?P<key>(?i:passw(?:or)?d|passphrase|pwd|token|secret|api[_-]?key|access[_-]?key)[A-Za-z0-9_]{0,24}"
    r"[\"']?\s{0,4}[=:]\s{0,4}|--(?i:password|token|secret|api-key)\s{1,4})"
    r"(?:\"[^\"]*\"?|'[^']*'?|[^\s&\"',;]+)",
    re.DOTALL,
)


# Prefilter: a text without any of these hints cannot match, and the test costs a tenth of the regular expression. Hints
# are grouped by a character that they contain, and skipped in texts without it.
_HINTS = {
    "=": ("=",),
    ":": (":",),
    "-": ("--", "sk-", "pk-", "rk-", "glpat-", "xox", "xapp-"),
    "_": ("sk_", "pk_", "rk_", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "npm_", "hf_", "sayso_"),
    ".": ("hooks.slack", "ya29.", "sg.", "eyj"),
    "": ("akia", "asia", "aiza", "bearer", "basic"),
}


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
    shown = _without_secrets(value[: _LONGEST + _OVERLAP])[:_LONGEST]
    return f"{shown}… ({len(value)} characters, sha256 {digest})"


def _without_secrets(value: str) -> str:
    if _may_hold_secret(value.lower()):
        value = _SECRET_TEXT.sub(rf"\g<scheme>\g<key>{REDACTED}", value)
    return value if value.isascii() else value.encode(errors="backslashreplace").decode()


def _may_hold_secret(lower: str) -> bool:
    for mark, hints in _HINTS.items():
        if mark in lower:
            for hint in hints:
                if hint in lower:
                    return True
    return False


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
    for key, item in value.items():
        if budget.left <= 0:
            return shown | {"…": f"{len(value) - len(shown)} more"}
        name, is_secret = _short_key(key) if type(key) is str and len(key) <= _SHORT else _redact_key(key)
        shown[name] = REDACTED if is_secret else _redact(item, budget)
    return shown


def _redact_key(key: object) -> tuple[str, bool]:
    """Return the redacted key, and whether its value is a secret."""
    return (redact_text(key), _SECRET_KEY.search(key) is not None) if type(key) is str else (str(redact(key)), False)


_short_key = lru_cache(maxsize=4096)(_redact_key)


def _redact_items(value: Collection[object], budget: _Budget) -> list[Any]:
    shown: list[Any] = []
    for item in value:
        if budget.left <= 0:
            return [*shown, f"… {len(value) - len(shown)} more"]
        shown.append(_redact(item, budget))
    return shown


def _as_text(value: object) -> str:
    return redact_text(str(value))


def _time_text(value: dt.datetime | dt.time) -> str:
    zone = type(value.tzinfo)
    known = value.tzinfo is None or zone is dt.timezone
    return redact_text(str(value)) if known else f"{value.replace(tzinfo=None)} <{zone.__module__}.{zone.__qualname__}>"


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
