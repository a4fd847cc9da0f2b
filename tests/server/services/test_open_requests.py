"""The index of open requests: what is overdue is closed, whatever the clock says meanwhile."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.server.served import Served

from sayso.server.hub import Hub
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock
from sayso.testing.samples import YES, sample_request

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


@pytest.mark.anyio
@pytest.mark.proves("H5")
async def test_a_yes_after_its_time_does_not_count_even_before_the_hub_has_closed_the_question(
    clock: FixedClock,
) -> None:
    hub = Hub(MemoryStore(), clock=clock)  # nothing runs in the background, as when the store is slow
    request = await hub.store.open(sample_request(asked_at=clock.now(), expires_at=clock.now() + 60))
    hub.open_requests.update(request)
    clock.set_back(HOUR)
    clock.advance(60)
    assert (await hub.controller.answer(request.id, YES, who="ann")).status == "expired"
