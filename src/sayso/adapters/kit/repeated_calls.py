"""Repeated calls: ids for calls of clients that give none, or another one each time they send the same call again.

The id is the digest of the call and a number. The same call finds the question that is open about it, or the answer
that is not used yet; once that is used up, the next call like it is a new one. A refusal that came after the client was
told to come back (`expect_return`) is found once, too.

Tests: tests/adapters/kit/test_repeated_calls.py
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sayso.errors import StoreError

if TYPE_CHECKING:
    from sayso.adapters.kit.gate import Gate
    from sayso.core.model import ApprovalRequest, ToolCall

_MOST_ALIKE = 10_000
_MOST_DIGESTS = 10_000


class RepeatedCalls:
    """Numbers calls that are alike, for one gate."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._taken: set[str] = set()
        self._first: dict[str, int] = {}  # the lowest number, by digest, that may still be open

    @contextlib.asynccontextmanager
    async def numbered(self, call: ToolCall) -> AsyncGenerator[ToolCall]:
        """Give a call its id, which no other call of this process gets meanwhile."""
        digest = call.digest()[:32]
        named = await self._take(call, digest)
        try:
            yield named
        finally:
            self._taken.discard(named.call_id)

    async def _take(self, call: ToolCall, digest: str) -> ToolCall:
        begin = self._first.get(digest, 0)
        for number in range(begin, begin + _MOST_ALIKE):
            named = replace(call, call_id=f"{digest}-{number}")
            if named.call_id in self._taken:
                continue
            self._taken.add(named.call_id)  # before the store is asked: else two calls alike would share one question
            try:
                request = await self._gate.controller.adapter.find_request(named)
                goes_on = request is None or await self._goes_on(request)
            except BaseException:
                self._taken.discard(named.call_id)
                raise
            if goes_on:
                return named
            self._taken.discard(named.call_id)
            self._note_closed(digest, number)
        raise StoreError(f"{call.tool!r} was called {_MOST_ALIKE} times with the same arguments in one session")

    async def expect_return(self, request: ApprovalRequest) -> None:
        """Note that a client was told to make its call again for the answer, so that a refusal is told to it, once."""
        await self._gate.controller.store.park(_mark(request), b"\x01")

    async def _goes_on(self, request: ApprovalRequest) -> bool:
        """Whether a call is the one of this request: it is open, its answer is not used, or its refusal is untold."""
        if request.status in {"open", "used"}:
            return request.status == "open"
        is_untold = await self._gate.controller.store.unpark(_mark(request)) is not None
        return request.status == "approved" or (request.status == "denied" and is_untold)

    def _note_closed(self, digest: str, number: int) -> None:
        if len(self._first) >= _MOST_DIGESTS:
            self._first.clear()
        if self._first.get(digest, 0) == number:
            self._first[digest] = number + 1


def _mark(request: ApprovalRequest) -> str:
    return f"comes-back/{request.id}"
