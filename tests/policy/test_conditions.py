"""Conditions on arguments: every operator, and what happens where nobody can say whether one holds."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso import Policy, ToolCall
from sayso.core.approvers import Approvers
from sayso.core.model import Approval
from sayso.policy.conditions import OPERATORS, read_condition

STRICTNESS: dict[Approval, int] = {"blocked": 3, "required": 2, "once_per_session": 1, "none": 0}
LONG = 10**5000  # longer than Python writes down


def judge(when: dict[str, Any], args: dict[str, Any], approval: str = "none", default: str = "blocked") -> Approval:
    policy = Policy.from_dict({"default": default, "tools": {"t": {"approval": approval, "when": when}}})
    return policy.judge(ToolCall(tool="t", args=args)).approval


def holds(when: dict[str, Any], **args: Any) -> bool | None:
    """Whether the condition holds; None if nobody can say."""
    lets_run: dict[Approval, bool | None] = {"none": True, "blocked": False, "required": None}
    return lets_run[judge(when, args)]


# Operators.


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "answer"),
    [
        ("eq", 5, 5, True),
        ("eq", 5, 5.0, True),
        ("eq", 5, 6, False),
        ("eq", "a", "a", True),
        ("eq", "a", "A", False),
        ("eq", True, True, True),
        ("eq", True, False, False),
        ("ne", 5, 6, True),
        ("ne", 5, 5, False),
        ("ne", "a", "b", True),
        ("ne", True, False, True),
        ("gt", 100, 101, True),
        ("gt", 100, 100, False),
        ("gt", 100, 100.5, True),
        pytest.param("gt", 100, LONG, True, id="a long number"),
        ("ge", 100, 100, True),
        ("ge", 100, 99.9, False),
        ("lt", 100, 99, True),
        ("lt", 100, 100, False),
        ("le", 100, 100, True),
        ("le", 100, 101, False),
        ("gt", "2026-01-01", "2026-02-01", True),
        ("lt", "b", "c", False),
        ("in", ["a", 1], "a", True),
        ("in", ["a", 1], 1, True),
        ("in", ["a", "c"], "b", False),
        ("in", [1, 3], 2, False),
        ("not_in", ["a", "c"], "b", True),
        ("not_in", ["a", 1], "a", False),
        ("starts_with", "ab", "abc", True),
        ("starts_with", "ab", "cab", False),
        ("ends_with", "bc", "abc", True),
        ("ends_with", "bc", "bca", False),
        ("contains", "b", "abc", True),
        ("contains", "B", "abc", False),
        ("glob", "*.py", "a.py", True),
        ("glob", "*.py", "a.PY", False),
        ("glob", "[ab]?", "bx", True),
        ("glob", "*.py", "a.pyc", False),
        ("exists", True, None, True),
        ("exists", True, 5, True),
        ("exists", False, 5, False),
    ],
)
def test_an_operator_compares_the_argument_with_what_the_file_says(
    operator: str, wanted: object, value: object, answer: bool
) -> None:
    assert holds({"args.x": {operator: wanted}}, x=value) is answer


def test_a_value_alone_means_that_the_argument_has_it() -> None:
    assert holds({"args.env": "prod"}, env="prod") is True
    assert holds({"args.env": "prod"}, env="test") is False
    assert holds({"args.dry": False}, dry=False) is True
    assert holds({"args.count": 3}, count=3) is True


def test_all_tests_of_all_arguments_must_hold() -> None:
    when = {"args.amount": {"gt": 10, "le": 20}, "args.env": "prod"}
    assert holds(when, amount=15, env="prod") is True
    assert holds(when, amount=25, env="prod") is False
    assert holds(when, amount=15, env="test") is False


@pytest.mark.proves("H1")
@pytest.mark.parametrize("options", [[{"force": 1}], '{"force": 1}', None, 5])
def test_a_name_in_what_has_no_names_is_no_missing_one(options: object) -> None:
    policy = Policy({"pay": {"approval": "blocked", "when": {"args.options.force": {"exists": True}}}}, default="none")
    assert policy.judge(ToolCall(tool="pay", args={"options": options})).approval == "blocked"
    assert policy.judge(ToolCall(tool="pay", args={"options": {}})).approval == "none"


def test_a_path_leads_into_nested_arguments() -> None:
    when = {"args.order.total-sum": {"gt": 10}}
    assert holds(when, order={"total-sum": 11}) is True
    assert holds(when, order={"total-sum": 9}) is False
    assert holds(when, order={}) is None
    assert holds(when, order=[{"total-sum": 11}]) is None
    assert holds(when, order="total-sum") is None
    assert holds({"args.order": {"exists": True}}, order={}) is True
    assert holds({"args.order.id": {"exists": False}}, order={"other": 1}) is True
    assert holds({"args.order.id": {"exists": False}}) is True


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("wanted", "value"), [(1, True), (0, False), (True, 1), (False, 0), (True, "true"), (1.0, True)]
)
def test_true_is_not_one_and_whoever_mixes_them_up_is_asked(wanted: object, value: object) -> None:
    assert holds({"args.x": wanted}, x=value) is None
    assert holds({"args.x": {"ne": wanted}}, x=value) is None
    assert holds({"args.x": {"in": [wanted]}}, x=value) is None
    assert holds({"args.x": {"not_in": [wanted]}}, x=value) is None


# Where nobody can say.


@pytest.mark.parametrize(
    ("operator", "wanted", "value"),
    [
        ("eq", 5, "5"),
        ("eq", "5", 5),
        ("eq", "a", None),
        ("eq", "a", ["a"]),
        ("eq", "a", {"a": 1}),
        ("ne", 5, "6"),
        ("ne", "a", None),
        ("gt", 100, "1000"),
        ("gt", 100, True),
        ("gt", 100, None),
        ("gt", 100, [200]),
        ("lt", "b", 5),
        ("le", 100, {"amount": 5}),
        ("in", ["a", "b"], 5),
        ("in", ["admin", 0], "0"),
        ("gt", 100, float("nan")),
        ("not_in", ["a", "b"], 5),
        ("not_in", [1], None),
        ("starts_with", "a", 5),
        ("ends_with", "a", None),
        ("contains", "a", ["a"]),
        ("glob", "*", 5),
        pytest.param("eq", "a", LONG, id="a long number"),
        pytest.param("contains", "a", LONG, id="a long number in a text"),
    ],
)
@pytest.mark.proves("H5")
def test_what_cannot_be_compared_is_asked_about(operator: str, wanted: object, value: object) -> None:
    assert holds({"args.x": {operator: wanted}}, x=value) is None


@pytest.mark.proves("H5")
@pytest.mark.parametrize("operator", ["eq", "ne", "gt", "lt", "in", "not_in", "starts_with", "glob"])
def test_a_missing_argument_is_asked_about(operator: str) -> None:
    wanted = ["a"] if operator in {"in", "not_in"} else "a"
    assert holds({"args.x": {operator: wanted}}) is None
    assert holds({"args.x": {operator: wanted}}, y="a", X="a") is None


@pytest.mark.proves("H5")
def test_a_test_that_fails_does_not_hide_one_that_nobody_can_answer() -> None:
    assert holds({"args.env": "prod", "args.amount": {"gt": 5}}, env="test") is None
    assert holds({"args.amount": {"gt": 5}, "args.env": "prod"}, env="test") is None


@pytest.mark.proves("H5")
@pytest.mark.parametrize("default", ["none", "required", "blocked"])
@pytest.mark.parametrize(
    ("approval", "becomes"),
    [("none", "required"), ("required", "required"), ("once_per_session", "required"), ("blocked", "blocked")],
)
def test_an_entry_of_which_nobody_can_say_whether_it_speaks_never_lets_run(
    approval: str, becomes: Approval, default: str
) -> None:
    assert judge({"args.amount": {"lt": 5}}, {}, approval, default) == becomes


def test_the_reason_says_which_argument_it_is_about() -> None:
    policy = Policy.from_dict({"default": "none", "tools": {"t": {"approval": "none", "when": {"args.x": {"gt": 5}}}}})
    missing = policy.judge(ToolCall(tool="t"))
    assert missing.reason == "the condition of tools.t cannot be checked: the call has no `x`"
    odd = policy.judge(ToolCall(tool="t", args={"x": "y" * 1000}))
    assert "'yyy" in odd.reason
    assert "cannot be compared with 5" in odd.reason
    assert len(odd.reason) < 250


class Rude:
    """An object of somebody else's, whose code must not be run."""

    def __repr__(self) -> str:
        raise RuntimeError("who called my code?")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("who called my code?")

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("who called my code?")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.proves("H5")
@pytest.mark.parametrize("operator", ["eq", "ne", "gt", "lt", "in", "not_in", "starts_with", "glob"])
@pytest.mark.parametrize("value", [Rude(), [Rude()], {"a": Rude()}], ids=["bare", "list", "mapping"])
def test_an_argument_is_compared_and_shown_without_running_its_code(operator: str, value: object) -> None:
    wanted = ["a"] if operator in {"in", "not_in"} else "a"
    assert holds({"args.x": {operator: wanted}}, x=value) is None


