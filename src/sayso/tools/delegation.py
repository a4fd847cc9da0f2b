"""Delegation: the tools with which a worker calls other workers and creates new ones.

Tests: tests/tools/test_workers.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sayso.adapters.function import requires_approval
from sayso.adapters.pydantic_ai import delegate
from sayso.core.model import ApprovalPresentation, Preview
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.errors import ApprovalError, ApprovalPending, ConfigurationError, ToolError
from sayso.tools import created_workers, previews
from sayso.tools.created_workers import CreatedWorker
from sayso.tools.files import Attachment
from sayso.tools.models import FAILURES, as_prompt, usage_limits
from sayso.tools.worker_file import WorkerFile, find_worker, read_worker, workers_in

try:
    from pydantic_ai import Agent
except ImportError as error:
    raise ImportError("PydanticAI is not installed; run `pip install sayso[pydantic-ai]`") from error

_SHORT = 60


class Caller(NamedTuple):
    """The calling worker: its file and tools, and the depth of nested calls that is left to it."""

    worker: WorkerFile
    controller: ApprovalController
    tools: Mapping[str, Callable[..., Any]]
    attach: Callable[[str], Awaitable[Attachment]] | None
    build_agent: Callable[[WorkerFile | CreatedWorker, int], Agent[None, Any]]
    depth: int
    ancestors: tuple[Path, ...]  # the files of the workers inside which it works, its own among them


class _ResolvedWorker(NamedTuple):
    """A callable worker, its file, and the fingerprint to which an approval is bound."""

    worker: WorkerFile | CreatedWorker
    path: Path
    basis: str


class Delegation:
    """Delegation of one worker to others; `functions` are its tools for that."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._worker = caller.worker

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The delegation tools that the worker's file lists; both ask, unless the owner's policy says otherwise."""
        call = requires_approval(name="worker_call", preview=self._preview_call)(self.worker_call)
        create = requires_approval(name="worker_create", preview=self._preview_create)(self.worker_create)
        return [tool for tool in (call, create) if tool.__name__ in self._worker.tools]

    async def worker_call(self, worker: str, prompt: str, attachments: list[str] | None = None) -> Any:  # noqa: ANN401 - what it says
        """Let another worker do something, and return what it says.

        Args:
            worker: the name of the worker.
            prompt: what it has to do; it knows nothing else.
            attachments: paths of files that it is given.
        """
        grant = context.current_grant(worker=worker, prompt=prompt)
        found = self._resolve_worker(worker)
        if grant is None or not grant.rest_on(found.basis):
            raise ToolError(f"the worker {worker!r} was changed after it was approved; it was not called")
        depth = self._check_depth(worker, found.path)
        files = [await self._attached(path) for path in attachments or ()]
        limits = usage_limits(self._worker if isinstance(found.worker, CreatedWorker) else found.worker)
        try:
            agent = self._caller.build_agent(found.worker, depth)
            return await delegate(agent, as_prompt(prompt, files), usage_limits=limits)
        except (*FAILURES, ConfigurationError) as error:
            raise ToolError(f"the worker {worker!r} could not go on: {error}") from error

    def worker_create(self, name: str, description: str, instructions: str, tools: list[str] | None = None) -> str:
        """Make a new worker, which can then be called by its name; everything that it does is asked about.

        Args:
            name: small letters, digits, - and _.
            description: what the worker is for.
            instructions: what it has to do when it is called.
            tools: names of tools of yours that it may use.
        """
        worker = self._new(name, description, instructions, tools)
        created_workers.save_worker(worker, self._worker.folder)
        return f"made the worker {name!r}"

    def _preview_call(self, worker: str, prompt: str, attachments: list[str] | None = None) -> Preview:
        found = self._resolve_worker(worker)
        self._check_depth(worker, found.path)
        chain = " > ".join((*self._chain(), worker))
        made = found.worker if isinstance(found.worker, CreatedWorker) else None
        # The prompt and the files are arguments, and shown as those. The name of a created worker says nothing.
        content = created_workers.serialize_worker(made).decode() if made else None
        return Preview(
            description=f"Let the worker {worker}{', which an agent has made,' if made else ''} work: {chain}",
            presentation=ApprovalPresentation(title=f"Call {worker}", content=content, content_type="text/markdown"),
            metadata={"chain": chain, "made_by_an_agent": made is not None},
            # A remembered yes is bound to the current content of the worker.
            payload={"worker": worker, "prompt": prompt, "attachments": attachments, "fingerprint": found.basis},
            basis=found.basis,
        )

    def _preview_create(
        self, name: str, description: str, instructions: str, tools: list[str] | None = None
    ) -> Preview:
        worker = self._new(name, description, instructions, tools)
        shown = previews.change(f"/{created_workers.FOLDER}/{name}.md", None, created_workers.serialize_worker(worker))
        return Preview(description=f"Make the worker {name}: {_shorten(description)}", presentation=shown)

    def _resolve_worker(self, name: str) -> _ResolvedWorker:
        try:
            if name in self._worker.workers:
                path = find_worker(name, self._worker.folder)
                listed = read_worker(path)
                return _ResolvedWorker(listed, path.resolve(), previews.fingerprint(str(path), listed.fingerprint))
            made = created_workers.find_created_worker(name, self._worker.folder)
            if "worker_create" in self._worker.tools and made is not None:
                worker = created_workers.read_created_worker(made)
                return _ResolvedWorker(
                    worker, made, previews.fingerprint(str(made), created_workers.serialize_worker(worker))
                )
        except (OSError, ConfigurationError) as error:
            raise ToolError(f"the worker {name!r} cannot be used: {error}") from error
        known = ", ".join(self._worker.workers) or "none"
        raise ToolError(f"{self._worker.name!r} may not call a worker {_shorten(name)!r}; it may call: {known}")

    def _new(self, name: str, description: str, instructions: str, tools: list[str] | None) -> CreatedWorker:
        worker = CreatedWorker(name=name, description=description, instructions=instructions, tools=tuple(tools or ()))
        created_workers.check_worker(worker)
        taken = {*self._worker.workers, *self._chain(), *(file.stem for file in workers_in(self._worker.folder))}
        if name in taken or created_workers.find_created_worker(name, self._worker.folder) is not None:
            raise ToolError(f"there is a worker {name!r} already; choose another name")
        known = self._caller.tools
        for tool in worker.tools:
            if tool not in known:
                raise ToolError(
                    f"{self._worker.name!r} has no tool {_shorten(tool)!r} to give; it has: {', '.join(known)}"
                )
        return worker

    def _chain(self) -> tuple[str, ...]:
        path = context.agent_path()
        return path if path[-1:] == (self._worker.name,) else (*path, self._worker.name)

    def _check_depth(self, name: str, path: Path) -> int:
        """Return the depth of nested calls that is left, or refuse a cycle or a call that is too deep."""
        chain = self._chain()
        if path in self._caller.ancestors or name in chain:
            raise ToolError(f"{name!r} is at work already ({' > '.join(chain)}), and nobody works twice in a chain")
        if self._caller.depth <= 1:
            raise ToolError(f"{' > '.join(chain)} is as deep as workers may be inside each other here")
        return self._caller.depth - 1

    async def _attached(self, path: str) -> Attachment:
        """Read a file for another worker, as a separate call with an approval of its own."""
        if self._caller.attach is None:
            raise ToolError(f"{self._worker.name!r} has no folder to attach files from")
        try:
            return await self._caller.attach(path)
        except ApprovalPending as pending:
            await self._caller.controller.adapter.withdraw_if_open(pending.request.id)
            raise ToolError(f"nobody waits for answers here, so {path!r} cannot be asked about; leave it out") from None
        except ApprovalError as refused:
            note = f" (note: {refused.note})" if refused.note else ""
            raise ToolError(f"{path!r} is not handed on: {refused.reason}{note}; the worker was not called") from None


def _shorten(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
