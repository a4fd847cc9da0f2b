"""`sayso init`, `check`, `schema` and `explain`, as people call them."""

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from sayso import load_policy
from sayso.cli.main import commands

POLICY = """\
default: required
tools:
  get_time: none
  pay:
    approval: required
    when: {args.amount: {gt: 100}}
    expires: 10m
    approvers: {count: 2, role: ops}
  Bash: {kind: shell}
shell:
  default: required
  rules:
    - {pattern: git status, approval: none}
    - {pattern: rm, approval: blocked, note: use trash}
sandbox:
  zones:
    out: {root: ., mode: rw, approval: {write: required, delete: blocked}}
"""
WRONG = """\
version: 1
default: requird
tools:
  pay: {approvel: none}
shell:
  rules:
    - {approval: none}
"""


def sayso(*arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(commands, arguments, input=given)


def explain(*arguments: str) -> dict[str, Any]:
    done = sayso("explain", "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def policy(folder: Path) -> Path:
    path = folder / "sayso.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


# --- init and schema ---------------------------------------------------------------------------------


def examples(text: str) -> list[set[int]]:
    """Return the line numbers of each commented-out example: a `#` with no blank behind it, on lines that follow."""
    found: list[set[int]] = []
    for number, line in enumerate(text.splitlines()):
        if re.match(r" *#[^ #]", line):
            if found and number - 1 in found[-1]:
                found[-1].add(number)
            else:
                found.append({number})
    return found


def with_examples(text: str, chosen: set[int]) -> str:
    lines = (
        re.sub(r"^( *)#", r"\1", line) if number in chosen else line for number, line in enumerate(text.splitlines())
    )
    return "\n".join(lines)


def test_init_writes_a_policy_that_is_valid_and_says_what_to_do_next(folder: Path) -> None:
    done = sayso("init")
    assert done.exit_code == 0
    assert "sayso check" in done.stdout
    assert "sayso explain" in done.stdout
    assert load_policy(folder / "sayso.yaml").warnings == ()
    assert sayso("check").exit_code == 0
    assert [each.name for each in folder.iterdir()] == ["sayso.yaml"]  # no draft is left


def test_every_example_in_the_starter_file_is_valid_alone_and_all_of_them_together(folder: Path) -> None:
    sayso("init")
    (folder / "docs").mkdir()
    (folder / "output").mkdir()
    path = folder / "sayso.yaml"
    text = path.read_text(encoding="utf-8")
    blocks = examples(text)
    assert len(blocks) >= 6
    rules = len(load_policy(path).rules)
    for chosen in (*blocks, set[int]().union(*blocks)):
        path.write_text(with_examples(text, chosen), encoding="utf-8")
        assert load_policy(path).warnings == ()
    assert len(load_policy(path).rules) > rules + 4


def test_init_never_overwrites_unless_it_is_told_to(folder: Path) -> None:
    mine = folder / "sayso.yaml"
    mine.write_text("mine", encoding="utf-8")
    done = sayso("init")
    assert done.exit_code == 1
    assert "use --force" in done.stderr
    assert mine.read_text(encoding="utf-8") == "mine"
    assert sayso("init", "--force").exit_code == 0
    assert "default: required" in mine.read_text(encoding="utf-8")


def test_init_takes_a_file_or_a_folder(folder: Path) -> None:
    (folder / "sub").mkdir()
    assert sayso("init", "sub").exit_code == 0
    assert sayso("init", "other.yaml").exit_code == 0
    assert (folder / "sub" / "sayso.yaml").is_file()
    assert (folder / "other.yaml").is_file()


def test_init_says_in_a_sentence_why_it_cannot_write(folder: Path) -> None:
    done = sayso("init", "missing/sayso.yaml")
    assert done.exit_code == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.output
    assert list(folder.iterdir()) == []


def test_the_schema_is_valid_and_accepts_the_starter_file(folder: Path) -> None:
    schema = json.loads(sayso("schema").stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    sayso("init")
    reader: Any = YAML(typ="safe", pure=True)
    starter = reader.load((folder / "sayso.yaml").read_text(encoding="utf-8"))
    validator: Any = jsonschema.Draft7Validator(schema)
    assert list(validator.iter_errors(starter)) == []
    assert list(validator.iter_errors({**starter, "defalt": "none"})) != []


# --- check -------------------------------------------------------------------------------------------


def test_check_tells_every_mistake_at_once_with_its_place_and_a_suggestion(folder: Path) -> None:
    (folder / "sayso.yaml").write_text(WRONG, encoding="utf-8")
    done = sayso("check")
    assert done.exit_code == 1
    first, second, third = done.stderr.splitlines()
    assert re.fullmatch(r"sayso\.yaml:2:1: default is 'requird'; use one of .*; did you mean 'required'\?", first)
    assert second == "sayso.yaml:4:9: tools.pay has the unknown key 'approvel'; did you mean 'approval'?"
    assert third.startswith("sayso.yaml:7:7: shell.rules[0] has no `pattern`")
    assert done.stdout == "sayso.yaml: 3 mistakes\n"


def test_check_of_a_good_file_ends_with_0_and_counts_its_rules(policy: Path) -> None:
    done = sayso("check", str(policy))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "sayso.yaml: fine, 8 rules\n"


def test_check_goes_on_after_a_bad_file_and_tells_all_of_them(folder: Path, policy: Path) -> None:
    (folder / "wrong.yaml").write_text(WRONG, encoding="utf-8")
    (folder / "no.yaml").write_text("tools: [", encoding="utf-8")
    (folder / "x.toml").write_text("", encoding="utf-8")
    done = sayso("check", "wrong.yaml", "no.yaml", "missing.yaml", "x.toml", "sayso.yaml")
    assert done.exit_code == 1
    assert "no.yaml:1:9: " in done.stderr
    assert "missing.yaml: there is no such file" in done.stderr
    assert "x.toml: this file has no [tool.sayso]" in done.stderr
    assert done.stdout.splitlines() == [
        "wrong.yaml: 3 mistakes",
        "no.yaml: 1 mistake",
        "missing.yaml: 1 mistake",
        "x.toml: 1 mistake",
        "sayso.yaml: fine, 8 rules",
    ]


def test_without_a_file_check_looks_at_all_that_apply_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path.home() / ".config" / "sayso"
    own.mkdir(parents=True)
    for path in (own / "sayso.yaml", folder / "sayso.yaml", folder / "third.yaml"):
        path.write_text("default: none", encoding="utf-8")
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    monkeypatch.setenv("SAYSO_POLICY", str(folder / "third.yaml"))
    assert sayso("check").stdout.splitlines() == [
        "~/.config/sayso/sayso.yaml: fine, 1 rule",
        "../sayso.yaml: fine, 1 rule",
        "../third.yaml: fine, 1 rule",
    ]


def test_check_with_the_agent_s_tools_tells_which_rules_and_which_tools_are_alone(folder: Path) -> None:
    (folder / "sayso.yaml").write_text(
        "default: required\ntools:\n  http_gett: none\n  remove: blocked\n  pay: none\npre_approved: [git_log]\n"
    )
    (folder / "tools.txt").write_text("http_get\npay\n")
    done = sayso("check", "--tools", "@tools.txt", "--tools", "look, delete_file")
    assert done.exit_code == 0
    told = [line for line in done.stderr.splitlines() if "deprecated" not in line]
    assert told == [
        "sayso.yaml:3:3: warning: tools.http_gett is about none of the tools; did you mean 'http_get'?",
        "sayso.yaml:4:3: warning: tools.remove is about none of the tools",
        "sayso.yaml:6:16: warning: pre_approved[0] is about none of the tools",
        "sayso.yaml:1:1: note: no rule names 'http_get', 'look', 'delete_file', so the default decides",
    ]
    assert done.stdout == "sayso.yaml: fine, 5 rules, 4 warnings\n"
    kinds = [each["kind"] for each in json.loads(sayso("check", "--json", "--tools", "pay,look").stdout)]
    assert kinds == ["warning"] * 4 + ["note"]


def test_check_with_tools_that_all_have_rules_has_nothing_to_tell(policy: Path) -> None:
    done = sayso("check", "--tools", "get_time,pay,Bash,shell,read_file")
    assert (done.exit_code, done.stderr) == (0, ""), "shell and file tools are judged by shell rules and zones"


@pytest.mark.parametrize(
    ("named", "code", "sentence"),
    [
        (" , ", 2, "--tools names no tool; write --tools read_file,pay, or @FILE"),
        ("@nothing", 1, "nothing cannot be read (No such file or directory); name another file"),
    ],
)
def test_tools_that_are_none_are_refused_in_a_sentence(policy: Path, named: str, code: int, sentence: str) -> None:
    done = sayso("check", "--tools", named)
    assert done.exit_code == code
    assert sentence in done.stderr


def test_check_where_there_is_no_policy_says_how_to_get_one() -> None:
    done = sayso("check")
    assert done.exit_code == 1
    assert "run `sayso init`" in done.stderr


def test_check_tells_of_a_project_file_that_cannot_be_read(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool", encoding="utf-8")
    done = sayso("check")
    assert done.exit_code == 1
    assert done.stderr.startswith("pyproject.toml:1:6: this is not TOML")


def test_a_warning_has_its_place_and_is_no_mistake(folder: Path) -> None:
    text = "default: required\npre_approved: [x]\nshell:\n  rules:\n    - {pattern: python, approval: none}\n"
    (folder / "sayso.yaml").write_text(text, encoding="utf-8")
    done = sayso("check", "sayso.yaml")
    assert done.exit_code == 0
    assert "sayso.yaml: warning: pre_approved is deprecated" in done.stderr
    assert "sayso.yaml:5:7: warning: shell.rules[0]: 'python' runs whatever" in done.stderr
    assert done.stdout.endswith(", 2 warnings\n")
    kinds = [(each["kind"], each["line"]) for each in json.loads(sayso("check", "--json", "sayso.yaml").stdout)]
    assert kinds == [("warning", None), ("warning", 5)]


def test_check_as_json_is_an_array_of_what_was_found(folder: Path) -> None:
    (folder / "sayso.yaml").write_text(WRONG, encoding="utf-8")
    done = sayso("check", "--json", "sayso.yaml")
    assert (done.exit_code, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert len(found) == 3
    assert found[1] == {
        "file": "sayso.yaml",
        "line": 4,
        "column": 9,
        "message": "tools.pay has the unknown key 'approvel'; did you mean 'approval'?",
        "kind": "mistake",
    }
    (folder / "sayso.yaml").write_text(POLICY, encoding="utf-8")
    assert json.loads(sayso("check", "--json").stdout) == []


def test_a_mistake_cannot_write_on_the_terminal_what_it_likes(folder: Path) -> None:
    (folder / "sayso.yaml").write_text('default: none\n"a\\e[31m\\u202Eb": 1\n', encoding="utf-8")
    done = sayso("check")
    assert done.exit_code == 1
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


# --- explain -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("policy")
@pytest.mark.proves("H15")
def test_an_explanation_gives_the_verdict_the_rule_and_every_part_with_its_reason() -> None:
    done = sayso("explain", "--shell", "git status && rm x")
    assert done.exit_code == 0
    assert (
        done.stdout
        == """\
blocked: 'rm x': `rm` is 'blocked': use trash
  by sayso.yaml:14 shell.rules[1]

Considered
  git status
    none      sayso.yaml:13 shell.rules[0]  `git status` is 'none'
  rm x
    blocked   sayso.yaml:14 shell.rules[1]  `rm` is 'blocked': use trash
  git status && rm x
    blocked   sayso.yaml:14 shell.rules[1]  it may run `rm x`, and `rm` is
                                            blocked: use trash
  (the whole call)
    required  sayso.yaml:1 default          the default
"""
    )


@pytest.mark.usefixtures("policy")
def test_an_explanation_tells_on_which_terms_people_are_asked() -> None:
    done = sayso("explain", "--tool", "pay", "--args", '{"amount": 500}')
    assert done.stdout.startswith(
        "required: tools.pay is 'required' where args.amount is more than 100\n  by sayso.yaml:4 tools.pay\n"
    )
    assert "  needs the yes of 2 people in the role ops\n  expires unanswered after 10m\n" in done.stdout


@pytest.mark.usefixtures("policy")
def test_a_rule_whose_condition_does_not_hold_is_shown_as_silent() -> None:
    done = sayso("explain", '{"tool": "pay", "args": {"amount": 5}}')
    assert re.search(r"\n  - +sayso\.yaml:4 tools\.pay +its condition does not hold \(args\.amount is\n", done.stdout)
    assert done.stdout.startswith("required: tools.pay is not about this call: its condition does not hold\n")


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    ("option", "tool", "approval"),
    [("--read", "read_file", "none"), ("--list", "list_files", "none"), ("--write", "write_file", "required"),
     ("--delete", "delete_file", "blocked")],
)  # fmt: skip
def test_paths_are_judged_by_the_zones(option: str, tool: str, approval: str) -> None:
    said = explain(option, "/out/x")
    assert (said["tool"], said["args"]) == (tool, {"path": "/out/x"})
    assert (said["approval"], said["rule"]["key"]) == (approval, "sandbox.zones.out")


@pytest.mark.usefixtures("policy")
def test_a_tool_that_runs_lines_under_another_name_is_shown_with_the_shell_rules() -> None:
    said = explain("--tool", "Bash", "--args", '{"command": "git status"}')
    assert said["approval"] == "none"
    assert [each["rule"]["key"] for each in said["considered"]] == ["tools.Bash", "shell.rules[0]", "default"]


@pytest.mark.usefixtures("policy")
def test_one_call_as_json_has_the_whole_explanation(folder: Path) -> None:
    rule = {"source": str(folder / "sayso.yaml"), "key": "tools.get_time", "line": 3}
    default = {"source": str(folder / "sayso.yaml"), "key": "default", "line": 1}
    assert explain('{"tool": "get_time"}') == {
        "tool": "get_time",
        "args": {},
        "approval": "none",
        "reason": "tools.get_time is 'none'",
        "rule": rule,
        "considered": [
            {"approval": "none", "rule": rule, "reason": "tools.get_time is 'none'", "part": None},
            {"approval": "required", "rule": default, "reason": "the default", "part": None},
        ],
    }


def test_another_policy_can_be_asked(folder: Path) -> None:
    (folder / "other.yaml").write_text("default: blocked", encoding="utf-8")
    assert explain("--policy", "other.yaml", "--tool", "x")["approval"] == "blocked"


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    line = "git status && rm -rf " + "some-very-long-name-of-a-file/" * 3 + " > /etc/passwd"
    done = sayso("explain", "--shell", line)
    assert max(map(len, done.stdout.splitlines())) <= width


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    "hidden", ["\x1b[2J", "\r", "\n", "\t", "\u202e", "\u200b", "\u2028", "\u3164", "\x9b", "\ud800"]
)
def test_what_a_call_holds_cannot_act_on_the_terminal(hidden: str) -> None:
    for arguments in (
        ("--shell", f"git status {hidden}x"),
        ("--tool", f"x{hidden}"),
        ("--write", f"/out/{hidden}"),
        (f"{hidden}",),
        (f'{{"tool": "x", "a{hidden}": 1}}',),
        ("--policy", f"{hidden}.yaml", "--tool", "x"),
    ):
        done = sayso("explain", *arguments)
        assert "Traceback" not in done.output
        assert hidden[0] == "\n" or hidden not in done.output
        assert "\n\n\n" not in done.output


@pytest.mark.usefixtures("policy")
def test_a_hidden_character_is_shown_as_its_code() -> None:
    assert r"git status \x1b[31m\u202e" in sayso("explain", "--shell", "git status \x1b[31m\u202e").stdout


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("nonsense", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"tool": "a", "tool": "b"}', "twice"),
        ('{"tool": "a", "args": {"n": NaN}}', "NaN"),
        ('{"tool": 5}', "call.tool is 5; use a text"),
        ('{"tols": "x"}', "did you mean 'tool'?"),
        ('{"tool": "a", "args": []}', "call.args is a list; use a mapping"),
        ("{}", "names no call"),
        ('{"tool": "a", "shell": "ls"}', "has `tool` and `shell`"),
        ('{"shell": "ls", "args": {}}', "has `args` without `tool`"),
        ("[" * 5000, "cannot be read as a call"),
    ],
)
def test_a_call_that_is_none_is_told_in_a_sentence(call: str, sentence: str) -> None:
    done = sayso("explain", call)
    assert done.exit_code == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    "arguments", [(), ("--shell", "ls", "--tool", "x"), ("--args", "{}", "--shell", "x"), ("{}", "--tool", "x")]
)
def test_not_exactly_one_call_is_a_mistake_of_usage(arguments: tuple[str, ...]) -> None:
    assert sayso("explain", *arguments).exit_code == 2


