"""Registry of long-lived connections: limits their number, and closes a connection whose token ends.

Tests: tests/server/test_identity.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Generator
from http import HTTPStatus
from typing import TYPE_CHECKING

from sayso.errors import StoreError
from sayso.server.http.problems import HttpProblem

if TYPE_CHECKING:
    from sayso.core.ports import Clock, Keyring
    from sayso.core.tokens import Token

_LOG = logging.getLogger("sayso.server")
_CHECK_SECONDS = 2.0
_RETRY_SECONDS = 5


class ClientConnection:
    """An authenticated long poll, stream or WebSocket."""

    def __init__(self, token: Token) -> None:
        self.token = token
        self.must_close = asyncio.Event()  # its token is revoked or expired, or the hub drains


class Connections:
    """Registry of the connections of one hub, with a limit in total and one per name."""

    def __init__(self, keyring: Keyring, clock: Clock, *, most: int = 5000, most_of_one: int = 200) -> None:
        self._keyring = keyring
        self._clock = clock
        self._most = most
        self._most_of_one = most_of_one
        self._open: set[ClientConnection] = set()
        self._by_name: Counter[str] = Counter()
        self._opened = asyncio.Event()
        self.draining = False

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def admit(self, token: Token) -> Generator[ClientConnection]:
        """Register a connection for the duration of the block.

        Raises:
            HttpProblem: the limit is reached, or the hub is shutting down.
        """
        if self.draining or len(self._open) >= self._most:
            sentence = "the hub is about to stop" if self.draining else "the hub has too many open connections"
            raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, f"{sentence}; try again", retry_after=_RETRY_SECONDS)
        if self._by_name[token.name] >= self._most_of_one:
            sentence = f"{token.name} has too many open connections; close some of them"
            raise HttpProblem(HTTPStatus.TOO_MANY_REQUESTS, sentence, retry_after=_RETRY_SECONDS)
        connection = ClientConnection(token)
        self._open.add(connection)
        self._by_name[token.name] += 1
        self._opened.set()
        try:
            yield connection
        finally:
            self._open.discard(connection)
            self._by_name[token.name] -= 1
            if not self._by_name[token.name]:
                del self._by_name[token.name]

    async def watch(self) -> None:
        """Close connections whose token was revoked or has expired; one query serves all of them."""
        while True:
            await self._opened.wait()
            try:
                await self._close_without_token()
            except StoreError as error:
                _LOG.warning("the tokens of open connections could not be checked, trying again: %s", error)
            if not self._open:
                self._opened.clear()
                continue
            await asyncio.sleep(_CHECK_SECONDS)

    async def _close_without_token(self) -> None:
        known = {each.id: each for each in await self._keyring.tokens()}
        now = self._clock.now()
        for each in self._open:
            token = known.get(each.token.id)
            if token is None or token.is_expired(now):
                each.must_close.set()

    def drain(self) -> None:
        """Close all connections, and admit no new ones."""
        self.draining = True
        for each in self._open:
            each.must_close.set()
