"""AdalFlow behind a controller: a permission manager for its runner, and a runner that reports everything."""

try:
    import sayso.adapters.adalflow.library as _library
except ImportError as error:
    raise ImportError("AdalFlow is not installed; run `pip install sayso[adalflow]`") from error
except OSError as error:
    raise ImportError(
        "AdalFlow could not fetch the tokenizer's vocabulary that it wants when it is imported: import it once where "
        "there is a network, or set TIKTOKEN_CACHE_DIR to a folder that has it"
    ) from error

from sayso.adapters.adalflow.answers import ApprovalOutcome, ApprovalResponse, PermissionRequest
from sayso.adapters.adalflow.managers import (
    CLIPermissionManager,
    RESTPermissionManager,
    StreamlitPermissionManager,
    WebSocketPermissionManager,
    permission_manager,
)
from sayso.adapters.adalflow.permission import PermissionManager
from sayso.adapters.adalflow.runner import ApprovalRunner, Approving

del _library

__all__ = [
    "ApprovalOutcome",
    "ApprovalResponse",
    "ApprovalRunner",
    "Approving",
    "CLIPermissionManager",
    "PermissionManager",
    "PermissionRequest",
    "RESTPermissionManager",
    "StreamlitPermissionManager",
    "WebSocketPermissionManager",
    "permission_manager",
]
