"""Previews in verdicts: calls the preview of a tool before a person is asked."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

import msgspec

from sayso.core.canonical import thaw
from sayso.core.model import Preview, ToolCall, Verdict
from sayso.errors import ToolError


async def apply_preview(
    preview: Callable[..., Preview | Awaitable[Preview]], call: ToolCall, verdict: Verdict
) -> Verdict:
    """Return the verdict with the preview of the call; a call that is bound to fail is blocked."""
    try:
        shown = preview(**thaw(call.args))
        found = await shown if inspect.isawaitable(shown) else shown
    except ToolError as error:  # a call that would fail is not asked about
        return msgspec.structs.replace(verdict, approval="blocked", reason=f"it could not be done: {error}", fails=True)
    return msgspec.structs.replace(
        verdict,
        description=found.description or verdict.description,
        presentation=found.presentation,
        metadata=found.metadata,
        payload=found.payload or verdict.payload,
        basis=found.basis,
    )
