"""Cases of runs that stop for an answer and go on later: early, twice, copied, changed, made up, with other rules."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.conformance.case import Cases
from tests.adapters.conformance.driver import Call, Response, Tool
from tests.adapters.conformance.toolbox import NO, YES, Toolbox

from sayso import ApprovalController, ApprovalDecision, ApprovalPending, Policy
from sayso.stores.sqlite import SqliteStore

PAY: list[Response] = [[Call("pay", {"amount": 5})]]


@contextlib.asynccontextmanager
async def deferring(folder: Path, policy: Policy | None = None) -> AsyncGenerator[ApprovalController]:
    """Return a controller that defers, on the store of a folder, as each process would build it."""
    store = SqliteStore(folder / "sayso.db")
    try:
        yield ApprovalController(mode="defer", store=store, policy=policy)
    finally:
        await store.aclose()


class Pausing(Cases):
    """What happens to a call whose run stops for the answer."""

    async def stopped(
        self, folder: Path, responses: Sequence[Response] = PAY, tools: Sequence[Tool] | None = None
    ) -> Any:
        """Run until it stops; return the pause."""
        async with deferring(folder) as controller:
            seen = await self.driver.run(responses, tools or [Toolbox().pay()], controller)
        assert (seen.text, seen.pause is not None) == (None, True)
        return seen.pause

    async def answered(self, folder: Path, *decisions: ApprovalDecision) -> None:
        """Answer the open questions, the oldest first."""
        async with deferring(folder) as controller:
            for request, decision in zip(await controller.pending(), decisions, strict=True):
                await controller.answer(request.id, decision)

    async def resumed(
        self, folder: Path, pause: Any, tools: Toolbox, policy: Policy | None = None, **options: Any
    ) -> str:
        """Go on with a pause, whatever comes of it; return all that the model was told."""
        async with deferring(folder, policy) as controller:
            with contextlib.suppress(Exception):
                seen = await self.driver.go_on(pause, ["done"], [tools.pay()], controller, **options)
                return " ".join(seen.told.values())
        return ""

    async def test_a_run_stops_for_the_answer_and_goes_on(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, YES)
        async with deferring(tmp_path) as controller:
            seen = await self.driver.go_on(pause, ["done"], [tools.pay()], controller)
            assert (tools.amounts, seen.text, "paid 5" in seen.told["c1"]) == ([5], "done", True)
            assert await controller.parked_runs() == []

    async def test_a_refusal_after_a_stop_reaches_the_model(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, NO)
        async with deferring(tmp_path) as controller:
            seen = await self.driver.go_on(pause, ["done"], [tools.pay()], controller)
        assert (tools.ran, seen.text, "too much" in seen.told["c1"]) == ([], "done", True)

    async def test_an_edit_after_a_stop_runs_and_the_model_is_told(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, ApprovalDecision(approved=True, override_args={"amount": 3, "to": "eve"}))
        async with deferring(tmp_path) as controller:
            seen = await self.driver.go_on(pause, ["done"], [tools.pay()], controller)
        assert (tools.ran, seen.text) == ([("pay", {"amount": 3, "to": "eve"})], "done")
        assert "eve" in seen.told["c1"]

    async def test_several_questions_of_one_response_are_answered_before_it_goes_on(self, tmp_path: Path) -> None:
        calls: list[Response] = [[Call("pay", {"amount": 1}, "c1"), Call("pay", {"amount": 2}, "c2")]]
        pause, tools = await self.stopped(tmp_path, calls), Toolbox()
        await self.answered(tmp_path, NO, YES)
        async with deferring(tmp_path) as controller:
            seen = await self.driver.go_on(pause, ["done"], [tools.pay()], controller)
        assert (len(tools.ran), seen.text) == (1, "done")
        assert sum("too much" in told for told in seen.told.values()) == 1

    async def test_a_run_can_stop_twice(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, YES)
        async with deferring(tmp_path) as controller:
            again: list[Response] = [[Call("pay", {"amount": 6}, "c2")]]
            seen = await self.driver.go_on(pause, again, [tools.pay()], controller)
        assert (tools.amounts, seen.text) == ([5], None)
        await self.answered(tmp_path, YES)
        async with deferring(tmp_path) as controller:
            seen = await self.driver.go_on(seen.pause, ["done"], [tools.pay()], controller)
        assert (tools.amounts, seen.text) == ([5, 6], "done")

    async def test_a_run_that_is_resumed_early_says_so_and_stays(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        async with deferring(tmp_path) as controller:
            with pytest.raises(ApprovalPending):
                await self.driver.go_on(pause, ["done"], [tools.pay()], controller)
        assert tools.ran == []
        await self.answered(tmp_path, YES)
        await self.resumed(tmp_path, pause, tools)
        assert tools.amounts == [5]

    async def test_a_made_up_approval_runs_nothing(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.resumed(tmp_path, pause, tools, forced=True)
        assert tools.ran == []

    async def test_a_made_up_approval_does_not_take_back_a_refusal(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, NO)
        await self.resumed(tmp_path, pause, tools, forced=True)
        assert tools.ran == []

    async def test_a_pause_that_is_resumed_twice_runs_once(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, YES)
        for _ in range(2):
            await self.resumed(tmp_path, pause, tools)
        assert tools.amounts == [5]

    async def test_a_copy_of_a_pause_runs_nothing_more(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        record = self.driver.snapshot(pause)
        await self.answered(tmp_path, YES)
        await self.resumed(tmp_path, pause, tools)
        assert tools.amounts == [5]
        for forced in (False, True):
            await self.resumed(tmp_path, self.driver.restore(record), tools, forced=forced)
        assert tools.amounts == [5]

    async def test_copies_of_a_pause_that_go_on_at_once_run_once(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        copies = [self.driver.restore(self.driver.snapshot(pause)) for _ in range(3)]
        await self.answered(tmp_path, YES)
        await asyncio.gather(*(self.resumed(tmp_path, each, tools, forced=True) for each in copies))
        assert len(tools.amounts) <= 1
        assert set(tools.amounts) <= {5}

    async def test_arguments_that_are_changed_in_the_pause_do_not_run(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path, [[Call("pay", {"amount": 5, "to": "bob"})]]), Toolbox()
        await self.answered(tmp_path, YES)
        record = self.driver.changed(self.driver.snapshot(pause), "bob", "eve")
        for forced in (False, True):
            await self.resumed(tmp_path, self.driver.restore(record), tools, forced=forced)
        assert [args["to"] for _, args in tools.ran] in ([], ["bob"])

    @pytest.mark.parametrize("forced", [False, True])
    async def test_a_refusal_stands_though_the_rules_are_loosened(self, tmp_path: Path, *, forced: bool) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, NO)
        await self.resumed(tmp_path, pause, tools, Policy({"pay": "none"}), forced=forced)
        assert tools.ran == []

    async def test_an_approval_falls_where_the_rules_are_tightened(self, tmp_path: Path) -> None:
        pause, tools = await self.stopped(tmp_path), Toolbox()
        await self.answered(tmp_path, YES)
        await self.resumed(tmp_path, pause, tools, Policy({"pay": "blocked"}))
        assert tools.ran == []

    async def test_an_approval_does_not_pass_to_another_tool_of_that_name(self, tmp_path: Path) -> None:
        pause, ran = await self.stopped(tmp_path), list[object]()

        def pay(amount: int, to: str = "bob", account: str = "savings") -> str:
            """Pay from the savings."""
            ran.append((amount, to, account))
            return "paid"

        await self.answered(tmp_path, YES)
        async with deferring(tmp_path) as controller:
            with contextlib.suppress(Exception):
                await self.driver.go_on(pause, ["done"], [pay], controller)
        assert ran == []

    async def test_a_run_goes_on_in_another_process(self, tmp_path: Path) -> None:
        record = self.driver.snapshot(await self.stopped(tmp_path))
        await self.answered(tmp_path, YES)
        (tmp_path / "record").write_bytes(record)
        kind = type(self.driver)
        command = ["-m", "tests.adapters.conformance.child", kind.__module__, kind.__qualname__, str(tmp_path)]
        ran: list[Any] = []
        for _ in range(2):  # the second one finds the approval used
            child = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            printed, _ = await child.communicate()
            assert child.returncode == 0, printed.decode()
            ran += json.loads(printed.decode().splitlines()[-1])
        assert ran == [["pay", {"amount": 5, "to": "bob"}]]
