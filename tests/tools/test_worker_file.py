"""Worker files: what they say, what is wrong with them, and which files their agents cannot touch."""

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sayso import ToolCall
from sayso.errors import ConfigurationError, PolicyError
from sayso.tools.worker_file import TOOLS, WorkerFile, WorkerLimits, find_worker, read_worker, schema

WHOLE = """\
---
name: clerk
description: Keeps the books.
model: scripted:clerk.yaml
tools:
  read_file: none
  write_file: {description: "Write {args.path}"}
  shell:
  worker_call: required
sandbox:
  zones:
    notes: {root: ., mode: rw, approval: {write: none, delete: none}}
shell:
  rules:
    - {pattern: git status, approval: none}
    - {pattern: git commit, approval: required}
custom_tools:
  add_up: none
  send_mail:
workers:
  helper: {approval: none, reason: it only reads}
  printer: blocked
  archive:
limits: {depth: 3, requests: 20}
remember: {max: 1d}
audit: strict
---

# You are a clerk

Keep the books.
"""


def write(folder: Path, text: str, name: str = "clerk.md") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def worker(folder: Path, front: str, name: str = "clerk.md") -> WorkerFile:
    return read_worker(write(folder, f"---\n{front}\n---\nDo it.\n", name))


def mistakes(folder: Path, front: str, name: str = "clerk.md") -> list[str]:
    """What is told about a file with this front matter, without the folder."""
    with pytest.raises(PolicyError) as caught:
        worker(folder, front, name)
    return [str(each).replace(f"{folder}/", "") for each in caught.value.mistakes]


def approval(of: WorkerFile, tool: str, **args: Any) -> str:
    return of.policy.judge(ToolCall(tool=tool, args=args)).approval


@pytest.fixture
def whole(tmp_path: Path) -> WorkerFile:
    write(tmp_path, "def add_up(): ...\n", "tools.py")
    return read_worker(write(tmp_path, WHOLE))


def test_a_worker_file_says_who_the_worker_is(whole: WorkerFile, tmp_path: Path) -> None:
    assert (whole.name, whole.description, whole.model) == ("clerk", "Keeps the books.", "scripted:clerk.yaml")
    assert whole.instructions == "# You are a clerk\n\nKeep the books."
    assert (whole.folder, whole.path, whole.script) == (tmp_path, tmp_path / "clerk.md", tmp_path / "clerk.yaml")
    assert whole.limits == WorkerLimits(depth=3, requests=20)


@pytest.mark.proves("R37")
def test_a_worker_gets_the_tools_that_its_file_lists_and_no_others(whole: WorkerFile) -> None:
    assert whole.tools == ("read_file", "write_file", "shell", "worker_call")
    assert whole.custom_tools == ("add_up", "send_mail")
    assert whole.workers == ("helper", "printer", "archive")


@pytest.mark.proves("R38", "R46")
def test_what_a_worker_may_do_is_its_policy(whole: WorkerFile) -> None:
    assert approval(whole, "shell", command="git status") == "none"
    assert approval(whole, "shell", command="git commit -m x") == "required"
    assert approval(whole, "shell", command="ls") == "blocked"
    assert approval(whole, "write_file", path="/notes/today.txt") == "none"
    assert approval(whole, "write_file", path="/elsewhere/today.txt") == "blocked"
    assert approval(whole, "add_up") == "none"
    assert approval(whole, "send_mail") == "required"
    assert whole.policy.audit == "strict"
    assert whole.policy.remember_max == 86400


def test_a_rule_about_a_worker_is_told_with_its_place(whole: WorkerFile, tmp_path: Path) -> None:
    assert {name: each.approval for name, each in whole.worker_rules.items()} == {
        "helper": "none",
        "printer": "blocked",
    }
    helper = whole.worker_rules["helper"]
    assert helper.reason == "it only reads"
    assert str(helper.rule) == f"{tmp_path}/clerk.md:21 workers.helper"


def test_what_is_left_out_is_the_name_of_the_file_no_tools_and_asking(tmp_path: Path) -> None:
    one = worker(tmp_path, "description: x", "file-clerk_2.md")
    assert (one.name, one.model, one.tools, one.custom_tools) == ("file-clerk_2", None, (), ())
    assert (one.workers, one.worker_rules, one.script, one.limits) == ((), {}, None, WorkerLimits())
    assert approval(one, "anything") == "required"
    assert one.policy.default.rule
    assert one.policy.default.rule.source == str(tmp_path / "file-clerk_2.md")


