"""PostgreSQL connections: address, TLS mode, read pool, and the translation of errors into one sentence."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace

from sayso.errors import ConfigurationError, StoreError

try:
    import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none
except ImportError as error:
    raise ImportError("a store in PostgreSQL needs asyncpg: install `sayso[postgres]`") from error

_asyncpg = cast("Any", asyncpg)

CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 12.0  # longer than statement_timeout: then the connection counts as lost
_MOST_READERS = 4
_PORT = 5432
_IDLE_SECONDS = 60.0
_BAD_ADDRESS = (
    "the address of the PostgreSQL store cannot be used: write postgresql://user@host:port/database, and a password "
    "with other than letters and digits in percent form, or better in PGPASSWORD or ~/.pgpass"
)
_SESSION_SETTINGS = {"application_name": "sayso"}
_FILES = {"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "sslcrl": "PGSSLCRL"}
_ENCRYPTED = ("require", "verify-ca", "verify-full")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# For a session, or a transaction behind a pooler: statements are planned once, for tables that will grow.
PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# Each statement reads the latest commit, even if role or database have another default.
_ISOLATION = {"default_transaction_isolation": "read committed"}

Row = Sequence[Any]


def set_statements(how: str, values: Mapping[str, str]) -> str:
    """Return a SET statement for each value."""
    return "".join(f"{how} {name} = '{value}'; " for name, value in values.items())


class ServerUnavailable(StoreError):
    """Transient error: the server cannot be reached, the connection is lost, or a lock is held too long."""


class Rejected(StoreError):
    """Permanent error: the server rejects these values; the other items of a batch may be fine."""


class Prepared(Protocol):
    """Prepared statement."""

    async def fetch(self, *values: object) -> list[Row]:
        """Return its rows."""
        ...


class Connection(Protocol):
    """The used part of asyncpg's connection, which has no types of its own."""

    async def fetch(self, query: str, *values: object) -> list[Row]:
        """Return the rows of one statement."""
        ...

    async def execute(self, query: str, *, timeout: float | None = None) -> str:  # noqa: ASYNC109 - asyncpg's name
        """Run one statement or several without preparing them, and return the status of the last one."""
        ...

    async def prepare(self, query: str) -> Prepared:
        """Prepare a statement."""
        ...

    async def add_listener(self, channel: str, callback: Callable[[object, int, str, str], None]) -> None:
        """Call back with session, channel and payload of every notification."""
        ...

    def add_termination_listener(self, callback: Callable[[object], None]) -> None:
        """Call back when the connection is lost."""
        ...

    def get_server_pid(self) -> int:
        """Return the process id of the session."""
        ...

    def is_closed(self) -> bool:
        """Whether it is closed or lost."""
        ...

    def terminate(self) -> None:
        """Close at once, without waiting for a running statement."""
        ...

    async def close(self) -> None:
        """Close gracefully."""
        ...


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a database: the URL, its form without the password for display, and its hosts."""

    url: str
    shown: str
    pooler: bool  # behind a pooler in transaction mode
    hosts: tuple[Mapping[str, str | int], ...] = ({},)  # connect arguments per host, if the address names several
    is_private: bool = False  # encrypted or local, by the address alone

    @classmethod
    def from_url(cls, url: str) -> Server:
        """Parse an address; `pooler=transaction` is for sayso, all other options are for asyncpg."""
        try:
            parts = urlsplit(url)
            named = parts.netloc.rpartition("@")[2]
            hosts = [_host(each) for each in named.split(",")]
        except ValueError:
            raise ConfigurationError(_BAD_ADDRESS) from None
        if _is_ambiguous_url(parts):
            raise ConfigurationError(_BAD_ADDRESS)
        options = parse_qsl(parts.query, keep_blank_values=True)
        pooler = [value for name, value in options if name == "pooler"]
        if pooler not in ([], ["transaction"]):
            raise ConfigurationError(f"pooler={','.join(pooler)} in a store's address; use pooler=transaction, or none")
        kept = urlencode([each for each in options if each[0] != "pooler"])
        user = f"{parts.username}@" if parts.username else ""
        return cls(
            url=urlunsplit(parts._replace(query=kept)),
            shown=f"postgresql://{user}{named}{parts.path}",
            pooler=bool(pooler),
            hosts=tuple(hosts) if len(hosts) > 1 else ({},),
            is_private=_sslmode(dict(options)) in _ENCRYPTED or all(each["host"] in _LOOPBACK for each in hosts),
        )

    async def connect(self, *, cached: bool) -> Connection:
        """Return a new connection; with `cached`, it caches prepared statements.

        A configuration error counts as transient here: the address worked before, and may again.
        """
        try:
            return await self._connect_first(cached=cached)
        except ConfigurationError as error:
            raise ServerUnavailable(str(error)) from error

    async def _connect_first(self, *, cached: bool) -> Connection:
        """Return a connection to the first host that is not a standby."""
        for each in self.hosts[:-1]:
            with contextlib.suppress(ServerUnavailable):
                return await self._connect(each, cached=cached)
        return await self._connect(self.hosts[-1], cached=cached)

    async def _connect(self, host: Mapping[str, str | int], *, cached: bool) -> Connection:
        with self.translate_errors():
            connection = await self._dial(host, 100 if cached else 0)
            try:
                await self._begin(connection, set_statements("SET", {**_ISOLATION, **PLANS}) if cached else "")
            except BaseException:
                connection.terminate()
                raise
        return cast("Connection", connection)

    async def _dial(self, host: Mapping[str, str | int], cache_size: int) -> Any:  # noqa: ANN401 - asyncpg has no types
        try:
            return await _asyncpg.connect(
                self.url,
                **host,
                timeout=CONNECT_SECONDS / len(self.hosts),
                command_timeout=COMMAND_SECONDS,
                statement_cache_size=cache_size,
                server_settings=_SESSION_SETTINGS,
            )
        except ValueError as error:
            if isinstance(error, OSError | _asyncpg.InterfaceError):
                raise
            # An invalid port or host, in the address or in the environment; asyncpg does not report which.
            raise ConfigurationError(
                f"the store {self.shown} cannot be used as it is written: see its host and port"
            ) from None

    async def _begin(self, connection: Connection, preparation: str) -> None:
        """Set the session settings, and refuse a standby, which may lag behind."""
        if await connection.execute(f"{preparation}SELECT 1 WHERE pg_is_in_recovery()") == "SELECT 1":
            raise ServerUnavailable(
                f"the store {self.shown} only lets itself be read: it is a standby; name the primary"
            )

    async def connect_and_detect_pooler(self) -> tuple[Server, Connection]:
        """Return the first connection, and the server, with `pooler` set if it is found behind one."""
        connection = await self._connect_first(cached=False)
        with self.translate_errors():
            own = await connection.execute(f"SELECT 1 WHERE pg_backend_pid() = {connection.get_server_pid()}")
        return replace(self, pooler=self.pooler or own != "SELECT 1"), connection

    @contextlib.contextmanager
    def translate_errors(self) -> Generator[None]:
        """Translate errors of asyncpg and the network into one sentence with a remedy."""
        try:
            yield
        except _asyncpg.ClientConfigurationError as error:
            raise ConfigurationError(
                f"the store {self.shown} cannot be used as it is written: {_first_line(error)}"
            ) from None
        except _LOST as error:
            raise ServerUnavailable(f"the store {self.shown} {_about_loss(error)}") from error
        except _BAD_VALUES as error:
            raise Rejected(f"the store {self.shown} cannot keep this: {_first_line(error)}") from error
        except _asyncpg.InterfaceError as error:
            # About the values, or about the state of the connection.
            kind = Rejected if isinstance(error, ValueError) else ServerUnavailable
            raise kind(f"the store {self.shown} failed: {_first_line(error)}") from error
        except _asyncpg.PostgresError as error:
            raise StoreError(f"the store {self.shown} {_about_refusal(error)}") from error


def _is_ambiguous_url(parts: SplitResult) -> bool:
    """Whether part of a password would be parsed as user, host or database, and so be sent to a resolver and shown."""
    names = f"{parts.path}{parts.fragment}".lower()
    has_two_ats = parts.netloc.count("@") > 1  # asyncpg splits at the first one, others at the last
    return has_two_ats or "@" in names or "password=" in names or ":" in unquote(parts.username or "")


def _host(named: str) -> Mapping[str, str | int]:
    """Parse one host of an address into arguments for asyncpg."""
    parts = urlsplit(f"//{named}")
    return {"host": unquote(parts.hostname or ""), "port": parts.port or _PORT}


def _sslmode(options: Mapping[str, str]) -> str:
    """Return the TLS mode; refuse options that promise more than it checks."""
    files = {name: options.get(name) or os.environ.get(variable) for name, variable in _FILES.items()}
    for name, file in files.items():
        if file and not os.access(file, os.R_OK):
            raise ConfigurationError(f"{name} of the store is {file}, which cannot be read")
    sslmode = options.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer"
    if options.get("sslrootcert") and sslmode not in _ENCRYPTED:
        raise ConfigurationError(
            f"the store's address has an sslrootcert, but with sslmode={sslmode} no certificate is checked; "
            "use sslmode=verify-full"
        )
    return sslmode


class ReadPool:
    """Connection pool for reads: connections are opened on demand and closed when idle."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_closed = False
        self._pool: Any = _asyncpg.create_pool(
            server.url,
            min_size=0,
            max_size=_MOST_READERS,
            max_inactive_connection_lifetime=_IDLE_SECONDS,
            connect=self._connect,
            reset=_skip_reset,
        )

    async def _connect(self, *_: object, **__: object) -> Connection:
        connection = await self._server.connect(cached=not self._server.pooler)
        if self._is_closed:  # closed during the connect: the pool would keep it open
            connection.terminate()
            raise ServerUnavailable(f"the store {self._server.shown} is closed")
        return connection

    async def start(self) -> None:
        """Initialise the pool, without a connection."""
        with self._server.translate_errors():
            await self._pool

    async def fetch(self, query: str, *values: object) -> list[Row]:
        """Return the rows of one statement."""
        try:
            with self._server.translate_errors():
                async with self._pool.acquire(timeout=CONNECT_SECONDS + COMMAND_SECONDS) as connection:
                    return await connection.fetch(query, *values)
        except ServerUnavailable:
            await self._pool.expire_connections()  # the others may be as dead as this one
            raise

    async def aclose(self) -> None:
        """Close all connections, including those that are still connecting."""
        self._is_closed = True
        self._pool.terminate()


