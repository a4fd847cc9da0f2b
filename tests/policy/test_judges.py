"""Functions that judge: the known signatures, sync and async, and what becomes of one that goes wrong."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sayso import ApprovalDecision, ApprovalMemory, ApprovalPresentation, ApprovalRequest, Policy, ToolCall, Verdict
from sayso.core.model import Rule
from sayso.errors import ConfigurationError
from sayso.policy import judges
from sayso.policy.policy import ToolRules

RULE = Rule(source="toolset", key="pay")
CALL = ToolCall(tool="pay", args={"amount": 50, "to": ["ann"]}, call_id="c1", session="s1")
SMALL = ToolCall(tool="pay", args={"amount": 5, "to": ["ann"]})


async def ask(function: Callable[..., Any], call: ToolCall = CALL) -> Verdict | None:
    return await judges.call_rule(judges.wrap_needs_approval(function, RULE), call, RULE)


async def check(function: Callable[..., Any], memory: object = None) -> Verdict | None:
    return await judges.call_rule(judges.wrap_check_approval(function, memory, RULE), CALL, RULE)


async def blocked(verdict: Awaitable[Verdict | None]) -> str:
    """The reason of a verdict that must be a block."""
    found = await verdict
    assert found is not None
    assert (found.approval, found.rule) == ("blocked", RULE)
    return found.reason


# The signatures.


def by_call(call: ToolCall) -> bool:
    return call.args["amount"] > 10


def by_name(name: str, args: dict[str, Any]) -> bool:
    return name == "pay" and args["amount"] > 10


def by_tool_name(tool_name: str, tool_args: dict[str, Any]) -> bool:
    return by_name(tool_name, tool_args)


def by_args(args: dict[str, Any]) -> bool:
    return args["amount"] > 10


def by_options(args: dict[str, Any], options: dict[str, Any]) -> bool:
    return options["tool_name"] == "pay" and args["amount"] > 10


def by_args_with_defaults(args: dict[str, Any], limit: int = 10, **_: object) -> bool:
    return args["amount"] > limit


async def by_call_async(call: ToolCall) -> bool:
    return by_call(call)


async def by_name_async(name: str, args: dict[str, Any]) -> bool:
    return by_name(name, args)


async def by_args_async(args: dict[str, Any]) -> bool:
    return by_args(args)


async def by_options_async(args: dict[str, Any], options: dict[str, Any]) -> bool:
    return by_options(args, options)


class Sandbox:
    """A toolset with a method, and an object that can be called."""

    def needs_approval(self, tool_name: str, args: dict[str, Any]) -> bool:
        return by_name(tool_name, args)

    def __call__(self, args: dict[str, Any]) -> bool:
        return by_args(args)


SIGNATURES = [
    by_call, by_name, by_tool_name, by_args, by_options, by_args_with_defaults, by_call_async, by_name_async,
    by_args_async, by_options_async, Sandbox().needs_approval, Sandbox(),
]  # fmt: skip


@pytest.mark.proves("R42", "R49")
@pytest.mark.parametrize("function", SIGNATURES)
async def test_a_function_of_every_signature_is_asked_about_the_call(function: Callable[..., Any]) -> None:
    asks, runs = await ask(function), await ask(function, SMALL)
    assert asks is not None
    assert runs is not None
    assert (asks.approval, runs.approval) == ("required", "none")
    assert (asks.rule, asks.reason) == (RULE, "toolset pay says so")


@pytest.mark.proves("R49")
@pytest.mark.parametrize("function", SIGNATURES)
async def test_a_function_of_every_signature_works_for_a_tool_of_the_owners_policy(
    function: Callable[..., Any],
) -> None:
    policy = Policy({"pay": {"needs_approval": function}}, default="blocked")
    assert (await policy.judge_async(CALL)).approval == "required"
    assert (await policy.judge_async(SMALL)).approval == "none"
    assert policy.judge(CALL).approval == "required"


async def test_the_options_name_the_call_and_its_session() -> None:
    seen: list[dict[str, Any]] = []

    def keep(args: dict[str, Any], options: dict[str, Any]) -> bool:
        seen.append(options)
        return True

    await ask(keep)
    assert seen == [{"tool_call_id": "c1", "tool_name": "pay", "session": "s1"}]


def takes_nothing() -> bool:
    raise NotImplementedError


def takes_three(ctx: object, tool: object, args: object) -> bool:
    raise NotImplementedError


def takes_the_name_alone(tool_name: str) -> bool:
    return tool_name == "pay"


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "function",
    [takes_nothing, takes_three, takes_the_name_alone, "by_call", None, 1],
    ids=["()", "three", "(name)", "text", "None", "1"],
)
def test_a_signature_that_nobody_knows_is_a_configuration_error_that_lists_the_known_ones(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"\(call\), \(name, args\), \(args\) or \(args, options\)"):
        judges.wrap_needs_approval(function, RULE)


@pytest.mark.proves("H5", "R42")
async def test_a_function_of_tool_and_args_is_given_the_tool_and_the_args_or_refused() -> None:
    """The library's own word for the name is `tool`: reading this one as (args, options) would let every call run."""

    def by_tool(tool: str, args: dict[str, Any]) -> bool:
        return tool == "pay"

    try:
        verdict = await ask(by_tool)
    except ConfigurationError:
        return
    assert verdict is not None
    assert verdict.approval == "required"


