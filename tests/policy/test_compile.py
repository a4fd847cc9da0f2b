"""What a policy file means: its several spellings, tools judged by what they do, terms, and files over one another."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sayso import ApprovalController, ApprovalDecision, Policy, ToolCall, Verdict
from sayso.config.yaml_toml import read_yaml
from sayso.core.approvers import Approvers
from sayso.core.model import Approval, Denied
from sayso.errors import PolicyError
from sayso.testing import FixedClock, ScriptedChannel

STRICTNESS: dict[Approval, int] = {"blocked": 3, "required": 2, "once_per_session": 1, "none": 0}
Data = dict[str, Any]
FILE_TOOLS = ("read_file", "write_file", "edit_file", "delete_file", "list_files")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with the roots that the files below name."""
    for name in ("scratch", "output", "docs", "documents"):
        (tmp_path / name / "folder").mkdir(parents=True)
    return tmp_path


def policy_of(text: str, base: Path | None = None) -> Policy:
    """A policy of a YAML text."""
    return Policy.from_dict(read_yaml(text.encode(), "sayso.yaml").data, base=base)


def judge(policy: Policy, tool: str, **args: Any) -> Approval:
    return policy.judge(ToolCall(tool=tool, args=args)).approval


def shell(policy: Policy, line: str, others: Data | None = None) -> Approval:
    return judge(policy, "shell", command=line, **(others or {}))


def on_files(policy: Policy, path: str) -> dict[str, Approval]:
    return {tool: judge(policy, tool, path=path) for tool in FILE_TOOLS}


# Flags for shell lines, and `sandbox.paths`.


@pytest.mark.proves("R38")
def test_the_shell_example_with_flags_runs_status_asks_about_commit_and_blocks_the_rest() -> None:
    policy = policy_of("""
default: required
shell_default:
  allowed: false
  approval_required: true

shell_rules:
  - pattern: "git status"
    allowed: true
    approval_required: false
  - pattern: "git commit"
    allowed: true
    approval_required: true
""")
    assert shell(policy, "git status") == shell(policy, "git status --short") == "none"
    assert shell(policy, "git commit") == shell(policy, "git commit -m x") == "required"
    assert shell(policy, "git push") == shell(policy, "ls") == shell(policy, "git") == "blocked"
    assert shell(policy, "git status && git commit -m x") == "required"
    assert shell(policy, "git status && rm x") == "blocked"


@pytest.mark.proves("R38")
@pytest.mark.parametrize(
    ("said", "approval"),
    [
        ({"allowed": False, "approval_required": True}, "blocked"),
        ({"allowed": False, "approval_required": False}, "blocked"),
        ({"allowed": False}, "blocked"),
        ({"allowed": True, "approval_required": True}, "required"),
        ({"allowed": True}, "required"),
        ({"approval_required": True}, "required"),
        ({"allowed": True, "approval_required": False}, "none"),
        ({"approval_required": False}, "none"),
        ({"approval": "ask"}, "required"),
        ({"approval": "preApproved"}, "none"),
        ({"approval": "deny"}, "blocked"),
        ({"approval": "once_per_session"}, "once_per_session"),
    ],
)
def test_a_shell_rule_means_the_same_in_every_spelling(said: Data, approval: Approval) -> None:
    rules = [{"pattern": "ls", **said}]
    assert shell(Policy.from_dict({"default": "none", "shell_rules": rules}), "ls") == approval
    assert shell(Policy.from_dict({"default": "none", "shell": {"rules": rules}}), "ls") == approval
    if approval not in {"none", "once_per_session"} and "approval" not in said:
        assert shell(Policy.from_dict({"default": "none", "shell_default": said}), "ls") == approval


@pytest.mark.proves("R38")
@pytest.mark.parametrize(
    ("section", "approval"),
    [
        ("shell: {}", "required"),
        ("shell_rules: []", "required"),
        ("shell: {rules: [{pattern: ls, approval: none}]}", "blocked"),
        ("shell_rules: [{pattern: ls, allowed: true}]", "blocked"),
        ("shell: {default: ask, rules: [{pattern: ls, approval: none}]}", "required"),
        ("shell: {default: deny}", "blocked"),
        ("shell_default: required", "required"),
        ("shell_default: {}", "required"),
    ],
)
def test_commands_that_no_rule_names_are_blocked_if_there_are_rules_and_else_asked_about(
    section: str, approval: Approval
) -> None:
    """C16: an owner who names commands means no others."""
    assert shell(policy_of(f"default: none\n{section}"), "git push") == approval


def test_without_a_section_for_the_shell_it_is_a_tool_like_any_other() -> None:
    assert shell(policy_of("default: none"), "rm -rf /") == "none"
    assert shell(policy_of("default: required"), "ls") == "required"
    assert shell(policy_of("{default: none, tools: {shell: blocked}}"), "ls") == "blocked"


@pytest.mark.proves("R35", "R36", "R52")
def test_the_sandbox_examples_with_paths_ask_about_writing_and_about_reading(base: Path) -> None:
    policy = policy_of(
        """
default: required
sandbox:
  paths:
    output:
      root: ./output
      mode: rw
      write_approval: true  # Writes require approval
    documents:
      root: ./docs
      mode: ro
      read_approval: true  # Reading for attachments requires approval
""",
        base,
    )
    assert judge(policy, "write_file", path="/output/a") == judge(policy, "edit_file", path="/output/a") == "required"
    assert judge(policy, "read_file", path="/output/a") == judge(policy, "list_files", path="/output") == "none"
    assert judge(policy, "read_file", path="/documents/a") == "required"
    assert judge(policy, "write_file", path="/documents/a") == "blocked"
    assert judge(policy, "delete_file", path="/documents/a") == "blocked"


