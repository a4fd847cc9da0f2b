"""The places that commands work on: a file, a database and a hub, each with requests in it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace
from tests.server.served import Served

from sayso import ApprovalDecision, ApprovalRequest, ToolCall
from sayso.core.model import new_id
from sayso.core.ports import Store
from sayso.engine.settings import open_store

T = TypeVar("T")
KINDS = ["file", "postgres", "hub"]


class Place:
    """A store or a hub, and real processes of the command line at it."""

    def __init__(self, where: str, served: Served | None = None, token: str = "") -> None:
        self.where = where
        self.served = served
        self.token = token

    def sayso(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        settings = os.environ | {"SAYSO_STORE": self.where, "SAYSO_TOKEN": self.token}
        command = [sys.executable, "-m", "sayso", *arguments]
        return subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=120)

    def facts(self, *arguments: str) -> Any:
        """Return what a command says as JSON."""
        done = self.sayso(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def ids(self, *arguments: str) -> list[str]:
        return [each["id"] for each in self.facts("pending", *arguments)]

    def do(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Do something with the store itself."""
        served = self.served

        async def here() -> T:
            store = open_store(self.where if self.where.startswith("postgresql") else Path(self.where))
            try:
                return await work(store)
            finally:
                await store.aclose()

        async def there(at: Served) -> T:
            return await work(at.store)

        return asyncio.run(here()) if served is None else served.do(there(served))

    def ask(self, tool: str = "pay", **facts: Any) -> ApprovalRequest:
        """Open a request; `ago` says how old it is."""
        request = _request(tool, **facts)
        return self.do(lambda store: store.open(request))

    def ask_many(self, count: int) -> None:
        """Open requests of the tool pay."""
        requests = [_request("pay", args={"number": number}) for number in range(count)]

        async def work(store: Store) -> None:
            await asyncio.gather(*map(store.open, requests))

        self.do(work)

    def get(self, request: ApprovalRequest) -> ApprovalRequest:
        found = self.do(lambda store: store.get(request.id))
        assert found is not None
        return found

    def answer(self, request: ApprovalRequest, *, yes: bool, who: str, after: float = 5) -> None:
        decision = ApprovalDecision(approved=yes, who=who, decided_at=request.asked_at + after)
        self.do(lambda store: store.close(request.id, "approved" if yes else "denied", decision, now=time.time()))


def _request(tool: str, *, ago: float = 0, **facts: Any) -> ApprovalRequest:
    """Return a request as old as said; its id has that time, too."""
    at = time.time() - ago
    call = ToolCall(tool=tool, args=facts.pop("args", {"amount": 5}))
    request = ApprovalRequest(
        id=f"{int(at * 1000):012x}{new_id()[12:]}",
        tool_call_id=new_id(),
        tool_name=tool,
        args=call.args,
        digest=call.digest(),
        session="s1",
        asked_at=at,
    )
    return replace(request, **facts)


@contextmanager
def opened_place(kind: str, folder: Path, database: Callable[[], str]) -> Generator[Place]:
    """Make a place of this kind."""
    if kind != "hub":
        yield Place(str(folder / "state.db") if kind == "file" else database())
        return
    served = Served(folder)
    served.start()
    yield Place(served.url, served, served.token(name="ann"))
    served.stop()
