"""Import shim for AdalFlow, which has no type annotations: its names, imported in one place.

Tests: tests/adapters/adalflow/test_permission.py
"""

# pyright: reportMissingTypeStubs=false

from typing import TYPE_CHECKING

from adalflow.components.agent.runner import Runner
from adalflow.core.func_tool import FunctionTool
from adalflow.core.tool_manager import ToolManager
from adalflow.core.types import (
    Function,
    FunctionOutput,
    FunctionRequest,
    RunItemStreamEvent,
    RunnerStreamingResult,
    ToolCallActivityRunItem,
    ToolCallPermissionRequest,
    ToolCallRunItem,
    ToolOutput,
)

if TYPE_CHECKING:
    from adalflow.apps.permission_manager import PermissionManager as AdalFlowPermissionManager
else:
    # For a type checker ours is a subclass of theirs, as their runner's signature demands. At run time it inherits
    # nothing: a method that a later release adds, and that allows by default, must fail here instead.
    AdalFlowPermissionManager = object

__all__ = [
    "AdalFlowPermissionManager",
    "Function",
    "FunctionOutput",
    "FunctionRequest",
    "FunctionTool",
    "RunItemStreamEvent",
    "Runner",
    "RunnerStreamingResult",
    "ToolCallActivityRunItem",
    "ToolCallPermissionRequest",
    "ToolCallRunItem",
    "ToolManager",
    "ToolOutput",
]