@pytest.mark.proves("H5")
@settings(deadline=None)
@given(
    approval=st.sampled_from(["none", "required", "once_per_session", "blocked"]),
    default=st.sampled_from(["none", "required", "blocked"]),
    operator=st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le", "starts_with", "contains", "glob"]),
    wanted=st.text(min_size=1, max_size=3),
    args=st.dictionaries(st.sampled_from(["x", "y"]), st.none() | st.booleans() | st.integers() | st.text(max_size=3)),
)
def test_a_condition_is_answered_with_its_entry_the_default_or_a_question(
    approval: Approval, default: Approval, operator: str, wanted: str, args: dict[str, Any]
) -> None:
    found = judge({"args.x": {operator: wanted}}, args, approval, default)
    if isinstance(args.get("x"), str):
        assert found in {approval, default}
    else:
        unknown: Approval = "blocked" if approval == "blocked" else "required"
        assert found == unknown


# Several entries.


def entries(**tools: dict[str, Any]) -> Policy:
    return Policy.from_dict({"default": "none", "tools": tools})


def amount(policy: Policy, value: object, tool: str = "pay") -> Approval:
    return policy.judge(ToolCall(tool=tool, args={"amount": value})).approval


def test_an_entry_speaks_only_where_its_condition_holds_and_else_a_broader_one_does() -> None:
    policy = Policy.from_dict(
        {
            "default": "none",
            "tools": {
                "pay": {"approval": "blocked", "when": {"args.amount": {"gt": 1000}}},
                "pa*": {"approval": "required", "when": {"args.amount": {"gt": 100}}},
                "*": {"approval": "once_per_session", "when": {"args.amount": {"gt": 10}}},
            },
        }
    )
    assert [amount(policy, each) for each in (5, 50, 500, 5000)] == ["none", "once_per_session", "required", "blocked"]