@pytest.mark.proves("H2")
async def test_a_function_cannot_change_the_call_that_it_judges() -> None:
    def meddles(args: dict[str, Any]) -> bool:
        args["amount"] = 0
        args["to"].append("bob")
        return False

    def meddles_too(name: str, args: dict[str, Any], memory: object) -> None:
        args.clear()

    await ask(meddles)
    await check(meddles_too)
    assert CALL.args == {"amount": 50, "to": ["ann"]}


# What they may return.


@pytest.mark.proves("R42")
async def test_a_dict_asks_with_its_description_payload_metadata_and_presentation() -> None:
    def describes(name: str, args: dict[str, Any]) -> dict[str, Any]:
        return {
            "description": f"Pay {args['amount']}",
            "payload": {"to": args["to"]},
            "metadata": {"currency": "EUR"},
            "presentation": {"title": "Payment", "diff": "-0\n+50"},
        }

    verdict = await ask(describes)
    assert verdict is not None
    assert (verdict.approval, verdict.description) == ("required", "Pay 50")
    assert (verdict.payload, verdict.metadata) == ({"to": ["ann"]}, {"currency": "EUR"})
    assert verdict.presentation == ApprovalPresentation(title="Payment", diff="-0\n+50")


@pytest.mark.proves("R42")
async def test_an_empty_dict_asks_too() -> None:
    verdict = await ask(returns({}))
    assert verdict is not None
    assert (verdict.approval, verdict.description) == ("required", None)


async def test_a_verdict_is_taken_as_it_is_and_none_of_the_call_form_is_no_opinion() -> None:
    own = Verdict(approval="once_per_session", reason="mine")

    def opinion(call: ToolCall) -> Verdict | None:
        return own if call is CALL else None

    assert await ask(opinion) is own
    assert await ask(opinion, SMALL) is None


def returns(answer: object) -> Callable[..., Any]:
    def by_args_returning(args: dict[str, Any]) -> object:
        return answer

    return by_args_returning


@pytest.mark.proves("H5", "R42")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "needs_approval returned None; return True, False"),
        (1, "needs_approval returned 1"),
        (0, "needs_approval returned 0"),
        ("", "needs_approval returned ''"),
        ("none", "needs_approval returned 'none'"),
        ([], r"needs_approval returned []"),
        (ApprovalDecision(approved=True), "needs_approval returned ApprovalDecision("),
        ({"descripton": "x"}, "has the unknown key 'descripton'; did you mean 'description'?"),
        ({"approval": "none"}, "unknown key 'approval'"),
        ({"description": 5}, "description is 5; use a text"),
        ({"presentation": {"colour": "red"}}, "raised TypeError"),
        ({"presentation": "a text"}, "presentation"),
        ({"payload": ["a", "list"]}, "payload"),
        ({"metadata": "a text"}, "metadata"),
    ],
    ids=repr,
)
async def test_an_answer_that_means_nothing_blocks_and_says_what_to_return(answer: object, reason: str) -> None:
    assert reason in await blocked(ask(returns(answer)))


def by_name_silent(name: str, args: dict[str, Any]) -> None:
    return None


def by_options_silent(args: dict[str, Any], options: dict[str, Any]) -> None:
    return None


@pytest.mark.proves("H5", "R42")
@pytest.mark.parametrize("function", [by_name_silent, by_options_silent])
async def test_nothing_is_no_answer_in_the_forms_that_must_say_true_or_false(function: Callable[..., Any]) -> None:
    assert "returned None" in await blocked(ask(function))


@pytest.mark.proves("H5", "R49")
@pytest.mark.parametrize(("amount", "approval"), [(50, "required"), (5, "none")])
async def test_a_coroutine_is_awaited_and_never_taken_for_a_yes(amount: int, approval: str) -> None:
    """A plain function that returns a coroutine: the coroutine itself is truthy."""

    def wraps(args: dict[str, Any]) -> Awaitable[bool]:
        return by_args_async(args)

    def wraps_check(name: str, args: dict[str, Any], memory: object) -> Awaitable[ApprovalRequest | None]:
        return later(ApprovalRequest(tool_name=name) if amount > 10 else None)

    call = ToolCall(tool="pay", args={"amount": amount})
    needed = await ask(wraps, call)
    checked = await check(wraps_check)
    assert needed is not None
    assert checked is not None
    assert (needed.approval, checked.approval) == (approval, approval)


async def later(answer: Any) -> Any:
    return answer


# What they may raise.


def raises(error: BaseException) -> Callable[..., Any]:
    def by_args_raising(args: dict[str, Any]) -> bool:
        raise error

    return by_args_raising


def raises_later(error: BaseException) -> Callable[..., Any]:
    async def by_args_raising(args: dict[str, Any]) -> bool:
        raise error

    return by_args_raising