def test_the_default_of_a_worker_can_be_said(tmp_path: Path) -> None:
    assert approval(worker(tmp_path, "default: blocked"), "anything") == "blocked"


def test_tools_in_a_list_are_judged_by_shell_rules_zones_and_the_default(tmp_path: Path) -> None:
    rules = "sandbox: {paths: {docs: {root: ., mode: ro}}}\nshell: {default: blocked}"
    one = worker(tmp_path, f"tools: [read_file, attach_file, shell, worker_create]\n{rules}")
    assert one.tools == ("read_file", "attach_file", "shell", "worker_create")
    assert approval(one, "read_file", path="/docs/a.txt") == "none"
    assert approval(one, "shell", command="ls") == "blocked"
    assert approval(one, "worker_create") == "required"


@pytest.mark.proves("R35", "R36")
@pytest.mark.parametrize(("asks", "expected"), [("true", "required"), ("false", "none")])
def test_reading_a_file_for_an_attachment_asks_where_its_zone_says_so(tmp_path: Path, asks: str, expected: str) -> None:
    zone = f"{{root: ., mode: rw, read_approval: {asks}, write_approval: {asks}}}"
    one = worker(tmp_path, f"tools: [attach_file, write_file]\nsandbox: {{paths: {{docs: {zone}}}}}")
    assert approval(one, "attach_file", path="/docs/a.pdf") == expected
    assert approval(one, "write_file", path="/docs/a.txt") == expected


def test_who_may_call_workers_gets_the_tool_for_it(tmp_path: Path) -> None:
    assert worker(tmp_path, "workers: [helper, clerk]").tools == ("worker_call",)
    assert worker(tmp_path, "workers: [helper]\ntools: [worker_call, worker_create]").tools == (
        "worker_call",
        "worker_create",
    )
    assert worker(tmp_path, "workers: []").tools == ()


def test_a_worker_may_list_itself(tmp_path: Path) -> None:
    assert worker(tmp_path, "workers: [clerk]").workers == ("clerk",)


@pytest.mark.proves("R38")
def test_the_seeds_spellings_are_read(tmp_path: Path) -> None:
    front = """\
tools: [shell]
shell_default: {allowed: false, approval_required: true}
shell_rules:
  - {pattern: "git status", allowed: true, approval_required: false}
  - {pattern: "git commit", allowed: true, approval_required: true}"""
    one = worker(tmp_path, front)
    lines = ("git status", "git commit", "rm x")
    assert [approval(one, "shell", command=line) for line in lines] == ["none", "required", "blocked"]


# --- Files that steer agents ---------------------------------------------------------------------------------

COVERED = """\
model: scripted:parts/script.yaml
tools: [read_file, write_file, delete_file]
workers: [helper, later]
sandbox: {zones: {here: {root: .., mode: rw, approval: {read: none, write: none, delete: none}}}}"""


@pytest.mark.parametrize(
    "path",
    [
        "den/clerk.md",
        "den/CLERK.md",
        "den/helper.md",
        "den/other.md",
        "den/tools.py",
        "den/parts/script.yaml",
        "den/later.md",
        "den/workers/later.md",
        "den/workers/below.md",
        "den/workers/tools.py",
        "den/workers/helper.md",
        "den/link.md",
        "real.md",
    ],
)
def test_no_file_tool_touches_what_steers_a_worker(tmp_path: Path, path: str) -> None:
    den = tmp_path / "den"
    for name in ("helper.md", "other.md", "workers/below.md", "workers/helper.md"):
        write(den / name.rpartition("/")[0], "x", name.rpartition("/")[2])
    write(tmp_path, "x", "real.md")
    (den / "link.md").symlink_to("../real.md")
    one = worker(den, COVERED)
    for tool in ("read_file", "write_file", "delete_file"):
        verdict = one.policy.judge(ToolCall(tool=tool, args={"path": f"/here/{path}"}))
        assert (verdict.approval, "sayso's own files" in verdict.reason) == ("blocked", True), tool