def test_the_most_specific_entry_decides_even_if_nobody_can_say_whether_a_broader_one_speaks() -> None:
    policy = entries(**{"pay": {"approval": "none"}, "pa*": {"approval": "none", "when": {"args.x": 1}}})
    assert amount(policy, 5) == "none"


@pytest.mark.proves("H5")
def test_a_specific_entry_of_which_nobody_can_say_asks_though_a_broader_one_lets_run() -> None:
    policy = entries(**{"pay": {"approval": "none", "when": {"args.x": 1}}, "pa*": {"approval": "none"}})
    assert amount(policy, 5) == "required"


@pytest.mark.proves("H1", "H5")
def test_a_block_of_a_broader_entry_stands_if_nobody_can_say_whether_it_speaks() -> None:
    policy = entries(**{"pay": {"approval": "none"}, "*": {"approval": "blocked", "when": {"args.x": 1}}})
    assert amount(policy, 5) == "blocked"


@pytest.mark.proves("H5")
def test_the_terms_of_an_entry_hold_if_nobody_can_say_whether_it_speaks() -> None:
    terms: dict[str, Any] = {"approvers": {"count": 2}, "expires": "10m", "remember": False, "description": "Pay!"}
    policy = entries(pay={"approval": "required", "when": {"args.amount": {"gt": 100}}, **terms})
    verdict = policy.judge(ToolCall(tool="pay", args={"amount": "1000"}))
    assert (verdict.approval, verdict.approvers) == ("required", Approvers(count=2))
    assert (verdict.expires, verdict.remember, verdict.description) == (600.0, False, "Pay!")


