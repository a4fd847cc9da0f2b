"""Feedback to the model: the edits and notes of the person behind an approval, in words.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

import json
from typing import Any

from sayso.core.canonical import thaw
from sayso.core.model import Approved


def has_feedback(outcome: Approved) -> bool:
    """Whether a person has edited or noted something that the model should know."""
    decision = outcome.decision if outcome.by == "answer" else None
    return decision is not None and (decision.override_args is not None or bool(decision.note))


def add_feedback(result: object, outcome: Approved, ran: str) -> str:
    """Return the text of a result with what a person has edited and noted; `ran` is the call as it was run."""
    decision, text = outcome.decision, str(result)
    if decision is None or outcome.by != "answer":
        return text
    if decision.override_args is not None:
        text = f"A person changed the arguments: it ran as {ran}. Result: {text}"
    return f"{text}\nNote of the person who allowed it: {decision.note}" if decision.note else text


def call_text(tool: str, args: Any) -> str:  # noqa: ANN401 - frozen or plain arguments
    """Return a call by name, such as `pay(amount=5)`."""
    named = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in thaw(args).items())
    return f"{tool}({', '.join(named)})"
