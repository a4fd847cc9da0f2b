"""Conversation before a call: the last messages, for approvers to read; within the owner's limit, and redacted.

Nothing rests on them: they are in no digest, scope, rule or audit entry. The agent's side reports them, so a role is
no proof of an author.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec.structs import replace

from sayso.core.redaction import redact, redact_text

Role = Literal["user", "caller", "agent", "tool"]  # a caller is the agent that called this one

MOST_MESSAGES, MOST_CHARACTERS = 50, 20_000
_LONGEST = 2000  # characters of a message, as in the audit
_LONGEST_CALL = 200  # of a tool's arguments, or of its result
_FARTHEST = 200  # messages before the last ones in which the question to the agent is searched
_ASKING = frozenset({"user", "caller"})


class ConversationMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One message before a call, as the agent's side reports it; never part of what is authorised."""

    role: Role
    text: str
    gap: bool = False  # messages before this one are left out

    def __post_init__(self) -> None:
        """Refuse another role, and what is not a text."""
        if self.role not in get_args(Role):
            raise ValueError(f"ConversationMessage: `role` must be one of {get_args(Role)}, not {self.role!r}")
        if type(self.text) is not str:
            raise TypeError(f"ConversationMessage: `text` must be a text, not {self.text!r}")


class ConversationLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a conversation a request may show: so many messages, with so many characters in all."""

    messages: int = 4
    characters: int = 2000

    def tightened_by(self, other: ConversationLimit | None) -> ConversationLimit:
        """Return the stricter of two limits."""
        if other is None:
            return self
        return ConversationLimit(
            messages=min(self.messages, other.messages), characters=min(self.characters, other.characters)
        )


NO_CONVERSATION = ConversationLimit(messages=0, characters=0)
LARGEST_CONVERSATION = ConversationLimit(messages=MOST_MESSAGES, characters=MOST_CHARACTERS)


def last_messages(newest_first: Iterable[object], limit: ConversationLimit) -> tuple[ConversationMessage, ...]:
    """Return the last messages in their order: within the limit, and redacted as the audit is.

    The last question to the agent is among them, even if many messages followed it: it says who asked for what.

    Raises:
        TypeError: one of them is not a `ConversationMessage`.
    """
    if not limit.messages or not limit.characters:
        return ()
    kept = _select(_checked(newest_first), limit.messages)
    texts = [redact_text(each.text.strip()) for each in kept]
    room = _shares([len(text) for text in texts], limit.characters)
    cut = (_cut(text, size) for text, size in zip(texts, room, strict=True))
    return tuple(replace(each, text=text) for each, text in zip(kept, cut, strict=True) if text)


def _checked(given: Iterable[object]) -> Iterator[ConversationMessage]:
    for each in given:
        if not isinstance(each, ConversationMessage):
            raise TypeError(f"a conversation holds ConversationMessage, not {type(each).__name__}")
        if each.text and not each.text.isspace():
            yield each


def _select(newest_first: Iterator[ConversationMessage], most: int) -> Sequence[ConversationMessage]:
    kept = list(islice(newest_first, most))
    if len(kept) == most and not any(each.role in _ASKING for each in kept):
        asked = next((each for each in islice(newest_first, _FARTHEST) if each.role in _ASKING), None)
        if asked is not None:
            kept[-2:] = [*(replace(each, gap=True) for each in kept[-2:-1]), asked]
    if kept and next(newest_first, None) is not None:
        kept[-1] = replace(kept[-1], gap=True)
    return kept[::-1]


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    """Return the share of each text in the room: short texts leave theirs to long ones."""
    found = dict[int, int]()
    for done, at in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        found[at] = min(lengths[at], room // (len(lengths) - done), _LONGEST)
        room -= found[at]
    return [found[at] for at in range(len(lengths))]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…" if most else ""


def describe_call(tool: str, args: Mapping[str, Any]) -> str:
    """Return a tool call as a message, with redacted arguments, cut after a few hundred characters."""
    values = cast("dict[str, Any]", redact(dict(args)))
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return f"calls {redact_text(tool)}({_cut(given, _LONGEST_CALL)})"


def describe_result(tool: str, result: object) -> str:
    """Return the result of a tool as a message: the name, and the first characters of the redacted result."""
    value = redact(result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{redact_text(tool)}: {_cut(text, _LONGEST_CALL)}"
