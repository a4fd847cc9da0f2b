"""Rules by the name of a tool: every spelling, every mistake, and who has the last word."""

import copy
import fnmatch
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso import ApprovalPresentation, ApprovalRequest, Policy, ToolCall, Verdict
from sayso.core.model import Approval, Rule
from sayso.errors import ConfigurationError
from sayso.policy import judges
from sayso.policy.entries import EffectSpec
from sayso.policy.judges import Judge
from sayso.policy.policy import ToolRules

STRICTNESS: dict[Approval, int] = {"blocked": 3, "required": 2, "once_per_session": 1, "none": 0}
RULE = Rule(source="toolset", key="t")


def approval_of(policy: Policy, tool: str = "t", tool_rules: ToolRules | None = None) -> Approval:
    return policy.judge(ToolCall(tool=tool), tool_rules).approval


def says(approval: Approval, **details: Any) -> Judge:
    return lambda _: Verdict(approval=approval, reason=f"says {approval}", **details)


def always(args: dict[str, Any]) -> bool:
    return True


def never(args: dict[str, Any]) -> bool:
    return False


def always_by_call(call: ToolCall) -> bool:
    return True


def no_opinion(call: ToolCall) -> None:
    return None


def broken(call: ToolCall) -> bool:
    raise ZeroDivisionError


def configured(**entry: Any) -> Policy:
    return Policy({"t": entry}, default="none")


# One vocabulary, many spellings.


@pytest.mark.proves("R40", "R46", "R47", "R50")
@pytest.mark.parametrize(
    ("word", "approval"),
    [
        ("none", "none"),
        ("preApproved", "none"),
        ("pre_approved", "none"),
        ("required", "required"),
        ("allow", "none"),
        ("ask", "required"),
        ("blocked", "blocked"),
        ("deny", "blocked"),
        ("once_per_session", "once_per_session"),
    ],
)
def test_every_spelling_of_an_approval_means_the_same_as_word_entry_and_default(word: str, approval: Approval) -> None:
    assert approval_of(Policy({"t": word}, default="none")) == approval
    assert approval_of(configured(approval=word)) == approval
    assert approval_of(Policy(tool_configs={"t": {"approval": word}}, default="none")) == approval
    assert approval_of(Policy(default=word)) == approval


@pytest.mark.proves("R49", "R50")
@pytest.mark.parametrize(
    ("entry", "approval"),
    [
        ({"pre_approved": True}, "none"),
        ({"preApproved": True}, "none"),
        ({"pre_approved": False}, "required"),
        ({"needs_approval": True}, "required"),
        ({"needsApproval": True}, "required"),
        ({"needs_approval": False}, "none"),
        ({"blocked": True}, "blocked"),
        ({"blocked": True, "pre_approved": True}, "blocked"),
        ({"blocked": True, "approval": "none"}, "blocked"),
        ({"blocked": True, "needs_approval": False}, "blocked"),
        ({"blocked": False, "approval": "none"}, "none"),
        ({"approval": "required", "needs_approval": True, "pre_approved": False}, "required"),
    ],
)
def test_the_flags_of_a_tool_are_read_as_approvals_and_a_block_among_them_stands(
    entry: dict[str, Any], approval: Approval
) -> None:
    assert approval_of(Policy({"t": entry}, default="none")) == approval


@pytest.mark.proves("R50", "H1")
@pytest.mark.parametrize("function", [never, no_opinion])
def test_a_block_beside_a_function_in_one_entry_stands(function: Callable[..., Any]) -> None:
    assert approval_of(configured(blocked=True, needs_approval=function)) == "blocked"


@pytest.mark.proves("R50", "R57")
@pytest.mark.parametrize("key", ["block_reason", "blockReason", "reason"])
def test_a_block_says_the_reason_that_the_owner_gave(key: str) -> None:
    verdict = configured(blocked=True, **{key: "only on Fridays"}).judge(ToolCall(tool="t"))
    assert (verdict.approval, verdict.reason, str(verdict.rule)) == ("blocked", "only on Fridays", "policy tools.t")


