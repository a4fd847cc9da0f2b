"""Parsers of policy words: several spellings map to one vocabulary; an unknown word is an error, never a default.

Tests: tests/policy/test_compile.py
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Never, cast

from sayso.core.conversation import MOST_CHARACTERS, MOST_MESSAGES, NO_CONVERSATION, ConversationLimit
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.core.model import Approval

APPROVALS: Mapping[str, Approval] = {
    "none": "none",
    "allow": "none",
    "preApproved": "none",
    "pre_approved": "none",
    "required": "required",
    "ask": "required",
    "blocked": "blocked",
    "deny": "blocked",
    "once_per_session": "once_per_session",
}
Operation = Literal["read", "write", "delete", "list"]
STRICTNESS: Mapping[Approval, int] = {"blocked": 3, "required": 2, "once_per_session": 1, "none": 0}
_CONVERSATION = {"messages": MOST_MESSAGES, "characters": MOST_CHARACTERS}
_SLIP = 3  # characters by which a slip may be longer or shorter: `version` is none of `conversation`
# Words of other tools. The nearest spelling would mislead: that of `once` is `none`, and that of `approve` runs a call.
_FOREIGN_WORDS = {
    "approve": "required", "confirm": "required", "prompt": "required", "once": "once_per_session", "never": "blocked",
    "forbid": "blocked", "reject": "blocked",
}  # fmt: skip
_ENDLESS = 1e15  # seconds: some thirty million years
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_approval(word: object, place: str) -> Approval:
    """Parse an `approval` word in any accepted spelling."""
    if isinstance(word, str) and word in APPROVALS:
        return APPROVALS[word]
    known = ", ".join(repr(name) for name in APPROVALS)
    reject(f"{place} is {word!r}; use one of {known}{suggest(word, APPROVALS)}")


def parse_seconds(value: object, place: str) -> float:
    """Parse a duration: a number of seconds, or text such as `90s`, `10m`, `2h` or `30d`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _ENDLESS:
        return float(value)
    if isinstance(value, str) and (match := re.fullmatch(r"(\d{1,6})([smhd])", value, re.ASCII)):
        seconds = int(match[1]) * _UNITS[match[2]]
        if seconds:
            return float(seconds)
    reject(f"{place} is {value!r}; use a positive number of seconds or text such as '90s', '10m', '2h' or '30d'")


def parse_bool(value: object, place: str) -> bool:
    """Parse a boolean; no coercion."""
    if isinstance(value, bool):
        return value
    reject(f"{place} is {value!r}; use true or false")


def parse_text(value: object, place: str) -> str:
    """Parse a text; no coercion."""
    if isinstance(value, str):
        return value
    reject(f"{place} is {value!r}; use a text")


def parse_conversation(value: object, place: str) -> ConversationLimit:
    """Parse a limit of the conversation that requests show: `none`, or numbers of messages and characters."""
    if value == "none":
        return NO_CONVERSATION
    if not isinstance(value, Mapping):
        reject(f"{place} is {value!r}; use 'none', or a mapping such as {{'messages': 4, 'characters': 2000}}")
    given = as_mapping(cast("object", value), place)
    check_keys(given, _CONVERSATION, place)
    for name, number in given.items():
        if type(number) is not int or not 1 <= number <= _CONVERSATION[name]:
            reject(f"{place}.{name} is {number!r}; use a whole number from 1 to {_CONVERSATION[name]}")
    return ConversationLimit(**given)


def as_mapping(value: object, place: str) -> Mapping[str, Any]:
    """Parse a mapping with text keys."""
    if not isinstance(value, Mapping):
        reject(f"{place} is {value!r}; use a mapping")
    entries = cast("Mapping[object, Any]", value)
    for key in entries:
        if not isinstance(key, str):
            reject(f"{place} has the key {key!r}; use text keys")
    return cast("Mapping[str, Any]", value)


def check_keys(given: Iterable[str], known: Iterable[str], place: str) -> None:
    """Refuse an unknown key, and suggest the nearest known one."""
    names = list(known)
    for key in given:
        if key not in names:
            reject(f"{place} has the unknown key {key!r}{suggest(key, names) or '; known: ' + ', '.join(names)}")


def suggest(word: object, known: Iterable[str]) -> str:
    """Return `; did you mean …?` for a near miss, else an empty text."""
    names, meant = list(known), _FOREIGN_WORDS.get(str(word), "")
    alike = [each for each in names if abs(len(each) - len(str(word))) <= _SLIP]
    near = [meant] if meant in names else difflib.get_close_matches(str(word), alike, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def reject(problem: str) -> Never:
    """Raise a configuration error."""
    raise ConfigurationError(problem)
