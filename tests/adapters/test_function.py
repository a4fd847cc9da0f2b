"""Guarding plain functions, sync and async, with no framework anywhere."""

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.people import YES

from sayso import (
    ApprovalBlocked,
    ApprovalController,
    ApprovalDecision,
    ApprovalDenied,
    Policy,
    ToolCall,
    Verdict,
    guard,
    requires_approval,
)
from sayso.adapters.function import resume
from sayso.core.model import Pending
from sayso.errors import ApprovalPending
from sayso.testing import Approver, ScriptedChannel

MARKS = Policy(default="none")  # a function asks because it is marked, and for no other reason
sent: list[tuple[Any, ...]] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


@requires_approval
def send_email(to: str, subject: str, body: str = "") -> str:
    """Send an email."""
    sent.append((to, subject, body))
    return f"Email sent to {to}"


@requires_approval
async def send_later(to: str) -> str:
    sent.append((to,))
    return f"queued for {to}"


@pytest.mark.proves("R31", "R44")
def test_a_marked_function_stays_directly_callable() -> None:
    assert send_email("ann", "hi") == "Email sent to ann"
    assert asyncio.run(send_later("ann")) == "queued for ann"
    assert send_email.__doc__ == "Send an email."
    assert inspect.iscoroutinefunction(send_later)
    assert inspect.signature(send_email) == inspect.signature(inspect.unwrap(send_email))


@pytest.mark.proves("R31", "R20")
def test_under_a_controller_a_marked_function_asks_with_its_name_and_arguments(approver: Approver) -> None:
    approver.approve("send_email")
    assert send_email("ann", subject="hi") == "Email sent to ann"
    request = approver.asked[0]
    assert (request.tool_name, request.args) == ("send_email", {"to": "ann", "subject": "hi", "body": ""})


@pytest.mark.proves("R31")
def test_where_the_default_lets_tools_run_only_a_marked_function_asks() -> None:
    person = ScriptedChannel(YES)
    with ApprovalController(channels=[person], policy=MARKS).activated():
        assert guard(len)("ann") == 3
        send_email("ann", "hi")
    (request,) = person.asked
    assert request.tool_name == "send_email"
    assert request.reason == "send_email is marked with @requires_approval"


@pytest.mark.proves("R31")
async def test_an_async_marked_function_asks_too(approver: Approver) -> None:
    approver.approve("send_later")
    assert await send_later("ann") == "queued for ann"
    assert approver.asked[0].args == {"to": "ann"}


@pytest.mark.proves("R33", "C3")
def test_a_refused_function_does_not_run_and_raises_a_permission_error_with_the_note(approver: Approver) -> None:
    approver.deny(note="not on Sundays")
    with pytest.raises(PermissionError, match="not on Sundays") as caught:
        send_email("ann", "hi")
    assert isinstance(caught.value, ApprovalDenied)
    assert caught.value.note == "not on Sundays"
    assert sent == []


@pytest.mark.proves("R56", "H12")
async def test_a_refusal_can_be_the_result_and_the_rest_of_the_batch_goes_on() -> None:
    controller = ApprovalController(
        channels=[ScriptedChannel(YES, ApprovalDecision(approved=False, note="not him"), YES)],
        policy=Policy(default="required"),
    )

    async def pay(to: str) -> str:
        sent.append((to,))
        return f"paid {to}"

    guarded = guard(pay, controller, on_denied="return")
    results = [await guarded(to) for to in ("ann", "bob", "cem")]
    assert results[0::2] == ["paid ann", "paid cem"]
    assert "not him" in results[1]
    assert "Not executed" in results[1]
    assert sent == [("ann",), ("cem",)]


@pytest.mark.proves("R11", "R64")
def test_edited_arguments_run_and_those_that_do_not_fit_run_nothing(approver: Approver) -> None:
    approver.approve(override_args={"to": "bob", "subject": "hi"})
    assert send_email("ann", "hi", "secret") == "Email sent to bob"
    assert sent == [("bob", "hi", "")]
    approver.approve(override_args={"to": "bob", "subject": "hi", "bcc": "eve"})
    with pytest.raises(ApprovalBlocked, match="send_email has no argument 'bcc'"):
        send_email("ann", "hi")
    approver.approve(override_args={"to": "bob"})
    with pytest.raises(ApprovalBlocked, match="send_email needs the argument 'subject'"):
        send_email("ann", "hi")
    assert len(sent) == 1