@pytest.mark.proves("R40", "R44")
@pytest.mark.parametrize("entry", [{}, {"approval": None}, {"blocked": False}])
@pytest.mark.parametrize("default", ["none", "required", "blocked"])
def test_an_entry_that_says_nothing_leaves_it_to_the_default(entry: dict[str, Any], default: Approval) -> None:
    assert approval_of(Policy({"t": entry}, default=default)) == default


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    ("entry", "field", "value"),
    [
        ({"remember": False}, "remember", False),
        ({"expires": "10m"}, "expires", 600.0),
        ({"description": "Send mail"}, "description", "Send mail"),
    ],
)
def test_terms_without_an_approval_hold_for_whoever_decides_that_it_asks(
    entry: dict[str, Any], field: str, value: object
) -> None:
    for verdict in (
        Policy({"t": entry}, default="required").judge(ToolCall(tool="t")),
        Policy({"t": entry}, default="none").judge(ToolCall(tool="t"), ToolRules(marked=True)),
    ):
        assert getattr(verdict, field) == value


# Mistakes are errors when the policy is built.


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("requird", r"tools\.t\.approval is 'requird'; use one of .*did you mean 'required'\?"),
        ("", "use one of 'none'"),
        ("REQUIRED", "use one of 'none'"),
        ({"approval": True}, r"tools\.t\.approval is True; use one of"),
        ({"approval": {"write": "required"}}, "use one of 'none'"),
        ("approve", r"did you mean 'required'\?$"),
        ("once", r"did you mean 'once_per_session'\?$"),
        ("allowed", r"did you mean 'allow'\?$"),
        ("never", r"did you mean 'blocked'\?$"),
        ({"approval": "required", "scope": "tols"}, r"did you mean 'tool'\?$"),
        ({"kind": "shel"}, r"use 'shell' or 'path'; did you mean 'shell'\?$"),
        ({"kind": "path", "operation": "reed"}, r"did you mean 'read'\?$"),
        ({"kind": "path", "paths": "reel"}, r"did you mean 'real'\?$"),
        ({"aproval": "required"}, r"tools\.t has the unknown key 'aproval'; did you mean 'approval'\?"),
        ({"qwertz": 1}, r"unknown key 'qwertz'; known: approval, pre_approved"),
        ({"approval": "required", "blocked": "yes"}, r"tools\.t\.blocked is 'yes'; use true or false"),
        ({"blocked": 1}, "use true or false"),
        ({"pre_approved": "true"}, "use true or false"),
        ({"pre_approved": None}, "use true or false"),
        ({"approval": "required", "remember": "no"}, r"tools\.t\.remember is 'no'; use true or false"),
        ({"approval": "required", "scope": "world"}, r"tools\.t\.scope is 'world'; use 'call' or 'tool'"),
        ({"approval": "required", "description": 5}, r"tools\.t\.description is 5; use a text"),
        ({"approval": "required", "reason": ["x"]}, r"tools\.t\.reason is \['x'\]; use a text"),
        ({"approval": "required", "expires": "soon"}, r"tools\.t\.expires is 'soon'; use a positive number"),
        ({"needs_approval": "yes"}, r"tools\.t has needs_approval 'yes'; use True, False or a function"),
        ({1: 2}, r"tools\.t has the key 1; use text keys"),
        (["required"], r"tools\.t is \['required'\]; use an approval word"),
        (None, r"tools\.t is None; use an approval word"),
        (True, r"tools\.t is True; use an approval word"),
    ],
)
def test_an_unknown_word_or_key_is_an_error_that_names_its_place_and_what_to_write(entry: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Policy({"t": entry}, default="none")


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "entry",
    [
        {"approval": "none", "needs_approval": True},
        {"approval": "required", "pre_approved": True},
        {"approval": "once_per_session", "needs_approval": True},
        {"pre_approved": True, "needs_approval": True},
        {"pre_approved": False, "needs_approval": False},
        {"approval": "required", "needs_approval": judges.check_keys},
        {"preApproved": False, "pre_approved": True},
        {"needsApproval": True, "needs_approval": False},
        {"pre_approved": True, "needs_approval": always},
    ],
    ids=" ".join,
)
def test_an_entry_that_contradicts_itself_is_an_error(entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Policy({"t": entry}, default="none")


@pytest.mark.proves("H5")
def test_the_policy_itself_refuses_what_it_cannot_mean() -> None:
    with pytest.raises(ConfigurationError, match="two names for one thing"):
        Policy({"t": "none"}, tool_configs={"t": "none"}, default="none")
    with pytest.raises(ConfigurationError, match=r"default is 'maybe'; use one of"):
        Policy(default="maybe")
    with pytest.raises(ConfigurationError, match="use a list of tool names"):
        Policy(pre_approved="t", default="none")
    with pytest.raises(ConfigurationError, match="remember_max is 0"):
        Policy(remember_max=0, default="none")
    with pytest.raises(ConfigurationError, match="needs_approval"):
        Policy(needs_approval=lambda: True, default="none")


@pytest.mark.parametrize(
    ("given", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("30d", 2_592_000), (5, 5), (0.5, 0.5)]
)
def test_a_span_of_time_is_read_in_seconds(given: float | str, seconds: float) -> None:
    verdict = configured(approval="required", expires=given).judge(ToolCall(tool="t"))
    assert verdict.expires == seconds
    assert Policy(remember_max=given, default="none").remember_max == seconds


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "given",
    [
        0,
        -1,
        "10",
        "0s",
        "1.5h",
        "10 m",
        "m",
        "",
        "-5m",
        True,
        float("nan"),
        float("inf"),
        None,
        "\u0967\u0966m",
        "5m\n",
    ],
)
def test_a_span_of_time_that_is_none_is_an_error(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="'90s', '10m', '2h' or '30d'"):
        configured(approval="required", expires=given)


