"""Who has to know the remembered decisions: told in order, and let go of when nobody else holds them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.core.model import Remembered

RememberedCallback = Callable[[Sequence["Remembered"]], None]


class RememberedSubscribers:
    """The memories over one store."""

    def __init__(self) -> None:
        """Begin with nobody to tell."""
        self._lock = threading.Lock()
        self._version = -1
        self._known: Sequence[Remembered] = ()
        self._callbacks: list[weakref.WeakMethod[RememberedCallback]] = []

    @property
    def version(self) -> int:
        """The version that everybody was told last."""
        return self._version

    def add(self, learn: RememberedCallback) -> None:
        """Tell this one what is known, now and from now on."""
        with self._lock:
            self._callbacks.append(weakref.WeakMethod(learn))
            learn(self._known)

    def publish(self, version: int, known: Sequence[Remembered]) -> None:
        """Tell everybody, unless they know something newer: a revoked decision must not come back."""
        with self._lock:
            if version <= self._version:
                return
            self._version, self._known = version, known
            self._callbacks = [each for each in self._callbacks if each() is not None]
            for each in self._callbacks:
                learn = each()
                if learn is not None:
                    learn(known)