@pytest.mark.proves("R35", "R36", "R53")
@pytest.mark.parametrize("word", [True, False, "none", "ask", "blocked", "once_per_session"])
@pytest.mark.parametrize("operation", ["read", "write", "delete"])
def test_an_approval_of_a_path_is_true_false_or_a_word(base: Path, operation: str, word: object) -> None:
    data = {"default": "none", "sandbox": {"paths": {"output": {f"{operation}_approval": word}}}}
    found = judge(Policy.from_dict(data, base=base), f"{operation}_file", path="/output/a")
    assert found == {True: "required", False: "none", "ask": "required"}.get(word, word)  # type: ignore[call-overload]


def test_custom_tools_are_listed_for_whoever_exposes_them() -> None:
    policy = policy_of("""
default: blocked
custom_tools:
  - calculate_fibonacci
  - send_notification
""")
    assert policy.custom_tools == ("calculate_fibonacci", "send_notification")
    assert policy_of("default: none").custom_tools is None


# `tool_configs` and `custom_tools`.


@pytest.mark.proves("R40", "R46", "R44")
@pytest.mark.parametrize("default", ["none", "required"])
def test_the_custom_tools_with_a_mapping_each_ask_run_and_follow_the_default(default: Approval) -> None:
    policy = policy_of(f"""
default: {default}
custom_tools:
  calculate_stats:
    approval: required       # Always prompt
  send_notification:
    approval: none           # Never prompt (trusted)
  format_output: {{}}          # Use default (check @requires_approval)
""")
    assert judge(policy, "calculate_stats") == "required"
    assert judge(policy, "send_notification") == "none"
    assert judge(policy, "format_output") == default
    assert policy.custom_tools == ("calculate_stats", "send_notification", "format_output")


@pytest.mark.proves("R40", "R47")
@pytest.mark.parametrize("section", ["tools", "tool_configs", "custom_tools"])
@pytest.mark.parametrize(
    ("entry", "approval"),
    [
        ("required", "required"),
        ("{approval: none}", "none"),
        ("{approval: once_per_session}", "once_per_session"),
        ("deny", "blocked"),
        ("{preApproved: true}", "none"),
        ("{preApproved: false}", "required"),
        ("{blocked: true, blockReason: Disabled}", "blocked"),
        ("{needsApproval: true}", "required"),
        ("{}", "once_per_session"),
        ("", "once_per_session"),
    ],
)
def test_an_entry_means_the_same_in_every_section_that_names_tools(
    section: str, entry: str, approval: Approval
) -> None:
    policy = policy_of(f"default: once_per_session\n{section}:\n  t: {entry}\n")
    assert judge(policy, "t") == approval


@pytest.mark.proves("R45")
def test_pre_approved_tools_run_with_a_warning_unless_another_line_says_otherwise() -> None:
    data: Data = {
        "default": "required",
        "pre_approved": ["a", "b", "c"],
        "tools": {"b": "required", "c": {"reason": "r"}},
    }
    before = repr(data)
    with pytest.deprecated_call(match="pre_approved is deprecated"):
        policy = Policy.from_dict(data)
    assert [judge(policy, each) for each in "abcd"] == ["none", "required", "none", "required"]
    assert repr(data) == before


@pytest.mark.proves("R45", "H13")
def test_a_pre_approved_shell_is_still_judged_by_its_lines() -> None:
    with pytest.deprecated_call():
        policy = policy_of("{default: none, pre_approved: [shell], shell: {rules: [{pattern: ls, approval: ask}]}}")
    assert shell(policy, "ls") == "required"
    assert shell(policy, "rm x") == "blocked"


@pytest.mark.proves("H1")
def test_of_globs_that_are_equally_specific_the_strictest_decides_whatever_their_order() -> None:
    for first, second in itertools.permutations(["'ab*': none", "'*bc': required"]):
        assert judge(policy_of(f"{{default: none, tools: {{{first}, {second}}}}}"), "abc") == "required"


# The names of the AI SDK.


@pytest.mark.proves("R50", "R57")
def test_the_tools_in_camel_case_run_ask_and_are_blocked_with_their_reason() -> None:
    policy = policy_of("""
default: none
tools:
  read_file: { preApproved: true }
  write_file: { preApproved: false }
  dangerous_tool: { blocked: true, blockReason: "Disabled" }
""")
    assert (judge(policy, "read_file"), judge(policy, "write_file")) == ("none", "required")
    verdict = policy.judge(ToolCall(tool="dangerous_tool"))
    assert (verdict.approval, verdict.reason) == ("blocked", "Disabled")


@pytest.mark.proves("R51")
def test_the_zones_in_a_list_are_folders_of_their_names_beside_the_file(base: Path) -> None:
    policy = policy_of(
        """
default: required
sandbox:
  zones:
    - name: scratch
      mode: rw
      approval:
        write: preApproved    # No prompt for writes to /scratch/*
        delete: preApproved   # No prompt for deletes from /scratch/*
    - name: output
      mode: rw
      approval:
        write: ask            # Prompt before each write to /output/*
        delete: blocked       # Block all deletes from /output/*
""",
        base,
    )
    assert judge(policy, "write_file", path="/scratch/temp.txt") == "none"
    assert judge(policy, "delete_file", path="/scratch/temp.txt") == "none"
    assert judge(policy, "write_file", path="/output/report.md") == "required"
    assert judge(policy, "delete_file", path="/output/report.md") == "blocked"
    assert judge(policy, "read_file", path="/output/report.md") == "none"
    assert set(on_files(policy, "/elsewhere/x").values()) == {"blocked"}


