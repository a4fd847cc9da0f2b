"""What the conformance suite needs of a framework: one driver each, over the real library and a scripted model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from sayso import ApprovalController


class Call(NamedTuple):
    """A tool call in a response of the scripted model."""

    tool: str
    args: Mapping[str, Any]
    id: str = "c1"


Response = str | Sequence[Call]  # the final text, or the calls that the model makes at once
Tool = Any  # a plain function, or what `Driver.tool` and `Driver.agent_tool` return


@dataclass(kw_only=True)
class Seen:
    """What came of a run: its text, what the model was told about its calls, the tools it was shown, and its pause."""

    text: str | None = None  # None: it stopped
    told: dict[str, str] = field(default_factory=dict[str, str])  # by the ids of the calls
    shown: list[list[str]] = field(default_factory=list[list[str]])  # at each request to the model
    pause: Any = None  # the framework's own, of a run that stopped


class Driver(ABC):
    """One framework under the conformance suite.

    A run is built anew each time, from the responses of its model and its tools, so that a pause always goes on as in
    another process.
    """

    name: ClassVar[str]
    cannot: ClassVar[Mapping[str, str]] = {}  # names of cases that the framework cannot have, each with the reason
    guards_nested: ClassVar[bool] = (
        False  # the adapter's hooks reach into agents that nobody guards: their calls are asked about
    )

    @abstractmethod
    async def run(
        self,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None,
        *,
        how: str = "async",
        name: str = "agent",
        **options: Any,
    ) -> Seen:
        """Run an agent behind the adapter; `how` is `async`, `sync` or `stream`; no controller: the active one.

        Options of single cases: `after` (a hook that the framework runs after the adapter's; see `late_hook`),
        `mcp` (the command and arguments of an MCP server over stdio, whose tools the agent gets too), `on_denied`.
        """

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        """Run an agent without the adapter, to show what the framework does by itself."""
        raise NotImplementedError

    def tool(self, function: Callable[..., Any], *, asks: bool = False) -> Tool:
        """Return a tool for a function; `asks` sets the framework's own mark that it needs an approval."""
        return function

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> Tool:
        """Return a tool that runs another agent, behind the adapter or bare; its one argument is `prompt`."""
        raise NotImplementedError

    async def go_on(
        self,
        pause: Any,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController,
        *,
        forced: bool = False,
        name: str = "agent",
    ) -> Seen:
        """Resume a pause with an agent that is built anew, by the adapter's own way.

        With `forced`, by the framework's means alone, with a made-up yes to everything, as an attacker would.
        """
        raise NotImplementedError

    def snapshot(self, pause: Any) -> bytes:
        """Return the framework's own record of a pause, as its storage keeps it."""
        raise NotImplementedError

    def restore(self, record: bytes) -> Any:
        """Return a pause from its record: a copy that knows nothing of the first one."""
        raise NotImplementedError

    def changed(self, record: bytes, before: str, after: str) -> bytes:
        """Return the record with other arguments: `before` and `after` are texts of one length in the arguments."""
        raise NotImplementedError

    def late_hook(self, change: Callable[[dict[str, Any]], None]) -> Any:
        """Return a hook that the framework calls after the adapter's, and that changes the arguments in place."""
        raise NotImplementedError
