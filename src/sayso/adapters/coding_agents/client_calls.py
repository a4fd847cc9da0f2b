"""Calls of coding agents in the words of policies: `Bash` is the tool `shell`, `Edit` is `edit_file`.

Tests: tests/adapters/coding_agents/test_client_calls.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from sayso.adapters.kit import build_call, content_id
from sayso.core.canonical import thaw
from sayso.core.model import ToolCall, Verdict
from sayso.policy.entries import FILE_TOOLS, EffectSpec
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    from sayso.adapters.coding_agents.clients import Client, ClientTool
    from sayso.adapters.coding_agents.hook_events import HookEvent

EFFECTS: Mapping[str, EffectSpec] = {
    "shell": EffectSpec(kind="shell", arguments=("command",)),
    **{
        name: EffectSpec(kind="path", arguments=("path",), operation=operation, real=True)
        for name, operation in FILE_TOOLS.items()
    },
}
_MCP = re.compile(r"mcp__(.+?)__(.+)", re.DOTALL)
_UNCONFINED = "the policy shuts lines in (`shell.confine`), and this client runs them with all of your rights"


class ClientCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call as policies name it, and what is needed to hand it back to its client."""

    call: ToolCall
    event: HookEvent
    client: Client
    withheld: Mapping[str, Any] = {}  # arguments that only describe the call

    @property
    def _tool(self) -> ClientTool | None:
        return self.client.tools.get(self.event.tool)

    def can_take(self, args: Mapping[str, Any]) -> bool:
        """Whether the client would run these arguments in place of its own."""
        if self.client.edits_only not in {None, self.call.tool} or self.client.edits == "none":
            return False
        return self.client.edits == "all" or set(self.call.args) <= set(args)

    def to_input(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as the client names them.

        Raises:
            ValueError: they have one argument under two names.
        """
        names = {ours: theirs for theirs, ours in self._tool.renamed.items()} if self._tool else {}
        given = {names.get(name, name): value for name, value in thaw(args).items()}
        if len(given) != len(args):
            raise ValueError(f"the edited arguments of {self.call.tool!r} name one argument twice")
        return {**self.withheld, **given}

    def rules(self, policy: Policy) -> ToolRules:
        """Return the rules that the call brings along: what no rule names asks, whatever the default is."""
        asks = Verdict(approval="required", reason=f"no rule names this tool of {self.client.title}")
        facts = {"client": self.client.title, "folder": self.event.folder, "call": self.event.call_id}
        said = " ".join(each for each in self.withheld.values() if isinstance(each, str))
        details = Verdict(
            approval="required",
            reason="",
            description=f"In {self.event.folder}{f'; the agent says: {said}' if said else ''}",
            metadata={name: fact for name, fact in facts.items() if fact},
        )
        return ToolRules(judge=lambda _: asks, details=lambda _: details, tightening=self._tightening(policy))

    def _tightening(self, policy: Policy) -> tuple[Policy, ...]:
        if self.call.tool != "shell" or not any(shell.confinement for shell in policy.shells):
            return ()
        return (Policy({"*": {"approval": "required", "reason": _UNCONFINED}}),)


def read_call(event: HookEvent, client: Client) -> ClientCall:
    """Return the call of an event.

    Raises:
        ValueError: its arguments could be read in two ways, or no approval can be bound to them.
    """
    known = client.tools.get(event.tool)
    name = _name(event, client) if known is None else known.name
    words = known.words if known else ()
    args: dict[str, Any] = {}
    for theirs, value in event.args.items():
        ours = known.renamed.get(theirs, theirs) if known else theirs
        if ours in args:
            raise ValueError(f"the call of {event.tool!r} has the argument {ours!r} under two names")
        if theirs not in words:
            args[ours] = value
    if known is not None and known.name in FILE_TOOLS:
        here = event.folder if known.name == "list_files" else None
        args["path"] = _absolute(args.get("path", here), event.folder)
    call = build_call(
        name,
        args,
        run=f"hook:{client.key}",
        session=event.session,
        schema_hash=_place(name, event, client),
    )
    return ClientCall(
        call=replace(call, agent_path=(client.key, event.agent) if event.agent else (client.key,)),
        event=event,
        client=client,
        withheld={theirs: event.args[theirs] for theirs in words if theirs in event.args},
    )


def policy_for(policy: Policy, folder: str) -> Policy:
    """Return a policy as it judges the tools of a coding agent, which run in this folder and take real paths."""
    return policy.judging(EFFECTS, folder=folder)


def _name(event: HookEvent, client: Client) -> str:
    """Return the name of a tool that is not in the client's table."""
    found = _MCP.fullmatch(event.tool)
    if found is None:
        return f"{client.key}.{event.tool}" if event.tool in EFFECTS else event.tool
    prefix = f"mcp__{event.server}__"
    if event.server and event.tool.startswith(prefix):
        return f"{event.server}.{event.tool.removeprefix(prefix)}"
    return f"{found[1]}.{found[2]}"


def _absolute(path: object, folder: str) -> object:
    """Return the path of a file as an absolute one; what is no plain path is left to the zones, which block it."""
    if not isinstance(path, str) or path.startswith(("/", "~")) or not path:
        return path
    return f"{folder.rstrip('/')}/{path}"


def _place(name: str, event: HookEvent, client: Client) -> str:
    """Return what an approval is bound to besides the arguments: but for files, the folder of the client."""
    folder = "" if name in FILE_TOOLS else event.folder
    return content_id("sayso/hook", {}, client.key, folder)[:16]
