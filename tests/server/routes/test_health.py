"""Who reads the metrics of a hub: people with a token and, unless it is closed, this machine."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.server.served import Served


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Served]:
    hub = Served(tmp_path, **request.param)
    hub.start()
    yield hub
    hub.stop()


@pytest.mark.parametrize(
    ("served", "without", "with_token"),
    [({}, 200, 200), ({"metrics_for": "token"}, 401, 200), ({"metrics_for": "nobody"}, 404, 404)],
    indirect=["served"],
)
def test_metrics_are_for_this_machine_for_people_or_for_nobody(served: Served, without: int, with_token: int) -> None:
    with served.client() as nobody, served.person() as ann:
        assert (nobody.get("/metrics").status_code, ann.get("/metrics").status_code) == (without, with_token)
        security = ann.get("/openapi.json").json()["paths"]["/metrics"]["get"]["security"]
    assert {} in security, "the document says that it may need no token"
