"""Contract suite of a store of bearer tokens; a part of `StoreContract`.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from sayso.core import tokens
from sayso.core.ports import Keyring


class KeyringContract:
    """Contract of the keyring by which a hub authenticates agents and approvers."""

    race: Callable[..., list[Any]]

    async def test_a_token_of_one_is_known_to_the_other(self, stores: tuple[Keyring, Keyring]) -> None:
        one, two = stores
        token, text = tokens.make("agent", "builder", now=1.0, seconds=10.0, project="shop", roles=("ci",))
        await one.add_token(token)
        assert await two.token(token.id) == token
        assert await two.tokens() == [token]
        assert await two.token("nobody") is None
        assert tokens.is_valid(token, text, now=10.9)
        assert not tokens.is_valid(token, text, now=11.0)

    async def test_a_token_is_taken_by_exactly_one(self, stores: tuple[Keyring, Keyring], tmp_path: Path) -> None:
        one, two = stores
        token, _ = tokens.make("link", "ann", now=1.0)
        await one.add_token(token)
        ways: list[Callable[[], Coroutine[Any, Any, Any]]] = [lambda: one.take_token(token.id)]
        taken = self.race(tmp_path, *ways, lambda: two.take_token(token.id))
        assert [each for each in taken if each is not None] == [token]
        assert await one.token(token.id) is None
        assert await two.tokens() == []
