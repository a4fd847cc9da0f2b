"""Workflows of DBOS whose process is killed, and which the next process recovers from its SQLite file."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic_ai.durable_exec import dbos as engine
from tests.adapters.pydantic_ai.durable.lives import Live, begin, die_and_recover, ended, heard, lines, requests
from tests.adapters.pydantic_ai.durable.process import POINTS
from tests.children import crash_runner

CHILD = "tests.adapters.pydantic_ai.durable.dbos_child"
NEW_RUN_IDS = not hasattr(engine, "DBOSDurability")  # PydanticAI 1 gives a recovered run another id


@pytest.fixture(scope="module")
def live() -> Generator[Live]:
    with crash_runner(CHILD) as run:
        yield run


@pytest.mark.proves("H2", "R17")
@pytest.mark.parametrize("tools", ["steps", "plain"])
@pytest.mark.parametrize("point", ["asking", "approved", "recorded", "ended"])
def test_a_recovered_workflow_pays_once_and_goes_on_with_the_result(
    live: Live, tmp_path: Path, point: str, tools: str
) -> None:
    folder = begin(tmp_path, tools=tools)
    die_and_recover(live, folder, point)
    assert (lines(folder, "effects"), heard(folder)) == (["5"], ["paid 5"])
    asked_again = point == "asking" or (point == "approved" and NEW_RUN_IDS)
    assert len(lines(folder, "asked")) == (2 if asked_again else 1)
    assert ended(folder)["steps"].count("sayso.pay") <= 1


@pytest.mark.proves("H2", "R17")
@pytest.mark.parametrize(("point", "effects"), [("claimed", []), ("running", []), ("paid", ["5"])])
def test_a_call_that_had_begun_is_not_run_again_and_the_model_hears_that_its_result_is_not_known(
    live: Live, tmp_path: Path, point: str, effects: list[str]
) -> None:
    folder = begin(tmp_path)
    die_and_recover(live, folder, point)
    if NEW_RUN_IDS:  # it is another call then, about which the person is asked again
        assert (lines(folder, "effects"), len(lines(folder, "asked"))) == ([*effects, "5"], 2)
        return
    assert lines(folder, "effects") == effects
    assert "Not executed again" in heard(folder)[0]
    assert "may have run, and its result is not known" in heard(folder)[0]
    assert [(each.status, each.result) for each in requests(folder)] == [("used", None)]


@pytest.mark.skipif(NEW_RUN_IDS, reason="there a recovered call is another one, and the remembered yes is for it too")
@pytest.mark.proves("H2", "H3", "R17")
@pytest.mark.parametrize(("point", "effects"), [("claimed", []), ("paid", ["5"])])
def test_a_remembered_yes_does_not_run_a_call_again_that_had_begun(
    live: Live, tmp_path: Path, point: str, effects: list[str]
) -> None:
    folder = begin(tmp_path, answer={"approved": True, "remember": "session"})
    die_and_recover(live, folder, point)
    assert lines(folder, "effects") == effects
    assert "Not executed again" in heard(folder)[0]


@pytest.mark.proves("H3")
def test_a_no_stays_a_no_and_nobody_is_asked_again(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, answer={"approved": False, "note": "too much"})
    die_and_recover(live, folder, "recorded")
    assert (len(lines(folder, "asked")), lines(folder, "effects")) == (1, [])
    assert "refused by ann" in heard(folder)[0]


@pytest.mark.parametrize("point", ["approved", "recorded"])
def test_an_edited_call_is_replayed_with_what_the_person_wrote(live: Live, tmp_path: Path, point: str) -> None:
    folder = begin(tmp_path, answer={"approved": True, "override_args": {"amount": 1}})
    die_and_recover(live, folder, point)
    told = "A person changed the arguments: it ran as pay(amount=1). Result: paid 1"
    assert (lines(folder, "effects"), heard(folder)) == (["1"], [told])


@pytest.mark.parametrize("point", ["ended", "approved", "recorded"])
def test_a_workflow_that_stops_for_its_answers_is_resumed_by_another_workflow(
    live: Live, tmp_path: Path, point: str
) -> None:
    folder = begin(tmp_path, mode="defer")
    die_and_recover(live, folder, point)
    assert (lines(folder, "effects"), heard(folder)) == (["5"], ["paid 5"])
    assert [each.status for each in requests(folder)] == ["used"]


@pytest.mark.parametrize("point", ["recorded"] if NEW_RUN_IDS else ["approved", "recorded"])
def test_calls_of_one_response_get_their_own_results_in_whatever_order_they_were_answered(
    live: Live, tmp_path: Path, point: str
) -> None:
    folder = begin(tmp_path, turns=[[{"amount": 5}, {"amount": 6}]], **{"last first": True})
    die_and_recover(live, folder, point)
    assert (sorted(lines(folder, "effects")), heard(folder)) == (["5", "6"], ["paid 5", "paid 6"])


def test_a_remembered_yes_does_not_change_the_steps_of_a_recovered_workflow(live: Live, tmp_path: Path) -> None:
    remembered = {"approved": True, "remember": "session"}
    folder = begin(tmp_path, answer=remembered, turns=[[{"amount": 5}], [{"amount": 5}]])
    die_and_recover(live, folder, "recorded")
    assert (lines(folder, "asked"), lines(folder, "effects")) == (["{'amount': 5}"], ["5", "5"])


def test_a_tool_that_asks_the_model_to_try_again_is_not_run_again(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, closed=True)
    die_and_recover(live, folder, "recorded")
    assert (lines(folder, "effects"), heard(folder)) == (["5"], ["the bank is closed"])


def test_a_call_that_nobody_is_asked_about_is_no_step_of_sayso(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, turns=[[{"name": "ann"}, {"amount": 5}]])
    die_and_recover(live, folder, "recorded")
    assert heard(folder) == ["saw ann", "paid 5"]
    assert "sayso.look" not in ended(folder)["steps"]


@pytest.mark.parametrize("asks", ["tool"] if NEW_RUN_IDS else ["tool", "validator"])  # a validator may ask in 2.x
@pytest.mark.parametrize("point", ["asking", "approved", "recorded"])
def test_an_approval_that_other_code_wants_survives_a_recovery(
    live: Live, tmp_path: Path, point: str, asks: str
) -> None:
    folder = begin(tmp_path, asks=asks)
    die_and_recover(live, folder, point)
    assert (lines(folder, "effects"), heard(folder)) == (["5"], ["paid 5"])


def test_an_output_function_is_called_once(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, asks="output")
    die_and_recover(live, folder, "ended")
    assert (len(lines(folder, "asked")), lines(folder, "effects")) == (1, ["5"])


def test_a_record_of_another_call_is_not_taken_for_this_one(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, agent="bare")  # nothing records what its model says
    assert live(folder, POINTS.index("recorded")) == -9
    assert live(begin(tmp_path, agent="bare", turns=[[{"amount": 6}]]), 0) == 0
    assert lines(folder, "effects") == ["5"]
    assert "the log of its workflow holds another call at this place" in heard(folder)[0]


@pytest.mark.proves("R17")
def test_a_question_of_a_workflow_that_is_cancelled_is_withdrawn(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path, cancel=True)
    assert live(folder, 0) == 1
    assert ([each.status for each in requests(folder)], lines(folder, "effects")) == (["withdrawn"], [])


def test_a_question_stays_open_while_its_process_is_stopped_and_the_next_one_goes_on(
    live: Live, tmp_path: Path
) -> None:
    folder = begin(tmp_path, stop=True)
    assert live(folder, 0) == 1
    assert [each.status for each in requests(folder)] == ["open"]
    assert live(begin(tmp_path), 0) == 0
    statuses = ["open", "used"] if NEW_RUN_IDS else ["used"]  # with a new run id the question is another one
    assert ([each.status for each in requests(folder)], lines(folder, "effects")) == (statuses, ["5"])


@pytest.mark.proves("H2")
def test_two_processes_that_recover_at_the_same_time_pay_once(live: Live, tmp_path: Path) -> None:
    folder = begin(tmp_path)
    assert live(folder, POINTS.index("approved")) == -9
    with crash_runner(CHILD) as other, ThreadPoolExecutor(2) as threads:
        exits = [threads.submit(run, folder, 0) for run in (live, other)]
        assert [each.result() for each in exits] == [0, 0]
    assert lines(folder, "effects") == ["5"]
