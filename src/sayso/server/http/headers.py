"""HTTP headers: the security headers of every response, and look-ups in request headers.

Tests: tests/server/test_middleware.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from starlette.types import Scope

SECURITY_HEADERS: Mapping[str, str] = {
    # For all responses but pages, which have a policy of their own.
    "Content-Security-Policy": "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first value of a header; the name must be in lower case."""
    for known, value in scope["headers"]:
        if known == name:
            return cast("bytes", value).decode("latin-1")
    return None


def path_of(scope: Scope) -> str:
    """Return the path of a request within the hub, which may be mounted under another path."""
    path, root = cast("str", scope["path"]), cast("str", scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path