def test_the_terms_of_an_entry_do_not_hold_where_its_condition_does_not() -> None:
    policy = entries(**{"pay": {"when": {"args.amount": {"gt": 100}}, "expires": "10m"}, "*": {"approval": "required"}})
    assert policy.judge(ToolCall(tool="pay", args={"amount": 5})).expires is None
    assert policy.judge(ToolCall(tool="pay", args={"amount": 500})).expires == 600.0


def test_explain_tells_that_a_condition_does_not_hold_and_that_nobody_can_say() -> None:
    policy = entries(pay={"approval": "required", "when": {"args.amount": {"gt": 100}}})
    reasons = [
        [each.reason for each in policy.explain(ToolCall(tool="pay", args=args))[1]]
        for args in ({"amount": 5}, {}, {"amount": 500})
    ]
    assert reasons == [
        ["its condition does not hold (args.amount is more than 100)", "the default"],
        ["the condition of tools.pay cannot be checked: the call has no `amount`", "the default"],
        ["tools.pay is 'required' where args.amount is more than 100", "the default"],
    ]


# The reason is true.


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ({"args.env": "prod"}, "args.env is 'prod'"),
        ({"args.env": {"ne": "prod"}}, "args.env is not 'prod'"),
        ({"args.n": {"gt": 1, "le": 9}}, "args.n is more than 1 and args.n is at most 9"),
        ({"args.n": {"ge": 1}, "args.m": {"lt": 9}}, "args.n is at least 1 and args.m is less than 9"),
        ({"args.to": {"in": ["ann", "bob"]}}, "args.to is one of 'ann', 'bob'"),
        ({"args.to": {"not_in": list(range(9))}}, "args.to is none of 0, 1, 2, 3, 4, …"),
        ({"args.url": {"starts_with": "https://internal."}}, "args.url starts with 'https://internal.'"),
        ({"args.url": {"ends_with": ".zip"}}, "args.url ends with '.zip'"),
        ({"args.url": {"contains": "@"}}, "args.url contains '@'"),
        ({"args.url": {"glob": "*.zip"}}, "args.url matches '*.zip'"),
        ({"args.force": {"exists": True}}, "args.force is given"),
        ({"args.force": {"exists": False}}, "args.force is not given"),
        ({"args.a": "x" * 1000}, f"args.a is '{'x' * 59}…"),
    ],
)
def test_a_condition_is_told_in_words(when: dict[str, Any], words: str) -> None:
    assert str(read_condition(when, "when")) == words


def test_every_operator_has_words() -> None:
    for operator in OPERATORS:
        wanted: Any = {"in": ["a"], "not_in": ["a"], "exists": True}.get(operator, "a")
        assert operator == "exists" or "'a'" in str(read_condition({"args.x": {operator: wanted}}, "when"))


def without_opinion(call: ToolCall) -> None:
    """Decide nothing."""


URL = {"args.url": {"starts_with": "https://internal."}}
INTERNAL = "args.url starts with 'https://internal.'"


@pytest.mark.proves("H15")
@pytest.mark.parametrize(
    ("entry", "args", "reason"),
    [
        (
            {"approval": "required", "when": URL},
            {"url": "https://public.example/"},
            f"tools.http_get is not about this call: its condition does not hold ({INTERNAL}), and the default is",
        ),
        (
            {"approval": "required", "when": URL},
            {"url": "https://internal.example/"},
            f"tools.http_get is 'required' where {INTERNAL}",
        ),
        ({"approval": "required", "when": URL, "reason": "ours"}, {"url": "https://internal.example/"}, "ours"),
        (
            {"approval": "required", "when": URL},
            {},
            "the condition of tools.http_get cannot be checked: the call has no `url`",
        ),
        (
            {"approval": "required", "when": URL},
            {"url": 5},
            "the condition of tools.http_get cannot be checked: args.url is 5, which is not a text",
        ),
        (
            {"approval": "blocked", "when": URL, "block_reason": "ours"},
            {},
            "the condition of tools.http_get cannot be checked: the call has no `url`, so it blocks (ours)",
        ),
        ({"expires": "5m"}, {}, "tools.http_get sets no approval, and the default is 'none'"),
        ({"expires": "5m", "when": URL}, {"url": "https://internal.x/"}, "tools.http_get sets no approval, and the"),
        (
            {"needs_approval": without_opinion},
            {},
            "tools.http_get leaves this call open, and the default is 'none'",
        ),
    ],
)
def test_the_reason_names_the_rule_that_is_about_the_tool_and_what_became_of_its_condition(
    entry: dict[str, Any], args: dict[str, Any], reason: str
) -> None:
    call = ToolCall(tool="http_get", args=args)
    assert Policy({"http_get": entry}, default="none").judge(call).reason.startswith(reason)


