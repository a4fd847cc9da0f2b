"""The index of open requests: what is overdue is closed, whatever the clock says meanwhile."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.server.served import Served

from sayso.testing import FixedClock

HOUR = 3600.0


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def served(tmp_path: Path, clock: FixedClock) -> Generator[Served]:
    hub = Served(tmp_path, clock=clock)
    hub.start()
    yield hub
    hub.stop()


@pytest.mark.proves("H5")
def test_a_question_at_the_hub_ends_when_its_time_has_passed_though_the_clock_was_set_back(
    served: Served, clock: FixedClock
) -> None:
    first = served.ask({"amount": 1}, expires_at=clock.now() + 60)
    served.until(lambda: first.id in served.hub.open_requests, wanted=True)
    clock.set_back(HOUR)
    second = served.ask({"amount": 2}, expires_at=clock.now() + 300)  # sooner than the first, by the clock
    served.until(lambda: second.id in served.hub.open_requests, wanted=True)
    clock.advance(60)
    served.until(lambda: first.id in served.hub.open_requests, wanted=False)
    assert (served.get(first).status, served.get(second).status) == ("expired", "open")
