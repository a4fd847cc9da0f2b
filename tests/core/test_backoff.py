"""Exponential back-off: how the pauses grow, and where they end."""

from itertools import islice

import pytest

from sayso.core.backoff import backoff


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        pytest.param({}, (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0), id="as stores wait"),
        pytest.param({"first": 1.0}, (1.0, 2.0, 4.0, 8.0, 10.0), id="from a second"),
        pytest.param({"longest": 60.0, "factor": 5.0}, (0.1, 0.5, 2.5, 12.5, 60.0, 60.0), id="faster and longer"),
    ],
)
def test_each_pause_is_between_half_of_its_bound_and_all_of_it(
    settings: dict[str, float], bounds: tuple[float, ...]
) -> None:
    for pause, bound in zip(islice(backoff(**settings), len(bounds)), bounds, strict=True):
        assert bound / 2 <= pause <= bound * 1.000001


def test_two_that_begin_together_do_not_wait_in_step() -> None:
    assert list(islice(backoff(), 20)) != list(islice(backoff(), 20))