@pytest.mark.proves("H1", "R64")
def test_an_edit_does_not_get_past_what_the_function_itself_blocks(approver: Approver) -> None:
    def limit(call: ToolCall) -> Verdict | None:
        return Verdict(approval="blocked", reason="over the limit") if call.args["amount"] > 10 else None

    @requires_approval(needs_approval=limit)
    def pay(amount: int) -> int:
        sent.append((amount,))
        return amount

    approver.approve(override_args={"amount": 99})
    with pytest.raises(ApprovalBlocked, match="over the limit"):
        pay(1)
    assert sent == []


@pytest.mark.proves("R41", "R43", "R58")
def test_any_function_can_be_guarded_by_configuration_alone() -> None:
    def delete(path: str) -> str:
        sent.append((path,))
        return path

    blocked = guard(
        delete, ApprovalController(mode="approve_all", policy=Policy({"delete": "blocked"}, default="none"))
    )
    with pytest.raises(ApprovalBlocked):
        blocked("a")
    allowed = guard(delete, ApprovalController(mode="auto_deny", policy=Policy({"del*": "none"}, default="none")))
    assert allowed("b") == "b"
    assert sent == [("b",)]


@pytest.mark.proves("R43", "R44")
def test_configuration_overrides_the_mark_in_both_directions() -> None:
    lax = ApprovalController(mode="auto_deny", policy=Policy({"send_email": "none"}, default="none"))
    with lax.activated():
        assert send_email("ann", "hi")
    strict = ApprovalController(mode="approve_all", policy=Policy({"send_email": "deny"}, default="none"))
    with strict.activated(), pytest.raises(ApprovalBlocked):
        send_email("ann", "hi")
    assert len(sent) == 1


@pytest.mark.proves("R49")
def test_needs_approval_of_a_function_decides_by_its_arguments() -> None:
    def big(args: dict[str, Any]) -> bool:
        return args["amount"] > 100

    @requires_approval(needs_approval=big)
    def pay(amount: int) -> int:
        return amount

    with ApprovalController(mode="auto_deny", policy=MARKS).activated():
        assert pay(100) == 100
        with pytest.raises(ApprovalDenied):
            pay(101)


@pytest.mark.proves("R24", "R25")
def test_payload_and_exclude_keys_size_what_is_remembered(approver: Approver) -> None:
    @requires_approval(payload=["path"])
    def write(path: str, content: str) -> str:
        return content

    @requires_approval(exclude_keys=["token"])
    def fetch(url: str, token: str) -> str:
        return token

    approver.approve("write", remember="session")
    approver.approve("fetch", remember="session")
    assert [write("a", "1"), write("a", "2"), fetch("u", "t1"), fetch("u", "t2")] == ["1", "2", "t1", "t2"]
    assert [request.payload for request in approver.asked] == [{"path": "a"}, {"url": "u"}]


def test_guard_shows_its_description_and_remembers_by_its_payload() -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True, remember="session"))
    controller = ApprovalController(policy=Policy(default="required"), channels=[person])

    def write(path: str, content: str) -> str:
        return content

    guarded = guard(write, controller, payload=["path"], description="Write a file")
    assert [guarded("a", "1"), guarded("a", "2")] == ["1", "2"]
    assert [(request.description, request.payload) for request in person.asked] == [("Write a file", {"path": "a"})]


def pay_out(amount: int) -> None:
    """
    Pay {amount} out.

    To nobody in particular.
    """


def undocumented(amount: int) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "settings", "description", "by"),
    [
        (pay_out, {}, "Pay {amount} out.", "tool"),
        (requires_approval(pay_out), {}, "Pay {amount} out.", "tool"),
        (functools.partial(pay_out), {}, "Pay {amount} out.", "tool"),
        (pay_out, {"description": "Settle up"}, "Settle up", "tool"),
        (undocumented, {}, "Run undocumented", "default"),
    ],
)
def test_the_first_line_of_a_functions_docstring_describes_it(
    function: Any, settings: Any, description: str, by: str
) -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(channels=[person], policy=Policy(default="required"))
    guard(function, controller, **settings)(amount=5)
    assert [(each.description, each.described_by) for each in person.asked] == [(description, by)]


def test_the_policys_description_is_shown_as_the_policys_words() -> None:
    person = ScriptedChannel(YES)
    policy = Policy({"pay_out": {"approval": "required", "description": "Pay {args.amount}"}})
    guard(pay_out, ApprovalController(channels=[person], policy=policy))(amount=5)
    assert [(each.description, each.described_by) for each in person.asked] == [("Pay 5", "policy")]


