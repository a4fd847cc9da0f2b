"""Process inside of the sandbox: answers HTTP on its loopback, and runs one command after another under a trace.

It stays while a program is measured, for to set up a sandbox takes longer than most commands do. Each command finds
the same files as the one before: what a command changed is put back. Its own processes end with it. Requests and
answers are lines of JSON on the standard input and output.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"

State = dict[str, tuple[int, ...]]


def answer(listener: socket.socket) -> None:
    """Answer every connection in the same way."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(1)
            try:
                connection.recv(65_536)
                connection.sendall(ANSWER)
            except OSError:
                continue


class Folders:
    """The folders that a command can write: its work, its home, and that of temporary files."""

    def __init__(self, root: Path, scratch: Path) -> None:
        """Take the folder of the sandbox, with the samples, and the folder of temporary files."""
        self._root, self._scratch = root, scratch
        self._fresh: State = {}

    def make(self) -> None:
        """Bring the folders to their first state."""
        for name, samples in (("work", "samples"), ("home", "samples-home")):
            shutil.rmtree(self._root / name, ignore_errors=True)
            shutil.copytree(self._root / samples, self._root / name, symlinks=True)
        for other in self._scratch.iterdir():
            if other not in {self._root, *self._root.parents}:
                _remove(other)
        self._fresh = dict(self._state())

    def changes(self) -> list[str]:
        """Return the paths that are not as they were at first."""
        before, now = self._fresh, dict(self._state())
        return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))

    def _state(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for folder in (self._root / "work", self._root / "home", self._scratch):
            yield from _entries(folder, but=str(self._root) if folder == self._scratch else "")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _entries(folder: Path | str, but: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the entries of a folder; the times of folders are left out, for they tell of scratch files, too.

    What is mounted there from outside is no part of it: no command can write that, and others may.
    """
    device = os.stat(folder).st_dev  # noqa: PTH116 - a text or a path
    with os.scandir(folder) as entries:
        for each in entries:
            if each.path == but:
                continue
            found = each.stat(follow_symlinks=False)
            if found.st_dev != device:
                continue
            if each.is_dir(follow_symlinks=False):
                yield each.path, (found.st_mode, found.st_uid)
                yield from _entries(each.path, but)
            else:
                yield each.path, (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def run(command: Sequence[str], work: Path, limit: float) -> tuple[int | None, str, float]:
    """Run a command to its end, or to the limit; nothing that it started goes on behind it."""
    begun = time.monotonic()
    process = subprocess.Popen(
        command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    timer = threading.Timer(limit, _end_others)
    timer.start()
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(process.stdout.read() if process.stdout else ""))
    reader.start()
    code = process.wait()
    took = time.monotonic() - begun
    timer.cancel()
    _end_others()  # whatever went to the background holds the output open
    reader.join()
    return None if took >= limit else code, "".join(said), took


def _end_others() -> None:
    """End every process of the sandbox but this one and the first."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        if not _others():
            return
        os.sched_yield()


def _others() -> bool:
    mine = {"1", str(os.getpid())}
    return any(name.isdigit() and name not in mine and not _is_dead(name) for name in os.listdir("/proc"))  # noqa: PTH208 - quick


def _is_dead(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def main(root: Path, scratch: Path) -> None:
    """Run the commands of the standard input."""
    if Path("/proc/1/comm").read_text(encoding="utf-8").strip() != "bwrap":
        sys.exit("This ends every process that it can see: it runs in the sandbox of `dev.py harmless` only.")
    threading.Thread(target=answer, args=(socket.create_server(("127.0.0.1", 8765)),), daemon=True).start()
    folders, log = Folders(root, scratch), root / "trace"
    folders.make()
    for line in sys.stdin:
        asked = json.loads(line)
        log.unlink(missing_ok=True)
        code, output, took = run([*asked["trace"], "-o", str(log), "--", *asked["argv"]], root / "work", asked["limit"])
        trace = log.read_text(encoding="utf-8", errors="replace") if log.exists() else None
        changed = folders.changes()
        told = {"code": code, "output": output[:200_000], "took": took, "trace": trace, "changed": changed}
        print(json.dumps(told), flush=True)
        if changed:
            folders.make()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
