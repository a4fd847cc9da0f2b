"""A laboratory for a real coding agent: a home and a project of its own, a scripted model, a hook, and what ran."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shlex
import shutil
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, cast

import anyio
from tests.clients.loopback_model import LoopbackModel, ModelCall

from sayso import ApprovalController, ApprovalDecision
from sayso.core.model import ApprovalRequest

PACKAGES = Path(__file__).parents[2] / ".tools" / "clients" / "node_modules"
SECONDS = 240
_MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_SYSTEM = platform.system().lower()
YES = ApprovalDecision(approved=True, who="ann")


class ClientLab(ABC):
    """One client in a folder; `ran` is what its shell has run, line by line."""

    client: ClassVar[str]

    def __init__(self, folder: Path, model: LoopbackModel) -> None:
        assert PACKAGES.exists(), "the coding agents are missing: run `python3 dev.py clients`, which installs them"
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.model = model
        self.variables: dict[str, str] = {}  # more of its environment
        self.policy, self.store = folder / "sayso.yaml", folder / "sayso.db"
        self.policy.write_text("default: required\nshell: {default: required}\n")

    # What differs between clients.

    @abstractmethod
    def command(self, *flags: str) -> list[str]:
        """Return the command of a headless run; its prompt comes from standard input."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Return the variables that point it at the model."""

    @abstractmethod
    def set_hook(self, command: str, *, seconds: int = 120, **options: Any) -> None:
        """Write the settings with a hook before every tool, which has so many seconds."""

    @abstractmethod
    def shell(self, line: str) -> ModelCall:
        """Return the call of its shell."""

    @abstractmethod
    def told(self) -> list[str]:
        """Return the results that the model was shown last."""

    # What they share.

    def script(self, *turns: list[ModelCall]) -> None:
        """Set the calls that the model makes, turn by turn; after that it is done."""
        self.model.script.turns = [*turns]

    def hook_file(self, code: str) -> str:
        """Write a hook as a shell script, and return its command."""
        file = self.home / "hook.sh"
        file.write_text(f"{code}\n")
        return f"sh {shlex.quote(str(file))}"

    def sayso(self, *options: str, store: str = "") -> str:
        """Return the command of sayso's hook."""
        where = ["--policy", str(self.policy), "--store", store or str(self.store)]
        return shlex.join([sys.executable, "-P", "-m", "sayso", "hook", self.client, *where, *options])

    async def run(self, *flags: str, prompt: str = "go") -> str:
        """Run the client to its end, and return what it printed."""
        node = shutil.which("node")
        path = ":".join([*([os.path.dirname(node)] if node else []), "/usr/bin", "/bin"])  # noqa: PTH120 - a PATH
        own = {"HOME": str(self.home), "PATH": path, "TERM": "dumb", **self.environment()}
        process = await asyncio.create_subprocess_exec(
            *self.command(*flags),
            cwd=self.project,
            env=own,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            with anyio.fail_after(SECONDS):
                out, err = await process.communicate(prompt.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return out.decode() or err.decode()

    @property
    def ran(self) -> list[str]:
        """The words that shell lines have written into the file of the project."""
        file = self.project / "ran.txt"
        return file.read_text().split() if file.exists() else []

    async def asked(self) -> list[ApprovalRequest]:
        """Wait until a question is open, and return all that are."""
        async with ApprovalController(mode="defer", store=self.store) as controller:
            with anyio.fail_after(SECONDS):
                while True:
                    cursor, _ = await controller.store.changes()
                    if found := await controller.pending():
                        return found
                    await controller.store.changed(cursor)

    async def answer(self, decision: ApprovalDecision = YES) -> ApprovalRequest:
        """Wait for a question, and answer the oldest, as another process would."""
        asked = (await self.asked())[0]
        async with ApprovalController(mode="defer", store=self.store) as controller:
            return await controller.answer(asked.id, decision)

    async def state(self, asked: ApprovalRequest) -> str:
        """Return the state of a question."""
        async with ApprovalController(mode="defer", store=self.store) as controller:
            found = await controller.store.get(asked.id)
        assert found is not None
        return found.state

    def last_conversation(self, part: str) -> list[dict[str, Any]]:
        """Return what the model was shown last."""
        assert self.model.script.seen, "the client has not asked the model"
        return cast("list[dict[str, Any]]", self.model.script.seen[-1][part])


def native(name: str) -> Path:
    """Return the folder of a package with a program for this machine: one for older processors, if there is one."""
    plain = PACKAGES / f"{name}-{_SYSTEM}-{_MACHINE}"
    older = plain.with_name(f"{plain.name}-baseline")
    return older if older.exists() else plain


def write_json(file: Path, data: object) -> None:
    """Write settings of a client."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data))