@pytest.mark.proves("R46", "R51", "R53")
@pytest.mark.parametrize("form", ["mapping", "list", "paths"])
@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ({}, ["none", "required", "required", "required", "none"]),
        ({"approval": {}}, ["none", "required", "required", "required", "none"]),
        ({"approval": {"write": "none"}}, ["none", "none", "none", "required", "none"]),
        ({"approval": {"read": "blocked"}}, ["blocked", "required", "required", "required", "blocked"]),
        ({"approval": "none"}, ["none"] * 5),
        ({"approval": "ask"}, ["required"] * 5),
        ({"approval": "deny"}, ["blocked"] * 5),
        ({"mode": "ro"}, ["none", "blocked", "blocked", "blocked", "none"]),
        ({"mode": "ro", "approval": "none"}, ["none", "blocked", "blocked", "blocked", "none"]),
        ({"mode": "ro", "read_approval": True}, ["required", "blocked", "blocked", "blocked", "required"]),
        ({"approval": {"write": "none"}, "delete_approval": False}, ["none"] * 5),
    ],
)
def test_a_zone_means_the_same_in_every_form(base: Path, form: str, zone: Data, expected: list[Approval]) -> None:
    sections: Data = {
        "mapping": {"zones": {"output": zone}},
        "list": {"zones": [{"name": "output", **zone}]},
        "paths": {"paths": {"output": zone}},
    }
    policy = Policy.from_dict({"default": "none", "sandbox": sections[form]}, base=base)
    assert list(on_files(policy, "/output/a").values()) == expected


def test_zones_and_paths_may_stand_side_by_side(base: Path) -> None:
    data: Data = {"default": "none", "sandbox": {"zones": {"scratch": {"approval": "none"}}, "paths": {"output": {}}}}
    policy = Policy.from_dict(data, base=base)
    assert (judge(policy, "write_file", path="/scratch/a"), judge(policy, "write_file", path="/output/a")) == (
        "none",
        "required",
    )


def test_a_root_may_be_absolute_and_elsewhere_than_the_name_of_its_zone_says(base: Path) -> None:
    data = {"default": "none", "sandbox": {"zones": {"z": {"root": str(base / "output")}}}}
    assert judge(Policy.from_dict(data), "write_file", path="/z/a") == "required"
    assert judge(Policy.from_dict(data), "write_file", path="/output/a") == "blocked"


@pytest.mark.proves("R52")
def test_a_root_that_is_a_link_is_the_folder_that_it_leads_to(base: Path) -> None:
    (base / "link").symlink_to("output")
    data = {"default": "none", "sandbox": {"zones": {"link": {"approval": "none"}, "output": {"mode": "ro"}}}}
    assert judge(Policy.from_dict(data, base=base), "write_file", path="/link/a") == "blocked"


@pytest.mark.proves("R53")
def test_a_sandbox_without_zones_lets_no_file_be_touched() -> None:
    for sandbox in ("{}", "{zones: {}}", "{zones: []}"):
        assert judge(policy_of(f"{{default: none, sandbox: {sandbox}}}"), "write_file", path="/x") == "blocked"


@pytest.mark.proves("R52", "H13")
def test_every_argument_that_is_named_as_a_path_is_judged(base: Path) -> None:
    policy = policy_of(
        "{default: none, tools: {mv: {kind: path, argument: [src, dst]}, sandbox: none},"
        " sandbox: {zones: {scratch: {approval: none}, output: {mode: ro}}}}",
        base,
    )
    assert judge(policy, "mv", src="/scratch/a", dst="/scratch/b") == "none"
    for args in ({"src": "/etc/shadow", "dst": "/scratch/b"}, {"src": "/scratch/a", "dst": "/output/b"}):
        assert judge(policy, "mv", **args) == "blocked"
    assert judge(policy, "mv", dst="/scratch/a") == "blocked"


@pytest.mark.parametrize("argument", ["[]", "[a, b]", "[1]"])
def test_a_line_stands_in_one_argument(argument: str) -> None:
    with pytest.raises(PolicyError, match="argument"):
        policy_of(f"{{default: none, shell: {{}}, tools: {{run: {{kind: shell, argument: {argument}}}}}}}")


@pytest.mark.proves("H1")
def test_a_rule_of_the_same_words_that_blocks_never_loosens_a_line_that_nobody_can_read() -> None:
    rules = "{default: none, shell: {default: deny, rules: [{pattern: ls, approval: none}%s]}}"
    for line in ("cat - $x", "ls $(cat -)", "(cat -)", "! cat -"):
        for more in ("", ", {pattern: cat -, approval: deny}", ", {pattern: cat, approval: deny}"):
            assert shell(policy_of(rules % more), line) == "blocked"


@pytest.mark.proves("H1")
def test_of_two_equal_patterns_the_one_that_lets_less_expand_holds_in_any_order() -> None:
    rules = ["{pattern: ls, approval: none, operand_expansion: [glob]}", "{pattern: ls, approval: none}"]
    for some in itertools.permutations(rules):
        policy = policy_of(f"{{default: none, shell: {{rules: [{', '.join(some)}]}}}}")
        assert shell(policy, "ls *") == "required"


