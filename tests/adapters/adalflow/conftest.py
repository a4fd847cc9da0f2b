"""What the tests of the AdalFlow adapter share."""

import os
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
