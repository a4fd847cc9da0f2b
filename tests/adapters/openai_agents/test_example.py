"""The example in examples/ does what it says, from a terminal that answers and from one that is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "openai_agents_agent.py"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("y\n", "tool: paid 5 to Ann"),
        ("3\n", 'it ran as pay(to="Ann", amount=3). Result: paid 3 to Ann'),
        ("too much\n", "Their note: too much"),
        ("", "Not executed"),
    ],
)
def test_the_agent_pays_only_what_was_agreed_to(typed: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE], input=typed, capture_output=True, text=True, check=True, timeout=100
    )
    assert told in done.stdout
