"""Workers: agents on PydanticAI that are put together from worker files, and call each other under one controller.

What a worker may do, everybody above it has to allow: its policy only adds to theirs. Calling a worker, making one and
handing it a file are calls like any other, and are asked about unless the owner says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sayso.adapters.pydantic_ai import Approvals
from sayso.controller import ApprovalController
from sayso.errors import ToolError
from sayso.model import ToolCall, Verdict
from sayso.policy.tools import Policy
from sayso.tools.closing import Closing
from sayso.tools.created import Created
from sayso.tools.custom import load_tools
from sayso.tools.delegation import Caller, Delegation
from sayso.tools.files import Attachment, FileTools
from sayso.tools.models import attach_tool, model_of, usage_limits
from sayso.tools.shell import ShellTool
from sayso.tools.worker_file import CUSTOM, WorkerFile

try:
    from pydantic_ai import Agent
    from pydantic_ai.exceptions import AgentRunError
    from pydantic_ai.models import Model
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import DeferredToolRequests
except ImportError as error:
    raise ImportError("PydanticAI is not installed; run `pip install sayso[pydantic-ai]`") from error

_DEEPEST = 5  # workers inside each other, where no file says otherwise


def policy_of(worker: WorkerFile) -> Policy:
    """Return the policy of a worker, with what its file says about calling single workers."""
    if not worker.worker_rules:
        return worker.policy

    def rule(call: ToolCall) -> Verdict | None:
        name = call.args.get("worker")
        return worker.worker_rules.get(name) if isinstance(name, str) else None

    special = Policy({"worker_call": {"needs_approval": rule}}, default=worker.policy.default.approval)
    return special.over(worker.policy)


class _Equipment(NamedTuple):
    """The tools that a worker has, and how it reads files for others."""

    tools: dict[str, Callable[..., Any]]
    attach: Callable[[str], Attachment] | None


class Workers(Closing):
    """Runs a worker, and those that it calls, under one controller; holds the folders of their zones open."""

    def __init__(self, controller: ApprovalController, *, model: Model | str | None = None) -> None:
        """Take the controller, whose policy is that of the outermost worker.

        Args:
            controller: decides about everything that any of the workers does; see `policy_of`.
            model: for all of them, instead of the models that their files name.
        """
        self._controller = controller
        self._model = model
        self._outputs: list[Any] = [str, DeferredToolRequests] if controller.mode == "defer" else [str]
        self._open = ExitStack()
        self._equipment: dict[Path, _Equipment] = {}

    def close(self) -> None:
        """Let go of all folders."""
        self._open.close()

    async def run(self, worker: WorkerFile, prompt: str) -> AgentRunResult[Any]:
        """Run a worker on a prompt, and return what PydanticAI does.

        Raises:
            ConfigurationError: its model or its tools cannot be had.
            ToolError: the model gave up, cannot be reached, or was asked too often.
        """
        agent = self.agent(worker)
        try:
            return await agent.run(prompt, usage_limits=usage_limits(worker))
        except AgentRunError as error:
            raise ToolError(f"the worker {worker.name!r} could not go on: {error}") from error

    def agent(self, worker: WorkerFile) -> Agent[None, Any]:
        """Return the agent that a worker file describes, to be run in any of PydanticAI's ways."""
        return self._hired(worker, Approvals(self._controller), worker.limits.depth or _DEEPEST)

    def _hired(self, worker: WorkerFile, approvals: Approvals, depth: int) -> Agent[None, Any]:
        equipment = self._equip(worker)
        caller = Caller(
            worker=worker,
            controller=self._controller,
            tools=equipment.tools,
            attach=equipment.attach,
            hire=partial(self._below, worker),
            depth=depth,
        )
        return Agent(
            model_of(worker, self._model),
            name=worker.name,
            instructions=worker.instructions,
            tools=[*equipment.tools.values(), *Delegation(caller).functions],
            capabilities=[approvals],
            output_type=self._outputs,
        )

    def _below(self, caller: WorkerFile, worker: WorkerFile | Created, depth: int) -> Agent[None, Any]:
        """Return the agent of a worker that another one calls: its policy adds to what those above it are under."""
        if isinstance(worker, WorkerFile):
            own = worker.limits.depth or depth
            return self._hired(worker, Approvals(policy_of(worker)), min(own, depth))
        tools = self._equip(caller).tools
        return Agent(
            model_of(caller, self._model),
            name=worker.name,
            instructions=worker.instructions,
            tools=[tools[name] for name in worker.tools if name in tools],
            # Nobody has looked at this one's purpose but the person who let it be made: no answer of before is for it.
            capabilities=[Approvals(Policy({}, default="required", remember=False))],
        )

    def _equip(self, worker: WorkerFile) -> _Equipment:
        if worker.path not in self._equipment:
            policy = worker.policy.protecting(getattr(self._controller.store, "files", ()))
            found: list[Callable[..., Any]] = []
            attach = None
            if policy.zones is not None:
                files = self._open.enter_context(FileTools(policy))
                attach = files.attach
                found += [*files.functions, attach_tool(files)]
            if "shell" in worker.tools:
                found += self._open.enter_context(ShellTool(policy)).functions
            own = load_tools(worker.folder / CUSTOM, worker.custom_tools) if worker.custom_tools else []
            tools = [*(tool for tool in found if tool.__name__ in worker.tools), *own]
            self._equipment[worker.path] = _Equipment({tool.__name__: tool for tool in tools}, attach)
        return self._equipment[worker.path]
