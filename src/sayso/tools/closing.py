"""Things that hold something open for a while."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Is closed at the end of a `with`, or by hand."""

    def __enter__(self) -> Self:
        """Use it for a while."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds."""
