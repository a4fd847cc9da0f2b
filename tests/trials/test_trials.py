"""The measuring tool sees what a program writes, starts and reaches; real programs are measured without a violation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.trials.__main__ import measure
from tests.trials.sandbox import Sandbox

from sayso.policy.shell.proof.catalogue import profile_files, read_profile
from sayso.policy.shell.proof.profile import ProfileData, parse_profile

PROGRAM = """#!/bin/bash
for word in "$@"; do
  case "$word" in
    --write) echo x > pwned ;;
    --delete) rm -f in.txt ;;
    --start) /usr/bin/id > /dev/null ;;
    --reach) exec 3<>/dev/tcp/127.0.0.1/8765 ;;
    --value=*) eval "echo ${word#--value=}" > /dev/null ;;
    --page) $PAGER < /dev/null ;;
  esac
done
"""
HEAD = 'programs = ["frob"]\nsource = "a program of this test"\n'


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(extra={"frob": PROGRAM})
    yield made
    made.close()


def profile(harmless: str, more: str = "") -> ProfileData:
    return parse_profile(f'{HEAD}harmless = "{harmless}"\ntrial = "frob {{option}} in.txt"\n{more}')


@pytest.mark.parametrize(
    ("option", "kind", "what"),
    [
        ("--write", "writes", "pwned"),
        ("--delete", "starts", "rm"),
        ("--start", "starts", "/usr/bin/id"),
        ("--reach", "reaches", "8765"),
        ("--page", "starts", "pager-canary"),
    ],
)
def test_an_option_that_does_more_than_the_bare_line_is_found(
    sandbox: Sandbox, option: str, kind: str, what: str
) -> None:
    result = measure(sandbox, "frob", profile(option))
    assert any(f"`frob {option} in.txt` {kind}:" in each and what in each for each in result.violations)


def test_a_value_that_is_run_is_found_by_the_attacks(sandbox: Sandbox) -> None:
    result = measure(sandbox, "frob", profile("--value=", '[values]\n"--value" = "any"'))
    assert any("pwned" in each for each in result.violations)
    assert not measure(sandbox, "frob", profile("--value=", '[values]\n"--value" = "number"')).violations


def test_an_option_that_does_nothing_is_measured_without_a_violation(sandbox: Sandbox) -> None:
    result = measure(sandbox, "frob", profile("-q,--quiet --color?"))
    assert result.violations == ()
    assert result.runs == result.accepted
    assert result.options == len(("-q", "--quiet", "--color", "--help", "--version"))


def test_what_the_bare_line_does_has_to_be_said_by_the_profile(sandbox: Sandbox) -> None:
    line = f'{HEAD}trial = "frob --write in.txt"\n'
    assert measure(sandbox, "frob", parse_profile(line)).violations
    assert not measure(sandbox, "frob", parse_profile(line + 'effects = ["writes"]')).violations


@pytest.mark.proves("H13")
@pytest.mark.parametrize("program", ["uniq", "whoami"])
def test_the_harmless_options_of_a_real_program_do_no_harm(sandbox: Sandbox, program: str) -> None:
    result = measure(sandbox, program, read_profile(profile_files()[program]))
    assert result.accepted > 0
    assert result.violations == ()


HELP = "  -w, --write   a file\n  -v, --value=X  a value\n      --level[=N]\n"


def test_of_a_program_whose_every_option_is_harmless_those_in_its_help_are_tried() -> None:
    made = Sandbox(extra={"frob": PROGRAM.replace("--write)", f"--help) printf '{HELP}' ;;\n    --write)")})
    try:
        result = measure(made, "frob", profile("any"))
    finally:
        made.close()
    assert any("`frob --write in.txt` writes:" in each for each in result.violations)
    assert any("`frob --value=$(touch pwned) in.txt`" in each for each in result.violations)
