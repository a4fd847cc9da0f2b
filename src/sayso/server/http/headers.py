"""HTTP headers: the security headers of every response, and look-ups in those of a request.

Tests: tests/server/test_middleware.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from starlette.types import Scope

SECURITY_HEADERS: Mapping[str, str] = {
    # An answer is no page; those that are one have a policy of their own.
    "Content-Security-Policy": "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def header(scope: Scope, name: bytes) -> str | None:
    """Return what a header of a connection says, the first one if there are several; its name is in small letters."""
    for known, value in scope["headers"]:
        if known == name:
            return cast("bytes", value).decode("latin-1")
    return None


def path_of(scope: Scope) -> str:
    """Return the address of a request within the hub, which may be mounted somewhere."""
    path, root = cast("str", scope["path"]), cast("str", scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path
