"""Stages of Strands' middleware, by the names that they have in the installed release.

Tests: tests/adapters/strands/test_conformance.py
"""

# Where 1.62 is installed, the names of the releases before it are not.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

try:
    from strands.middleware import ExecuteToolContext, ExecuteToolStage, InvokeModelContext, InvokeModelStage
    from strands.types.events import ModelStopReason, ToolResultEvent, TypedEvent
except ImportError:  # before 1.62 all this was there already, under names that were not public yet
    from strands._middleware import (
        ExecuteToolContext,
        ExecuteToolStage,
        InvokeModelContext,
        InvokeModelStage,
    )
    from strands.types._events import ModelStopReason, ToolResultEvent, TypedEvent

    def add_middleware(agent: Any, stage: Any, handler: object) -> None:  # noqa: ANN401 - Strands' own types
        """Add a middleware to an agent, behind those that it has."""
        agent._middleware_registry.add_middleware(stage, handler)  # noqa: SLF001 - its public name came with 1.62
else:

    def add_middleware(agent: Any, stage: Any, handler: object) -> None:  # noqa: ANN401 - Strands' own types
        """Add a middleware to an agent, behind those that it has."""
        agent.add_middleware(stage, handler)


__all__ = [
    "ExecuteToolContext",
    "ExecuteToolStage",
    "InvokeModelContext",
    "InvokeModelStage",
    "ModelStopReason",
    "ToolResultEvent",
    "TypedEvent",
    "add_middleware",
]
