"""Hooks of the Claude Agent SDK: one before every tool, which decides, and one behind it, which records the result.

The SDK's `can_use_tool` is not asked about what `allowed_tools`, the settings or the mode allow. A hook is, and with
`on_failure="block"` its own failure is a refusal.

Tests: tests/adapters/claude_agent/test_agent_hooks.py
"""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher

from sayso.adapters.claude_agent.agent_options import hooked_options
from sayso.adapters.coding_agents.client_calls import policy_for
from sayso.adapters.coding_agents.clients import CLAUDE
from sayso.adapters.coding_agents.hook_answers import answer_fields, deny
from sayso.adapters.coding_agents.hook_events import HookEvent, read_event
from sayso.adapters.coding_agents.hook_gate import HookGate
from sayso.adapters.kit import ControllerSettings, Gate, build_controller
from sayso.engine.settings import check_timeout

if TYPE_CHECKING:
    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import Policy

_LOG = logging.getLogger("sayso")
_WEEK = 7 * 24 * 3600.0  # for which a question can be answered, unless its rule says otherwise
_FAREWELL = 60.0  # Claude waits so much longer than we do
_HOOKS: Any = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


class Approvals:
    """Nothing that Claude calls runs without your say-so: `query(…, options=Approvals(controller).guard(options))`.

    Policies name its tools as those of `sayso hook claude`: `shell`, `read_file`, `edit_file`, `server.tool`.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        hold: float | None = None,
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked.
            hold: seconds that a call waits for its answer; left out, as long as its question is open. Then the model is
                told to ask again later. Where the controller defers, the run stops at once, and can be resumed.
            **settings: those of `ApprovalController`.
        """
        self._own = build_controller(controller, settings)
        self._hold = check_timeout(hold, "hold") or _WEEK
        self._gates: weakref.WeakKeyDictionary[ApprovalController, dict[str, HookGate]] = weakref.WeakKeyDictionary()

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return Gate(self._own).controller

    def guard(self, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """Return options under which every call passes the hooks of this object.

        Raises:
            ConfigurationError: something could run without passing them, or as something else than was approved.
        """
        options = hooked_options(ClaudeAgentOptions() if options is None else options)
        hooks: dict[Any, list[HookMatcher]] = {name: [*found] for name, found in (options.hooks or {}).items()}
        for name, hook in zip(_HOOKS, (self._before, self._after, self._after), strict=True):
            ours = HookMatcher(hooks=[cast("Any", hook)], timeout=self._hold + _FAREWELL, on_failure="block")
            hooks[name] = [*hooks.get(name, []), ours]
        return replace(options, hooks=cast("Any", hooks))

    async def _before(self, given: Mapping[str, Any], _id: str | None, _context: object) -> dict[str, Any]:
        """Decide about a call; whatever fails is a refusal."""
        try:
            event = read_event(json.dumps(given), CLAUDE)
            answer = await self._gate_of(event).decide(event)
        except Exception as error:  # noqa: BLE001 - whatever it is, the call must not run, and the model is told why
            _LOG.warning("a call of %r is refused: %s", given.get("tool_name"), error)
            answer = deny(f"Not executed: sayso could not decide about it ({error}).")
        return answer_fields(answer, CLAUDE)

    async def _after(self, given: Mapping[str, Any], _id: str | None, _context: object) -> dict[str, Any]:
        """Record the result of a call, which has run."""
        try:
            event = read_event(json.dumps(given), CLAUDE)
            await self._gate_of(event).record(event)
        except Exception as error:  # noqa: BLE001 - it has run: an error here would look as if it had not
            _LOG.critical("the result of %r could not be written down: %s", given.get("tool_name"), error)
        return {}

    def _gate_of(self, event: HookEvent) -> HookGate:
        """Return the gate for the folder of an event: Claude's shell may change it."""
        controller = self.controller
        gates = self._gates.setdefault(controller, {})
        if event.folder not in gates:
            judging = controller.with_policy(policy_for(controller.policy, event.folder))
            defers = controller.mode == "defer"
            gates[event.folder] = HookGate(
                Gate(judging),
                CLAUDE,
                hold=0.0 if defers else self._hold,
                unanswered="defer" if defers else "deny",
            )
        return gates[event.folder]