# Who has the last word.


@pytest.mark.proves("R48", "R40", "R41")
@pytest.mark.parametrize(("word", "asks"), [("required", True), ("none", False)])
def test_a_tool_configured_required_always_asks_and_one_configured_none_never(word: str, asks: bool) -> None:
    policy = Policy(tool_configs={"my_tool": {"approval": word}}, default="none")
    assert policy.judge(ToolCall(tool="my_tool")).asks is asks
    assert policy.judge(ToolCall(tool="my_tool"), ToolRules()).asks is asks


@pytest.mark.proves("R48", "R44")
@pytest.mark.parametrize("default", ["none", "required"])
def test_a_tool_without_configuration_asks_if_it_is_marked_and_else_follows_the_default(default: Approval) -> None:
    policy = Policy(tool_configs={}, default=default)
    assert approval_of(policy, "decorated", ToolRules(marked=True)) == "required"
    assert approval_of(policy, "undecorated", ToolRules()) == default


@pytest.mark.proves("R48", "R43")
@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize(("word", "approval"), [("none", "none"), ("required", "required")])
def test_explicit_configuration_overrides_the_toolset_in_both_directions(
    inner: bool, word: str, approval: Approval
) -> None:
    def toolset(name: str, args: dict[str, Any]) -> bool:
        return inner

    policy = Policy(tool_configs={"t": {"approval": word}}, default="none")
    assert approval_of(policy, tool_rules=ToolRules(judge=judges.wrap_needs_approval(toolset, RULE))) == approval


@pytest.mark.proves("R48", "R45")
def test_pre_approved_warns_where_it_is_written_and_means_none() -> None:
    with pytest.warns(DeprecationWarning, match="pre_approved is deprecated; use tools=") as caught:
        policy = Policy(pre_approved=["tool_a", "tool_b"], default="required")
    assert [warning.filename for warning in caught] == [__file__]
    assert [approval_of(policy, each) for each in ("tool_a", "tool_b", "tool_c")] == ["none", "none", "required"]


