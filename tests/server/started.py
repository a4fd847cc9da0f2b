"""A hub that was started from the command line, as a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
from tests.server.served import PATIENCE

from sayso import ApprovalController, ApprovalRequest, Policy, ToolCall
from sayso.core.model import Pending

SAYSO = [sys.executable, "-m", "sayso"]


class Hub:
    """The process, its link and its store."""

    def __init__(
        self, folder: Path, *options: str, environ: Mapping[str, str] | None = None, database: str = ""
    ) -> None:
        self.file = folder / "sayso.db"
        self._place = database or str(self.file)
        self._process = subprocess.Popen(
            [*SAYSO, "serve", "--port", "0", *(["--store", database] if database else []), *options],
            cwd=folder,
            env={**os.environ, **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.greeting = ""
        try:
            self._listen()
        except BaseException:
            self._process.kill()  # nobody else has it yet
            raise
        self.link = re.findall(r"http\S+", self.greeting)[-1]
        self.url, _, self.code = self.link.partition("/sign-in?code=")

    def _listen(self) -> None:
        """Read what it says until it has said its link."""
        assert self._process.stdout is not None
        while "code=" not in self.greeting:
            line = self._process.stdout.readline()
            assert line, self._process.communicate(timeout=PATIENCE)
            self.greeting += line

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal, and return how it ended and what is in its log."""
        self._process.send_signal(number)
        _, log = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, log

    def kill(self) -> None:
        if self._process.poll() is None:
            self.end(signal.SIGKILL)

    def sayso(self, *words: str) -> str:
        """Run a command on its store."""
        command = [*SAYSO, *words, "--store", self._place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def person(self) -> httpx2.Client:
        text = self.sayso("token", "create", "approver", "--name", "ann")
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {text}"}, timeout=PATIENCE)

    def ask(self, count: int = 1, **args: Any) -> list[ApprovalRequest]:
        """Ask as an agent on this machine does."""

        async def work() -> list[ApprovalRequest]:
            policy = Policy.from_dict({"default": "required"})
            async with ApprovalController(mode="defer", policy=policy, store=self.file) as agent:
                calls = [ToolCall(tool="pay", args={"amount": each, **args}) for each in range(count)]
                asked = [await agent.review(call) for call in calls]
            return [each.request for each in asked if isinstance(each, Pending)]

        return asyncio.run(work())
