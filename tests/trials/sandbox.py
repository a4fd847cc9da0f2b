"""Sandbox of a trial: a folder with sample files, no network but an own loopback, and every system call traced."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.trials.trace import CALLS, Effects, read_trace

LIMIT = 20.0
HOME_PREFIX = "sayso-trial-"
ADDRESS = "http://127.0.0.1:8765/"
_ROOT = Path(__file__).resolve().parents[2]  # seen in the sandbox, even if it lies in the folder of temporary files
_LISTENER = Path(__file__).with_name("listener.py")
_FILES: Mapping[str, str] = {
    "in.txt": "one 1\ntwo 2\nthree 3\none 1\n",
    "other.txt": "one 1\ntwo 2\nfour 4\n",
    "data.json": '{"a": [1, 2], "b": {"c": "x"}}\n',
    "data.yaml": "a: 1\nb: [x, y]\n",
    "data.csv": "a,b\n1,2\n3,4\n",
    "page.xml": "<a><b>1</b></a>\n",
    "module.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
    "test_module.py": "def test_add() -> None:\n    assert 1 + 1 == 2\n",
    "program.js": "console.log(1)\n",
    "program.c": "int main(void) { return 0; }\n",
    "script.sh": "echo hello\n",
    "Makefile": "all:\n\t@echo made\n",
    "folder/inner.txt": "inside\n",
}
_CANARY = "#!/bin/sh\ncat > /dev/null\n"  # stands for a pager, an editor, a browser: to start it is seen
_CANARIES = ("pager-canary", "editor-canary", "browser-canary", "askpass-canary", "shell-canary")


class Outcome(NamedTuple):
    """Outcome of a trial: the exit code (None after the time limit), and the effects."""

    code: int | None
    effects: Effects
    output: str


class Sandbox:
    """Runs commands one by one, each in a fresh copy of the sample folder."""

    def __init__(self, *, extra: Mapping[str, str] | None = None) -> None:
        """Make the samples; `extra` are programs of a test, by name."""
        self._home = Path(tempfile.mkdtemp(prefix=HOME_PREFIX))
        self._samples = self._home / "samples"
        self._programs = self._home / "bin"
        self._programs.mkdir()
        for name, text in {**dict.fromkeys(_CANARIES, _CANARY), **(extra or {})}.items():
            (self._programs / name).write_text(text, encoding="utf-8")
            (self._programs / name).chmod(0o755)
        self._make_samples()

    def _make_samples(self) -> None:
        for name, text in _FILES.items():
            file = self._samples / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(self._samples)]
        for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *arguments], check=True, capture_output=True)
        (self._samples / "other.txt").write_text("changed\n", encoding="utf-8")
        subprocess.run([*git, "commit", "-qam", "second"], check=True, capture_output=True)
        shutil.make_archive(str(self._samples / "archive"), "tar", self._samples, "folder")

    def close(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self._home, ignore_errors=True)

    def run(self, argv: Sequence[str]) -> Outcome:
        """Run a command, and return what it did."""
        work, log = self._home / "work", self._home / "trace"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self._samples, work, symlinks=True)
        log.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-S",
            str(_LISTENER),
            "strace",
            "-f",
            "-qq",
            "-s",
            "200",
            "-e",
            f"trace={CALLS}",
            "-o",
            str(log),
            "--",
            *argv,
        ]
        process = subprocess.Popen(
            [*self._confined(work), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment(),
            start_new_session=True,
        )
        try:
            output, code = process.communicate(timeout=LIMIT)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, code = process.communicate()[0], None
        if not log.exists():
            raise RuntimeError(f"the sandbox did not run {argv[0]}: {output.decode(errors='replace')[-500:]}")
        trace = log.read_text(encoding="utf-8", errors="replace")
        return Outcome(code, read_trace(trace), output.decode(errors="replace"))

    def _confined(self, work: Path) -> list[str]:
        home = str(self._home)
        return [
            "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
            "--tmpfs", tempfile.gettempdir(), "--tmpfs", "/run",
            "--ro-bind", str(_ROOT), str(_ROOT), "--ro-bind", sys.prefix, sys.prefix, "--bind", home, home,
            "--chdir", str(work),
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        canaries = {
            "PAGER": "pager-canary", "GIT_PAGER": "pager-canary", "MANPAGER": "pager-canary", "EDITOR": "editor-canary",
            "VISUAL": "editor-canary", "BROWSER": "browser-canary", "GIT_ASKPASS": "askpass-canary",
            "SSH_ASKPASS": "askpass-canary", "SHELL": "shell-canary",
        }  # fmt: skip
        home = self._home / "home"
        home.mkdir(exist_ok=True)
        settings = {"LANG": "C.UTF-8", "TERM": "xterm", "PYTHONDONTWRITEBYTECODE": "1"}
        return {**canaries, **settings, "PATH": self.path, "HOME": str(home)}

    @property
    def path(self) -> str:
        """Where programs are looked for: those of the tests, of this environment, and of the system."""
        return f"{self._programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