@pytest.mark.proves("R45")
def test_pre_approved_leaves_the_callers_dict_alone_and_loses_to_an_explicit_word() -> None:
    tools: dict[str, Any] = {"t": {"approval": "required"}, "u": {"approval": "blocked"}}
    before = copy.deepcopy(tools)
    with pytest.warns(DeprecationWarning, match="pre_approved"):
        policy = Policy(tool_configs=tools, pre_approved=["t", "u", "v"], default="none")
    assert tools == before
    assert [approval_of(policy, each) for each in "tuv"] == ["required", "blocked", "none"]


@pytest.mark.proves("R45")
def test_pre_approved_holds_for_an_entry_that_says_nothing_about_approval() -> None:
    with pytest.warns(DeprecationWarning, match="pre_approved"):
        policy = Policy(tool_configs={"t": {"description": "Send mail"}}, pre_approved=["t"], default="required")
    assert approval_of(policy) == "none"


@pytest.mark.proves("H1", "R43")
@pytest.mark.parametrize(
    ("tools", "tool_rules"),
    [
        ({"tool": "blocked"}, ToolRules(judge=says("none"), marked=True)),
        ({"tool": "none", "to*": "blocked"}, None),
        ({"tool": "none", "*": "blocked"}, None),
        ({"tool": "none", "too*": "required", "t*": "blocked"}, None),
        ({"tool": "none"}, ToolRules(judge=says("blocked"))),
        ({"tool": {"needs_approval": says("blocked")}}, None),
        ({"tool": "none", "to*": {"needs_approval": broken}}, None),
    ],
)
def test_a_block_from_anyone_stands_even_against_an_exact_none(
    tools: dict[str, Any], tool_rules: ToolRules | None
) -> None:
    assert approval_of(Policy(tools, default="none"), "tool", tool_rules) == "blocked"


@pytest.mark.proves("H1")
def test_a_block_from_the_policys_own_function_stands_against_an_exact_none() -> None:
    def never_root(call: ToolCall) -> Verdict | None:
        return Verdict(approval="blocked", reason="never as root") if call.args.get("user") == "root" else None

    policy = Policy({"t": "none"}, needs_approval=never_root, default="none")
    verdict = policy.judge(ToolCall(tool="t", args={"user": "root"}))
    assert (verdict.approval, verdict.reason) == ("blocked", "never as root")
    assert approval_of(policy) == "none"


@pytest.mark.proves("R43", "R44")
def test_the_first_of_owner_toolset_policy_function_and_mark_decides() -> None:
    own = ToolRules(judge=says("none"), marked=True)
    asks = Policy(needs_approval=always_by_call, default="none")
    assert approval_of(Policy({"t": "none"}, default="none"), tool_rules=own) == "none"
    assert approval_of(Policy(default="none"), tool_rules=own) == "none"
    assert approval_of(asks, tool_rules=ToolRules(judge=says("none"))) == "none"
    assert approval_of(Policy(needs_approval=says("none"), default="none"), tool_rules=ToolRules(marked=True)) == "none"
    assert approval_of(Policy(default="required"), tool_rules=ToolRules(marked=True)) == "required"
    assert approval_of(Policy(default="blocked"), tool_rules=ToolRules(judge=no_opinion)) == "blocked"


@pytest.mark.parametrize(
    ("tools", "tool", "approval"),
    [
        ({"read_file": "none", "read_*": "required"}, "read_file", "none"),
        ({"read_*": "none", "read_file": "required"}, "read_file", "required"),
        ({"read_*": "none", "read_secret_*": "required"}, "read_secret_file", "required"),
        ({"read_secret_*": "none", "read_*": "required"}, "read_secret_file", "none"),
        ({"*": "required", "read_*": "none"}, "read_file", "none"),
        ({"*": "required", "read_*": "none"}, "write_file", "required"),
        ({"a*": "none", "*b": "required"}, "ab", "required"),
        ({"*b": "none", "a*": "required"}, "ab", "required"),
        ({"a*": "once_per_session", "*b": "none"}, "ab", "once_per_session"),
        ({"a?c": "required", "a*": "none"}, "abc", "required"),
        ({"*file": "none", "read*": "required"}, "read_file", "required"),
        ({"READ_*": "none"}, "read_file", "required"),
        ({"read": "none"}, "read_file", "required"),
        ({"file": "none"}, "read_file", "required"),
        ({"read_[fg]ile": "none"}, "read_gile", "none"),
        ({"read_[!f]ile": "none"}, "read_file", "required"),
        ({"read.file": "none"}, "readxfile", "required"),
        ({"read*": "none"}, "read\nfile", "none"),
    ],
)
def test_an_exact_name_comes_before_a_glob_a_longer_glob_before_a_shorter_and_of_equals_the_strictest(
    tools: dict[str, str], tool: str, approval: Approval
) -> None:
    assert approval_of(Policy(tools, default="required"), tool) == approval


