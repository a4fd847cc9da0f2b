"""Workers: builds PydanticAI agents from worker files, which call each other under one controller.

Every caller above a worker has to allow its calls: its policy only tightens theirs. Calling a worker, creating one and
passing it a file are calls like any other, and are asked about unless the owner's policy says otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sayso.adapters.pydantic_ai import Approvals
from sayso.core.model import ToolCall, Verdict
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError, ToolError
from sayso.policy.policy import Policy
from sayso.tools.created_workers import CreatedWorker
from sayso.tools.custom import load_tools
from sayso.tools.delegation import Caller, Delegation
from sayso.tools.files import Attachment, FileTools
from sayso.tools.models import FAILURES, attach_tool, attachment_reader, model_of, usage_limits
from sayso.tools.shell import ShellTool
from sayso.tools.worker_file import TOOLS_FILE, WorkerFile, find_worker

try:
    from pydantic import PydanticUserError
    from pydantic_ai import Agent
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import Model
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import DeferredToolRequests
except ImportError as error:
    raise ImportError("PydanticAI is not installed; run `pip install sayso[pydantic-ai]`") from error

_DEEPEST = 5  # workers inside each other, where no file says otherwise


def policy_of(worker: WorkerFile) -> Policy:
    """Return the policy of a worker, with its file's rules about calling single workers."""
    if not worker.worker_rules:
        return worker.policy

    def rule(call: ToolCall) -> Verdict | None:
        name = call.args.get("worker")
        return worker.worker_rules.get(name) if isinstance(name, str) else None

    special = Policy({"worker_call": {"needs_approval": rule}})
    return special.over(worker.policy)


class _Equipment(NamedTuple):
    """Tools of a worker, and its reader of attachments for other workers."""

    tools: dict[str, Callable[..., Any]]
    attach: Callable[[str], Awaitable[Attachment]] | None


class _ChainPosition(NamedTuple):
    """Position in a chain of nested workers: the combined policy, the depth that is left, and the ancestors."""

    policy: Policy
    depth: int
    ancestors: tuple[Path, ...]


class Workers(AbstractContextManager["Workers"]):
    """Runner of a worker and of the workers that it calls, under one controller; holds their zones' folders open."""

    def __init__(self, controller: ApprovalController, *, model: Model | str | None = None) -> None:
        """Bind to a controller, whose policy is that of the outermost worker.

        Args:
            controller: decides about every call of any of the workers; see `policy_of`.
            model: for all of them, instead of the models that their files name.
        """
        self._controller = controller
        self._model = model
        self._outputs: list[Any] = [str, DeferredToolRequests] if controller.mode == "defer" else [str]
        self._open = ExitStack()
        self._equipment: dict[tuple[Path | str, ...], _Equipment] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all folders."""
        self._open.close()

    async def run(self, worker: WorkerFile, prompt: str) -> AgentRunResult[Any]:
        """Run a worker on a prompt, and return PydanticAI's result.

        Raises:
            ConfigurationError: its model or its tools are not available.
            ToolError: the model gave up, cannot be reached, or was asked too often.
        """
        agent = self.agent(worker)
        try:
            return await agent.run(prompt, usage_limits=usage_limits(worker))
        except FAILURES as error:
            raise ToolError(f"the worker {worker.name!r} could not go on: {error}") from error

    def agent(self, worker: WorkerFile) -> Agent[None, Any]:
        """Return the agent that a worker file describes, to be run in any of PydanticAI's ways."""
        depth = worker.limits.depth or _DEEPEST
        position = _ChainPosition(self._controller.policy, depth, (worker.path.resolve(),))
        return self._build_agent(worker, Approvals(self._controller), position)

    def _build_agent(self, worker: WorkerFile, approvals: Approvals, position: _ChainPosition) -> Agent[None, Any]:
        for name in worker.workers:
            find_worker(name, worker.folder)  # a missing worker is an error before the run, not in the middle
        equipment = self._equip(worker, position)
        caller = Caller(
            worker=worker,
            controller=self._controller,
            tools=equipment.tools,
            attach=equipment.attach,
            build_agent=partial(self._build_called_agent, worker, position),
            depth=position.depth,
            ancestors=position.ancestors,
        )
        tools = [*equipment.tools.values(), *Delegation(caller).functions]
        return self._agent(worker, worker.name, worker.instructions, tools, approvals)

    def _build_called_agent(
        self, caller: WorkerFile, position: _ChainPosition, worker: WorkerFile | CreatedWorker, depth: int
    ) -> Agent[None, Any]:
        """Return the agent of a called worker: its policy is layered over that of its callers."""
        if isinstance(worker, WorkerFile):
            own = policy_of(worker)
            if position.policy.shells:
                own = own.running_in(position.policy.shells[0].folder)
            path = worker.path.resolve()
            below = _ChainPosition(
                own.over(position.policy), min(worker.limits.depth or depth, depth), (*position.ancestors, path)
            )
            return self._build_agent(worker, Approvals(own), below)
        equipment = self._equip(caller, position)
        tools = [equipment.tools[name] for name in worker.tools if name in equipment.tools]
        # Only the person who approved its creation knows its purpose: no earlier answer applies to it.
        strict = Approvals(Policy({}, default="required", remember=False))
        return self._agent(caller, worker.name, worker.instructions, tools, strict)

    def _agent(
        self,
        worker: WorkerFile,
        name: str,
        instructions: str,
        tools: list[Callable[..., Any]],
        approvals: Approvals,
    ) -> Agent[None, Any]:
        model = model_of(worker, self._model)
        try:
            return Agent(
                model,
                name=name,
                instructions=instructions,
                tools=tools,
                capabilities=[approvals],
                output_type=self._outputs,
            )
        except (UserError, PydanticUserError, NameError, TypeError, ValueError) as error:
            # The parameters of a custom function are unknown, or cannot be described to a model.
            raise ConfigurationError(f"{worker.path}: its tools cannot be described to a model: {error}") from error

    def _equip(self, worker: WorkerFile, position: _ChainPosition) -> _Equipment:
        key = (*position.ancestors, worker.fingerprint)
        if key not in self._equipment:
            policy = position.policy.protecting(getattr(self._controller.store, "files", ()))
            found: list[Callable[..., Any]] = []
            attach = None
            if worker.policy.zones is not None:
                files = self._open.enter_context(FileTools(policy))
                attach = attachment_reader(files)
                found += [*files.functions, attach_tool(files)]
            if "shell" in worker.tools:
                found += self._open.enter_context(ShellTool(policy)).functions
            own = load_tools(worker.folder / TOOLS_FILE, worker.custom_tools) if worker.custom_tools else []
            tools = [*(tool for tool in found if tool.__name__ in worker.tools), *own]
            self._equipment[key] = _Equipment({tool.__name__: tool for tool in tools}, attach)
        return self._equipment[key]
