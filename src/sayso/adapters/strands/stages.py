"""Stages of Strands' middleware, by the names that they have in the installed release.

Tests: tests/adapters/strands/test_conformance.py
"""

try:
    from strands.middleware import ExecuteToolContext, ExecuteToolStage, InvokeModelContext, InvokeModelStage
    from strands.types.events import ModelStopReason, ToolResultEvent, TypedEvent
except ImportError:  # before 1.62 `Agent.add_middleware` was public, but the names of its stages were not
    from strands._middleware import (  # pyright: ignore
        ExecuteToolContext,
        ExecuteToolStage,
        InvokeModelContext,
        InvokeModelStage,
    )
    from strands.types._events import ModelStopReason, ToolResultEvent, TypedEvent

__all__ = [
    "ExecuteToolContext",
    "ExecuteToolStage",
    "InvokeModelContext",
    "InvokeModelStage",
    "ModelStopReason",
    "ToolResultEvent",
    "TypedEvent",
]
