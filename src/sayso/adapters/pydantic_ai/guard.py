"""The guard of one agent: its controller, its policies, its sessions, and the state of each of its runs.

Tests: tests/adapters/pydantic_ai/test_capability.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.tools import RunContext

from sayso.adapters.kit import Gate, check_on_denied
from sayso.adapters.pydantic_ai.durable import in_workflow, is_recoverable
from sayso.core.model import Approved, Denied, ToolCall
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError
from sayso.policy.policy import ToolRules

SessionOf = Callable[[RunContext[Any]], str]


@dataclass
class RunState:
    """State of one run: the requests that it opened, and what is known of its calls, by their ids."""

    opened_requests: list[str] = field(default_factory=list[str])
    resumed_calls: set[str] = field(default_factory=set[str])  # whose approvals came with the run
    handled_calls: set[str] = field(default_factory=set[str])  # that PydanticAI has deferred once
    started_calls: set[str] = field(default_factory=set[str])  # by their keys
    grants: dict[str, tuple[ToolCall, Approved]] = field(default_factory=dict[str, tuple[ToolCall, Approved]])
    deferrals: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])  # metadata for the output

    def note_deferral(self, call_id: str, request_id: str, metadata: dict[str, Any]) -> None:
        """Note that the run stops for the answer to a call that other code wants an approval for."""
        self.opened_requests.append(request_id)
        self.deferrals[call_id] = metadata

    def take_grant(self, call: ToolCall) -> Approved | None:
        """Return the claimed approval of exactly this call, once."""
        granted, outcome = self.grants.pop(call.call_id, (None, None))
        same = granted is not None and (granted.key, granted.digest()) == (call.key, call.digest())
        return outcome if same else None


class AgentGuard(Gate):
    """The gate of one agent, with the sessions and the state of its runs, and its way of reporting a refusal."""

    def __init__(
        self, controller: ApprovalController | None, on_denied: str, session_of: SessionOf | None = None
    ) -> None:
        if session_of is not None and not callable(session_of):
            raise ConfigurationError(f"session_of is {session_of!r}; pass a function of PydanticAI's run context")
        super().__init__(controller)
        self._session_of = session_of
        self._runs: dict[str, RunState] = {}
        self.on_denied = check_on_denied(on_denied)

    @contextlib.contextmanager
    def running(self, ctx: RunContext[Any]) -> Generator[RunState]:
        """Hold the state of a run, and its session, for the block."""
        # Not in a copy of the capability: PydanticAI selects the model of a run anew for a capability that copies.
        run_id = ctx.run_id or ""
        with context.resumed_session(self._session(ctx)):
            state = self._runs[run_id] = RunState()
            try:
                yield state
            finally:
                if self._runs.get(run_id) is state:  # not that of another run, to which a host gave the same id
                    del self._runs[run_id]

    def state(self, ctx: RunContext[Any]) -> RunState:
        """Return the state of a run; an empty one outside a run that this guard holds."""
        return self._runs.get(ctx.run_id or "") or RunState()

    def _session(self, ctx: RunContext[Any]) -> str:
        """Return the session of a run: that of a resumed run or of the host, else the conversation if the run may end.

        A run that stops for its answers, or is recovered, goes on later, perhaps in another process, whose controller
        would have made up another session.
        """
        here = context.current_session()
        if here or context.current_call() is not None:
            return here
        if self._session_of is not None:
            return _checked_session(self._session_of(ctx))
        controller = self.controller
        continues = controller.mode == "defer" or in_workflow()
        made_up = continues and not controller.adapter.has_session
        return (ctx.conversation_id or "") if made_up else ""

    @property
    def tool_configs(self) -> Mapping[str, Mapping[str, Any]]:
        """What the owner's policy says about single tools, for the toolset's own `needs_approval`."""
        return self.own_policy.tool_configs

    def decide_fast(self, call: ToolCall, rules: ToolRules) -> Approved | Denied | None:
        """Decide where nobody has to be asked; None in a workflow where an earlier process may have asked."""
        adapter = self.controller.adapter
        return None if is_recoverable() and adapter.may_ask(call, rules) else adapter.decide_fast(call, rules)


def _checked_session(session: object) -> str:
    if not isinstance(session, str) or not session:
        raise ConfigurationError(f"session_of returned {session!r}; return a text, such as the user and the chat")
    return session