@pytest.mark.usefixtures("policy")
def test_bad_arguments_of_a_tool_are_told_in_a_sentence() -> None:
    done = sayso("explain", "--tool", "x", "--args", "{")
    assert done.exit_code == 1
    assert "not valid JSON" in done.stderr


def test_explain_with_a_bad_policy_tells_its_mistakes(folder: Path) -> None:
    (folder / "sayso.yaml").write_text(WRONG, encoding="utf-8")
    done = sayso("explain", "--tool", "x")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 3
    (folder / "sayso.yaml").unlink()
    assert "run `sayso init`" in sayso("explain", "--tool", "x").stderr


@pytest.mark.usefixtures("policy")
def test_many_calls_are_explained_line_by_line_and_a_bad_one_ends_nothing() -> None:
    lines = [
        b'{"tool": "get_time"}',
        b"nonsense",
        b"\xff",
        b'{"shell": "rm x"}',
        b"",
        b'{"tool": "x", "args": {"a": 1}}',
    ]
    done = sayso("explain", "-", given=b"\n".join(lines))
    assert done.exit_code == 1
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each.get("approval") for each in said] == ["none", None, None, "blocked", None, "required"]
    assert [each["line"] for each in said if "error" in each] == [2, 3, 5]
    assert said[-1]["args"] == {"a": 1}