@pytest.mark.proves("R49")
@pytest.mark.parametrize("static", ["none", "required", "once_per_session"])
@pytest.mark.parametrize("said", ["none", "required"])
def test_of_two_equally_long_globs_the_stricter_wins_also_if_one_is_a_function(
    static: Approval, said: Approval
) -> None:
    policy = Policy({"a*": static, "*b": {"needs_approval": says(said)}}, default="none")
    assert approval_of(policy, "ab") == (static if STRICTNESS[static] > STRICTNESS[said] else said)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("default", ["none", "required", "blocked", "once_per_session"])
def test_the_default_applies_only_where_nothing_else_speaks(default: Approval) -> None:
    policy = Policy({"known": "none", "asks": "required", "g_*": "none"}, default=default)
    assert approval_of(policy, "unknown") == default
    assert [approval_of(policy, each) for each in ("known", "asks", "g_1")] == ["none", "required", "none"]
    held = default == "blocked"  # an owner who lets nothing run but what is named has not named this
    assert approval_of(policy, "unknown", ToolRules(judge=says("none"))) == ("blocked" if held else "none")
    assert approval_of(policy, "unknown", ToolRules(marked=True)) == ("blocked" if held else "required")
    verdict = policy.judge(ToolCall(tool="unknown"))
    assert (str(verdict.rule), repr(default) in verdict.reason) == ("policy default", True)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("rules", [{}, {"payy": "required"}, {"payy": "none", "read_*": "none"}])
def test_a_policy_that_sets_no_default_asks_about_tools_that_no_rule_names(rules: dict[str, Any]) -> None:
    verdict = Policy(rules).judge(ToolCall(tool="pay"))
    assert (verdict.approval, str(verdict.rule)) == ("required", "policy default")
    assert verdict.reason == (
        "no rule names this tool, and the policy sets no default (default='none' would let it run)"
    )
    assert approval_of(Policy(rules, default="none"), "pay") == "none"


def test_a_policy_that_sets_no_default_leaves_it_to_the_policy_below() -> None:
    near = Policy({"pay": "none"})
    assert approval_of(near.over(Policy(default="none")), "look") == "none"
    assert approval_of(near.over(Policy(default="blocked")), "look") == "blocked"
    assert approval_of(near.over(Policy({"read": "none"})), "look") == "required"
    assert approval_of(near.over(near).over(Policy(default="none")), "look") == "none"
    assert approval_of(Policy(default="none").over(near), "look") == "none", "the nearer one sets its own"
    assert approval_of(near, "look") == "required", "a policy is not changed by being put over another"


def test_a_function_behind_a_glob_is_asked_once_per_call() -> None:
    asked: list[str] = []

    def needs(call: ToolCall) -> bool:
        asked.append(call.tool)
        return True

    policy = Policy({"ab*": {"needs_approval": needs}, "abcdef*": "none"}, default="none")
    assert approval_of(policy, "ab") == "required"
    assert asked == ["ab"]


def test_the_verdict_names_the_rule_that_decided() -> None:
    policy = Policy(
        {"read_*": "none", "read_secret": {"approval": "required", "reason": "it is secret"}}, default="none"
    )
    verdict = policy.judge(ToolCall(tool="read_secret"))
    assert (str(verdict.rule), verdict.reason) == ("policy tools.read_secret", "it is secret")
    assert str(policy.judge(ToolCall(tool="read_a")).rule) == "policy tools.read_*"


