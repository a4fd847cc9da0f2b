"""The table of the other library's tests: read, compared and written; running them needs the network."""

import pytest
from tests.suites.blocking_approval import END, HEADING, PAGE, START, Result, problem_with, table_of, with_table

OWN = {"TestA::test_one": "", "TestA::test_strict": "", "TestA::test_broken": "no such module"}
FOUND = HEADING + Result("0.8.0", OWN, {**OWN, "TestA::test_strict": "E assert 'Strict mode' in 'no'"}).row


def test_a_row_counts_what_passes_and_says_what_the_rest_is_about() -> None:
    assert FOUND == HEADING + "| 0.8.0 | 2 | 1 | words of the strict mode 1 |\n"


def test_a_failure_that_no_reason_is_known_for_is_not_counted_as_another() -> None:
    found = Result("0.8.0", OWN, {**OWN, "TestA::test_strict": "E TypeError: something new"})
    assert found.reasons == {"TestA::test_strict": None}


@pytest.mark.parametrize(
    ("committed", "words"),
    [
        (FOUND, None),
        (FOUND.replace("| 1 |", "| 2 |"), "Fewer tests pass with sayso"),
        (FOUND + "| 0.9.0 | 3 | 3 |  |\n", "Fewer tests pass with sayso"),
        (FOUND.replace("| 1 |", "| 0 |"), "not true any more"),
        ("", "not true any more"),
    ],
    ids=["same", "fewer", "a release is gone", "more", "none"],
)
def test_a_table_that_is_not_true_is_a_problem(committed: str, words: str | None) -> None:
    problem = problem_with(committed, FOUND)
    assert problem is None if words is None else words in str(problem)


def test_the_table_of_the_page_is_found_and_replaced_alone() -> None:
    page = PAGE.read_text()
    assert table_of(page).startswith(HEADING)
    other = with_table(page, FOUND)
    assert (table_of(other), with_table(other, table_of(page))) == (FOUND, page)
    assert other.count(START + FOUND + END) == 1
