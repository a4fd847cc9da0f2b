"""Edit preview and presence: try edited arguments against the policy, and list the viewers of a request.

Tests: tests/adapters/test_parameters.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sayso.core.approvers import Seen
from sayso.core.decide import is_overdue
from sayso.core.model import ToolCall, Verdict
from sayso.errors import ApprovalBlocked

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Clock, Requests
    from sayso.policy.policy import Policy, ToolRules


async def judge_edited(
    policy: Policy, call: ToolCall, tool_rules: ToolRules | None, args: Mapping[str, Any]
) -> Verdict:
    """Judge a call with edited arguments, by the tool's schema and by the policy."""
    misfit = tool_rules.misfit(args) if tool_rules and tool_rules.misfit else None
    if misfit is not None:
        return Verdict(approval="blocked", reason=misfit)
    return await policy.judge_async(replace(call, args=args), tool_rules)


@dataclass(kw_only=True, eq=False, repr=False)
class LocalRequestHandle:
    """The request handle of a call that waits in this process, with the rules of its tool."""

    request: ApprovalRequest
    tool_rules: ToolRules | None
    policy: Policy
    store: Requests
    clock: Clock

    async def preview_edit(self, args: Mapping[str, Any]) -> ApprovalRequest:
        """Return the request as it would be asked with these arguments; see `RequestHandle`."""
        call = replace(self.request.call(), args=args)
        call.digest()  # what cannot be bound to an approval must not get one by being edited in
        verdict = await judge_edited(self.policy, call, self.tool_rules, args)
        if verdict.approval == "blocked":
            raise ApprovalBlocked(call.tool, f"these arguments cannot run: {verdict.reason}", cause="blocked")
        return replace(
            self.request,
            args=call.args,
            description=verdict.description or self.request.description,
            described_by=verdict.described_by if verdict.description else self.request.described_by,
            presentation=verdict.presentation,
            reason=verdict.reason,
            rule=verdict.rule,
        )

    async def mark_seen(self, who: str, channel: str) -> tuple[Seen, ...]:
        """Mark the request as viewed, and return all viewers; see `RequestHandle`."""
        mine = Seen(who=who, channel=channel, at=self.clock.now())
        return (await self.store.mark_seen(self.request.id, mine)).seen

    async def pending(self) -> list[ApprovalRequest]:
        """Return the open requests of the store, without the overdue ones; see `RequestHandle`."""
        now = self.clock.now()
        return [each for each in await self.store.pending() if not is_overdue(each, now)]
