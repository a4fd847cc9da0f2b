"""Policies from real files: which ones apply, how they are put over one another, and that no tool can change them."""

import os
from pathlib import Path
from typing import Any

import pytest

from sayso import Policy, ToolCall, load_policy
from sayso.core.model import Approval
from sayso.errors import ConfigurationError, PolicyError


def judge(policy: Policy, tool: str, **args: Any) -> Approval:
    return policy.judge(ToolCall(tool=tool, args=args)).approval


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project below an empty home, and nothing that the real user has set."""
    home, project = tmp_path / "home", tmp_path / "work" / "project"
    home.mkdir()
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SAYSO_POLICY", raising=False)
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def user_file(project: Path, tmp_path: Path) -> Path:
    return tmp_path / "home" / ".config" / "sayso" / "sayso.yaml"


# A file that is named.


def test_a_policy_stays_as_its_file_was_and_a_file_with_a_mistake_gives_none(project: Path) -> None:
    file = write(project / "sayso.yaml", "default: none")
    policy = load_policy(file)
    write(file, "default: blocked")
    assert (judge(policy, "t"), judge(load_policy(file), "t")) == ("none", "blocked")
    write(file, "{default: none, tools: {a: none, b: nun}}")
    with pytest.raises(PolicyError):
        load_policy(file)


@pytest.mark.parametrize("name", ["sayso.yaml", "other.yml", "without-ending"])
def test_a_named_file_is_read_as_yaml_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, "default: required\ntools: {t: none}\n")
    assert judge(load_policy(file), "t") == judge(load_policy(str(file)), "t") == "none"


def test_a_named_toml_file_is_read_for_its_table(tmp_path: Path) -> None:
    file = write(
        tmp_path / "pyproject.toml", '[tool.sayso]\ndefault = "required"\n[tool.sayso.tools]\nt = {approval = "none"}\n'
    )
    policy = load_policy(file)
    assert (judge(policy, "t"), judge(policy, "u")) == ("none", "required")
    assert str(policy.judge(ToolCall(tool="t")).rule) == f"{file}:4 tools.t"


def test_a_named_file_alone_counts(project: Path, user_file: Path, tmp_path: Path) -> None:
    write(user_file, "default: none\ntools: {t: blocked}\n")
    write(project / "sayso.yaml", "default: none\ntools: {t: blocked}\n")
    assert judge(load_policy(write(tmp_path / "p.yaml", "default: none")), "t") == "none"


def test_folders_of_a_file_are_relative_to_it_and_not_to_where_the_program_runs(project: Path, tmp_path: Path) -> None:
    (tmp_path / "policies" / "out").mkdir(parents=True)
    write(tmp_path / "policies" / "p.yaml", "{default: none, sandbox: {zones: {out: {}}}}")
    assert judge(load_policy("../../policies/p.yaml"), "write_file", path="/out/a") == "required"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("missing.yaml", None, "missing.yaml: there is no such file; name another one, or run `sayso init`"),
        ("empty.yaml", "", "empty.yaml: this file is empty; write a policy, or run `sayso init`"),
        ("list.yaml", "- a", "list.yaml:1:1: this file does not hold a mapping"),
        ("twice.yaml", "default: none\ndefault: none", "twice.yaml:2:1: the key 'default' is on lines 1 and 2"),
        ("bad.yaml", "default: [none", "bad.yaml:"),
        ("plain.toml", "[project]", "plain.toml: this file has no [tool.sayso]; add that table, or name another file"),
        ("bad.toml", "x =", "bad.toml:1:4: this is not TOML"),
        ("odd.toml", "[tool]\nsayso = 5", "odd.toml:"),
        ("typo.toml", "[tool.sayso]\ndefalt = 'none'", "typo.toml:2:1: the file has the unknown key 'defalt'"),
    ],
)
@pytest.mark.proves("H5")
def test_a_file_that_cannot_be_used_is_told_by_its_name(tmp_path: Path, name: str, text: str | None, says: str) -> None:
    if text is not None:
        write(tmp_path / name, text)
    with pytest.raises(ConfigurationError) as caught:
        load_policy(tmp_path / name)
    assert says in str(caught.value)


@pytest.mark.proves("H5")
def test_a_folder_or_a_pipe_is_no_policy_file(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    for name in ("folder.yaml", "pipe.yaml"):
        with pytest.raises(ConfigurationError, match=f"{name}: this cannot be read"):
            load_policy(tmp_path / name)


@pytest.mark.proves("R45")
def test_a_file_with_pre_approved_tools_warns(tmp_path: Path) -> None:
    file = write(tmp_path / "sayso.yaml", "{default: required, pre_approved: [t]}")
    with pytest.deprecated_call():
        assert judge(load_policy(file), "t") == "none"


def test_a_file_of_ten_thousand_rules_is_read(tmp_path: Path) -> None:
    rules = "".join(f"    - {{pattern: git x{number}, approval: required}}\n" for number in range(10_000))
    policy = load_policy(write(tmp_path / "sayso.yaml", f"default: none\nshell:\n  rules:\n{rules}"))
    verdict = policy.judge(ToolCall(tool="shell", args={"command": "git x9999"}))
    assert (verdict.approval, verdict.rule and verdict.rule.line) == ("required", 10_003)


# The files that apply here.


@pytest.mark.proves("H5")
def test_without_any_file_nothing_is_guessed(project: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="there is no policy file here; run `sayso init` to write one, or name"
    ):
        load_policy()


@pytest.mark.parametrize("name", ["sayso.yaml", "sayso.yml"])
@pytest.mark.parametrize("below", [".", "a", "a/b/c"])
def test_the_project_s_file_is_found_from_every_folder_below_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, below: str
) -> None:
    write(project / name, "{default: required, tools: {t: none}}")
    (project / below).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(project / below)
    assert judge(load_policy(), "t") == "none"


def test_the_nearest_file_of_a_project_is_the_project_s(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project / "sayso.yaml", "{default: none, tools: {t: blocked}}")
    write(project / "part" / "sayso.yaml", "{default: none, tools: {t: required}}")
    monkeypatch.chdir(project / "part")
    assert judge(load_policy(), "t") == "required"


def test_a_pyproject_counts_if_it_has_the_table(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project / "pyproject.toml", '[tool.sayso]\ndefault = "blocked"\n')
    write(project / "part" / "pyproject.toml", '[project]\nname = "x"\n')
    monkeypatch.chdir(project / "part")
    assert judge(load_policy(), "t") == "blocked"


@pytest.mark.proves("H5")
@pytest.mark.parametrize("where", ["project", "user"])
@pytest.mark.parametrize("kind", ["dangling link", "folder"])
def test_a_file_that_is_there_but_cannot_be_read_is_not_passed_over(
    project: Path, user_file: Path, where: str, kind: str
) -> None:
    write(project.parent / "sayso.yaml", "default: none")
    file = project / "sayso.yaml" if where == "project" else user_file
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("nowhere")
    with pytest.raises(ConfigurationError, match=r"sayso\.yaml: "):
        load_policy()


@pytest.mark.proves("H5")
def test_a_mistake_in_any_file_that_applies_is_told(project: Path, user_file: Path) -> None:
    write(project / "sayso.yaml", "default: none")
    write(user_file, "default: nun")
    with pytest.raises(PolicyError) as caught:
        load_policy()
    assert caught.value.mistakes[0].source == str(user_file)


@pytest.mark.proves("H1")
def test_the_user_s_file_applies_below_the_project_s(project: Path, user_file: Path) -> None:
    write(user_file, "{default: blocked, tools: {a: blocked, b: required, c: none, d: required}}")
    assert [judge(load_policy(), tool) for tool in "abcde"] == ["blocked", "required", "none", "required", "blocked"]
    write(project / "sayso.yaml", "{default: none, tools: {a: none, b: none, c: required}}")
    assert [judge(load_policy(), tool) for tool in "abcde"] == ["blocked", "none", "required", "required", "blocked"]


@pytest.mark.parametrize("name", ["sayso.yaml", "sayso.yml"])
def test_the_user_s_file_is_where_the_desktop_keeps_settings(
    project: Path, user_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(user_file, "default: blocked")
    write(tmp_path / "settings" / "sayso" / name, "default: required")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    assert judge(load_policy(), "t") == "required"
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    assert judge(load_policy(), "t") == "blocked"


@pytest.mark.proves("H1")
def test_the_file_that_the_environment_names_is_the_nearest(
    project: Path, user_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user_file, "{default: none, tools: {a: none, b: blocked}}")
    write(project / "sayso.yaml", "{default: none, tools: {a: none, c: required, d: required}}")
    write(project / "ci" / "policy.yaml", "{default: required, tools: {a: required, b: none, c: none}}")
    monkeypatch.setenv("SAYSO_POLICY", "ci/policy.yaml")
    policy = load_policy()
    assert [judge(policy, tool) for tool in "abcde"] == ["required", "blocked", "none", "required", "required"]
    monkeypatch.setenv("SAYSO_POLICY", "")
    assert judge(load_policy(), "a") == "none"


@pytest.mark.proves("H5")
def test_a_file_that_the_environment_names_must_be_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project / "sayso.yaml", "default: none")
    monkeypatch.setenv("SAYSO_POLICY", "missing.yaml")
    with pytest.raises(ConfigurationError, match=r"missing\.yaml: there is no such file"):
        load_policy()


@pytest.mark.proves("H9")
def test_the_strictest_words_of_all_files_about_memory_and_audit_hold(project: Path, user_file: Path) -> None:
    write(user_file, "{default: ask, remember: {max: 1h}, audit: strict}")
    write(project / "sayso.yaml", "{default: ask, remember: {max: 1d}}")
    policy = load_policy()
    assert (policy.remember_max, policy.audit) == (3600, "strict")


@pytest.mark.proves("H13")
def test_shell_rules_and_zones_of_all_files_apply(project: Path, user_file: Path) -> None:
    (project / "out").mkdir()
    write(user_file, "{default: none, shell: {default: ask, rules: [{pattern: rm, approval: deny}]}}")
    write(
        project / "sayso.yaml", "{default: none, shell_rules: [{pattern: ls, allowed: true, approval_required: false}]}"
    )
    assert judge(load_policy(), "shell", command="ls") == "none"
    assert judge(load_policy(), "shell", command="env rm x") == "blocked"


# The files themselves.

OPEN = "{default: none, sandbox: {zones: {all: {root: ., approval: none}}}}"


@pytest.mark.proves("H1")
@pytest.mark.parametrize("tool", ["write_file", "edit_file", "delete_file", "read_file"])
def test_no_tool_can_change_or_read_the_policy_file_through_a_zone_that_holds_it(tmp_path: Path, tool: str) -> None:
    write(tmp_path / "rules.conf", OPEN)
    (tmp_path / "hard").mkdir()
    (tmp_path / "hard" / "link").symlink_to("../rules.conf")
    (tmp_path / "here").symlink_to(".")
    policy = load_policy(tmp_path / "rules.conf")
    for path in ("/all/rules.conf", "/all/hard/link", "/all/here/rules.conf", "/all/hard/../rules.conf"):
        assert judge(policy, tool, path=path) == "blocked", path
    assert judge(policy, tool, path="/all/RULES.conf") == "blocked", "some file systems ignore case"
    assert judge(policy, tool, path="/all/other.conf") == "none"


@pytest.mark.proves("H1")
def test_no_tool_can_change_the_policy_file_or_its_link_if_it_is_read_by_a_link(tmp_path: Path) -> None:
    write(tmp_path / "zone" / "real.conf", "{default: none, sandbox: {zones: {all: {root: zone, approval: none}}}}")
    (tmp_path / "zone" / "link.conf").symlink_to("real.conf")
    (tmp_path / "policy.yaml").symlink_to("zone/link.conf")
    policy = load_policy(tmp_path / "policy.yaml")
    assert judge(policy, "write_file", path="/all/real.conf") == "blocked"
    assert judge(policy, "write_file", path="/all/link.conf") == "blocked"
    assert judge(policy, "write_file", path="/all/new.conf") == "none"


@pytest.mark.proves("H1", "H13")
def test_no_redirection_can_change_the_policy_file(tmp_path: Path) -> None:
    text = OPEN.removesuffix("}") + ", shell: {rules: [{pattern: echo, approval: none}]}}"
    policy = load_policy(write(tmp_path / "rules.conf", text))
    assert judge(policy, "shell", command="echo x > rules.conf") == "blocked"
    assert judge(policy, "shell", command="echo x > other.conf") == "required"


@pytest.mark.proves("H1")
def test_every_file_that_applies_is_safe_from_the_zones_of_each(
    project: Path, user_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user_file, "default: none")
    write(project / "pyproject.toml", '[tool.sayso]\ndefault = "none"\n')
    named = write(
        project / "ci.conf", f"{{default: none, sandbox: {{zones: {{all: {{root: {tmp_path}, approval: none}}}}}}}}"
    )
    monkeypatch.setenv("SAYSO_POLICY", str(named))
    policy = load_policy()
    for file in (user_file, project / "pyproject.toml", named):
        path = f"/all/{file.relative_to(tmp_path)}"
        assert judge(policy, "write_file", path=path) == judge(policy, "delete_file", path=path) == "blocked", path
    assert judge(policy, "delete_file", path="/all/home/.config") == "blocked", "it holds one of the files"
    assert judge(policy, "write_file", path="/all/work/project/other.toml") == "none"


@pytest.mark.proves("H5")
@pytest.mark.parametrize("other", ["sayso.yml", "pyproject.toml"])
def test_two_policies_side_by_side_are_a_mistake_because_nobody_could_say_which_is_meant(
    project: Path, other: str
) -> None:
    write(project / "sayso.yaml", "default: none")
    write(project / other, '[tool.sayso]\ndefault = "required"\n' if other.endswith("toml") else "default: required")
    with pytest.raises(ConfigurationError, match=rf"sayso\.yaml and {other} beside it both hold a policy"):
        load_policy()
    (project / "sayso.yaml").unlink()
    assert judge(load_policy(), "t") == "required"


@pytest.mark.proves("H5")
def test_who_has_no_home_has_no_file_of_their_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:  # as in a container whose user has no entry
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    write(project / "sayso.yaml", "default: required")
    assert judge(load_policy(), "t") == "required"
