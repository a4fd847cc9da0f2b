"""`sayso test`: cases for a policy, run and reported."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sayso.cli.main import commands

POLICY = """\
default: required
tools:
  get_time: none
  Bash: {kind: shell}
  pay: {approval: blocked, when: {args.amount: {gt: 100}}}
shell:
  rules:
    - {pattern: git status, approval: none}
    - {pattern: rm, approval: blocked}
sandbox:
  zones:
    out: {root: ., mode: rw}
"""
ALL = """\
cases:
  - {tool: get_time, expect: none}
  - {tool: Bash, args: {command: git status}, expect: preApproved, rule: "shell.rules[0]"}
  - {tool: pay, args: {amount: 500}, expect: deny}
  - {tool: pay, args: {amount: 5}, expect: ask, rule: default}
  - {shell: rm x, expect: blocked}
  - {read: /out/x, expect: none}
  - {list: /out, expect: none}
  - {write: /out/x, expect: required, rule: sandbox.zones.out, name: writing is asked about}
  - {delete: /out/x, expect: required}
"""


def sayso(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["test", *arguments])


@pytest.fixture(autouse=True)
def policy(folder: Path) -> Path:
    path = folder / "sayso.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def write(folder: Path, text: str, name: str = "sayso.test.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.proves("H15")
def test_cases_that_hold_and_exercise_every_rule_pass(folder: Path) -> None:
    write(folder, ALL)
    done = sayso("--strict")
    assert (done.exit_code, done.stdout) == (0, "9 passed, 0 failed\n")


def test_a_failure_tells_what_was_expected_what_happens_and_why(folder: Path) -> None:
    write(folder, "cases:\n  - {shell: git status, expect: none}\n  - {shell: rm x, expect: ask, name: removing}\n")
    done = sayso()
    assert done.exit_code == 1
    assert done.stdout.startswith("""\
failed  sayso.test.yaml:3: removing
  expected  required
  got       blocked
  because   `rm` is 'blocked'
  by        sayso.yaml:9 shell.rules[1]

1 passed, 1 failed
""")


def test_the_right_approval_by_another_rule_fails_a_case_that_names_its_rule(folder: Path) -> None:
    write(folder, "cases: [{shell: rm x, expect: blocked, rule: shell.rules}, {tool: x, expect: ask, rule: tools.pay}]")
    done = sayso()
    assert done.exit_code == 1
    assert "expected  by shell.rules, which is no rule; did you mean 'shell.rules[" in done.stdout
    assert "expected  by tools.pay\n" in done.stdout
    assert "got" not in done.stdout


def test_rules_that_no_case_exercises_are_listed_and_fail_only_a_strict_run(folder: Path) -> None:
    write(folder, "cases: [{tool: pay, args: {amount: 5}, expect: required}, {shell: git status, expect: none}]")
    done = sayso()
    assert done.exit_code == 0
    assert (
        done.stdout
        == """\
2 passed, 0 failed

Never exercised (5 of 7 rules):
  sayso.yaml:3 tools.get_time
  sayso.yaml:4 tools.Bash
  sayso.yaml:5 tools.pay
  sayso.yaml:9 shell.rules[1]
  sayso.yaml:12 sandbox.zones.out
