"""The model that all laboratories share: one for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clients.loopback_model import LoopbackModel


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    with LoopbackModel() as running:
        yield running
