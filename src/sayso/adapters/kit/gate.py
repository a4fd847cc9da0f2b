"""Gate of one agent: the controller in charge, the policies that tighten it, and the decision about each call.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sayso.core.canonical import is_same_value
from sayso.core.model import Approved, Denied, ToolCall
from sayso.engine import blocking, context
from sayso.errors import ConfigurationError
from sayso.policy.policy import ToolRules

if TYPE_CHECKING:
    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import Policy

_NO_RULES = ToolRules()


class Gate:
    """The gate of one agent: every call of its tools is decided here, by the controller of the outermost agent.

    The policy of a nested agent can only make that of the agents around it stricter.
    """

    def __init__(self, controller: ApprovalController | None = None) -> None:
        """Guard with this controller; without one, the active controller is asked."""
        self._controller = controller
        self._policy = None if controller is None else controller.policy

    @property
    def controller(self) -> ApprovalController:
        """The controller of the outermost agent, which nested agents use too, else its own, else the active one."""
        found = context.outer_controller() or self._controller or context.current_controller()
        if found is None:
            raise ConfigurationError(
                "there is nobody to ask: pass a controller or a policy, or run the agent inside one that has some"
            )
        return found

    @property
    def own_policy(self) -> Policy:
        """The policy of the agent's own controller, or that of the controller in charge."""
        return self._policy or self.controller.policy

    @property
    def tightening(self) -> tuple[Policy, ...]:
        """The policies of the nested agents down to this one, which can only restrict that of the outermost."""
        return context.tightening(self._policy)

    def tighten(self, tool_rules: ToolRules) -> ToolRules:
        """Return a tool's own rules, tightened by the policies of the nested agents."""
        return context.tighten(tool_rules, self._policy)

    def know_tools(self, tools: Collection[str]) -> None:
        """Compare the rules of the agent's own controller with its tools, and warn of those that match none."""
        if self._controller is not None:
            self._controller.adapter.know_tools(tools)

    def hides(self, tool: str) -> bool:
        """Whether the tool is blocked for all arguments, so that it is not offered to the model."""
        return any(each.blocks(tool) for each in (self.controller.policy, *self.tightening))

    def allows(self, tool: str, tool_rules: ToolRules = _NO_RULES) -> bool:
        """Whether the tool runs unasked with any arguments."""
        verdict = self.controller.policy.judge_by_name(ToolCall(tool=tool), self.tighten(tool_rules))
        return verdict is not None and verdict.approval == "none"

    def session_for(self, conversation: str) -> str:
        """Return the session of a call: that of a resumed run or of the agent around it, else the owner's.

        Where the owner has named none, it is the framework's conversation, which outlives this process.
        """
        here = context.current_session()
        return here or ("" if self.controller.adapter.has_session else conversation)

    async def decide(
        self, call: ToolCall, tool_rules: ToolRules = _NO_RULES, *, asked: bool | None = False, inline: bool = False
    ) -> Approved | Denied:
        """Decide about a call and, where a person has to answer, wait; see `AdapterPort.settle` for the arguments.

        Raises:
            ApprovalPending: the controller defers, and the call may stop here; its `request` can be answered.
        """
        adapter, rules = self.controller.adapter, self.tighten(tool_rules)
        outcome = adapter.decide_fast(call, rules) if asked is False else None
        return await adapter.settle(call, rules, asked=asked, inline=inline) if outcome is None else outcome

    def decide_sync(
        self, call: ToolCall, tool_rules: ToolRules = _NO_RULES, *, asked: bool | None = False, inline: bool = False
    ) -> Approved | Denied:
        """Do what `decide` does, for hooks that are called on a thread without an event loop."""
        adapter, rules = self.controller.adapter, self.tighten(tool_rules)
        outcome = adapter.decide_fast(call, rules) if asked is False else None
        if outcome is None:
            outcome = blocking.run(adapter.settle, call, rules, asked=asked, inline=inline)
        return outcome

    async def is_approved_outside(self, call: ToolCall, tool_rules: ToolRules) -> bool:
        """Whether an outer gate has approved exactly this call, and the rules here ask for nothing more."""
        running, controller = context.current_call(), self.controller
        if running is None or running.call is None or running.controller is not controller:
            return False
        outer = running.call
        if (outer.key, outer.tool) != (call.key, call.tool) or not is_same_value(outer.args, call.args):
            return False
        verdict = await controller.policy.judge_async(call, tool_rules)
        return verdict.approval != "blocked" and (not verdict.asks or running.by != "policy")
