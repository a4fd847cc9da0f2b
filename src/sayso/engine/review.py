"""The review: the single decision point for calls. It never waits for a person.

Tests: tests/engine/test_controller.py
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sayso.core.conversation import ConversationLimit
from sayso.core.decide import by_mode_and_memory, by_policy, decide, resume_used
from sayso.core.model import Approved, Ask, Denied, Pending, Verdict
from sayso.engine import context
from sayso.engine.asking import messages_before, new_request
from sayso.engine.clock import ForwardTime
from sayso.engine.edit_preview import LocalRequestHandle, judge_edited
from sayso.errors import CanonicalError, ConfigurationError
from sayso.policy import scopes

if TYPE_CHECKING:
    from sayso.core.decide import Mode
    from sayso.core.model import ApprovalRequest, Remembered, ToolCall
    from sayso.core.ports import Clock, Store
    from sayso.engine.asking import Announcer
    from sayso.engine.journal import Journal
    from sayso.engine.lifecycle import RequestLifecycle
    from sayso.engine.remembered import ApprovalMemory
    from sayso.policy.policy import Policy, ToolRules

_LONGEST_BACKLOG = 10_000
_ASKED_CALLS = 100_000


@dataclass(kw_only=True, eq=False, repr=False)
class Reviewer:
    """The policy decision point: evaluates the policy, looks up answers, decides, and claims what it approves."""

    mode: Mode
    policy: Policy
    memory: ApprovalMemory
    store: Store
    clock: Clock
    journal: Journal
    lifecycle: RequestLifecycle
    announcer: Announcer
    timeout: float | None
    strict_audit: bool
    _asked: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict[tuple[str, str], None], init=False)
    _forward: ForwardTime = field(init=False)

    def __post_init__(self) -> None:
        self._forward = ForwardTime(self.clock)

    def decide_fast(self, call: ToolCall, tool_rules: ToolRules | None, *, functions: bool) -> Approved | Denied | None:
        """Decide without a store, a person and an event loop; None where that is impossible.

        With `functions`, the functions among the rules are called too.
        """
        if self.strict_audit or (self._asked and self._was_asked(call)) or self.store.backlog > _LONGEST_BACKLOG:
            return None
        verdict = self.policy.judge_by_name(call, tool_rules)
        if verdict is None and functions:
            verdict = self._judge_without_loop(call, tool_rules)
        if verdict is None:
            return None
        outcome = by_policy(call, verdict)
        if outcome is None:
            outcome = self._by_mode_and_memory(call, verdict)
        if outcome is not None:
            self.journal.record_decision(call, verdict, outcome)
        return outcome

    def _judge_without_loop(self, call: ToolCall, tool_rules: ToolRules | None) -> Verdict | None:
        try:
            return self.policy.judge(call, tool_rules)
        except ConfigurationError:  # a rule or a preview is async
            return None

    def _by_mode_and_memory(self, call: ToolCall, verdict: Verdict) -> Approved | Denied | None:
        remembered = self._recall(call, verdict)
        if remembered and (remembered.uses_left is not None or remembered.decision.override_args is not None):
            return None
        outcome = by_mode_and_memory(call, verdict, self.mode, remembered)
        return None if isinstance(outcome, Ask) else outcome

    async def review(
        self, call: ToolCall, tool_rules: ToolRules | None, *, asked: bool | None
    ) -> Approved | Denied | Pending:
        """Decide what `decide_fast` left open, or what was asked about before; see `AdapterPort.review`."""
        by_name = (
            None if asked is False else self.policy.judge_by_name(call, tool_rules)
        )  # else `decide_fast` has done so
        verdict = by_name or await self.policy.judge_async(call, tool_rules)
        try:
            return await self._review(call, verdict, tool_rules, asked=asked)
        except CanonicalError as error:
            refusal = Denied(cause="blocked", reason=f"no approval can be bound to it: {error}")
            return await self._claim_or_record(call, verdict, refusal)

    async def _review(
        self, call: ToolCall, verdict: Verdict, tool_rules: ToolRules | None, *, asked: bool | None
    ) -> Approved | Denied | Pending:
        known = asked is not False or self._was_asked(call)
        request = await self.store.find(call.session, call.key) if known else None
        outcome = await self._decide(call, verdict, tool_rules, request, asked=bool(asked))
        if isinstance(outcome, Approved) and outcome.remembered and outcome.remembered.uses_left is not None:
            outcome = outcome if await self.memory.spend(outcome.remembered) else Ask()
        if isinstance(outcome, Ask):
            return await self._ask(call, verdict, tool_rules)
        if isinstance(outcome, Pending):
            elsewhere = asked is None and not self._was_asked(call)  # then it has to be announced here too
            return await self._ask(call, verdict, tool_rules) if elsewhere else outcome
        if (
            isinstance(outcome, Denied)
            and request
            and request.status == "open"
            and _should_withdraw(outcome, request, call)
        ):
            await self.lifecycle.withdraw(request.id, outcome.reason)
        return await self._claim_or_record(call, verdict, outcome)

    async def ask(self, call: ToolCall, tool_rules: ToolRules | None) -> Pending | None:
        """Open the request of a call, if a person has to answer it, and claim nothing; see `AdapterPort.ask`."""
        verdict = self.policy.judge_by_name(call, tool_rules) or await self.policy.judge_async(call, tool_rules)
        known_here = self._was_asked(call)
        try:
            request = await self.store.find(call.session, call.key)
            outcome = await self._decide(call, verdict, tool_rules, request, asked=False)
            if isinstance(outcome, Pending) and known_here:
                return outcome
            if not isinstance(outcome, Ask | Pending) or self._unaskable(verdict):
                return None
            request, is_new = await self._open(call, verdict, tool_rules)
        except CanonicalError:  # the review refuses the call, and says why
            return None
        if request.status != "open":
            return None
        if not is_new:
            self._announce(request, tool_rules)
        return Pending(request=request)

    async def resume_suspended(self, call: ToolCall, tool_rules: ToolRules | None) -> Approved | Denied:
        """Decide whether a suspended call may resume; see `AdapterPort.resume_suspended`."""
        verdict = self.policy.judge_by_name(call, tool_rules) or await self.policy.judge_async(call, tool_rules)
        request = await self.store.find(call.session, call.key)
        outcome: Approved | Denied | Ask | None = by_policy(call, verdict)
        if request is not None and not isinstance(outcome, Denied):
            outcome = resume_used(request, call.digest_with(verdict.basis))
        elif outcome is None:  # it was approved by a remembered decision, or by the mode
            outcome = by_mode_and_memory(call, verdict, self.mode, self._recall(call, verdict))
        if isinstance(outcome, Ask):
            outcome = Denied(cause="forged", reason="nobody was ever asked about this call here, so it never began")
        self.journal.record_decision(call, verdict, outcome)
        return outcome

    async def _ask(self, call: ToolCall, verdict: Verdict, tool_rules: ToolRules | None) -> Approved | Denied | Pending:
        """Open a request; if the call has one already, review that one."""
        reason = self._unaskable(verdict)
        if reason:
            return await self._claim_or_record(call, verdict, Denied(cause="blocked", reason=reason))
        request, is_new = await self._open(call, verdict, tool_rules)
        if is_new:
            return Pending(request=request)
        outcome = await self._review(call, verdict, tool_rules, asked=True)
        if isinstance(outcome, Pending):
            self._announce(outcome.request, tool_rules)
        return outcome

    def _unaskable(self, verdict: Verdict) -> str:
        """Return why no person here can answer, or an empty text."""
        if verdict.approvers is not None and verdict.approvers.needs_identity and not self.store.shared:
            return f"its rule asks for {verdict.approvers}, whom only a hub on a shared store can know"
        return ""

    async def _open(
        self, call: ToolCall, verdict: Verdict, tool_rules: ToolRules | None
    ) -> tuple[ApprovalRequest, bool]:
        """Open a request and announce it; or return that of a process that has died, or of one beside this one."""
        new = new_request(
            call,
            verdict,
            now=self.clock.now(),
            timeout=self.timeout,
            remember_max=self.policy.remember_max,
            parameters=tool_rules.parameters() if tool_rules and tool_rules.parameters else "",
            conversation=messages_before(self._conversation_limit(tool_rules)),
        )
        try:
            request = await self.store.open(new)
        except BaseException:
            # Cancelled during the write: the request may be open now, and its answer would have no waiter.
            await self.lifecycle.withdraw_quietly(new.id, "the run that asked has ended")
            raise
        self._mark_asked(call)
        if request.status == "open":
            self.lifecycle.deadlines.begin(request)
        if request.id != new.id:
            return request, False
        self.journal.notify_step(request, "asked")
        self._announce(request, tool_rules)
        return request, True

    def _announce(self, request: ApprovalRequest, tool_rules: ToolRules | None) -> None:
        handle = LocalRequestHandle(
            request=request, tool_rules=tool_rules, policy=self.policy, store=self.store, clock=self.clock
        )
        self.announcer.announce(request, handle)

    def _conversation_limit(self, tool_rules: ToolRules | None) -> ConversationLimit:
        """Return how much of the conversation a request may show: the agents whose tool is running only reduce it."""
        limit = self.policy.conversation or ConversationLimit()
        running = context.current_call()  # perhaps under another controller, whose agent the messages belong to
        around = () if running is None else (running.controller.policy, *running.tightening)
        for policy in (*around, *(tool_rules.tightening if tool_rules else ())):
            limit = limit.tightened_by(policy.conversation)
        return limit

    async def _decide(
        self,
        call: ToolCall,
        verdict: Verdict,
        tool_rules: ToolRules | None,
        request: ApprovalRequest | None,
        *,
        asked: bool,
    ) -> Approved | Denied | Pending | Ask:
        if request is not None and self.lifecycle.is_over(request):
            request = await self.lifecycle.expire(request)
        remembered = self._recall(call, verdict) if request is None else None
        decision = request.decision if request else remembered.decision if remembered else None
        edited = None if decision is None else decision.override_args
        return decide(
            call=call,
            verdict=verdict,
            mode=self.mode,
            request=request,
            digest=call.digest_with(verdict.basis) if request else "",
            edited=None if edited is None else await judge_edited(self.policy, call, tool_rules, edited),
            remembered=remembered,
            asked=asked,
        )

    async def _claim_or_record(self, call: ToolCall, verdict: Verdict, outcome: Approved | Denied) -> Approved | Denied:
        """Claim the approval, or record the decision, before the call can run."""
        if isinstance(outcome, Approved) and outcome.request_id is not None:
            if await self.store.claim(outcome.request_id, now=self.clock.now()):
                await self._notify_claimed(outcome.request_id)
                return outcome
            reason = "its approval was used by somebody else at the same moment"
            outcome = Denied(cause="replayed", reason=reason, request_id=outcome.request_id)
        self.journal.record_decision(call, verdict, outcome)
        if self.strict_audit or self.store.backlog > _LONGEST_BACKLOG:
            await self.store.flush()
        return outcome

    async def _notify_claimed(self, request_id: str) -> None:
        if self.journal.hooks:
            request = await self.store.get(request_id)
            if request is not None:
                self.journal.notify_step(request, "claimed")

    def _recall(self, call: ToolCall, verdict: Verdict) -> Remembered | None:
        """Return the remembered decision for a call, if its verdict asks."""
        if not self.memory or not verdict.asks:
            return None
        return self.memory.find(
            scopes.keys(call, verdict),
            call.session,
            self._forward.now(),
            call.schema_hash,
            parts=scopes.part_keys(verdict) if verdict.scopes else (),
        )

    def _was_asked(self, call: ToolCall) -> bool:
        return (call.session, call.key) in self._asked

    def _mark_asked(self, call: ToolCall) -> None:
        """Note that the call has a row, so that a refusal stays valid even if the rules are loosened."""
        self._asked[call.session, call.key] = None
        if len(self._asked) > _ASKED_CALLS:
            self._asked.popitem(last=False)


def _should_withdraw(outcome: Denied, request: ApprovalRequest, call: ToolCall) -> bool:
    """Whether the open request is obsolete: the call is blocked, or its basis is not the one that was shown."""
    if outcome.cause == "changed":
        return request.call().digest() == call.digest()  # else it is another call, which only has the same id
    return outcome.cause in {"blocked", "failed"}