def test_a_rule_whose_condition_does_not_hold_is_told_of_by_every_kind_of_default() -> None:
    call, rules = ToolCall(tool="pay", args={"amount": 5}), {"pay": {"approval": "none", "when": {"args.amount": 1}}}
    silent = "tools.pay is not about this call: its condition does not hold (args.amount is 1), and "
    assert Policy(rules).judge(call).reason == f"{silent}the policy sets no default (default='none' would let it run)"
    assert Policy(rules, default="blocked").judge(call).reason == f"{silent}the default is 'blocked'"
    assert Policy(default="none").over(Policy(rules)).judge(call).reason == f"{silent}the default is 'none'"
    assert Policy(rules, default="none").judge(ToolCall(tool="t")).reason == (
        "no rule names this tool, and the default is 'none'"
    )


# Descriptions with arguments in them.


def described(text: str, **args: Any) -> str | None:
    policy = Policy.from_dict({"default": "none", "tools": {"t": {"approval": "required", "description": text}}})
    return policy.judge(ToolCall(tool="t", args=args)).description


@pytest.mark.proves("R42")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Pay {args.amount} to {args.to.name}", "Pay 5 to Ann"),
        ("Pay {args.amount}{args.amount}", "Pay 55"),
        ("Pay {args.missing}", "Pay <no args.missing>"),
        ("Pay {args.amount.deeper}", "Pay <no args.amount.deeper>"),
        ("To {args.to}", "To {'name': 'Ann', 'ids': [1, 2.5, True, None]}"),
        ("As is: } {", "As is: } {"),
        ("Nothing to fill", "Nothing to fill"),
        ("{args.trick}", "{args.amount}"),
    ],
)
def test_a_description_is_filled_with_the_arguments(text: str, shown: str) -> None:
    to = {"name": "Ann", "ids": [1, 2.5, True, None]}
    assert described(text, amount=5, to=to, trick="{args.amount}") == shown


def test_a_long_argument_is_cut_in_a_description_and_loses_its_secrets_before() -> None:
    shown = described("Say {args.words}.", words="x" * 1000)
    assert shown == f"Say {'x' * 100}…{'x' * 100}."
    hidden = described("Say {args.words}.", words=f"{'x ' * 95} password={'hunter2' * 20} {'y ' * 50}")
    assert "hunter2" not in str(hidden)


@pytest.mark.proves("H5")
def test_an_argument_that_is_no_plain_data_is_named_and_not_asked_for_its_words() -> None:
    assert described("Do {args.x}", x=Rude()) == "Do <Rude>"
    assert described("Do {args.x}", x=[Rude(), {"a": Rude()}]) == "Do [<Rude>, {'a': <Rude>}]"
    assert described("Do {args.x}", x=LONG) == "Do a number of very many digits"


@pytest.mark.proves("H5")
def test_a_default_that_is_stricter_than_the_entry_does_not_hold_where_the_entry_speaks() -> None:
    assert judge({"args.x": 1}, {"x": 1}, "none", "required") == "none"
    assert judge({"args.x": 1}, {"x": 2}, "none", "required") == "required"


@pytest.mark.parametrize(
    ("wanted", "annotations", "approval"),
    [
        (True, {"readOnlyHint": True}, "none"),
        (True, {"readOnlyHint": False}, "blocked"),
        (True, {"readOnlyHint": "yes"}, "required"),
        (True, {}, "required"),
        ({"exists": False}, {}, "required"),
    ],
)
def test_annotations_are_looked_at_where_they_are_believed_and_else_cannot_be_checked(
    wanted: Any, annotations: dict[str, Any], approval: Approval
) -> None:
    entry = {"approval": "none", "when": {"annotations.readOnlyHint": wanted}}
    policy = Policy.from_dict({"default": "blocked", "tools": {"t": entry}})
    call = ToolCall(tool="t", args={"readOnlyHint": True}, annotations=annotations)
    assert policy.judge(call).approval == approval
