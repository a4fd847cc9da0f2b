"""What a test needs of PostgreSQL that no wheel has: a server that speaks TLS, a standby, and PgBouncer before it."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.certificates import Authority
from tests.postgres import NOBODY, Postgres, free_port

HOW = "run `python3 dev.py test`, which installs it, or says how"


class DebianPostgres(Postgres):
    """A server of the distribution, which is older than the one of the wheel as well."""

    @staticmethod
    def find(folder: Path) -> Path:
        """Return where its programs are."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: int(each.parts[-3]))
        if not found:
            raise AssertionError(f"the tests need Debian's PostgreSQL, for TLS: {HOW}")
        return found[-1].parent

    def speak_tls(self, name: str) -> Authority:
        """Have it show a certificate of that name, and return who signed it."""
        authority = Authority(self.folder)
        cert, key = authority.issue(name)
        if "user" in self.user:
            os.chown(key, NOBODY, NOBODY)
            os.chown(cert, NOBODY, NOBODY)
        for setting, value in {"ssl_cert_file": cert, "ssl_key_file": key, "ssl_ca_file": authority.file}.items():
            self.ask(f"ALTER SYSTEM SET {setting} = '{value}'")
        self.ask("ALTER SYSTEM SET ssl = on")
        self.reload()
        return authority


class Standby(DebianPostgres):
    """A server that follows another one, which waits for it at each commit, until it is promoted."""

    def __init__(self, folder: Path, primary: Postgres) -> None:
        self._primary = primary
        super().__init__(folder)
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.reload()

    def make(self) -> None:
        """Copy the other one."""
        place = ["-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "postgres", "-D", str(self.data)]
        self.run("pg_basebackup", *place, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")

    def promote(self) -> None:
        """Have it be the primary from now on; it waits for nobody."""
        self.run("pg_ctl", "promote", "-w", "-D", str(self.data))


class PgBouncer:
    """A pooler that gives each transaction one of two sessions of a server."""

    def __init__(self, server: Postgres) -> None:
        program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
        if program is None:
            raise AssertionError(f"the tests need PgBouncer: {HOW}")
        self.port, self._server = free_port(), server
        users, settings = server.folder / "users.txt", server.folder / "pgbouncer.ini"
        users.write_text('"postgres" ""\n')
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\ndefault_pool_size = 2\n"
        )
        self._log = server.folder / "pgbouncer.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([program, str(settings)], stderr=log, **server.user)
        assert server.answers(self.port, self._process), self.log

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def through(self, url: str) -> str:
        """Return an address that goes through it."""
        return url.replace(f":{self._server.port}/", f":{self.port}/")

    def leave(self) -> None:
        """Stop it for good."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=30)