async def _skip_reset(connection: object) -> None:
    """Skip the reset: the session settings never change."""


_LOST = (
    OSError,
    asyncio.TimeoutError,
    _asyncpg.PostgresConnectionError,
    _asyncpg.CannotConnectNowError,
    _asyncpg.AdminShutdownError,
    _asyncpg.CrashShutdownError,
    _asyncpg.TooManyConnectionsError,
    _asyncpg.IdleInTransactionSessionTimeoutError,
    _asyncpg.LockNotAvailableError,
    _asyncpg.InternalClientError,  # the server ended the session while a statement was sent
)
_BAD_VALUES = (
    _asyncpg.DataError,
    _asyncpg.IntegrityConstraintViolationError,
    _asyncpg.ProgramLimitExceededError,
    UnicodeEncodeError,
    OverflowError,
)


def _about_loss(error: Exception) -> str:
    if isinstance(error, _asyncpg.TooManyConnectionsError):
        return "has no connection left; raise its max_connections, or put a pooler before it"
    if isinstance(error, _asyncpg.LockNotAvailableError):
        return f"is held by another process for too long ({_first_line(error)}); try again"
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        return f"shows a certificate that does not hold ({reason}); check its name, and sslrootcert"
    if isinstance(error, ssl.SSLError):
        return f"does not agree on TLS: {_first_line(error)}; check sslmode and the certificates"
    if isinstance(error, TimeoutError):
        return "does not answer in time; check the network and how busy the server is"
    if "rejected SSL upgrade" in str(error):
        return "does not offer TLS, which its address asks for; set it up at the server (ssl = on)"
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or _first_line(error)}; check that it runs, and its address"
    return f"broke the connection: {_first_line(error)}"


