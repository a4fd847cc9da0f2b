"""Cases of one run in one process: allowed, asked, refused, edited, blocked, parallel, streamed, failing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.conformance.case import Cases
from tests.adapters.conformance.driver import Call
from tests.adapters.conformance.toolbox import NO, YES, Desk, Toolbox

from sayso import ApprovalController, ApprovalDecision, Policy, ToolCall, requires_approval
from sayso.core.model import ApprovalRequest, AuditEntry
from sayso.errors import ApprovalError
from sayso.stores.memory import MemoryStore

WAYS = pytest.mark.parametrize("how", ["async", "sync", "stream"])
PAY = [[Call("pay", {"amount": 5})], "done"]


def asking(decision: ApprovalDecision, policy: Policy | None = None) -> tuple[ApprovalController, list[Any]]:
    """Return a controller with a person who always gives this answer, and the list of what they were asked."""
    asked: list[ApprovalRequest] = []

    def callback(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return decision

    return ApprovalController(approval_callback=callback, policy=policy), asked


class Deciding(Cases):
    """What happens to a call in one run."""

    @WAYS
    async def test_an_allowed_call_runs_unasked(self, how: str) -> None:
        tools, (controller, asked) = Toolbox(), asking(NO, Policy({"pay": "none"}))
        seen = await self.driver.run(PAY, [tools.pay()], controller, how=how)
        assert (tools.amounts, asked, seen.text) == ([5], [], "done")
        assert "paid 5" in seen.told["c1"]

    @WAYS
    async def test_an_asked_call_runs_once_with_what_was_shown(self, how: str) -> None:
        tools, (controller, asked) = Toolbox(), asking(YES)
        seen = await self.driver.run(PAY, [tools.pay()], controller, how=how)
        assert (tools.amounts, seen.text) == ([5], "done")
        assert [(each.tool_name, each.args["amount"]) for each in asked] == [("pay", 5)]
        assert await _states(controller, asked) == ["used, returned"]

    @WAYS
    async def test_the_note_of_a_refusal_reaches_the_model(self, how: str) -> None:
        tools, (controller, _) = Toolbox(), asking(NO)
        seen = await self.driver.run(PAY, [tools.pay()], controller, how=how)
        assert (tools.ran, seen.text) == ([], "done")
        assert "too much" in seen.told["c1"]

    async def test_a_refusal_can_end_the_run(self) -> None:
        tools, (controller, _) = Toolbox(), asking(NO)
        with pytest.raises(Exception, match="too much") as raised:
            await self.driver.run(PAY, [tools.pay()], controller, on_denied="raise")
        assert any(isinstance(each, ApprovalError) for each in _chain(raised.value))
        assert tools.ran == []

    @WAYS
    async def test_edited_arguments_run_and_the_model_is_told(self, how: str) -> None:
        edit = ApprovalDecision(approved=True, override_args={"amount": 3, "to": "eve"}, note="less", who="ann")
        tools, (controller, _) = Toolbox(), asking(edit)
        seen = await self.driver.run(PAY, [tools.pay()], controller, how=how)
        assert tools.ran == [("pay", {"amount": 3, "to": "eve"})]
        assert all(word in seen.told["c1"] for word in ("paid 3", "eve", "less"))

    async def test_an_edit_that_does_not_fit_the_tool_does_not_run(self) -> None:
        edit = ApprovalDecision(approved=True, override_args={"amount": "a lot"}, who="ann")
        tools, (controller, _) = Toolbox(), asking(edit)
        seen = await self.driver.run(PAY, [tools.pay()], controller)
        assert (tools.ran, seen.text) == ([], "done")
        assert "amount" in seen.told["c1"]

    async def test_a_blocked_tool_is_hidden(self) -> None:
        tools, (controller, _) = Toolbox(), asking(YES, Policy({"wipe": "blocked"}))
        seen = await self.driver.run(["done"], [tools.pay(), tools.wipe()], controller)
        assert seen.shown == [["pay"]]

    async def test_a_blocked_tool_that_is_called_anyway_does_not_run(self) -> None:
        tools, (controller, asked) = Toolbox(), asking(YES, Policy({"wipe": "blocked"}))
        seen = await self.driver.run([[Call("wipe", {})], "done"], [tools.pay(), tools.wipe()], controller)
        assert (tools.ran, asked, seen.text) == ([], [], "done")
        assert seen.told["c1"]

    async def test_a_default_that_the_model_left_out_is_shown_and_judged(self) -> None:
        tools, (controller, asked) = Toolbox(), asking(YES)
        await self.driver.run(PAY, [tools.pay()], controller)
        assert dict(asked[0].args) == {"amount": 5, "to": "bob"}

    @pytest.mark.parametrize("how", ["async", "sync"])
    async def test_calls_of_one_response_are_asked_at_once_and_answered_in_any_order(self, how: str) -> None:
        tools, desk = Toolbox(), Desk()
        controller = ApprovalController(channels=[desk], policy=Policy({"look": "none"}))
        calls = [Call("pay", {"amount": 1}, "c1"), Call("pay", {"amount": 2}, "c2"), Call("look", {"what": "x"}, "c3")]
        run = asyncio.create_task(self.driver.run([calls, "done"], [tools.pay(), tools.look()], controller, how=how))
        asked = {each.args["amount"]: each for each in await desk.wait_for(2)}
        await controller.answer(asked[2], YES)
        await controller.answer(asked[1], NO)
        seen = await run
        assert sorted(tools.names) == ["look", "pay"]
        assert tools.amounts == [2]
        assert ("too much" in seen.told["c1"], "paid 2" in seen.told["c2"]) == (True, True)

    async def test_a_rule_that_raises_stops_the_call(self) -> None:
        def broken(call: ToolCall) -> bool:
            raise RuntimeError("no idea")

        tools, (controller, asked) = Toolbox(), asking(NO, Policy(needs_approval=broken))
        await self.attempt(PAY, [tools.pay()], controller)
        assert tools.ran == []
        assert len(asked) <= 1

    async def test_a_callback_that_raises_stops_the_call(self) -> None:
        def broken(_: ApprovalRequest) -> ApprovalDecision:
            raise RuntimeError("the phone is dead")

        tools = Toolbox()
        await self.attempt(PAY, [tools.pay()], ApprovalController(approval_callback=broken))
        assert tools.ran == []

    async def test_a_store_that_fails_stops_the_call(self) -> None:
        class Broken(MemoryStore):
            async def open(self, request: ApprovalRequest) -> ApprovalRequest:
                raise OSError("the disk is gone")

        tools = Toolbox()
        controller = ApprovalController(approval_callback=lambda _: YES, store=Broken())
        await self.attempt(PAY, [tools.pay()], controller)
        assert tools.ran == []

    async def test_a_tool_that_fails_is_audited_as_failed(self) -> None:
        tools, steps = Toolbox(), list[AuditEntry]()
        controller = ApprovalController(approval_callback=lambda _: YES, hooks=[steps.append])
        await self.attempt([[Call("fail", {"amount": 1})], "done"], [tools.fail()], controller)
        await controller.flush()
        assert tools.names == ["fail"]
        assert "raised" in [each.step for each in steps]

    async def test_a_marked_function_is_asked_about_once(self) -> None:
        tools = Toolbox()
        controller, asked = asking(YES, Policy(default="none"))
        seen = await self.driver.run(PAY, [requires_approval(tools.pay())], controller)
        assert (tools.amounts, len(asked), seen.text) == ([5], 1, "done")

    async def test_a_framework_s_own_mark_asks_once(self) -> None:
        tools, (controller, asked) = Toolbox(), asking(YES, Policy(default="none"))
        seen = await self.driver.run(PAY, [self.driver.tool(tools.pay(), asks=True)], controller)
        assert (tools.amounts, len(asked), seen.text) == ([5], 1, "done")

    async def test_two_calls_with_one_id_need_two_answers(self) -> None:
        tools, (controller, asked) = Toolbox(), asking(YES)
        calls = [Call("pay", {"amount": 1}, "same"), Call("pay", {"amount": 2}, "same")]
        await self.attempt([calls, "done"], [tools.pay()], controller)
        shown = [each.args["amount"] for each in asked]
        assert len(tools.amounts) == len(set(tools.amounts))
        assert set(tools.amounts) <= set(shown)

    async def test_a_cancelled_run_withdraws_its_question(self) -> None:
        tools, desk = Toolbox(), Desk()
        controller = ApprovalController(channels=[desk])
        run = asyncio.create_task(self.driver.run(PAY, [tools.pay()], controller))
        (asked,) = await desk.wait_for(1)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        row = await controller.wait(asked.id, timeout=10)
        assert (row.status, tools.ran) == ("withdrawn", [])

    async def test_a_late_hook_cannot_change_what_was_approved(self) -> None:
        def change(args: dict[str, Any]) -> None:
            args["amount"] = 9000

        tools, (controller, _) = Toolbox(), asking(YES)
        await self.attempt(PAY, [tools.pay()], controller, after=self.driver.late_hook(change))
        assert tools.amounts in ([], [5])

    async def test_a_late_hook_does_what_it_likes_without_sayso(self) -> None:
        def change(args: dict[str, Any]) -> None:
            args["amount"] = 9000

        tools = Toolbox()
        await self.driver.bare(PAY, [tools.pay()], after=self.driver.late_hook(change))
        assert tools.amounts == [9000]

    async def test_a_rule_that_names_no_tool_is_warned_about_once(self, caplog: pytest.LogCaptureFixture) -> None:
        tools, (controller, _) = Toolbox(), asking(NO, Policy({"pya": "none"}))
        with caplog.at_level(logging.WARNING, "sayso"):
            for _ in range(2):
                await self.driver.run(["done"], [tools.pay()], controller)
        assert [("pya" in each.message, "pay" in each.message) for each in caplog.records] == [(True, True)]

    async def test_a_tool_of_an_mcp_server_is_asked_about(self, tmp_path: Path) -> None:
        book = tmp_path / "book"
        for decision, paid in ((NO, ""), (YES, "7\n")):
            controller, asked = asking(decision)
            seen = await self.driver.run(
                [[Call("pay_remote", {"amount": 7})], "done"], [], controller, mcp=self.mcp_server(book)
            )
            assert ([each.args["amount"] for each in asked], seen.text) == ([7], "done")
            assert (book.read_text() if book.exists() else "") == paid


async def _states(controller: ApprovalController, asked: list[ApprovalRequest]) -> list[str]:
    await controller.flush()
    rows = [await controller.store.get(each.id) for each in asked]
    return [row.state for row in rows if row is not None]


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error with those that it came from, or holds."""
    found = [error]
    for each in found:
        found += [other for other in (each.__cause__, each.__context__) if other is not None and other not in found]
        found += getattr(each, "exceptions", ())
    return found