def test_other_files_beside_a_worker_stay_usable(tmp_path: Path) -> None:
    one = worker(tmp_path / "den", COVERED)
    for path in ("den/notes.txt", "den/parts/other.yaml", "den/workers/data.csv", "den/README.md"):
        assert approval(one, "write_file", path=f"/here/{path}") == "none", path


def test_a_worker_in_the_folder_below_cannot_touch_those_above(tmp_path: Path) -> None:
    write(tmp_path, "x", "boss.md")
    front = COVERED.replace("parts/script.yaml", "s.yaml")
    one = worker(tmp_path / "workers", front, "helper.md")
    for path in ("boss.md", "tools.py", "workers/helper.md", "workers"):
        assert approval(one, "write_file", path=f"/here/{path}") == "blocked", path


def test_a_worker_whose_files_lead_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tools.py").symlink_to("tools.py")
    told = "nobody can say where the files of the worker or its model lead (Too many levels of symbolic links)"
    assert mistakes(tmp_path, "description: x") == [f"clerk.md: {told}; look for links and odd names"]


# --- Mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Do it.", "clerk.md:1:1: there is no front matter; start with a line `---`"),
        ("", "clerk.md:1:1: there is no front matter; start with a line `---`"),
        ("\n---\nmodel: x\n---\nDo it.", "clerk.md:1:1: there is no front matter"),
        ("---\nmodel: x\nDo it.", "clerk.md:1:1: the front matter is not closed; put a line `---` below its last key"),
        ("---", "clerk.md:1:1: the front matter is not closed"),
        ("---\n---\nDo it.", "clerk.md:1:1: the front matter is empty; write a line such as `model: openai:gpt-5`"),
        ("---\n# model: x\n\n---\nDo it.", "clerk.md:1:1: the front matter is empty"),
        ("---\nmodel: x\n---\n \n\t\n", "clerk.md:3:1: there is no instruction below the front matter"),
        ("---\nmodel: x\n---", "clerk.md:3:1: there is no instruction below the front matter"),
        ("---\n- model\n---\nDo it.", "clerk.md:2:1: this file does not hold a mapping; start its front matter with"),
        ("---\nmodel: x\n--- more\nq: 1\n---\nDo it.", "clerk.md:3:1: a second document starts here"),
        ("---\nmodel: x\nmodel: y\n---\nDo it.", "clerk.md:3:1: the key 'model' is on lines 2 and 3; keep one"),
        ("---\nmodel: &x y\n---\nDo it.", "clerk.md:2:8: '&x' is an anchor"),
    ],
)
def test_a_file_that_is_no_worker_file_is_refused_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_worker(write(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path}/{problem}")
    assert len(caught.value.mistakes) == 1


def test_windows_line_ends_and_a_mark_of_byte_order_are_read(tmp_path: Path) -> None:
    path = tmp_path / "clerk.md"
    path.write_bytes(b"\xef\xbb\xbf---\r\ndescription: x\r\n---\r\nDo it.\r\n")
    one = read_worker(path)
    assert (one.description, one.instructions) == ("x", "Do it.")


def test_three_dashes_in_the_body_are_text(tmp_path: Path) -> None:
    assert read_worker(write(tmp_path, "---\nmodel: x\n---\nOne\n---\nTwo\n")).instructions == "One\n---\nTwo"


def test_a_file_that_is_not_utf_8_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "clerk.md"
    path.write_bytes(b"---\nmodel: x\n---\nCaf\xe9\n")
    with pytest.raises(PolicyError, match=r"clerk\.md:4:4: this is not UTF-8; save it as UTF-8"):
        read_worker(path)


def test_a_file_of_more_than_one_megabyte_is_refused(tmp_path: Path) -> None:
    fits = "---\nmodel: x\n---\n"
    assert read_worker(write(tmp_path, fits + "a" * (1_000_000 - len(fits)))).model == "x"
    with pytest.raises(PolicyError, match="larger than 1 MB; a worker file has to be smaller"):
        read_worker(write(tmp_path, fits + "a" * (1_000_001 - len(fits))))


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(PolicyError, match="it is a pipe, socket or device, no regular file"):
        read_worker(tmp_path / "pipe.md")
    with pytest.raises(PolicyError, match="it is a folder, no regular file"):
        read_worker(tmp_path)


def test_a_missing_file_is_told_with_the_workers_that_are_there(tmp_path: Path) -> None:
    for name in ("clerk.md", "workers/helper.md", "README.md", "notes.txt"):
        write(tmp_path / name.rpartition("/")[0], "x", name.rpartition("/")[2])
    with pytest.raises(PolicyError) as caught:
        read_worker(tmp_path / "clark.md")
    expected = f"{tmp_path}/clark.md: there is no such file; there are clerk, helper; did you mean 'clerk'?"
    assert str(caught.value) == expected
    with pytest.raises(PolicyError, match="there is no such file; there are no workers here"):
        read_worker(tmp_path / "nowhere" / "clerk.md")


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("modle: x", "clerk.md:2:1: the file has the unknown key 'modle'; did you mean 'model'?"),
        ("version: 1", "clerk.md:2:1: the file has the unknown key 'version'; known: name, description"),
        ("pre_approved: [x]", "clerk.md:2:1: the file has the unknown key 'pre_approved'"),
        ("model: 5", "clerk.md:2:1: model is 5; use a text"),
        ("model: 'scripted:'", "clerk.md:2:1: model names no script; write the name of its file behind `scripted:`"),
        ("name: The Clerk", "clerk.md:2:1: name is 'The Clerk'; use small letters"),
        ("name: ../clerk", "clerk.md:2:1: name is '../clerk'; use small letters"),
        ("tools:", "clerk.md:2:1: tools is empty; use a list or a mapping"),
        ("tools: all", "clerk.md:2:1: tools is 'all'; use a list or a mapping"),
        ("tools:\n  - raed_file", "clerk.md:3:5: tools[0] is 'raed_file'; use one of 'read_file', "),
        ("tools:\n  raed_file: none", "clerk.md:3:3: tools has the unknown key 'raed_file'; did you mean 'read_file'?"),
        ("tools: {worker_*: none}", "clerk.md:2:9: tools has the unknown key 'worker_*'"),
        ("tools: {worker_call: nome}", "clerk.md:2:9: tools.worker_call is 'nome'; use one of"),
        ("tools:\n  - worker_call\n  - shell", "clerk.md:4:5: tools has 'shell', but there are no rules for it"),
        ("tools: {shell: none}", "clerk.md:2:9: tools has 'shell', but there are no rules for it; add `shell`"),
        ("tools: [list_files]", "clerk.md:2:9: tools has 'list_files', but there is no folder that it may use; add"),
        ("tools: [attach_file]", "clerk.md:2:9: tools has 'attach_file', but there is no folder"),
        ("sandbox: {zones: {a: {root: gone}}}", "clerk.md:2:23: sandbox.zones.a has the root "),
        ("workers: [../x]", "clerk.md:2:11: workers has '../x', which is no name of a worker; use small letters"),
        ("workers: {Helper: none}", "clerk.md:2:11: workers has 'Helper', which is no name of a worker"),
        ("workers: {helper: {approval: none, when: x}}", "clerk.md:2:36: workers.helper has the unknown key 'when'"),
        ("workers: {helper: {reason: x}}", "clerk.md:2:11: workers.helper has no `approval`, which must be said"),
        ("workers: {helper: maybe}", "clerk.md:2:11: workers.helper is 'maybe'; use one of"),
        ("limits: {depth: 11}", "clerk.md:2:10: limits.depth is 11; use a whole number from 1 to 10"),
        ("limits: {depth: true}", "clerk.md:2:10: limits.depth is True; use a whole number"),
        ("limits: {requests: 0}", "clerk.md:2:10: limits.requests is 0; use a whole number from 1 to"),
        ("limits: {dept: 1}", "clerk.md:2:10: limits has the unknown key 'dept'; did you mean 'depth'?"),
        ("custom_tools: [add_up]", "clerk.md:2:1: custom_tools are functions of `tools.py`, but there is none in"),
        ("audit: loud", "clerk.md:2:1: audit is 'loud'; use one of 'queued', 'strict'"),
        ("default: never", "clerk.md:2:1: default is 'never'; use one of"),
    ],
)
def test_a_mistake_is_told_with_its_place_counted_from_the_top_of_the_file(
    tmp_path: Path, front: str, expected: str
) -> None:
    told = mistakes(tmp_path, front)
    assert told[0].startswith(expected)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("[read_file]", "clerk.md:2:16: custom_tools has 'read_file', which is the name of a built-in tool"),
        ("{shell: none}", "clerk.md:2:16: custom_tools has 'shell', which is the name of a built-in tool"),
        ('{"*": none}', "clerk.md:2:16: custom_tools has '*', which is no name of a function; write each out"),
        ('["send mail"]', "clerk.md:2:16: custom_tools has 'send mail', which is no name of a function"),
    ],
)
def test_a_tool_of_ones_own_has_a_name_of_its_own(tmp_path: Path, names: str, expected: str) -> None:
    write(tmp_path, "", "tools.py")
    assert mistakes(tmp_path, f"custom_tools: {names}")[0].startswith(expected)


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    shape = mistakes(tmp_path, "modle: x\ntools: [shel]\nlimits: {depth: 0}\naudit: loud")
    assert [each.split(":")[1] for each in shape] == ["2", "3", "4", "5"]
    front = "name: X Y\nsandbox: {zones: {a: {root: gone}}}\ntools: [shell]\ncustom_tools: [a]\nworkers: [B]"
    meaning = mistakes(tmp_path, front)
    assert [each.split(":")[1] for each in meaning] == ["2", "3", "4", "5", "6"]


