"""What the tests of the AdalFlow adapter share."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if not Path(os.environ.get("TIKTOKEN_CACHE_DIR", "-")).is_dir():
    raise pytest.UsageError(
        "AdalFlow wants a tokenizer's vocabulary when it is imported: run these tests by `python3 dev.py test`, which "
        "fetches it, or set TIKTOKEN_CACHE_DIR to a folder that has it"
    )

from tests.adapters.adalflow.scripted import Till


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture(autouse=True)
def _tidy_loop() -> Iterator[None]:
    """Close the loop that AdalFlow leaves behind: it makes `asyncio.run` keep one for the thread, open."""
    yield
    policy = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated] - what AdalFlow uses
    left = getattr(getattr(policy, "_local", None), "_loop", None)
    if left is not None and not left.is_running() and not left.is_closed():
        left.close()
        policy.set_event_loop(None)