@pytest.mark.proves("H1")
def test_a_set_of_characters_makes_a_glob_no_more_specific() -> None:
    policy = policy_of("{default: none, tools: {'[a-z]*': none, '[!_]*': none, 'rm*': required, 'r*': none}}")
    assert judge(policy, "rm_x") == "required"


# Tools that are judged by what they do.


@pytest.mark.proves("H13")
def test_another_tool_of_the_kind_shell_is_judged_by_its_own_argument() -> None:
    policy = policy_of("""
default: none
tools:
  run: {kind: shell, argument: cmd}
  "exec_*": {kind: shell, argument: line}
shell:
  rules: [{pattern: git status, approval: none}, {pattern: git commit, approval: required}]
""")
    for tool, argument in (("run", "cmd"), ("exec_a", "line"), ("exec_", "line"), ("shell", "command")):
        assert judge(policy, tool, **{argument: "git status"}) == "none"
        assert judge(policy, tool, **{argument: "git commit"}) == "required"
        assert judge(policy, tool, **{argument: "rm x"}) == "blocked"
        assert judge(policy, tool, other="git status") == "blocked"
        assert judge(policy, tool, **{argument: ["git", "status"]}) == "blocked"
        assert judge(policy, tool, **{argument: None}) == "blocked"
        assert judge(policy, tool) == "blocked"
    assert judge(policy, "executor", line="rm x") == "none"


@pytest.mark.proves("H13")
@pytest.mark.parametrize("other", ["cwd", "env", "shell", "stdin", "Timeout"])
def test_an_argument_beside_the_command_that_may_change_what_it_does_asks(other: str) -> None:
    policy = policy_of(
        "{default: none, shell: {rules: [{pattern: ls, approval: none}, {pattern: rm, approval: deny}]}}"
    )
    assert shell(policy, "ls", {other: "/elsewhere"}) == "required"
    assert shell(policy, "rm x", {other: "/elsewhere"}) == "blocked"


@pytest.mark.parametrize("other", ["timeout", "timeout_ms", "description", "run_in_background"])
def test_an_argument_that_changes_nothing_about_the_command_does_not_ask(other: str) -> None:
    policy = policy_of("{default: required, shell: {rules: [{pattern: ls, approval: none}]}}")
    assert shell(policy, "ls", {other: 5}) == "none"


@pytest.mark.proves("R51", "R52")
@pytest.mark.parametrize(
    ("operation", "expected"), [("read", "none"), ("list", "none"), ("write", "required"), ("delete", "blocked")]
)
def test_a_tool_of_the_kind_path_is_judged_by_its_operation_on_virtual_and_real_paths(
    base: Path, operation: str, expected: Approval
) -> None:
    policy = policy_of(
        f"""
default: none
tools:
  virtual: {{kind: path, argument: file, operation: {operation}}}
  "real_*": {{kind: path, argument: file, operation: {operation}, paths: real}}
sandbox: {{zones: {{output: {{approval: {{delete: blocked}}}}}}}}
""",
        base,
    )
    real = str(base.resolve() / "output" / "a")
    assert judge(policy, "virtual", file="/output/a") == expected
    assert judge(policy, "real_x", file=real) == expected
    assert judge(policy, "virtual", file=real) == judge(policy, "real_x", file="/output/a") == "blocked"
    assert judge(policy, "real_x", file="output/a") == judge(policy, "virtual", file="output/a") == "blocked"
    for tool in ("virtual", "real_x"):
        assert judge(policy, tool, path="/output/a") == judge(policy, tool, file=None) == "blocked"
        assert judge(policy, tool, file=5) == judge(policy, tool, file=["/output/a"]) == "blocked"
        assert judge(policy, tool) == "blocked"


def test_a_tool_of_the_kind_path_writes_unless_it_says_otherwise(base: Path) -> None:
    data = {"default": "none", "tools": {"save": {"kind": "path"}}, "sandbox": {"zones": {"output": {"mode": "ro"}}}}
    assert judge(Policy.from_dict(data, base=base), "save", path="/output/a") == "blocked"


def test_a_file_tool_may_be_declared_to_do_something_else(base: Path) -> None:
    data: Data = {
        "default": "none",
        "tools": {"read_file": {"kind": "path", "argument": "file", "operation": "delete"}},
        "sandbox": {"zones": {"output": {}}},
    }
    policy = Policy.from_dict(data, base=base)
    assert judge(policy, "read_file", file="/output/a") == "required"
    assert judge(policy, "read_file", path="/output/a") == "blocked"


def test_a_tool_that_two_entries_judge_by_what_it_does_needs_both(base: Path) -> None:
    policy = policy_of(
        """
default: none
tools:
  save_as: {kind: path, argument: to}
  "save_*": {kind: path, argument: source, operation: read}
sandbox: {zones: {output: {approval: none}, docs: {mode: ro}}}
""",
        base,
    )
    assert judge(policy, "save_as", to="/output/a", source="/docs/a") == "none"
    assert judge(policy, "save_as", to="/docs/a", source="/output/a") == "blocked"
    assert judge(policy, "save_as", to="/output/a", source="/etc/passwd") == "blocked"
    assert judge(policy, "save_as", to="/output/a") == "blocked"


SHELL_RULES = (
    "shell: {rules: [{pattern: ls, approval: none}, {pattern: git, approval: ask}, {pattern: rm, approval: deny}]}"
)


