"""The controller: the facade over policy, memory, store and channels, and the only orchestrator."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

from msgspec.structs import replace

from sayso.channels.callback import CallbackChannel
from sayso.core.canonical import thaw
from sayso.core.decide import Mode, parse_mode
from sayso.core.model import (
    ApprovalDecision,
    ApprovalRequest,
    Approved,
    Denied,
    ParkedRun,
    Pending,
    Rule,
    ToolCall,
    new_id,
)
from sayso.engine import blocking, context, settings
from sayso.engine.adapter_port import AdapterPort
from sayso.engine.asking import Announcer
from sayso.engine.clock import clock_of
from sayso.engine.journal import Journal
from sayso.engine.lifecycle import Answered, RequestLifecycle
from sayso.engine.parked_runs import ParkedRuns
from sayso.engine.remembered import ApprovalMemory
from sayso.engine.review import Reviewer
from sayso.errors import ConfigurationError
from sayso.policy import judges
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    from sayso.channels.callback import Callback
    from sayso.core.ports import ApprovalUI, Channel, Clock, Hook
    from sayso.engine.clock import RequestDeadlines
    from sayso.engine.settings import StoreLike

T = TypeVar("T")


class _Parts(NamedTuple):
    """Settings from which the parts of a controller are built."""

    channels: list[Channel]
    clock: Clock
    hooks: Iterable[Hook]
    timeout: float | None
    audit: str | None


class ApprovalController:
    """The authorisation service: calls enter by `review`, `settle` or `run`, answers by `answer`."""

    def __init__(
        self,
        *,
        mode: str = "interactive",
        approval_callback: Callback | ApprovalUI | None = None,
        policy: Policy | None = None,
        memory: ApprovalMemory | None = None,
        store: StoreLike | None = None,
        channels: Iterable[Channel] = (),
        session: str | None = None,
        timeout: float | None = None,
        clock: Clock | None = None,
        hooks: Iterable[Hook] = (),
        audit: Literal["queued", "strict"] | None = None,
    ) -> None:
        """Validate every setting, so that no call fails later.

        Args:
            mode: `interactive`, `approve_all`, `auto_deny` or `defer`, or one of their other spellings.
            approval_callback: asked about each request; a function, sync or async, or an object with `choose`.
            policy: what runs, what asks, what is blocked; without one, every tool asks.
            memory: remembered decisions; shared with others that get the same object.
            store: where requests live: an object, a file, the address of a hub or of a PostgreSQL database; left out,
                the hub or database that SAYSO_STORE names, else in memory.
            channels: further channels that notify people.
            session: the session of calls that name none.
            timeout: seconds after which an unanswered request expires; left out, what the rule says, else a week.
            clock: the source of time; tests pass a fixed one.
            hooks: called with every step of every call, after it was decided.
            audit: `strict` makes an allowed call wait until its entry is durable; left out, the policy decides.
        """
        self.mode: Mode = parse_mode(mode)
        if audit not in {None, "queued", "strict"}:
            raise ConfigurationError(f"audit is {audit!r}; use 'queued' or 'strict'")
        timeout = settings.check_timeout(timeout, "timeout")
        callback = None if approval_callback is None else CallbackChannel(approval_callback, mode=self.mode)
        self._asks_async = callback is not None and callback.is_async
        hooks = settings.check_hooks(hooks)
        asked = settings.check_channels([*channels, *([callback] if callback and self.mode != "defer" else [])])
        self.policy = Policy() if policy is None else settings.check_policy(policy)
        if memory is not None:
            settings.check_kind(memory, ApprovalMemory, "memory")
        if session is not None:
            settings.check_kind(session, str, "session")
        self.store = settings.open_store(store)
        self._owns_store = self.store is not store
        self.policy = self.policy.protecting(self.store.files)
        if self.mode == "interactive" and not asked and not self.store.shared:
            raise ConfigurationError(
                "mode 'interactive' has nobody to ask: pass approval_callback=…, channels=[…] or a store that "
                "others share, or choose a mode that asks nobody: 'auto_deny' or 'approve_all'"
            )
        clock = clock_of(self.store, clock)
        self.memory = memory if memory is not None else ApprovalMemory(store=self.store, session=session, clock=clock)
        self.session = session or self.memory.session
        self._has_session = bool(session) or self.memory.has_session
        self._parts = _Parts(channels=asked, clock=clock, hooks=hooks, timeout=timeout, audit=audit)
        self._build_parts(self._parts)

    def with_policy(self, policy: Policy) -> ApprovalController:
        """Return a controller that judges by another policy, over the same store, memory, channels and settings."""
        other = copy.copy(self)
        other.policy = policy.protecting(self.store.files)
        other._owns_store = False  # noqa: SLF001 - a copy of this object
        other._build_parts(self._parts)  # noqa: SLF001 - as above
        return other

    def _build_parts(self, parts: _Parts) -> None:
        clock = parts.clock
        journal = Journal(self.store, clock, parts.hooks)
        self._lifecycle = RequestLifecycle(
            policy=self.policy,
            memory=self.memory,
            store=self.store,
            clock=clock,
            journal=journal,
        )
        reviewer = Reviewer(
            mode=self.mode,
            policy=self.policy,
            memory=self.memory,
            store=self.store,
            clock=clock,
            journal=journal,
            lifecycle=self._lifecycle,
            announcer=Announcer(parts.channels, self._lifecycle),
            timeout=parts.timeout,
            strict_audit="strict" in {parts.audit, self.policy.audit},
        )
        self.adapter = AdapterPort(
            mode=self.mode,
            session=self.session,
            has_session=self._has_session,
            requests=self.store,
            journal=journal,
            lifecycle=self._lifecycle,
            reviewer=reviewer,
            runs=ParkedRuns(self.store, clock, self._lifecycle),
            clock=clock,
        )

    # Calls.

    async def review(
        self, call: ToolCall, tool_rules: ToolRules | None = None, *, asked: bool = False
    ) -> Approved | Denied | Pending:
        """Decide about a call: it may run now, it must not run, or a person has to answer first.

        A returned `Approved` is claimed already: run the tool once, with its arguments. `asked` means that the call
        was reviewed before, as in a resumed run; the store must confirm it.
        """
        call = self.adapter.with_session(call)
        outcome = None if asked else self.adapter.decide_fast(call, tool_rules)
        return await self.adapter.review(call, tool_rules, asked=asked) if outcome is None else outcome

    async def settle(
        self, call: ToolCall, tool_rules: ToolRules | None = None, *, asked: bool = False
    ) -> Approved | Denied:
        """Review a call and, where a person has to answer, wait for the answer.

        Raises:
            ApprovalPending: the mode is `defer`; its `request` can be answered, and the call resumed.
        """
        call = self.adapter.with_session(call)
        outcome = None if asked else self.adapter.decide_fast(call, tool_rules)
        return await self.adapter.settle(call, tool_rules, asked=asked) if outcome is None else outcome

    def settle_sync(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Approved | Denied:
        """Do what `settle` does, for synchronous callers; a call that the fast path decides needs no thread hop.

        Raises:
            RuntimeError: this thread runs an event loop, and a person has to answer.
        """
        call = self.adapter.with_session(call)
        outcome = self.adapter.decide_fast(call, tool_rules)
        if outcome is None and (self._asks_async or blocking.runs_a_loop()):  # it can decide, but not wait
            outcome = self.adapter.decide_fast(call, tool_rules, functions=True)
        if outcome is not None:
            return outcome
        self._refuse_async_callback()
        return blocking.run(self.adapter.settle, call, tool_rules)

    async def run(
        self, call: ToolCall, tool: Callable[[dict[str, Any]], Awaitable[T]], tool_rules: ToolRules | None = None
    ) -> T:
        """Settle a call and run the tool with the approved arguments.

        Raises:
            ApprovalError: the call must not run; the class says why.
        """
        call = self.adapter.with_session(call)
        outcome = await self.settle(call, tool_rules)
        if isinstance(outcome, Denied):
            raise outcome.error(call.tool)
        with self.adapter.execution(call, outcome) as running, context.pre_approve(self, call.tool, outcome.args):
            result = tool(thaw(outcome.args))
            running.result = await result if inspect.isawaitable(result) else result  # it has run either way
        return running.result

    # Answers.

    async def answer(
        self,
        request: str | ApprovalRequest,
        decision: ApprovalDecision,
        *,
        who: str | None = None,
        channel: str | None = None,
        roles: Collection[str] | None = None,
    ) -> ApprovalRequest:
        """Close a request, given by its id or as a record, unless it is closed already; return its current state.

        `roles` are those of the approver, whom the caller has authenticated. Where a rule asks for several people, the
        request stays open until the last yes.

        Raises:
            NotEntitled: the approver may not give this answer; the request stays open.
            UnknownRequest: no request has this id.
            ApprovalBlocked: the edited arguments are blocked; the request stays open.
            ValueError: the decision has a scope that is not offered, or edited arguments to which no approval can be
                bound; the request stays open.
        """
        return (await self._lifecycle.answer(request, decision, who=who, channel=channel, roles=roles)).request

    async def answer_with_covered(
        self, request: ApprovalRequest, decision: ApprovalDecision, *, who: str, channel: str, roles: Collection[str]
    ) -> Answered:
        """Answer like `answer`; return also the other requests that the remembered decision has answered."""
        return await self._lifecycle.answer(request, decision, who=who, channel=channel, roles=roles)

    async def covered_by(
        self, request: ApprovalRequest, decision: ApprovalDecision, *, who: str
    ) -> list[ApprovalRequest]:
        """Return the other open requests that this decision would answer too, if this person gave it now.

        Raises:
            ValueError: the decision has a scope that is not offered.
        """
        return await self._lifecycle.covered_by(request, decision, who=who)

    async def withdraw(self, request_id: str, reason: str) -> ApprovalRequest:
        """Close a request whose answer is no longer needed; return its current state."""
        return await self._lifecycle.withdraw(request_id, reason)

    async def wait(  # a public name; it ends the wait, not the request
        self,
        request_id: str,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> ApprovalRequest:
        """Wait until a request is closed, at most `timeout` seconds; return its current state."""
        timeout = settings.check_timeout(timeout, "timeout")
        return await self._lifecycle.wait(await self._lifecycle.get(request_id), timeout)

    async def pending(self) -> list[ApprovalRequest]:
        """Return the open requests, oldest first; overdue ones are closed."""
        return await self._lifecycle.pending()

    @property
    def deadlines(self) -> RequestDeadlines:
        """The deadlines of the requests that this process knows, in monotonic time."""
        return self._lifecycle.deadlines

    # Parked runs.

    async def parked_runs(self) -> list[ParkedRun]:
        """Return the runs that are parked in the store, oldest first, with the requests that each waits for."""
        return await self.adapter.runs.all()

    async def drop_run(self, run: ParkedRun, reason: str) -> bool:
        """Delete a parked run that nobody will resume, and withdraw its open requests; false if it was gone."""
        return await self.adapter.runs.drop(run, reason)

    # Requests that a tool has built itself, and other earlier names.

    async def request_approval(self, request: ApprovalRequest) -> ApprovalDecision:
        """Ask about a request that a tool has built itself, and return the decision.

        Raises:
            ApprovalBlocked: the policy blocks it; nobody was asked.
        """
        return _as_decision(await self.settle(*_as_call(request)), request)

    def request_approval_sync(self, request: ApprovalRequest) -> ApprovalDecision:
        """Do what `request_approval` does, for synchronous callers; see `settle_sync`."""
        return _as_decision(self.settle_sync(*_as_call(request)), request)

    @property
    def approval_callback(self) -> Callable[[ApprovalRequest], ApprovalDecision]:
        """A synchronous function that asks through this controller, with its mode and its memory."""
        return self.request_approval_sync

    def is_session_approved(self, request: ApprovalRequest) -> bool:
        """Whether a remembered decision approves this request."""
        decision = self.memory.lookup(replace(request, session=request.session or self.session))
        return decision is not None and decision.approved

    def clear_session_approvals(self) -> None:
        """Forget what was remembered for this session; for all, if each conversation is one (mode `defer`)."""
        named = self._has_session or self.mode != "defer"
        self.memory.clear_session(self.session if named else None)

    # The life of the controller.

    def activated(self, *, everywhere: bool = False) -> contextlib.AbstractContextManager[ApprovalController]:
        """Activate this controller for the block: functions marked with `@requires_approval` ask it.

        That covers `await` and `asyncio.to_thread`, but neither plain threads nor tasks that began before;
        `everywhere=True` covers these too, in the whole process.
        """
        return context.activate(self, everywhere=everywhere)

    async def flush(self) -> None:
        """Wait until everything decided so far is durable."""
        await self.store.flush()

    async def aclose(self) -> None:
        """Flush the store, and close it if this controller opened it."""
        await self.store.flush()
        if self._owns_store:
            await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Do what `aclose` does, for synchronous callers."""
        blocking.run(self.aclose)

    def _refuse_async_callback(self) -> None:
        if self._asks_async:
            raise ConfigurationError(
                "the approval callback is async, so only async functions can ask through it: "
                "make the function async, await `request_approval`, or pass a plain function as the callback"
            )


def _as_call(request: ApprovalRequest) -> tuple[ToolCall, ToolRules]:
    """Return the call that a tool's own request is about, and the rule that it asks."""
    verdict = judges.verdict_from_request(request, Rule(source="tool", key=request.tool_name))
    args, call_id = request.args or request.payload or {}, request.tool_call_id or new_id()
    return replace(request.call(), args=args, call_id=call_id), ToolRules(judge=lambda _: verdict)


def _as_decision(outcome: Approved | Denied, request: ApprovalRequest) -> ApprovalDecision:
    """Return an outcome as a decision that does not pass for a person's where no person has decided."""
    if isinstance(outcome, Approved):
        who = f"the {outcome.by}" if outcome.by == "policy" else "the mode approve_all"
        return outcome.decision or ApprovalDecision(approved=True, note=outcome.reason, who=who)
    if outcome.cause == "blocked":
        raise outcome.error(request.tool_name)
    by_person = outcome.cause == "refused" and outcome.by != "mode"
    return ApprovalDecision(approved=False, note=outcome.note or outcome.reason, unattended=not by_person)
