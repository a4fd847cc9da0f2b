"""The measuring tool sees what a program writes, starts and reaches; real programs are measured without a violation."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

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
    --note) echo x > note ;;
    --twice) echo xx > note ;;
    --fail) exit 3 ;;
    --page) $PAGER < /dev/null ;;
  esac
done
"""
EFFECT = f"""#!{sys.executable} -IS
import mmap, os, socket, subprocess, sys
if sys.argv[1] == "--do":
    exec(sys.argv[2])
"""
HEAD = 'programs = ["frob"]\nsource = "a program of this test"\n'


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(extra={"frob": PROGRAM, "effect": EFFECT})
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


def test_an_expected_write_is_none_to_another_place(sandbox: Sandbox) -> None:
    line = f'{HEAD}harmless = "--note --twice --write"\neffects = ["writes"]\ntrial = "frob --note {{option}} in.txt"\n'
    found = measure(sandbox, "frob", parse_profile(line)).violations
    assert [each for each in found if "--twice" in each] == []
    assert any("--write" in each and "pwned" in each for each in found)


def test_every_command_of_one_description_is_measured(sandbox: Sandbox) -> None:
    line = f"{HEAD}[commands.\"one,two\"]\nharmless = '--write'\ntrial = 'frob one {{option}}'\n"
    found = measure(sandbox, "frob", parse_profile(line)).violations
    assert [each.partition("`")[2].partition("`")[0] for each in found] == ["frob one --write", "frob two --write"]


def test_a_line_that_fails_by_itself_is_told_of_and_its_runs_count_as_refused(sandbox: Sandbox) -> None:
    result = measure(sandbox, "frob", parse_profile(f'{HEAD}trial = "frob --fail {{option}}"\n'))
    assert result.accepted == 0
    assert "ends with 3" in result.notes[0]


@pytest.mark.parametrize(
    ("code", "kind", "what"),
    [
        ("os.rename('in.txt', 'a')", "writes", "work/a"),
        ("os.unlink('in.txt')", "writes", "work/in.txt"),
        ("os.chmod('in.txt', 0)", "writes", "work/in.txt"),
        ("os.mkdir('a')", "writes", "work/a"),
        ("os.symlink('in.txt', 'a')", "writes", "work/a"),
        ("os.link('in.txt', 'a')", "writes", "work/a"),
        ("os.truncate('in.txt', 0)", "writes", "work/in.txt"),
        ("os.utime('in.txt')", "writes", "work/in.txt"),
        ("os.chdir('folder'); os.mkfifo('a')", "writes", "folder/a"),
        ("os.setxattr('in.txt', 'user.a', b'')", "writes", "work/in.txt"),
        ("open('/etc/pwned', 'w')", "writes", "/etc/pwned"),
        ("open('../../kept', 'w')", "writes", "kept"),
        ("mmap.mmap(open('in.txt', 'r+').fileno(), 0)[0] = 1", "writes", "work/in.txt"),
        ("os.posix_spawn('/bin/true', ['true'], {})", "starts", "/bin/true"),
        ("os.execve(os.open('/bin/true', 0), ['true'], {})", "starts", "/bin/true"),
        ("os.execvp('no-such-program', ['x'])", "starts", "no-such-program (not found)"),
        ("socket.socket(socket.AF_UNIX).connect('/run/x')", "reaches", "/run/x"),
        ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))", "reaches", "htons(9)"),
        ("socket.create_server(('127.0.0.1', 0))", "reaches", "listens"),
        ("os.kill(os.getppid(), 15)", "reaches", "process"),
        ("os.kill(-1, 9)", "reaches", "process"),
        ("socket.sethostname('x')", "writes", "sethostname"),
        ("subprocess.Popen('sleep 0.3; touch late', shell=True, start_new_session=True)", "starts", "/bin/sh"),
    ],
)
def test_each_kind_of_effect_is_seen(sandbox: Sandbox, code: str, kind: str, what: str) -> None:
    trial = f"effect {{option}} {shlex.quote(code)}"
    line = f'{HEAD}harmless = "--do"\ntrial = {json.dumps(trial)}\n'
    found = measure(sandbox, "effect", parse_profile(line)).violations
    assert any("effect --do" in each and f"` {kind}:" in each and what in each for each in found)


def test_a_run_finds_the_files_of_the_first_and_none_of_its_processes(sandbox: Sandbox) -> None:
    changed = sandbox.run(["sh", "-c", "rm in.txt; touch new ~/new /tmp/new; sleep 100 &"], 2)
    assert changed.code is None  # what goes on in the background is waited for, too
    assert {Path(each).name for each in changed.effects.wrote} == {"in.txt", "new"}
    assert (
        sandbox.run(["sh", "-c", "ls new ~/new /tmp/new; cat in.txt; pgrep sleep"]).output.splitlines()[-1] == "two 2"
    )


def test_a_command_that_does_not_end_is_ended(sandbox: Sandbox) -> None:
    assert sandbox.run(["sleep", "100"], 0.3).code is None


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