@pytest.mark.proves("H1", "H13")
@pytest.mark.parametrize("name", ["shell", "sh*", "*"])
@pytest.mark.parametrize("word", ["none", "required", "blocked", "once_per_session"])
def test_an_entry_for_the_shell_can_only_tighten(name: str, word: Approval) -> None:
    policy = policy_of(f"default: none\ntools: {{'{name}': {word}}}\n{SHELL_RULES}")
    for line, alone in (("ls", "none"), ("git push", "required"), ("rm x", "blocked"), ("id", "blocked")):
        found = shell(policy, line)
        assert STRICTNESS[found] == max(
            STRICTNESS[word], STRICTNESS[shell(policy_of(f"default: none\n{SHELL_RULES}"), line)]
        )
        assert STRICTNESS[found] >= STRICTNESS[alone]  # type: ignore[index]


@pytest.mark.proves("H1", "R52")
@pytest.mark.parametrize("word", ["none", "required", "blocked"])
def test_an_entry_for_a_file_tool_can_only_tighten(base: Path, word: Approval) -> None:
    zones = "sandbox: {zones: {scratch: {approval: none}, output: {}, docs: {mode: ro}}}"
    policy = policy_of(f"default: none\ntools: {{write_file: {word}}}\n{zones}", base)
    for path, alone in (("/scratch/a", 0), ("/output/a", 2), ("/docs/a", 3), ("/nowhere/a", 3)):
        assert STRICTNESS[judge(policy, "write_file", path=path)] == max(STRICTNESS[word], alone)


@pytest.mark.proves("H1", "H5", "H13")
@pytest.mark.parametrize("timeout", [1, 100, None, "100"])
@pytest.mark.parametrize("word", ["none", "required"])
@pytest.mark.parametrize("entry", ["shell: {", "run: {kind: shell, "])
def test_a_condition_never_takes_away_that_a_line_is_judged(entry: str, word: str, timeout: object) -> None:
    policy = policy_of(f"""
default: none
tools: {{{entry}approval: {word}, when: {{args.timeout: {{gt: 10}}}}}}}}
{SHELL_RULES}
""")
    others: Data = {} if timeout is None else {"timeout": timeout}
    tool = entry.partition(":")[0]
    for line, expected in (("rm -rf /", "blocked"), ("id", "blocked"), ("git push", "required")):
        assert judge(policy, tool, command=line, **others) == expected


@pytest.mark.proves("H1", "H5", "R52")
def test_a_condition_never_takes_away_that_a_path_is_judged(base: Path) -> None:
    zones = "sandbox: {zones: {docs: {mode: ro}}}"
    tools = "tools: {write_file: {approval: none, when: {args.size: {lt: 10}}}}"
    policy = policy_of(f"default: none\n{tools}\n{zones}", base)
    for size in ({"size": 5}, {"size": 50}, {}):
        assert judge(policy, "write_file", path="/docs/a", **size) == "blocked"


@pytest.mark.proves("H15")
def test_explain_tells_what_the_shell_and_the_zones_find(base: Path) -> None:
    policy = policy_of(
        "{default: none, shell: {rules: [{pattern: ls, approval: none}]}, sandbox: {zones: {docs: {mode: ro}}}}", base
    )
    verdict, considered = policy.explain(ToolCall(tool="shell", args={"command": "ls && id"}))
    assert verdict.approval == "blocked"
    assert [(each.part, each.approval) for each in considered] == [("ls", "none"), ("id", "blocked"), (None, "none")]
    verdict, considered = policy.explain(ToolCall(tool="write_file", args={"path": "/docs/a"}))
    assert [(each.rule.key, each.approval) for each in considered] == [
        ("sandbox.zones.docs", "blocked"),
        ("default", "none"),
    ]
    assert "read-only" in verdict.reason


# Terms.


@pytest.mark.proves("R42")
def test_the_terms_of_a_rule_reach_the_verdict() -> None:
    policy = policy_of("""
default: none
tools:
  pay:
    approval: required
    reason: money is money
    description: Pay {args.amount}
    expires: 10m
    approvers: {count: 2, role: ops}
    remember: false
  "p*": {expires: 1h, scope: tool}
""")
    verdict = policy.judge(ToolCall(tool="pay", args={"amount": 5}))
    assert (verdict.reason, verdict.description) == ("money is money", "Pay 5")
    assert (verdict.expires, verdict.remember, verdict.scope) == (600.0, False, "tool")
    assert verdict.approvers == Approvers(count=2, roles=("ops",))
    assert str(verdict.rule) == "policy tools.pay"


@pytest.mark.parametrize(("said", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("30d", 2592000), ("2.5", 2.5)])
def test_a_span_of_time_is_written_with_its_unit_or_in_seconds(said: str, seconds: float) -> None:
    policy = policy_of(f"default: none\ntools: {{t: {{approval: ask, expires: {said}}}}}\nremember: {{max: {said}}}")
    assert policy.judge(ToolCall(tool="t")).expires == policy.remember_max == seconds


def test_a_shell_rule_has_a_time_of_its_own_and_of_several_the_shortest_holds() -> None:
    policy = policy_of("""
default: none
shell:
  rules:
    - {pattern: git commit, approval: required, expires: 10m}
    - {pattern: git push, approval: required, expires: 5m}
    - {pattern: ls, approval: none, expires: 1m}
""")
    assert policy.judge(ToolCall(tool="shell", args={"command": "git commit"})).expires == 600
    assert policy.judge(ToolCall(tool="shell", args={"command": "git commit; git push; ls"})).expires == 300