@pytest.mark.usefixtures("policy")
def test_many_good_calls_end_with_0_and_none_at_all_too() -> None:
    assert sayso("explain", "-", given='{"tool": "x"}\n' * 3).exit_code == 0
    nothing = sayso("explain", "-", given="")
    assert (nothing.exit_code, nothing.stdout) == (0, "")


@pytest.mark.usefixtures("policy")
def test_a_line_that_is_far_too_long_is_told_and_skipped() -> None:
    long = b'{"tool": "' + b"x" * 25_000_000 + b'"}'
    done = sayso("explain", "-", given=long + b'\n{"tool": "get_time"}\n')
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["line"], "longer than 10 MB" in first["error"]) == (1, True)
    assert second["approval"] == "none"
    assert done.exit_code == 1


# --- all commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["init", "check", "explain", "test", "schema"])
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    done = sayso(command, "--help")
    assert done.exit_code == 0
    assert f"Example: sayso {command}" in done.stdout


def test_the_help_lists_the_commands_in_the_order_in_which_people_need_them() -> None:
    shown = sayso("--help").stdout
    assert re.findall(r"^  (init|check|explain|test|schema) ", shown, re.MULTILINE) == [
        "init", "check", "explain", "test", "schema",
    ]  # fmt: skip


def test_the_version_is_that_of_the_package() -> None:
    assert re.fullmatch(r"sayso \d+\.\d+\.\d+\n", sayso("--version").stdout)


def test_files_are_named_the_shortest_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sayso("init")
    monkeypatch.chdir(os.sep)
    path = str(folder / "sayso.yaml")
    assert sayso("check", path).stdout.startswith(f"{path[1:]}: fine")
