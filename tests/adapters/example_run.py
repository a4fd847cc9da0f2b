"""One run of an example in a terminal that answers, or that is gone: the test of each framework's example."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

answers = pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("y\n", "paid 5 to Ann"),
        ("3\n", "amount=3). Result: paid 3 to Ann"),
        ("too much\n", "Their note: too much"),
        ("", "Not executed"),
    ],
)


def run_example(name: str, typed: str) -> str:
    """Return what an example prints when somebody types this, and then ends the input."""
    command = [sys.executable, EXAMPLES / name]
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=True, timeout=100).stdout
