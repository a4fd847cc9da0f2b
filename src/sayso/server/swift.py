"""Routes of Starlette's own, for what is sent most: FastAPI takes longer to read it than the hub to do it."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from starlette.routing import Match, Route

if TYPE_CHECKING:
    from starlette.types import Scope

LONGEST_ID = 100


class SwiftRoute(Route):
    """Takes bodies of one kind that come without a query; all else is for FastAPI's route of the same address."""

    def __init__(self, path: str, endpoint: Any, *, media: str) -> None:  # noqa: ANN401 - as Starlette has it
        """Take what POST requests of that kind are answered by."""
        super().__init__(path, endpoint, methods=["POST"], include_in_schema=False)
        self._header = (b"content-type", media.encode())

    def matches(self, scope: Scope) -> tuple[Match, MutableMapping[str, Any]]:
        """Say whether this is for here: never halfway, as the other route knows which methods there are."""
        if scope["type"] != "http" or scope["query_string"] or self._header not in scope["headers"]:
            return Match.NONE, {}
        match, found = super().matches(scope)
        fits = match is Match.FULL and all(len(each) <= LONGEST_ID for each in found["path_params"].values())
        return (match, found) if fits else (Match.NONE, {})
