"""Cases of agents that call agents: one controller, inline and deferred; the backstop for unguarded ones."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.adapters.conformance.case import Cases
from tests.adapters.conformance.driver import Call, Response
from tests.adapters.conformance.pausing import deferring
from tests.adapters.conformance.toolbox import NO, YES, Toolbox

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.core.model import ApprovalRequest

OUTER: list[Response] = [[Call("helper", {"prompt": "pay"}, "o1")], "outer done"]
INNER: list[Response] = [[Call("pay", {"amount": 5}, "i1")], "inner done"]


def recording(decision: ApprovalDecision, policy: Policy) -> tuple[ApprovalController, list[ApprovalRequest]]:
    """Return a controller whose person always gives this answer, and what they were asked."""
    asked: list[ApprovalRequest] = []
    return ApprovalController(approval_callback=lambda each: asked.append(each) or decision, policy=policy), asked


class Nesting(Cases):
    """What happens to the calls of an agent inside a tool of another one."""

    async def test_a_nested_agent_asks_the_controller_of_the_outer_one(self) -> None:
        tools, (controller, asked) = Toolbox(), recording(YES, Policy({"helper": "none"}))
        helper = self.driver.agent_tool("helper", INNER, [tools.pay()])
        seen = await self.driver.run(OUTER, [helper], controller, name="boss")
        assert (tools.amounts, seen.text) == ([5], "outer done")
        assert [(each.tool_name, "boss" in each.agent_path) for each in asked] == [("pay", True)]

    async def test_the_policy_of_a_nested_agent_only_tightens(self) -> None:
        loose = ApprovalController(mode="approve_all", policy=Policy(default="none"))
        tools, (controller, asked) = Toolbox(), recording(NO, Policy({"helper": "none"}))
        helper = self.driver.agent_tool("helper", INNER, [tools.pay()], loose)
        await self.driver.run(OUTER, [helper], controller)
        assert (tools.ran, len(asked)) == ([], 1)

    async def test_a_block_of_a_nested_agent_holds_under_a_loose_one(self) -> None:
        strict = ApprovalController(mode="auto_deny", policy=Policy({"pay": "blocked"}, default="none"))
        tools, (controller, asked) = Toolbox(), recording(YES, Policy(default="none"))
        helper = self.driver.agent_tool("helper", INNER, [tools.pay()], strict)
        await self.driver.run(OUTER, [helper], controller)
        assert (tools.ran, asked) == ([], [])

    async def test_a_nested_agent_that_nobody_guards_cannot_run_what_asks(self) -> None:
        tools, (controller, asked) = Toolbox(), recording(YES, Policy({"helper": "none"}))
        helper = self.driver.agent_tool("helper", INNER, [tools.pay()], guarded=False)
        await self.attempt(OUTER, [helper], controller)
        reached = [5] if self.driver.guards_nested else []
        assert (tools.amounts, [each.args["amount"] for each in asked]) == (reached, reached)

    async def test_a_nested_agent_that_nobody_guards_runs_it_without_sayso(self) -> None:
        tools = Toolbox()
        helper = self.driver.agent_tool("helper", INNER, [tools.pay()], guarded=False)
        await self.driver.bare(OUTER, [helper])
        assert tools.amounts == [5]

    async def test_a_nested_agent_stops_and_goes_on_with_the_outer_one(self, tmp_path: Path) -> None:
        tools, policy = Toolbox(), Policy({"helper": "none"})
        async with deferring(tmp_path, policy) as controller:
            helper = self.driver.agent_tool("helper", INNER[:1], [tools.pay()])
            seen = await self.driver.run(OUTER[:1], [helper], controller)
            (request,) = await controller.pending()
            await controller.answer(request.id, YES)
        async with deferring(tmp_path, policy) as controller:
            helper = self.driver.agent_tool("helper", INNER[1:], [tools.pay()])
            seen = await self.driver.go_on(seen.pause, OUTER[1:], [helper], controller)
        assert (tools.amounts, seen.text) == ([5], "outer done")

    async def test_outer_and_nested_call_are_both_asked_about_and_both_run_once(self, tmp_path: Path) -> None:
        tools = Toolbox()
        async with deferring(tmp_path) as controller:
            helper = self.driver.agent_tool("helper", INNER[:1], [tools.pay()])
            seen = await self.driver.run(OUTER[:1], [helper], controller)
        asked: list[str] = []
        for _ in range(2):
            async with deferring(tmp_path) as controller:
                (request,) = await controller.pending()
                asked.append(request.tool_name)
                await controller.answer(request.id, YES)
                responses = INNER[:1] if request.tool_name == "helper" else INNER[1:]
                helper = self.driver.agent_tool("helper", responses, [tools.pay()])
                seen = await self.driver.go_on(seen.pause, OUTER[1:], [helper], controller)
        assert (asked, tools.amounts, seen.text) == (["helper", "pay"], [5], "outer done")

    async def test_a_refused_nested_call_stays_refused(self, tmp_path: Path) -> None:
        tools, policy = Toolbox(), Policy({"helper": "none"})
        async with deferring(tmp_path, policy) as controller:
            helper = self.driver.agent_tool("helper", INNER[:1], [tools.pay()])
            seen = await self.driver.run(OUTER[:1], [helper], controller)
            (request,) = await controller.pending()
            await controller.answer(request.id, NO)
        async with deferring(tmp_path, Policy(default="none")) as controller:
            helper = self.driver.agent_tool("helper", INNER[1:], [tools.pay()])
            with contextlib.suppress(Exception):
                await self.driver.go_on(seen.pause, OUTER[1:], [helper], controller)
        assert tools.ran == []
