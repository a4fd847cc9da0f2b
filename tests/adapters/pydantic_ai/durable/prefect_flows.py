"""Flows of Prefect whose process is killed, and which the next process runs again; `python3 dev.py prefect` runs these.

They need an environment of their own, and are therefore not among the tests that `pytest` finds.
"""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.adapters.pydantic_ai.durable.lives import Live, begin, die_and_recover, heard, lines, requests
from tests.children import bounded, crash_runner

HERE = "tests.adapters.pydantic_ai.durable"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Generator[Live]:
    """Processes with one server of Prefect, which keeps its runs and their results in a folder."""
    home = {"PREFECT_HOME": str(tmp_path_factory.mktemp("prefect")), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    command = [sys.executable, "-m", f"{HERE}.prefect_server"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **home})
    with pytest.MonkeyPatch.context() as patch, bounded(started) as server:
        assert server.stdout is not None
        settings = home | {"PREFECT_API_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}/api"}
        for name, value in {**settings, "PREFECT_LOGGING_LEVEL": "CRITICAL"}.items():
            patch.setenv(name, value)
        with crash_runner(f"{HERE}.prefect_child") as run:
            yield run
        server.terminate()


@pytest.mark.proves("H2", "R17")
@pytest.mark.parametrize(("point", "asked"), [("asking", 2), ("approved", 1), ("recorded", 1), ("ended", 1)])
def test_a_flow_that_runs_again_pays_once_and_goes_on_with_the_result(
    live: Live, tmp_path: Path, point: str, asked: int
) -> None:
    folder = begin(tmp_path)
    die_and_recover(live, folder, point)
    assert (lines(folder, "effects"), heard(folder)) == (["5"], ["paid 5"])
    assert len(lines(folder, "asked")) == asked


@pytest.mark.proves("H2", "R17")
@pytest.mark.parametrize(("point", "effects"), [("claimed", []), ("running", []), ("paid", ["5"])])
def test_a_call_that_had_begun_is_not_run_again_and_the_model_hears_that_its_result_is_not_known(
    live: Live, tmp_path: Path, point: str, effects: list[str]
) -> None:
    folder = begin(tmp_path)
    die_and_recover(live, folder, point)
    assert lines(folder, "effects") == effects
    assert "may have run, and its result is not known" in heard(folder)[0]
    assert [(each.status, each.result) for each in requests(folder)] == [("used", None)]


def test_a_flow_that_prefect_retries_gets_the_result_of_its_call(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, fails_once=True, retries=1)
    assert live(folder, 0) == 0
    assert (lines(folder, "asked"), lines(folder, "effects")) == (["{'amount': 5}"], ["5"])
    assert heard(folder) == ["paid 5"]


@pytest.mark.proves("H3")
def test_a_no_stays_a_no_and_nobody_is_asked_again(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, answer={"approved": False})
    die_and_recover(live, folder, "recorded")
    assert (len(lines(folder, "asked")), lines(folder, "effects")) == (1, [])
    assert "refused by ann" in heard(folder)[0]


def test_an_edited_call_is_replayed_with_what_the_person_wrote(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, answer={"approved": True, "override_args": {"amount": 1}})
    die_and_recover(live, folder, "recorded")
    assert (lines(folder, "effects"), heard(folder)) == (["1"], ["paid 1"])


@pytest.mark.parametrize("point", ["ended", "approved", "recorded"])
def test_a_flow_that_stops_for_its_answers_is_resumed_by_another_flow(live: Live, tmp_path: Path, point: str) -> None:
    folder = begin(tmp_path, mode="defer")
    die_and_recover(live, folder, point)
    assert (lines(folder, "effects"), heard(folder)) == (["5"], ["paid 5"])


@pytest.mark.parametrize("asks", ["tool", "validator"])
def test_an_approval_that_other_code_wants_survives(live: Live, tmp_path: Path, asks: str) -> None:
    folder = begin(tmp_path, asks=asks)
    die_and_recover(live, folder, "recorded")
    assert (lines(folder, "effects"), heard(folder)) == (["5"], ["paid 5"])


def test_calls_of_one_response_get_their_own_results(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, turns=[[{"amount": 5}, {"amount": 6}, {"amount": 6}]], **{"last first": True})
    die_and_recover(live, folder, "recorded")
    assert (sorted(lines(folder, "effects")), heard(folder)) == (["5", "6", "6"], ["paid 5", "paid 6", "paid 6"])