def test_a_file_whose_own_name_is_no_name_has_to_say_one(tmp_path: Path) -> None:
    told = mistakes(tmp_path, "description: x", "My Clerk.md")
    assert "name is left out, and the file's own name is 'My Clerk'; use small letters" in told[0]
    assert worker(tmp_path, "name: clerk", "My Clerk.md").name == "clerk"


# --- Finding -------------------------------------------------------------------------------------------------


def test_a_worker_is_found_beside_its_caller_or_in_the_folder_below(tmp_path: Path) -> None:
    write(tmp_path, "x", "clerk.md")
    write(tmp_path / "workers", "x", "helper-2.md")
    assert find_worker("clerk", tmp_path) == tmp_path / "clerk.md"
    assert find_worker("helper-2", str(tmp_path)) == tmp_path / "workers" / "helper-2.md"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../clerk", "workers/helper", "/etc/passwd", "clerk.md", "Clerk", "-x", "a\n", "a\0", "é"]
)
def test_a_name_cannot_be_a_path(tmp_path: Path, name: str) -> None:
    write(tmp_path, "x", "clerk.md")
    write(tmp_path / "workers", "x", "helper.md")
    with pytest.raises(ConfigurationError, match="is no name of a worker; use small letters, digits"):
        find_worker(name, tmp_path / "workers")