def test_what_happens_to_the_configuration_later_changes_nothing() -> None:
    entry = {"approval": "required"}
    tools: dict[str, Mapping[str, Any] | str] = {"t": entry}
    policy = Policy(tools, default="none")
    entry["approval"] = "none"
    tools["t"] = "none"
    tools["*"] = "blocked"
    assert approval_of(policy) == "required"


# What the tool knows about a call reaches the person, whoever decides.


@pytest.mark.proves("R42", "R22")
def test_the_tools_description_payload_and_presentation_are_shown_even_if_the_owner_decides() -> None:
    shown = ApprovalPresentation(diff="-a\n+b")
    details: dict[str, Any] = {
        "description": "Write to a",
        "payload": {"path": "a"},
        "metadata": {"m": 1},
        "presentation": shown,
    }

    def toolset(name: str, args: dict[str, Any]) -> dict[str, Any]:
        return details

    own = ToolRules(judge=judges.wrap_needs_approval(toolset, RULE))
    verdict = Policy({"t": {"approval": "required", "expires": "1m"}}, default="none").judge(ToolCall(tool="t"), own)
    assert (verdict.description, verdict.payload, verdict.metadata) == ("Write to a", {"path": "a"}, {"m": 1})
    assert (verdict.presentation, verdict.expires, str(verdict.rule)) == (shown, 60.0, "policy tools.t")


@pytest.mark.proves("R42", "R32")
def test_the_description_of_a_request_that_check_approval_returned_reaches_the_verdict() -> None:
    request = ApprovalRequest(tool_name="t", description="Write to a", payload={"path": "a"})

    def toolset(name: str, args: dict[str, Any], memory: object) -> ApprovalRequest:
        return request

    own = ToolRules(judge=judges.wrap_check_approval(toolset, None, RULE))
    for policy in (Policy(default="none"), Policy({"t": "required"}, default="none")):
        verdict = policy.judge(ToolCall(tool="t"), own)
        assert (verdict.approval, verdict.description, verdict.payload) == ("required", "Write to a", {"path": "a"})


def test_the_owners_description_is_shown_before_the_tools() -> None:
    policy = Policy({"t": {"approval": "required", "description": "The owner's words"}}, default="none")
    verdict = policy.judge(ToolCall(tool="t"), ToolRules(judge=says("required", description="The tool's words")))
    assert (verdict.description, verdict.described_by) == ("The owner's words", "policy")


_WORDS = says("required", description="Pay {args.amount}", described_by="policy")


@pytest.mark.parametrize("rules", [ToolRules(judge=_WORDS), ToolRules(details=_WORDS)])
def test_a_tool_cannot_pass_its_words_for_those_of_the_policy(rules: ToolRules) -> None:
    """Neither by saying so, nor by a text that would be filled in as the policy's templates are."""
    verdict = Policy({"t": "required"}).judge(ToolCall(tool="t", args={"amount": 5}), rules)
    assert (verdict.description, verdict.described_by) == ("Pay {args.amount}", "tool")


@pytest.mark.proves("H9")
def test_a_function_of_the_owner_gets_the_terms_that_stand_beside_it() -> None:
    entry: dict[str, Any] = {
        "needs_approval": always,
        "expires": "10m",
        "remember": False,
        "scope": "tool",
        "description": "Send mail",
    }
    verdict = Policy({"t": entry}, default="none").judge(ToolCall(tool="t"))
    assert (verdict.approval, verdict.expires, verdict.remember) == ("required", 600.0, False)
    assert (verdict.scope, verdict.description) == ("tool", "Send mail")


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    ("settings_of_policy", "tool_rules"),
    [
        ({"default": "required"}, None),
        ({"tools": {"t": "required"}}, None),
        ({"tools": {"t": {"approval": "required", "remember": True}}}, None),
        ({"tools": {"t": {"needs_approval": always}}}, None),
        ({"needs_approval": always_by_call}, None),
        ({}, ToolRules(judge=says("required"))),
        ({}, ToolRules(marked=True)),
    ],
    ids=["default", "word", "entry", "owner's function", "policy's function", "toolset", "mark"],
)
def test_a_policy_that_forbids_remembering_forbids_it_whoever_asks(
    settings_of_policy: dict[str, Any], tool_rules: ToolRules | None
) -> None:
    settings: dict[str, Any] = {"default": "none", **settings_of_policy}
    verdict = Policy(**settings, remember=False).judge(ToolCall(tool="t"), tool_rules)
    assert (verdict.asks, verdict.remember) == (True, False)


