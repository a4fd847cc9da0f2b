"""The example in examples/ does what it says, from a terminal that answers and from one that is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "guarded_agent.py"


@pytest.mark.parametrize(("typed", "told"), [("y\n", "paid 0 to a"), ("n\n", "Not executed"), ("", "Not executed")])
def test_the_guarded_agent_pays_only_after_a_yes(typed: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE], input=typed, capture_output=True, text=True, check=True, timeout=60
    )
    assert told in done.stdout
    assert "pay(to='a', amount=0) — run it? [y/N]" in done.stdout


def test_the_guarded_agent_fits_on_a_page() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 30