async def test_a_question_expires_when_its_rule_says_so() -> None:
    clock, person = FixedClock(), ScriptedChannel()
    policy = policy_of("default: none\ntools: {pay: {approval: ask, expires: 10m}}")
    controller = ApprovalController(policy=policy, mode="defer", clock=clock, channels=[person])
    await controller.review(ToolCall(tool="pay", call_id="c"))
    clock.advance(599)
    assert [request.status for request in await controller.pending()] == ["open"]
    clock.advance(1)
    assert await controller.pending() == []


@pytest.mark.parametrize("approvers", ["{count: 2}", "{role: ops}", "{count: 2, role: ops}"])
async def test_one_person_is_not_asked_where_the_rule_wants_two_or_a_role(approvers: str) -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True))
    policy = policy_of(f"default: none\ntools: {{pay: {{approval: required, approvers: {approvers}}}}}")
    outcome = await ApprovalController(policy=policy, channels=[person]).settle(ToolCall(tool="pay"))
    assert isinstance(outcome, Denied)
    assert (outcome.cause, person.asked) == ("blocked", [])


async def test_one_approver_of_any_role_is_asked_as_ever() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True))
    policy = policy_of("default: none\ntools: {pay: {approval: required, approvers: {count: 1}}}")
    await ApprovalController(policy=policy, channels=[person]).settle(ToolCall(tool="pay"))
    assert len(person.asked) == 1


@pytest.mark.proves("R47")
async def test_what_is_asked_once_per_session_is_not_asked_again_in_it() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True))
    controller = ApprovalController(
        policy=policy_of("default: none\ntools: {pay: once_per_session}"), channels=[person]
    )
    await controller.settle(ToolCall(tool="pay", args={"amount": 5}))
    await controller.settle(ToolCall(tool="pay", args={"amount": 5}))
    assert len(person.asked) == 1


# Files over one another.


def over(nearer: str, farther: str, base: Path | None = None) -> Policy:
    return policy_of(nearer, base).over(policy_of(farther, base))


@pytest.mark.proves("H1")
@pytest.mark.parametrize("nearer", ["none", "required", "blocked", None])
@pytest.mark.parametrize("farther", ["none", "required", "blocked", None])
def test_of_two_files_a_block_stands_and_else_the_nearer_one_wins(nearer: str | None, farther: str | None) -> None:
    """C6, between files."""

    def file(word: str | None) -> str:
        return "default: once_per_session" + (f"\ntools: {{t: {word}}}" if word else "")

    expected = "blocked" if "blocked" in (nearer, farther) else nearer or farther or "once_per_session"
    assert judge(over(file(nearer), file(farther)), "t") == expected


def test_a_glob_of_the_nearer_file_wins_over_a_name_of_the_farther_one() -> None:
    assert judge(over("{default: none, tools: {'t*': none}}", "{default: none, tools: {t: required}}"), "t") == "none"


@pytest.mark.proves("H1")
def test_a_block_with_a_condition_in_the_farther_file_stands_where_it_holds_or_nobody_can_say() -> None:
    both = over(
        "{default: none, tools: {t: none}}",
        "{default: none, tools: {t: {approval: blocked, when: {args.x: {gt: 5}}}}}",
    )
    assert [judge(both, "t", x=value) for value in (1, 9, "9")] == ["none", "blocked", "blocked"]


@pytest.mark.parametrize("farther", ["none", "required"])
@pytest.mark.parametrize("nearer", ["none", "required", "blocked"])
def test_the_default_of_the_nearer_file_is_for_what_neither_names(nearer: Approval, farther: str) -> None:
    both = over(f"default: {nearer}", f"{{default: {farther}, tools: {{t: none}}}}")
    assert judge(both, "u") == nearer
    assert judge(both, "t") == "none"


@pytest.mark.proves("H1", "H13")
def test_a_line_is_judged_by_the_shell_rules_of_both_files() -> None:
    near = "{default: none, shell: {default: ask, rules: [{pattern: git push, approval: none}]}}"
    far = "{default: none, shell: {default: ask, rules: [{pattern: git push --force, approval: deny, note: never}]}}"
    for both in (over(near, far), over(far, near)):
        assert shell(both, "git push --force") == "blocked"
    assert shell(over(near, far), "git push") == "none"
    assert shell(over(far, near), "git push") == "required"
    assert shell(over("default: none", far), "git push -f --force") == "blocked"
    assert shell(over("{default: none, tools: {shell: none}}", far), "git push --force") == "blocked"


@pytest.mark.proves("H1", "R52")
def test_a_path_is_judged_by_the_zones_of_both_files(base: Path) -> None:
    near = "{default: none, sandbox: {zones: {output: {approval: none}}}}"
    far = "{default: none, sandbox: {zones: {output: {mode: ro}}}}"
    for both in (over(near, far, base), over(far, near, base)):
        assert judge(both, "write_file", path="/output/a") == "blocked"
        assert judge(both, "read_file", path="/output/a") == "none"
    asks = "{default: none, sandbox: {zones: {output: {}}}}"
    assert judge(over(near, asks, base), "write_file", path="/output/a") == "none"
    assert judge(over(asks, near, base), "write_file", path="/output/a") == "required"


@pytest.mark.proves("H1", "H13")
@pytest.mark.parametrize("name", ["shell", "sh*", "*"])
def test_a_name_in_the_nearer_file_does_not_loosen_what_the_farther_ones_shell_rules_and_zones_ask(
    name: str, base: Path
) -> None:
    far = "{default: none, shell: {default: ask}, sandbox: {zones: {output: {}}}, tools: {t: ask}}"
    near = f"{{default: none, tools: {{'{name}': none, t: none, write_file: none}}}}"
    assert shell(over(near, far, base), "git push") == "required"
    assert judge(over(near, far, base), "write_file", path="/output/a") == "required"
    assert judge(over(near, far, base), "t") == "none"
    stricter = f"{{default: none, tools: {{'{name}': ask}}}}"
    lax = "{default: none, shell: {default: ask, rules: [{pattern: ls, approval: none}]}}"
    assert (shell(over("default: none", lax), "ls"), shell(over(stricter, lax), "ls")) == ("none", "required")