"""
    )
    assert sayso("--strict").exit_code == 1


def test_a_default_for_commands_and_pre_approved_tools_are_rules_to_be_exercised(folder: Path, policy: Path) -> None:
    policy.write_text("default: required\npre_approved: [t]\nshell: {default: blocked}\n", encoding="utf-8")
    write(folder, "cases: [{tool: x, expect: ask}]")
    done = sayso()
    assert "(2 of 3 rules):\n  sayso.yaml:2 pre_approved[0]\n  sayso.yaml:3 shell.default\n" in done.stdout
    write(folder, "cases: [{tool: x, expect: ask}, {tool: t, expect: none}, {shell: ls, expect: blocked}]")
    assert sayso("--strict").exit_code == 0


def test_the_outcome_as_json_has_every_case(folder: Path) -> None:
    write(folder, "cases:\n  - {tool: get_time, expect: none}\n  - {tool: x, args: {a: 1}, expect: none}\n")
    done = sayso("--json")
    assert done.exit_code == 1
    said: dict[str, Any] = json.loads(done.stdout)
    assert (said["passed"], said["failed"]) == (1, 1)
    assert said["cases"][1] == {
        "name": 'x {"a": 1}',
        "line": 3,
        "passed": False,
        "expected": "none",
        "got": "required",
        "reason": "no rule names this tool, and the default is 'required'",
        "rule": {"source": str(folder / "sayso.yaml"), "key": "default", "line": 1},
    }
    assert [each["key"] for each in said["never_exercised"]][:2] == ["tools.Bash", "tools.pay"]


def test_cases_are_found_beside_the_policy_that_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, ALL, "sayso.test.yml")
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")
    assert sayso().stdout == "9 passed, 0 failed\n"
    assert sayso("--policy", "../../sayso.yaml").stdout == "9 passed, 0 failed\n"


def test_cases_can_be_named(folder: Path) -> None:
    path = write(folder, ALL, "others.yaml")
    assert sayso(str(path)).exit_code == 0


def test_without_cases_it_says_how_to_write_some() -> None:
    done = sayso()
    assert done.exit_code == 1
    assert "there is no sayso.test.yaml; write one, such as:" in done.stderr
    assert "expect: none" in done.stderr


def test_every_mistake_in_the_cases_is_told_with_its_place(folder: Path) -> None:
    wrong = ["{shel: ls, expect: none}", "{tool: x, expect: nonne}", "{shell: ls}", "{tool: x, args: 1, expect: ask}"]
    write(folder, "cases:\n" + "".join(f"  - {case}\n" for case in wrong))
    done = sayso()
    assert done.exit_code == 1
    assert [line.split(" ")[0] for line in done.stderr.splitlines()] == [
        "sayso.test.yaml:2:6:", "sayso.test.yaml:3:15:", "sayso.test.yaml:4:5:", "sayso.test.yaml:5:15:",
    ]  # fmt: skip
    assert "did you mean 'shell'?" in done.stderr
    assert "has no `expect`" in done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cases: []", "sayso.test.yaml:1:1: cases is empty"),
        ("cases: [{expect: none}]", "cases[0] names no call; use one of tool, shell, read"),
        ("cases: [{tool: x, shell: y, expect: none}]", "cases[0] has `tool` and `shell`"),
        ("cases: [{shell: y, args: {}, expect: none}]", "sayso.test.yaml:1:20: cases[0] has `args` without `tool`"),
        ("case: []", "did you mean 'cases'?"),
        ("cases: {", "sayso.test.yaml:1:9"),
        ("- x", "does not hold a mapping"),
    ],
)
def test_cases_that_mean_nothing_are_told(folder: Path, text: str, sentence: str) -> None:
    write(folder, text)
    done = sayso()
    assert done.exit_code == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.output


def test_cases_in_toml_are_refused(folder: Path) -> None:
    done = sayso(str(write(folder, "", "cases.toml")))
    assert (done.exit_code, "written in YAML" in done.stderr) == (1, True)


def test_cases_for_a_bad_policy_tell_its_mistakes(folder: Path, policy: Path) -> None:
    write(folder, ALL)
    policy.write_text("tools: {}", encoding="utf-8")
    done = sayso()
    assert done.exit_code == 1
    assert done.stderr.startswith("sayso.yaml:1:1: the file has no `default`")


def test_a_name_in_a_case_cannot_act_on_the_terminal(folder: Path) -> None:
    write(folder, 'cases: [{tool: x, expect: none, name: "a\\e[2J\\u202Eb"}]')
    assert "a\\x1b[2J\\u202eb" in sayso().stdout
