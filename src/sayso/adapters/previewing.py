"""What a function shows before it is called, put into a verdict."""

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
    """Return the verdict with what the preview shows; a call that could not be done is blocked for that."""
    try:
        shown = preview(**thaw(call.args))
        found = await shown if inspect.isawaitable(shown) else shown
    except ToolError as error:  # nobody need be asked about what would fail
        return msgspec.structs.replace(verdict, approval="blocked", reason=f"it could not be done: {error}", fails=True)
    return msgspec.structs.replace(
        verdict,
        description=found.description or verdict.description,
        presentation=found.presentation,
        metadata=found.metadata,
        payload=found.payload or verdict.payload,
        basis=found.basis,
    )