@pytest.mark.proves("H1", "R53")
def test_what_is_in_no_zone_of_a_file_that_has_zones_stays_blocked_whatever_the_other_file_adds(base: Path) -> None:
    near = "{default: none, sandbox: {zones: {scratch: {approval: none}}}}"
    far = "{default: none, sandbox: {zones: {output: {approval: none}}}}"
    for path in ("/scratch/a", "/output/a"):
        assert judge(over(near, far, base), "read_file", path=path) == "blocked"


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    ("first", "second", "longest"),
    [("{max: 1h}", "{max: 1d}", 3600), ("{max: 1h}", "true", 3600), ("true", "true", None)],
)
def test_the_shortest_time_to_remember_holds(first: str, second: str, longest: float | None) -> None:
    files = [f"{{default: none, remember: {each}}}" for each in (first, second)]
    for near, far in itertools.permutations(files):
        assert over(near, far).remember_max == longest


@pytest.mark.proves("H9")
def test_a_file_that_lets_nothing_be_remembered_holds_for_both() -> None:
    files = ["{default: ask, remember: false}", "{default: ask}"]
    for near, far in itertools.permutations(files):
        assert not over(near, far).judge(ToolCall(tool="t")).remember
    assert over(files[1], files[1]).judge(ToolCall(tool="t")).remember


def test_a_strict_audit_of_either_file_holds_for_both() -> None:
    files = ["{default: none, audit: strict}", "{default: none}"]
    assert {over(near, far).audit for near, far in itertools.permutations(files)} == {"strict"}
    assert over(files[1], files[1]).audit == "queued"


def test_three_files_combine_whichever_two_are_put_together_first() -> None:
    texts = (
        "{default: none, tools: {a: none}}",
        "{default: required, tools: {a: required, b: required, c: deny}}",
        "{default: required, tools: {b: none, c: none, d: once_per_session}}",
    )
    near, middle, far = map(policy_of, texts)
    left, right = near.over(middle).over(far), near.over(middle.over(far))
    for tool, expected in zip("abcde", ("none", "required", "blocked", "once_per_session", "none"), strict=True):
        assert judge(left, tool) == judge(right, tool) == expected
    assert judge(near, "b") == "none", "a policy is not changed by being put over another"
    assert [str(rule) for rule in left.rules] == [str(rule) for rule in right.rules]


@pytest.mark.proves("H1")
def test_the_function_of_the_lower_policy_is_heard_too() -> None:
    def blocks(call: ToolCall) -> Verdict:
        return Verdict(approval="blocked", reason=call.tool)

    def asks(call: ToolCall) -> Verdict:
        return Verdict(approval="required", reason=call.tool)

    assert judge(Policy(default="none").over(Policy(needs_approval=blocks, default="none")), "t") == "blocked"
    assert judge(Policy({"t": "none"}, default="none").over(Policy(needs_approval=asks, default="none")), "t") == "none"
    assert judge(Policy(default="none").over(Policy(needs_approval=asks, default="none")), "t") == "required"


def test_a_default_that_blocks_is_for_what_no_file_names_and_is_told_once() -> None:
    both = over("{default: none, tools: {t: none}}", "default: deny")
    assert (judge(both, "t"), judge(both, "u")) == ("none", "blocked")
    assert [each.rule.key for each in both.explain(ToolCall(tool="u"))[1]] == ["default"]


@pytest.mark.proves("H15")
def test_explain_tells_why_a_line_that_every_rule_lets_run_is_asked_about() -> None:
    policy = policy_of("{default: none, shell: {rules: [{pattern: ls, approval: none}]}}")
    verdict, considered = policy.explain(ToolCall(tool="shell", args={"command": "ls", "cwd": "/"}))
    assert verdict.approval == "required"
    assert [(each.approval, "cwd" in each.reason) for each in considered][:2] == [("none", False), ("required", True)]


@pytest.mark.proves("H15")
def test_explain_tells_what_a_rule_says_whose_condition_nobody_can_answer() -> None:
    policy = policy_of(
        "{default: none, tools: {pay: {approval: deny, when: {args.amount: {gt: 1}}},"
        " 'p*': {approval: ask, when: {args.x: 1}}}}"
    )
    considered = policy.explain(ToolCall(tool="pay", args={"amount": "x"}))[1]
    assert [(each.approval, each.applies) for each in considered[:2]] == [("blocked", True), ("required", True)]
    assert all("cannot be checked" in each.reason for each in considered[:2])


@pytest.mark.proves("H15")
def test_explain_tells_the_rules_of_both_files() -> None:
    both = over("{default: none, tools: {t: none}}", "{default: ask, tools: {t: deny}}")
    verdict, considered = both.explain(ToolCall(tool="t"))
    assert verdict.approval == "blocked"
    assert [(each.rule.key, each.approval) for each in considered] == [
        ("tools.t", "none"),
        ("tools.t", "blocked"),
        ("default", "required"),
        ("default", "none"),
    ]


# Whatever the rules.