@pytest.mark.proves("H9")
def test_remembering_is_allowed_narrowly_unless_a_rule_says_otherwise() -> None:
    plain = configured(approval="required").judge(ToolCall(tool="t"))
    assert (plain.remember, plain.scope) == (True, "call")
    rule = configured(approval="required", remember=False, scope="tool").judge(ToolCall(tool="t"))
    assert (rule.remember, rule.scope) == (False, "tool")


# Rules that need an event loop.


async def never_ready(call: ToolCall) -> bool:
    """Suspends, as every function does that asks somebody else."""

    class Later:
        def __await__(self) -> Any:
            yield

    await Later()
    raise NotImplementedError


@pytest.mark.proves("R49", "H5")
@pytest.mark.parametrize(
    ("policy", "tool_rules"),
    [
        (configured(needs_approval=never_ready), None),
        (Policy(needs_approval=never_ready, default="none"), None),
        (Policy(default="none"), ToolRules(judge=judges.wrap_needs_approval(never_ready, RULE))),
    ],
    ids=["owner", "policy", "toolset"],
)
def test_a_rule_that_has_to_wait_is_refused_by_the_synchronous_judge_with_the_remedy(
    policy: Policy, tool_rules: ToolRules | None
) -> None:
    with pytest.raises(ConfigurationError, match=r"a rule for 't' is async; use `await policy\.judge_async\(call\)`"):
        policy.judge(ToolCall(tool="t"), tool_rules)


@pytest.mark.proves("R49")
async def test_async_and_sync_rules_are_both_asked_when_there_is_a_loop() -> None:
    async def large(args: dict[str, Any]) -> bool:
        return args["amount"] > 10

    policy = Policy({"pay": {"needs_approval": large}}, default="none")
    assert (await policy.judge_async(ToolCall(tool="pay", args={"amount": 11}))).approval == "required"
    assert (await policy.judge_async(ToolCall(tool="pay", args={"amount": 9}))).approval == "none"
    assert (await Policy(default="none").judge_async(ToolCall(tool="pay"))).approval == "none"


def test_a_glance_answers_only_what_no_function_has_to_be_asked_about() -> None:
    policy = Policy({"t": "required", "f": {"needs_approval": says("none")}}, default="none")
    glanced = policy.judge_by_name(ToolCall(tool="t"))
    assert glanced == policy.judge(ToolCall(tool="t"))
    assert policy.judge_by_name(ToolCall(tool="f")) is None
    assert policy.judge_by_name(ToolCall(tool="t"), ToolRules(marked=True)) is None
    assert Policy(needs_approval=says("none"), default="none").judge_by_name(ToolCall(tool="t")) is None


# The index gives what reading all rules one by one would give.


def literals(pattern: str) -> int:
    """Count the characters that stand for themselves, one after the other."""
    count, at = 0, 0
    while at < len(pattern):
        end = pattern.find("]", at + 2 + pattern.startswith("[!", at)) if pattern[at] == "[" else -1
        if end >= 0:
            at = end  # a set of characters, which says little about a name
        else:
            count += pattern[at] not in "*?[]"
        at += 1
    return count


class Linear:
    """Every rule, read one by one."""

    def __init__(self, tools: Mapping[str, Approval], default: Approval) -> None:
        self.tools = tools
        self.default: Approval = default
        self.globs = [(each, re.compile(fnmatch.translate(each))) for each in tools if set(each) & set("*?[")]

    def approval(self, tool: str) -> Approval:
        globs = [each for each, glob in self.globs if glob.match(tool) and each != tool]
        exact = [tool] if tool in self.tools else []
        if any(self.tools[each] == "blocked" for each in exact + globs):
            return "blocked"
        globs.sort(key=lambda each: (literals(each), STRICTNESS[self.tools[each]]), reverse=True)
        return self.tools[(exact + globs)[0]] if exact + globs else self.default


