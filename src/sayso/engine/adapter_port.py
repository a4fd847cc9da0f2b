"""Adapter port: the part of the controller that only framework adapters call, with its contract.

An adapter that knows the tools of its agent tells them to `know_tools` before the first call. It turns a framework's
call into a `ToolCall` and then, in this order:

1. calls `decide_fast`. It is synchronous, and an outcome is final;
2. calls `review` or `settle` only if that returned None, since neither repeats the fast path. `review` returns
   `Pending` where a person has to answer, for a framework that can stop and resume; `settle` waits in place;
3. after a `Pending`, waits with `wait_or_withdraw`, or ends the run and keeps its state, and then calls `review` again
   with `asked=True`. A run that ends without resuming calls `withdraw_if_open` for each request that it opened;
4. enters `execution` with the `Approved`, and runs the tool once, with `Approved.args` and no other arguments.

A framework that enters the same hook again when it goes on, and does not say so, passes `asked=None` and skips
`decide_fast`: the store knows whether the call was asked about. One whose predicate only wants to know whether somebody
has to be asked calls `ask`, which claims nothing; the review of the same call comes later.

Exactly once: an `Approved` is claimed in the store before it is returned, and no second caller gets one for the same
request, in this process or another. A tool that fails, or a process that dies, after that does not get it back. The one
exception is a call that stopped in the middle because an agent inside it had to ask: `resume_suspended`.

Fail closed: whatever these methods raise, the call must not run.

Tests: tests/engine/test_adapter_port.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sayso.core.decide import refusal
from sayso.core.model import Denied, Pending, ToolCall, Verdict
from sayso.engine import blocking, context
from sayso.engine.execution import Execution
from sayso.errors import ApprovalPending
from sayso.policy.tool_names import MisspeltRules

if TYPE_CHECKING:
    from sayso.core.decide import Mode
    from sayso.core.model import ApprovalRequest, Approved
    from sayso.core.ports import Clock, Requests
    from sayso.engine.journal import Journal
    from sayso.engine.lifecycle import RequestLifecycle
    from sayso.engine.parked_runs import ParkedRuns
    from sayso.engine.review import Reviewer
    from sayso.policy.policy import ToolRules

_LOG = logging.getLogger("sayso")
_RUN_ENDED = "the run that asked has ended"
_LOST_RUN = "the history has lost its run, and no single approval of this session fits this call"


class AdapterPort:
    """The controller's interface for framework adapters, as `controller.adapter`; the module describes the protocol."""

    def __init__(
        self,
        *,
        mode: Mode,
        session: str,
        has_session: bool,
        requests: Requests,
        journal: Journal,
        lifecycle: RequestLifecycle,
        reviewer: Reviewer,
        runs: ParkedRuns,
        clock: Clock,
    ) -> None:
        self._mode: Mode = mode
        self._session = session
        self.has_session = has_session  # given by the owner, and not made up
        self._requests = requests
        self._journal = journal
        self._lifecycle = lifecycle
        self._reviewer = reviewer
        self.runs = runs
        self.clock = clock
        self._misspelt = MisspeltRules(reviewer.policy)

    def know_tools(self, tools: Collection[str]) -> None:
        """Log a warning for each rule that seems to misspell one of these tools of an agent, once for each rule."""
        for sentence in self._misspelt.report(tools):
            _LOG.warning("%s", sentence)

    def with_session(self, call: ToolCall) -> ToolCall:
        """Return the call with the session and the agent path that it runs under, unless it names a session."""
        if call.session:
            return call
        path = call.agent_path or context.agent_path()
        return replace(call, session=context.current_session() or self._session, agent_path=path)

    def decide_fast(
        self, call: ToolCall, tool_rules: ToolRules | None = None, *, functions: bool = False
    ) -> Approved | Denied | None:
        """Decide if that needs no store, no person and no event loop; else return None, and nothing has happened.

        With `functions`, for callers that cannot wait, the functions among the rules are called too, if none is async.
        """
        return self._reviewer.decide_fast(self.with_session(call), tool_rules, functions=functions)

    def may_ask(self, call: ToolCall, tool_rules: ToolRules | None = None) -> bool:
        """Whether a person may have to be asked about a call, here or in another process; what is remembered aside."""
        if self._mode not in {"interactive", "defer"}:
            return False
        verdict = self._reviewer.policy.judge_by_name(self.with_session(call), tool_rules)
        return verdict is None or verdict.asks

    async def review(
        self, call: ToolCall, tool_rules: ToolRules | None = None, *, asked: bool | None = False
    ) -> Approved | Denied | Pending:
        """Review a call that `decide_fast` left open, or that was `asked` about before; never wait for a person.

        With `asked` the store must hold the request: a call that was never asked about is refused as forged. With None,
        for callers that cannot tell, the store is looked into, before anything that is remembered counts.
        """
        return await self._reviewer.review(self.with_session(call), tool_rules, asked=asked)

    async def ask(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Pending | None:
        """Open the request of a call if a person has to answer it, and decide and claim nothing; else return None.

        For a framework whose predicate only says whether a call needs an approval; `review` decides when it runs.
        """
        return await self._reviewer.ask(self.with_session(call), tool_rules)

    async def settle(
        self,
        call: ToolCall,
        tool_rules: ToolRules | None = None,
        *,
        asked: bool | None = False,
        keep: bool = False,
        inline: bool = False,
    ) -> Approved | Denied:
        """Do what `review` does and, where a person has to answer, wait; a cancelled wait withdraws the request.

        With `keep`, for a run that another process may continue from here, it leaves the request open, and looks for
        one of an earlier process before anything that is remembered counts. With `inline`, for a call that cannot stop
        and go on later, it waits in the mode `defer` too.

        Raises:
            ApprovalPending: the mode is `defer`; its `request` can be answered, and the call resumed.
        """
        call = self.with_session(call)
        outcome = await self._reviewer.review(call, tool_rules, asked=None if keep and not asked else asked)
        while isinstance(outcome, Pending):
            if self._mode == "defer" and not inline:
                raise ApprovalPending.for_request(outcome.request)
            closed = await self._wait_or_withdraw(outcome.request, keep=keep)
            if closed.status not in {"approved", "open"}:  # open if a clock went back; the review then expires it
                return refusal(closed)  # which the store has recorded
            outcome = await self._reviewer.review(call, tool_rules, asked=True)
        return outcome

    def settle_sync(
        self,
        call: ToolCall,
        tool_rules: ToolRules | None = None,
        *,
        asked: bool | None = False,
        inline: bool = False,
    ) -> Approved | Denied:
        """Do what `settle` does, for synchronous callers on a thread that runs no event loop."""
        return blocking.run(self.settle, call, tool_rules, asked=asked, inline=inline)

    async def hear(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Denied | None:
        """Wait for the answer to a call as `settle` does, but leave a yes unclaimed; None is a yes.

        For a durable workflow, whose next step calls `settle`: only that step may use the approval, once.
        """
        call = self.with_session(call)
        found = await self._requests.find(call.session, call.key)
        while found is None or found.status == "open":  # it is announced here too, if another process has asked
            outcome = await self._reviewer.review(call, tool_rules, asked=False)
            if not isinstance(outcome, Pending):
                return outcome if isinstance(outcome, Denied) else None
            if self._mode == "defer":
                raise ApprovalPending.for_request(outcome.request)
            found = await self._wait_or_withdraw(outcome.request, keep=True)
        return None if found.status in {"approved", "used"} else refusal(found)

    async def resume_suspended(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Approved | Denied:
        """Decide whether a call may resume that was approved, began to run and stopped in the middle.

        Its approval is used already, so this claims nothing: the adapter must take (`unpark`) the state that the call
        left in the store, which only one caller gets, before it runs the tool again.
        """
        return await self._reviewer.resume_suspended(self.with_session(call), tool_rules)

    async def wait_or_withdraw(self, request_id: str) -> ApprovalRequest:
        """Wait until a request is closed, and return it; a wait that is cancelled or fails withdraws the request."""
        return await self._wait_or_withdraw(await self._lifecycle.get(request_id))

    async def withdraw_if_open(self, request_id: str, reason: str = _RUN_ENDED) -> None:
        """Withdraw a request, if it exists and is open; never raises for that."""
        await self._lifecycle.withdraw_quietly(request_id, reason)

    async def void(self, request: ApprovalRequest) -> None:
        """Use up an approval that has not run, and must not any more: a no came after it."""
        if request.status == "approved":
            await self._requests.claim(request.id, now=self.clock.now())

    async def find_requests(self, run: str, call_id: str) -> list[ApprovalRequest]:
        """Return the request of a call of the current session; without its run, those of all calls with this id."""
        session = context.current_session() or self._session
        if not run:
            return await self._requests.with_call_id(session, call_id)
        found = await self._requests.find(session, ToolCall(tool="", call_id=call_id, run=run).key)
        return [] if found is None else [found]

    async def find_request(self, call: ToolCall) -> ApprovalRequest | None:
        """Return the request of exactly this call, by its session and key, in any state."""
        call = self.with_session(call)
        return await self._requests.find(call.session, call.key)

    async def restore_run(self, call: ToolCall) -> ToolCall | Denied:
        """Return a call, whose history has lost its run, with the run of the one request that fits; else a refusal.

        A request fits by session, call id, tool, schema and arguments. Exactly one may be open or approved; where none
        is, the newest fits, and the review of it says why the call must not run. A call id about which nobody was ever
        asked is returned as it is, for the review to say so.
        """
        call = self.with_session(call)
        found = await self._requests.with_call_id(call.session, call.call_id)
        if not found:
            return call
        fitting = [each for each in found if each.call().digest() == call.digest()]
        usable = [each for each in fitting if each.status in {"open", "approved"}]
        chosen = usable or fitting[:1]
        if len(chosen) == 1:
            return replace(call, run=chosen[0].run)
        refused = Denied(cause="forged", reason=_LOST_RUN)
        self._journal.record_decision(call, Verdict(approval="blocked", reason=_LOST_RUN), refused)
        return refused

    def execution(self, call: ToolCall, outcome: Approved) -> Execution:
        """Return the context manager round an approved tool; set its `result`, and it audits the result of the call."""
        return Execution(self._journal, self.with_session(call), outcome)

    def record_result(
        self, call: ToolCall, outcome: Approved, result: object, error: BaseException | None, seconds: float | None
    ) -> None:
        """Record how an approved call has ended that another program has run, outside any `execution`."""
        self._journal.record_result(self.with_session(call), outcome, result, error, seconds)

    async def _wait_or_withdraw(self, request: ApprovalRequest, *, keep: bool = False) -> ApprovalRequest:
        try:
            return await self._lifecycle.wait(request, None)
        except BaseException as error:
            # Cancelled, or the store failed: this answer has no waiter any more, so it should not be given.
            if not (keep and isinstance(error, asyncio.CancelledError)):
                await self._lifecycle.withdraw_quietly(request.id, _RUN_ENDED)
            raise
