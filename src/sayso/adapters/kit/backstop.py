"""Backstop: stops a tool that starts inside another one without having passed a gate, or not as it was approved.

An adapter calls `check_start` from a hook that its framework runs for every tool, guarded or not. A nested agent that
nobody guarded then fails closed, and so does a change of the arguments after the decision.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sayso.core.canonical import freeze, is_same_value
from sayso.core.model import Approved, ToolCall
from sayso.engine import context
from sayso.errors import ApprovalBlocked
from sayso.policy.policy import ToolRules

_UNGUARDED = "it was started without having passed `Approvals`; put `Approvals()` into the agent that calls it too"
_TWICE = "it was started a second time under one approval"
_CHANGED = "its arguments were changed after the decision"


def check_start(tool: str, args: Mapping[str, Any] | None) -> None:
    """Let a tool start once if this very call was approved; else only if the policy lets it run unasked.

    `args` are those that the tool gets, or None if the framework does not show them.

    Raises:
        ApprovalBlocked: it must not start.
    """
    running = context.current_call()
    if running is None or running.call is None:
        return  # outside any guarded run
    if running.call.tool != tool:
        _judge_unguarded(running.call, tool, args)
    elif running.starts:
        raise ApprovalBlocked(tool, _TWICE, cause="replayed")
    elif args is not None and not is_same_value(freeze(args), running.call.args):
        raise ApprovalBlocked(tool, _CHANGED, cause="changed")
    else:
        running.starts.append(True)
        if len(running.starts) > 1:  # another thread came first, after the look above
            raise ApprovalBlocked(tool, _TWICE, cause="replayed")


def _judge_unguarded(outer: ToolCall, tool: str, args: Mapping[str, Any] | None) -> None:
    """Judge a call of a nested tool that no gate has seen: nobody can be asked here."""
    running = context.current_call()
    if running is None or args is None:
        raise ApprovalBlocked(tool, _UNGUARDED, cause="unguarded")
    call = ToolCall(tool=tool, args=args, session=outer.session, agent_path=outer.agent_path)
    outcome = running.controller.adapter.decide_fast(call, context.tighten(ToolRules()))
    if not isinstance(outcome, Approved):
        raise ApprovalBlocked(tool, _UNGUARDED, cause="unguarded")