@pytest.mark.proves("R32", "R24")
def test_what_is_remembered_of_a_function_is_found_by_its_name_and_ends_with_its_signature(approver: Approver) -> None:
    def version(annotation: str) -> Any:
        def pay(amount: int) -> int:
            return amount

        pay.__annotations__["amount"] = annotation
        return requires_approval(pay)

    approver.approve(remember="session")
    version("int")(5)
    assert approver.controller.memory.lookup("pay", {"amount": 5}) is not None
    version("int")(5)
    approver.deny(note="it is another function now")
    with pytest.raises(ApprovalDenied, match="another function"):
        version("float")(5)


def test_a_guarded_function_without_any_controller_does_not_run() -> None:
    with pytest.raises(ValueError, match="no controller is in context; pass one to `guard`"):
        guard(send_email.__wrapped__)("ann", "hi")  # type: ignore[attr-defined]
    assert sent == []


def test_a_controller_that_is_active_everywhere_guards_plain_threads_too() -> None:
    controller = ApprovalController(mode="auto_deny", policy=MARKS)
    refused: list[BaseException] = []

    def work() -> None:
        try:
            send_email("ann", "hi")
        except ApprovalDenied as error:
            refused.append(error)

    def run_in_a_plain_thread() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with controller.activated(everywhere=True):
        run_in_a_plain_thread()
    assert (len(refused), sent) == (1, [])
    run_in_a_plain_thread()
    assert len(sent) == 1


def test_a_parameter_that_the_function_does_not_have_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="write has no parameter 'pth'"):

        @requires_approval(payload=["pth"])
        def write(path: str) -> None:
            raise NotImplementedError


@pytest.mark.proves("H2")
def test_unseen_parameters_and_self_are_passed_on_and_neither_shown_nor_bound(approver: Approver) -> None:
    class Bank:
        @requires_approval(unseen=["connection"])
        def pay(self, connection: object, amount: int) -> tuple[object, int]:
            return connection, amount

    approver.approve("pay")
    connection = object()
    assert Bank().pay(connection, 5) == (connection, 5)
    assert approver.asked[0].args == {"amount": 5}


def test_variadic_positional_only_and_keyword_only_arguments_arrive_as_they_were(approver: Approver) -> None:
    @requires_approval
    def echo(a: int, /, b: int, *rest: int, c: int, **more: int) -> Any:
        return a, b, rest, c, more

    approver.approve()
    assert echo(1, 2, 3, 4, c=5, d=6) == (1, 2, (3, 4), 5, {"d": 6})


def test_the_function_gets_ordinary_containers_of_its_own(approver: Approver) -> None:
    @requires_approval
    def sort(items: list[int], options: dict[str, list[int]]) -> list[int]:
        items.sort()
        options["x"].append(1)
        return items

    approver.approve()
    items = [2, 1]
    assert sort(items, {"x": []}) == [1, 2]
    assert items == [2, 1]


@pytest.mark.proves("C14")
async def test_a_marked_function_behind_another_edge_asks_once_and_what_it_calls_asks_again(
    approver: Approver,
) -> None:
    @requires_approval
    def inner(n: int) -> int:
        return n

    @requires_approval
    def outer(n: int) -> int:
        return inner(n) + (outer(0) if n else 0)

    approver.approve("outer")
    approver.approve("inner")
    approver.approve("outer")
    approver.approve("inner")

    async def tool(args: dict[str, Any]) -> int:
        return await asyncio.to_thread(outer, **args)

    call = ToolCall(tool="outer", args={"n": 1})
    assert await approver.controller.run(call, tool, inspect_rules(outer)) == 1
    assert [request.tool_name for request in approver.asked] == ["outer", "inner", "outer", "inner"]


@pytest.mark.proves("H2")
async def test_one_approval_at_another_edge_is_one_call_with_its_arguments_by_its_controller() -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(channels=[person], policy=Policy({"pay": "required"}, default="none"))
    strict = ApprovalController(mode="approve_all", policy=Policy({"pay": "blocked"}, default="none"))
    paid: list[int] = []

    @requires_approval
    async def pay(amount: int, note: str = "") -> int:
        paid.append(amount)
        return amount

    later: list[asyncio.Task[int]] = []

    async def tool(args: dict[str, Any]) -> None:
        with pytest.raises(ApprovalBlocked):
            await guard(inspect.unwrap(pay), strict, name="pay")(**args)
        with pytest.raises(ApprovalDenied):
            await pay(9999)
        await pay(**args)
        with pytest.raises(ApprovalDenied):
            await pay(**args)
        later.append(asyncio.create_task(pay(**args)))

    with controller.activated():
        await controller.run(ToolCall(tool="pay", args={"amount": 1}), tool)
        with pytest.raises(ApprovalDenied):
            await later[0]
    assert paid == [1]


