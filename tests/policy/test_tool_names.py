"""Rules compared with the tools that an agent has."""

from typing import Any

import pytest

from sayso import Policy
from sayso.policy.tool_names import MisspeltRules, idle_rules, unnamed_tools


def reported(rules: dict[str, Any], *tools: str) -> list[str]:
    return MisspeltRules(Policy(rules, default="none")).report(tools)


def test_a_rule_that_is_nearly_the_name_of_a_tool_is_reported_with_that_name() -> None:
    assert reported({"http_gett": "none", "look": "none"}, "http_get", "look") == [
        "the rule policy tools.http_gett names no tool of this agent; did you mean 'http_get'?"
    ]


@pytest.mark.parametrize("slip", ["Pay", "PAY", "pya", "apy", "payy"])
def test_another_case_and_two_swapped_letters_are_reported_in_a_short_name_too(slip: str) -> None:
    assert len(reported({slip: "blocked"}, "pay")) == 1


@pytest.mark.parametrize("other", ["yap", "pat", "buy", "ap"])
def test_another_short_name_is_not_reported(other: str) -> None:
    assert reported({other: "blocked"}, "pay") == []


@pytest.mark.parametrize(
    "rules",
    [
        {"http_get": "none"},
        {"http_get": "none", "http_gets": "none"},  # which is probably a tool of another agent
        {"delete_everything": "blocked"},
        {"read_*": "none", "http_ge?": "none"},
        {},
    ],
    ids=["its name", "a tool with a rule of its own", "nothing alike", "globs", "no rule"],
)
def test_a_rule_that_may_well_be_for_another_agent_is_not_reported(rules: dict[str, Any]) -> None:
    assert reported(rules, "http_get", "write_file") == []


def test_a_glob_that_covers_a_tool_does_not_hide_that_its_own_rule_is_misspelt() -> None:
    assert len(reported({"*": "none", "http_gett": "blocked"}, "http_get")) == 1


def test_a_tool_that_is_only_listed_has_no_rule_of_its_own() -> None:
    data = {"default": "none", "custom_tools": ["pay", "look"], "tools": {"payy": "blocked"}}
    policy = Policy.from_dict(data)
    assert len(MisspeltRules(policy).report(["pay", "look"])) == 1
    assert unnamed_tools([policy], ["pay", "look"]) == ["pay", "look"]


def test_a_rule_is_reported_once_and_not_for_a_tool_that_was_there_before() -> None:
    misspelt = MisspeltRules(Policy({"payy": "none", "looks": "none"}, default="none"))
    assert len(misspelt.report(["pay", "looks"])) == 1
    assert misspelt.report(["pay", "looks"]) == []
    assert misspelt.report(["pays"]) == [], "the rule was reported already"
    assert misspelt.report(["look"]) == [], "`looks` is a tool of an earlier step"


def test_a_policy_below_is_compared_too() -> None:
    both = Policy({"look": "none"}).over(Policy({"payy": "blocked"}, default="none"))
    assert len(MisspeltRules(both).report(["pay", "look"])) == 1


def test_rules_about_no_tool_and_tools_without_a_rule_are_told_apart() -> None:
    policy = Policy({"http_gett": "none", "remove": "blocked", "git*": "none", "pay": "required", "read_*": "none"})
    tools = ["http_get", "pay", "read_file", "look"]
    assert [sentence for _, _, sentence in idle_rules(policy, tools)] == [
        "tools.http_gett is about none of the tools; did you mean 'http_get'?",
        "tools.remove is about none of the tools",
        "tools.git* is about none of the tools",
    ]
    assert unnamed_tools([policy], tools) == ["http_get", "look"]
    assert unnamed_tools([policy, Policy({"look": "none"})], tools) == ["http_get"]
