"""Subscribers to the remembered decisions, held weakly; updates are delivered in version order.

Tests: tests/stores/remote/test_store.py
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.core.model import Remembered

RememberedCallback = Callable[[Sequence["Remembered"]], None]


class RememberedSubscribers:
    """The callbacks of all approval memories on one store, and the last version published to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        self._known: Sequence[Remembered] = ()
        self._callbacks: list[weakref.WeakMethod[RememberedCallback]] = []

    @property
    def version(self) -> int:
        """The version that was published last."""
        return self._version

    def add(self, learn: RememberedCallback) -> None:
        """Subscribe: call `learn` now and with every later version."""
        with self._lock:
            self._callbacks.append(weakref.WeakMethod(learn))
            learn(self._known)

    def publish(self, known: Sequence[Remembered], version: int | None = None) -> None:
        """Publish the next version, or this one unless a newer one was: a revoked decision must not come back."""
        with self._lock:
            number = self._version + 1 if version is None else version
            if number <= self._version:
                return
            self._version, self._known = number, known
            self._callbacks = [each for each in self._callbacks if each() is not None]
            for each in self._callbacks:
                learn = each()
                if learn is not None:
                    learn(known)

    def withdraw_approvals(self) -> None:
        """Withdraw remembered approvals, which may have been revoked unnoticed; remembered denials stay."""
        self.publish([each for each in self._known if not each.decision.approved])