APPROVALS = st.sampled_from(["none", "required", "blocked", "once_per_session"])
NAMES = st.sampled_from(["shell", "sh*", "*", "write_file", "w*", "t", "[st]*", "?hell"])
PATTERNS = st.sampled_from(["git", "git push", "git push --force", "ls", "rm", "rm -rf", "env", "xargs"])
LINES = st.sampled_from(
    [
        "git push",
        "git push --force",
        "ls",
        "rm -rf x",
        "env rm x",
        "ls && git push",
        "ls > x",
        "id",
        "A=1 ls",
        "find . -exec rm {} ;",
        "xargs rm -rf",
        "for i in 1; do rm x; done",
        "$(rm x)",
    ]
)
PATHS = st.sampled_from(["/scratch/a", "/output/a", "/docs/folder/a", "/x/a", "/scratch/../output/a"])
WHENS = st.sampled_from([{}, {"args.x": 1}, {"args.x": {"gt": 5}}, {"args.command": {"contains": "git"}}])


def in_shell(line: str) -> ToolCall:
    return ToolCall(tool="shell", args={"command": line})


def in_file(path: str) -> ToolCall:
    return ToolCall(tool="write_file", args={"path": path})


def an_entry(word: str, when: Data) -> Data:
    return {"approval": word, "when": when} if when else {"approval": word}


def a_rule(pattern: str, word: str) -> Data:
    return {"pattern": pattern, "approval": word}


def a_zone(mode: str, word: str) -> Data:
    return {"mode": mode, "approval": word}


def a_file(default: str, tools: Data, shell_default: str, rules: list[Data], zones: Data) -> Data:
    sections: Data = {"shell": {"default": shell_default, "rules": rules}, "sandbox": {"zones": zones}}
    return {"default": default, "tools": tools, **sections}


CALLS = LINES.map(in_shell) | PATHS.map(in_file) | st.just(ToolCall(tool="t", args={"x": 1}))
FILES = st.builds(
    a_file,
    APPROVALS,
    st.dictionaries(NAMES, st.builds(an_entry, APPROVALS, WHENS), max_size=4),
    st.sampled_from(["required", "blocked"]),
    st.lists(st.builds(a_rule, PATTERNS, APPROVALS), max_size=5),
    st.dictionaries(
        st.sampled_from(["scratch", "output"]),
        st.builds(a_zone, st.sampled_from(["ro", "rw"]), APPROVALS),
        min_size=1,
    ),
)
BLOCKS = st.one_of(
    NAMES.map(lambda name: ("tools", name)),
    PATTERNS.map(lambda pattern: ("shell", pattern)),
    st.just(("sandbox", "docs")),
)
WITHOUT_BASE = settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def strictness(data: Data, base: Path, call: ToolCall) -> int:
    return STRICTNESS[Policy.from_dict(data, base=base).judge(call).approval]


def with_block(data: Data, section: str, name: str) -> Data:
    """The same file with one more rule that blocks."""
    if section == "tools":
        return data | {"tools": data["tools"] | {name: {"approval": "blocked"}}}
    if section == "shell":
        return data | {"shell": data["shell"] | {"rules": [*data["shell"]["rules"], a_rule(name, "blocked")]}}
    zones = data["sandbox"]["zones"] | {name: {"approval": "blocked", "root": "scratch"}}
    return data | {"sandbox": {"zones": zones}}


@pytest.mark.proves("H1")
@WITHOUT_BASE
@given(data=FILES, call=CALLS, block=BLOCKS)
def test_a_blocked_rule_more_never_loosens_a_verdict(
    base: Path, data: Data, call: ToolCall, block: tuple[str, str]
) -> None:
    assert strictness(with_block(data, *block), base, call) >= strictness(data, base, call)


@pytest.mark.proves("H1")
@WITHOUT_BASE
@given(data=FILES, call=CALLS, seed=st.randoms(use_true_random=False))
def test_the_order_of_keys_and_rules_never_changes_a_verdict(
    base: Path, data: Data, call: ToolCall, seed: random.Random
) -> None:
    def shuffled(values: Data) -> Data:
        return dict(mixed(list(values.items())))

    def mixed(values: list[Any]) -> list[Any]:
        return seed.sample(values, len(values))

    other = {
        "tools": shuffled(data["tools"]),
        "shell": shuffled({**data["shell"], "rules": mixed(data["shell"]["rules"])}),
        "sandbox": {"zones": shuffled(data["sandbox"]["zones"])},
    }
    assert strictness(shuffled(data | other), base, call) == strictness(data, base, call)


@pytest.mark.proves("H1")
@WITHOUT_BASE
@given(near=FILES, far=FILES, call=CALLS)
def test_a_file_over_another_never_passes_a_block_of_either(base: Path, near: Data, far: Data, call: ToolCall) -> None:
    first, second = (Policy.from_dict(each, base=base) for each in (near, far))
    verdicts: list[Verdict] = [each.judge(call) for each in (first, second)]
    by_rule = [each for each in verdicts if each.rule and each.rule.key != "default"]
    if any(each.approval == "blocked" for each in by_rule):
        assert first.over(second).judge(call).approval == "blocked"


def test_ten_thousand_rules_are_loaded_and_judged() -> None:
    data = {
        "default": "none",
        "tools": {f"tool_{number}_*": "required" for number in range(10_000)},
        "shell": {"rules": [{"pattern": f"git x{number}", "approval": "blocked"} for number in range(10_000)]},
    }
    policy = Policy.from_dict(data)
    assert judge(policy, "tool_9999_x") == "required"
    assert shell(policy, "git x9999") == shell(policy, "sudo git -C . x9999") == "blocked"
    assert len(policy.rules) == 20_001