@pytest.mark.proves("H5")
@pytest.mark.parametrize("raising", [raises, raises_later])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("amount"), "the rule toolset pay raised KeyError: 'amount'"),
        (RuntimeError("no network"), "the rule toolset pay raised RuntimeError: no network"),
        (TimeoutError(), "the rule toolset pay raised TimeoutError"),
        (PermissionError("not on Sundays"), "not on Sundays"),
        (PermissionError(), "the tool refuses this call"),
    ],
    ids=repr,
)
async def test_an_exception_blocks_with_its_reason(
    raising: Callable[[BaseException], Callable[..., Any]], error: BaseException, reason: str
) -> None:
    assert (await blocked(ask(raising(error)))).startswith(reason)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("raising", [raises, raises_later])
async def test_an_interrupt_is_not_a_rule_that_failed(
    raising: Callable[[BaseException], Callable[..., Any]],
) -> None:
    with pytest.raises(GeneratorExit):
        await ask(raising(GeneratorExit()))


@pytest.mark.proves("H5")
@pytest.mark.parametrize("answer", [True, False, "required", ApprovalDecision(approved=True)], ids=repr)
async def test_a_bare_judge_that_returns_no_verdict_blocks(answer: Any) -> None:
    reason = await blocked(judges.call_rule(lambda call: answer, CALL, RULE))
    assert "instead of a Verdict" in reason


# check_approval.


@pytest.mark.proves("R32")
async def test_check_approval_runs_asks_or_blocks() -> None:
    def sandboxed(name: str, args: dict[str, Any], memory: object) -> ApprovalRequest | None:
        if args["amount"] > 1000:
            raise PermissionError("never that much")
        if args["amount"] > 10:
            return ApprovalRequest(
                tool_name=name,
                description=f"Pay {args['amount']}",
                payload={"to": args["to"]},
                metadata={"m": 1},
                presentation=ApprovalPresentation(language="json"),
            )
        return None

    judge = judges.wrap_check_approval(sandboxed, None, RULE)
    runs = await judges.call_rule(judge, SMALL, RULE)
    asks = await judges.call_rule(judge, CALL, RULE)
    blocks = await judges.call_rule(judge, ToolCall(tool="pay", args={"amount": 5000, "to": []}), RULE)
    assert runs is not None
    assert asks is not None
    assert blocks is not None
    assert (runs.approval, runs.reason) == ("none", "toolset pay needs no approval")
    assert (asks.approval, asks.description, asks.payload) == ("required", "Pay 50", {"to": ["ann"]})
    assert (asks.metadata, asks.presentation) == ({"m": 1}, ApprovalPresentation(language="json"))
    assert (blocks.approval, blocks.reason) == ("blocked", "never that much")


@pytest.mark.proves("R32")
async def test_check_approval_may_be_async() -> None:
    async def sandboxed(name: str, args: dict[str, Any], memory: object) -> ApprovalRequest:
        return ApprovalRequest(tool_name=name, summary="a payment")

    verdict = await check(sandboxed)
    assert verdict is not None
    assert (verdict.approval, verdict.description) == ("required", "a payment")


@pytest.mark.proves("R32")
async def test_check_approval_may_look_into_the_memory_for_a_grant_of_a_pattern() -> None:
    memory = ApprovalMemory()

    def by_recipient(name: str, args: dict[str, Any], memory: ApprovalMemory) -> ApprovalRequest | None:
        payload = {"to": args["to"]}
        granted = memory.lookup(name, payload)
        return None if granted and granted.approved else ApprovalRequest(tool_name=name, payload=payload)

    first = await check(by_recipient, memory)
    memory.store("pay", {"to": ["ann"]}, ApprovalDecision(approved=True, remember="session"))
    second = await check(by_recipient, memory)
    assert first is not None
    assert second is not None
    assert (first.approval, second.approval) == ("required", "none")


@pytest.mark.proves("R32", "H5")
@pytest.mark.parametrize(
    "answer", [True, False, {}, {"description": "x"}, "ask", ApprovalDecision(approved=True)], ids=repr
)
async def test_check_approval_that_returns_something_else_blocks(answer: object) -> None:
    def sandboxed(name: str, args: dict[str, Any], memory: object) -> object:
        return answer

    assert "return None or an ApprovalRequest, or raise PermissionError" in await blocked(check(sandboxed))


@pytest.mark.proves("R32", "H5")
async def test_check_approval_that_fails_blocks_with_its_reason() -> None:
    def sandboxed(name: str, args: dict[str, Any], memory: object) -> None:
        raise OSError("disk gone")

    assert await blocked(check(sandboxed)) == "the rule toolset pay raised OSError: disk gone"


@pytest.mark.proves("R32", "R43", "H1")
async def test_a_permission_error_of_the_toolset_stands_against_the_owners_none() -> None:
    def sandboxed(name: str, args: dict[str, Any], memory: object) -> None:
        raise PermissionError("outside of the sandbox")

    own = ToolRules(judge=judges.wrap_check_approval(sandboxed, None, RULE))
    verdict = await Policy({"pay": "none"}, default="none").judge_async(CALL, own)
    assert (verdict.approval, verdict.reason) == ("blocked", "outside of the sandbox")