def test_a_partial_is_called_by_the_name_of_its_function() -> None:
    def rm(path: str) -> str:
        raise NotImplementedError

    controller = ApprovalController(mode="approve_all", policy=Policy({"rm": "blocked"}, default="none"))
    with pytest.raises(ApprovalBlocked):
        guard(functools.partial(rm, "a"), controller)()


def test_self_is_shown_where_it_is_an_argument_like_any_other(approver: Approver) -> None:
    @requires_approval
    def transfer(self: str, amount: int) -> str:
        return self

    approver.approve()
    assert transfer("mallory", 5) == "mallory"
    assert approver.asked[0].args == {"self": "mallory", "amount": 5}


def test_a_signature_has_the_same_hash_in_every_process() -> None:
    class Doc:
        pass

    def version() -> Any:
        def pay(amount: Annotated[int, Doc()]) -> int:
            raise NotImplementedError

        return requires_approval(pay)

    assert version().__sayso__.schema_hash == version().__sayso__.schema_hash


def test_a_context_that_ends_late_takes_nothing_from_one_that_is_active_everywhere() -> None:
    refusals: list[BaseException] = []

    def work() -> None:
        try:
            send_email("ann", "hi")
        except ApprovalDenied as error:
            refusals.append(error)

    begun, end = threading.Event(), threading.Event()

    def other_thread() -> None:
        with ApprovalController(mode="approve_all").activated():
            begun.set()
            assert end.wait(10)

    other = threading.Thread(target=other_thread)
    other.start()
    assert begun.wait(10)
    with ApprovalController(mode="auto_deny", policy=MARKS).activated(everywhere=True):
        end.set()
        other.join()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert (len(refusals), sent) == (1, [])


def inspect_rules(function: Any) -> Any:
    return function.__sayso__.rules


@pytest.mark.proves("H5")
def test_a_synchronous_guard_on_a_thread_with_a_loop_asks_nobody_and_runs_nothing() -> None:
    controller = ApprovalController(channels=[ScriptedChannel(YES)], policy=MARKS)

    async def main() -> None:
        with controller.activated():
            with pytest.raises(RuntimeError, match="worker thread"):
                send_email("ann", "hi")
            assert await asyncio.to_thread(send_email, "ann", "hi") == "Email sent to ann"

    asyncio.run(main())
    assert len(sent) == 1


@pytest.mark.proves("R67")
@pytest.mark.parametrize(("mode", "came"), [("approve_all", 1), ("auto_deny", 0)])
def test_a_marked_function_needs_no_worker_thread_where_the_mode_decides(mode: str, came: int) -> None:
    async def main() -> None:
        with ApprovalController(mode=mode, policy=MARKS).activated(), contextlib.suppress(ApprovalDenied):
            send_email("ann", "hi")

    asyncio.run(main())
    assert len(sent) == came


def test_a_synchronous_guard_needs_no_hop_for_what_the_policy_lets_run() -> None:
    def where() -> str:
        return threading.current_thread().name

    async def main() -> None:
        controller = ApprovalController(mode="auto_deny", policy=MARKS)
        assert guard(where, controller)() == threading.current_thread().name

    asyncio.run(main())


# Defer and resume, as another process would.


@pytest.mark.proves("R17", "H16")
async def test_a_deferred_function_is_resumed_once_from_the_store_and_nothing_else_is(tmp_path: Path) -> None:
    before = ApprovalController(mode="defer", store=tmp_path / "sayso.db", policy=MARKS)
    with before.activated(), pytest.raises(ApprovalPending) as caught:
        await send_later("ann")
    await before.aclose()

    after = ApprovalController(mode="defer", store=tmp_path / "sayso.db", policy=MARKS)
    request_id = caught.value.request.id
    with after.activated():
        with pytest.raises(ApprovalPending):
            await resume(send_later, request_id)
        await after.answer(request_id, YES, who="bob")
        with pytest.raises(ValueError, match="asks about 'send_later', not about 'send_email'"):
            await resume(send_email, request_id)
        assert await resume(send_later, request_id) == "queued for ann"
        with pytest.raises(ApprovalDenied, match="already used"):
            await resume(send_later, request_id)
    assert sent == [("ann",)]
    await after.aclose()