def _about_refusal(error: Exception) -> str:
    reason = _first_line(error)
    for kind, sentence in _REFUSALS:
        if isinstance(error, kind):
            return sentence.format(reason)
    return f"failed: {reason}"


_REFUSALS: tuple[tuple[Any, str], ...] = (
    (_asyncpg.InvalidPasswordError, "does not let this user in ({}); check the password"),
    (_asyncpg.InvalidAuthorizationSpecificationError, "does not let this user in ({}); check user and pg_hba.conf"),
    (_asyncpg.InvalidCatalogNameError, "has no such database ({}); make it with `createdb`, sayso makes its tables"),
    (_asyncpg.InsufficientPrivilegeError, "does not give this user a right that sayso needs: {}; see docs/postgres.md"),
    (_asyncpg.ReadOnlySQLTransactionError, "only lets itself be read ({}); name the primary, not a replica"),
    (_asyncpg.QueryCanceledError, "needed too long for a statement ({}); try again"),
    (_asyncpg.DiskFullError, "cannot be written: its disk is full ({}); make room, nothing acknowledged is lost"),
    (_asyncpg.UndefinedTableError, "lost its tables ({}); restore a copy"),
    (_asyncpg.UndefinedObjectError, "does not know an option of the address ({})"),
)  # fmt: skip


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
