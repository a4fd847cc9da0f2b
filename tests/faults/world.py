"""A run: its processes, the moments at which something is done to them, and the check of all that happened."""

import asyncio
import itertools
import multiprocessing
import os
import select
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Self

from tests.faults import history
from tests.faults.checker import Final, Row, check
from tests.faults.history import Event, plain, word_of
from tests.faults.roles import Plan, Role, play
from tests.postgres import free_port

from sayso.core import audit, tokens
from sayso.core.tokens import TokenKind
from sayso.stores.postgres import PostgresStore

SECONDS = 60.0  # for anything to happen: much longer than it takes, so that a busy machine changes no verdict

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.faults.roles"])  # what takes long to import is imported once


class Child:
    """A process of a run."""

    def __init__(self, process: ForkServerProcess, file: Path, plan: Plan) -> None:
        self._process, self.file, self.plan = process, file, plan
        self.read = 0
        self.process = f"{plan.name}:{file.stem}"  # as its history names it
        self.url = f"http://127.0.0.1:{plan.port}"

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.join(SECONDS)

    def die(self) -> None:
        """Wait until it has killed itself, as its plan says."""
        self._process.join(SECONDS)
        assert self._process.exitcode in {-9, 0}, f"{self.plan.name} ended with {self._process.exitcode}"

    def stop(self) -> None:
        """Have it begin nothing new, and wait until it has done what it began."""
        self._process.terminate()
        self.finish()

    def finish(self) -> None:
        """Wait until it has done its work."""
        self._process.join(SECONDS)
        assert self._process.exitcode == 0, f"{self.plan.name} ended with {self._process.exitcode}"


class World:
    """All processes of a run, and what they wrote down."""

    def __init__(self, folder: Path, url: str, *, seed: int) -> None:
        print(f"seed {seed}")
        self.events: list[Event] = []
        self.url = url
        self._folder, self._seed = folder, seed
        self._numbers = itertools.count()
        self._children: list[Child] = []
        self._bell, self._ring = _FORKS.Pipe(duplex=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._children:
            each.kill()
        self._bell.close()
        self._ring.close()

    # Who takes part.

    def agent(self, name: str, **facts: Any) -> Child:
        return self._start("agent", name, **facts)

    def person(self, name: str, **facts: Any) -> Child:
        return self._start("person", name, **facts)

    def hub(self, name: str, **facts: Any) -> Child:
        return self.ready(self._start("hub", name, **{"port": free_port()} | facts))

    def ready(self, hub: Child) -> Child:
        """Wait until a hub can be reached."""
        self.until(lambda events: any(each.kind == "ready" and each.process == hub.process for each in events))
        return hub

    def _start(self, role: Role, name: str, **facts: Any) -> Child:
        facts = {"name": name, "store": self.url, "seed": self._seed, **facts}
        plan = Plan(**facts)
        return self.again(role, plan)

    def again(self, role: Role, plan: Plan) -> Child:
        """Start a process, perhaps in the place of one that was killed."""
        file = self._folder / f"{next(self._numbers)}"
        file.touch()
        process = _FORKS.Process(target=play, args=(role, plan, file, self._ring))
        process.start()
        child = Child(process, file, plan)
        self._children.append(child)
        return child

    def token(self, kind: TokenKind, name: str) -> str:
        """Make a token, and return its text."""
        token, text = tokens.make(kind, name, now=time.time())

        async def keep(store: PostgresStore) -> None:
            await store.add_token(token)

        self._with_store(self.url, keep)
        return text

    # What happens.

    def until(self, holds: Callable[[list[Event]], bool]) -> None:
        """Wait until something holds of what the processes wrote down."""
        ends = time.monotonic() + SECONDS
        while True:
            self._read()
            if holds(self.events):
                return
            left = ends - time.monotonic()
            assert left > 0, f"it never came to that: {self.summary()}"
            if select.select([self._bell], [], [], left)[0]:
                os.read(self._bell.fileno(), 65536)

    def until_ran(self, count: int, by: Child | None = None) -> None:
        """Wait until that many more calls have run, by anybody or by this one."""
        self._read()
        before = self.ran(by)
        self.until(lambda _: self.ran(by) >= before + count)

    def ran(self, by: Child | None = None) -> int:
        """Return how many calls have run."""
        found = history.of_kind(self.events, "run")
        return len([each for each in found if by is None or each.process == by.process])

    def failed(self) -> list[str]:
        """Return what processes were told instead of an outcome."""
        return [each.said for each in self.events if each.step == "failed"]

    def summary(self) -> dict[str, int]:
        kinds = [f"{each.kind} {each.step}" for each in self.events]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def _read(self) -> None:
        for child in self._children:
            found, child.read = history.read(child.file, child.read)
            self.events += found

    # What is left.

    def check(self, url: str = "") -> Final:
        """End everything, and check all that happened against what the store has now."""
        for each in self._children:
            each.kill()
        self._read()
        finals: list[Final] = []

        async def look(store: PostgresStore) -> None:
            finals.append(await _final(store))

        self._with_store(url or self.url, look)
        problems = check(self.events, finals[0])
        assert not problems, f"{len(problems)} of {self.summary()}: {problems[:10]}"
        print(self.summary())
        return finals[0]

    @staticmethod
    def _with_store(url: str, work: Callable[[PostgresStore], Any]) -> None:
        async def do() -> None:
            store = await asyncio.to_thread(PostgresStore, url)
            try:
                await work(store)
            finally:
                await store.aclose()

        asyncio.run(do())


async def _final(store: PostgresStore) -> Final:
    await audit.verify(store)
    found = await store.recent(limit=100_000)
    rows = [
        Row(
            id=each.id,
            call=each.args["call"],
            word=word_of(each),
            asked=plain(each.args),
            expires_at=each.expires_at or float("inf"),
        )
        for each in found
    ]
    steps = [(each["step"], each.get("request_id") or "") async for each in audit.entries(store)]
    return Final(rows=rows, audit=steps, clock=time.time() - time.monotonic())