def test_a_worker_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no worker 'clerk' in .*; there are no workers here"):
        find_worker("clerk", tmp_path)
    write(tmp_path, "x", "clerk.md")
    write(tmp_path / "workers", "x", "printer.md")
    with pytest.raises(ConfigurationError, match="; there are clerk, printer; did you mean 'clerk'"):
        find_worker("clark", tmp_path)
    with pytest.raises(ConfigurationError, match="there is no worker 'aaaa"):
        find_worker("a" * 5000, tmp_path)


def test_two_workers_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "x", "clerk.md")
    write(tmp_path / "workers", "x", "clerk.md")
    with pytest.raises(
        ConfigurationError, match=r"clerk\.md and .*/workers/clerk\.md are both the worker 'clerk'; keep"
    ):
        find_worker("clerk", tmp_path)


# --- The schema ----------------------------------------------------------------------------------------------


def test_the_schema_takes_what_is_read_and_refuses_what_is_not() -> None:
    good: list[dict[str, Any]] = [
        {"tools": list(TOOLS)},
        {"tools": {"shell": "none"}, "workers": {"helper": {"approval": "none"}}, "limits": {"depth": 2}},
        {"model": "openai:gpt-5", "custom_tools": ["a"], "workers": ["b"]},
    ]
    bad: list[dict[str, Any]] = [
        {"modle": "x"},
        {"tools": ["shel"]},
        {"tools": {"*": "none"}},
        {"limits": {"depth": 0}},
    ]
    validator: Any = jsonschema.Draft7Validator(schema())
    assert all(validator.is_valid(each) for each in good)
    assert not any(validator.is_valid(each) for each in bad)
