"""Bounded waits that say what was there instead, when what was waited for never came."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio
from anyio.lowlevel import checkpoint


@contextmanager
def within(seconds: float, seen: Callable[[], object]) -> Generator[None]:
    """Let what is waited for in the block come in time, or fail with what is seen then."""
    with anyio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise AssertionError(f"it did not come in {seconds:g} seconds; there is: {seen()}")


async def until(see: Callable[[], object], wanted: object, *, seconds: float) -> None:
    """Wait until what is seen equals what is wanted."""
    with within(seconds, lambda: f"{see()!r}, and not {wanted!r}"):
        while see() != wanted:
            await checkpoint()