NAMES = st.text("ab_", max_size=6)
PATTERNS = st.lists(st.sampled_from(["a", "b", "ab", "_", "*", "?", "[ab]", "[!a]", "[[]", "]"]), max_size=5).map(
    "".join
)
WORDS = st.sampled_from(sorted(STRICTNESS))


@settings(deadline=None, max_examples=400)
@given(
    tools=st.dictionaries(PATTERNS | NAMES, WORDS, max_size=8),
    default=WORDS,
    names=st.lists(NAMES | PATTERNS, min_size=1, max_size=8),
)
def test_the_index_agrees_with_a_linear_search(tools: dict[str, Approval], default: Approval, names: list[str]) -> None:
    policy, linear = Policy(tools, default=default), Linear(tools, default)
    for name in [*names, *tools]:
        assert approval_of(policy, name) == linear.approval(name), name
        assert approval_of(policy, name, ToolRules()) == linear.approval(name), name


def test_ten_thousand_rules_give_the_verdicts_of_a_linear_search() -> None:
    words: tuple[Approval, ...] = ("none", "required", "once_per_session", "none", "required", "blocked", "none")
    forms = ("tool_{}", "team{}_*", "*_job{}", "x*y{}", "kit{}_[ab]?")
    tools: dict[str, Approval] = {
        form.format(number): words[(number * 7 + at) % 7] for number in range(2000) for at, form in enumerate(forms)
    }
    assert len(tools) == 10_000
    policy, linear = Policy(tools, default="required"), Linear(tools, "required")
    names = ["", "tool", "x", "nobody", "team_", *(form.format(n) for form in forms for n in (0, 1, 999, 1998, 1999))]
    probes = [*names, "team5_job7", "team17_a", "x_y3_job4", "kit8_bz", "kit8_cz", "team1999_job1999", "tool_1_job2"]
    for name in probes:
        assert approval_of(policy, name) == linear.approval(name), name


def test_names_without_end_do_not_change_any_verdict() -> None:
    policy = Policy({"g_*": "none", "t": "required"}, default="blocked")
    for number in range(10_050):
        policy.judge(ToolCall(tool=f"made_up_{number}", call_id="c"))
    assert [approval_of(policy, each) for each in ("g_1", "t", "made_up_1")] == ["none", "required", "blocked"]


def test_tools_of_another_program_are_judged_by_their_effects_in_its_folder_unless_an_entry_declares_its_own(
    tmp_path: Path,
) -> None:
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    rules = {
        "default": "required",
        "sandbox": {"zones": {"near": {"root": "near", "approval": {"write": "none"}}}},
        "shell": {"folder": "near", "default": "required", "rules": [{"pattern": "git status", "approval": "none"}]},
        "tools": {"Keep": {"kind": "path", "argument": "to", "operation": "read"}},
    }
    own = Policy.from_dict(rules, base=tmp_path)
    path = EffectSpec(kind="path", arguments=("path",), operation="write", real=True)
    effects = {"Bash": EffectSpec(kind="shell", arguments=("command",)), "read_file": path, "Keep": path}
    other = own.judging(effects, folder=str(tmp_path / "far"))

    def approval(policy: Policy, tool: str, **args: str) -> str:
        return policy.judge(ToolCall(tool=tool, args=args)).approval

    assert approval(other, "Bash", command="git status") == "none"
    assert approval(other, "Bash", command="git status > notes.txt") == "blocked"
    assert approval(own, "shell", command="git status > notes.txt") == "required"
    assert approval(other, "read_file", path=str(tmp_path / "near" / "a")) == "none"
    assert approval(other, "read_file", path="/near/a") == "blocked"
    assert approval(other, "Keep", to="/near/a") == "none"
