"""Who has to know the remembered decisions: told in order, and let go of when nobody else holds them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.core.model import Remembered

Learn = Callable[[Sequence["Remembered"]], None]


class Learners:
    """The memories over one store."""

    def __init__(self) -> None:
        """Begin with nobody to tell."""
        self._lock = threading.Lock()
        self._version = -1
        self._known: Sequence[Remembered] = ()
        self._learners: list[weakref.WeakMethod[Learn]] = []

    @property
    def version(self) -> int:
        """The version that everybody was told last."""
        return self._version

    def add(self, learn: Learn) -> None:
        """Tell this one what is known, now and from now on."""
        with self._lock:
            self._learners.append(weakref.WeakMethod(learn))
            learn(self._known)

    def teach(self, version: int, known: Sequence[Remembered]) -> None:
        """Tell everybody, unless they know something newer: a revoked decision must not come back."""
        with self._lock:
            if version <= self._version:
                return
            self._version, self._known = version, known
            self._learners = [each for each in self._learners if each() is not None]
            for each in self._learners:
                learn = each()
                if learn is not None:
                    learn(known)