async def test_a_function_whose_signature_changed_since_it_was_approved_does_not_run() -> None:
    controller = ApprovalController(mode="defer", policy=MARKS)

    def version(annotation: Any) -> Any:
        def pay(amount: int) -> int:
            raise NotImplementedError

        pay.__annotations__["amount"] = annotation
        return requires_approval(pay)

    pending = await controller.review(
        ToolCall(tool="pay", args={"amount": 5}, schema_hash=version("int").__sayso__.schema_hash),
        inspect_rules(version("int")),
    )
    assert isinstance(pending, Pending)
    await controller.answer(pending.request.id, YES)
    with pytest.raises(ApprovalDenied, match="not what was asked about"):
        await resume(version("float"), pending.request.id, controller=controller)


async def test_what_was_not_stored_has_to_be_passed_before_the_approval_is_used() -> None:
    class Bank:
        @requires_approval(unseen=["connection"])
        def pay(self, connection: str, amount: int) -> tuple[str, int]:
            return connection, amount

    bank, controller = Bank(), ApprovalController(mode="defer", policy=MARKS)
    with controller.activated(), pytest.raises(ApprovalPending) as caught:
        await asyncio.to_thread(bank.pay, "old", 5)
    request_id = caught.value.request.id
    await controller.answer(request_id, YES)
    with pytest.raises(ValueError, match="pay needs 'connection', which is not stored; pass unseen="):
        await resume(bank.pay, request_id, controller=controller)
    with pytest.raises(ValueError, match="pay does not hide 'amount'"):
        await resume(bank.pay, request_id, controller=controller, unseen={"amount": 6})
    assert await resume(bank.pay, request_id, controller=controller, unseen={"connection": "new"}) == ("new", 5)


def test_a_marked_function_that_is_guarded_too_asks_once(approver: Approver) -> None:
    approver.approve("send_email")
    assert guard(send_email, approver.controller)("ann", "hi") == "Email sent to ann"
    assert len(approver.asked) == 1


@pytest.mark.proves("H1")
def test_a_guard_is_never_taken_away_by_another_round_it() -> None:
    def rm(path: str) -> str:
        raise NotImplementedError

    strict = ApprovalController(mode="approve_all", policy=Policy({"rm": "blocked"}, default="none"))
    lax = ApprovalController(mode="approve_all")
    for wrapped in (guard(guard(rm, strict), lax), requires_approval(guard(rm, strict))):
        with pytest.raises(ApprovalBlocked):
            wrapped("a")
    with pytest.raises(ValueError, match="no controller is in context"):
        requires_approval(guard(rm))("a")
    limited = requires_approval(needs_approval=never)(rm)
    with pytest.raises(ApprovalBlocked), lax.activated():
        guard(limited, lax, needs_approval=no_need)("a")


def never(call: ToolCall) -> Verdict:
    return Verdict(approval="blocked", reason="never")


def no_need(call: ToolCall) -> bool:
    return False


def test_what_cannot_be_guarded_is_said_at_once() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(ValueError, match="numbers is a generator"):
        guard(numbers)
    with pytest.raises(ValueError, match="cannot be guarded"):
        guard(max)
    with pytest.raises(ValueError, match="payload is the text 'path'; use a list of parameter names"):
        guard(send_email, payload="path")
    with pytest.raises(ValueError, match=r"controller is .*Policy.*; pass an ApprovalController"):
        guard(send_email, Policy(default="none"))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(ValueError, match="the function comes first, then the controller"):
        guard(ApprovalController(mode="strict"), send_email)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(TypeError, match="unknown setting 'pyload'"):
        guard(print, pyload=["a"])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def test_only_a_guarded_function_can_be_resumed_and_only_under_a_controller() -> None:
    with pytest.raises(ValueError, match="is not guarded"):
        await resume(print, "any")
    with pytest.raises(ValueError, match="no controller is in context"):
        await resume(send_later, "any")
    with pytest.raises(LookupError, match="no request has the id 'any'"):
        await resume(send_later, "any", controller=ApprovalController(mode="defer", policy=MARKS))


def test_a_wrong_way_to_say_no_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="on_denied is 'ignore'; use 'raise' or 'return'"):
        guard(print, on_denied="ignore")  # type: ignore[arg-type]
