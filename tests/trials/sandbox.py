"""Sandbox of a trial: a folder with sample files, no network but an own loopback, and every system call traced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.trials.samples import make_samples
from tests.trials.trace import CALLS, Effects, read_trace

LIMIT = 10.0  # seconds; to wait for longer would prove nothing
HOME_PREFIX = "sayso-trial-"
ADDRESS = "http://127.0.0.1:8765/"
_ROOT = Path(__file__).resolve().parents[2]  # seen in the sandbox, even if it lies in the folder of temporary files
_SERVER = Path(__file__).with_name("server.py")
# The filter in the kernel stops a program at the calls of the list only, and not at each.
_TRACE = ("strace", "-f", "-q", "-y", "-s", "200", "--seccomp-bpf", "-e", f"trace={CALLS}")
_CANARY = "#!/bin/sh\ncat > /dev/null\n"  # stands for a pager, an editor, a browser: to start it is seen
_CANARIES = ("pager-canary", "editor-canary", "browser-canary", "askpass-canary", "shell-canary")


class Outcome(NamedTuple):
    """Outcome of a trial: the exit code (None after the time limit), the effects, and what else is of use."""

    code: int | None
    effects: Effects
    output: str
    took: float = 0.0  # seconds
    passing: frozenset[str] = frozenset()  # files that it made in the folders of the sandbox, and removed again


class Sandbox:
    """Runs commands one by one, each in the same sample folder."""

    def __init__(self, *, extra: Mapping[str, str] | None = None) -> None:
        """Make the samples; `extra` are programs of a test, by name."""
        self.home = Path(tempfile.mkdtemp(prefix=HOME_PREFIX))
        self._programs = self.home / "bin"
        self._programs.mkdir()
        for name, text in {**dict.fromkeys(_CANARIES, _CANARY), **(extra or {})}.items():
            (self._programs / name).write_text(text, encoding="utf-8")
            (self._programs / name).chmod(0o755)
        make_samples(self.home / "samples", self.home / "samples-home")
        self._process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """End it, and remove its files."""
        self._end()
        shutil.rmtree(self.home, ignore_errors=True)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def run(self, argv: Sequence[str], limit: float = LIMIT) -> Outcome:
        """Run a command, and return what it did."""
        if self._process is None:
            self._process = self._start()
        server = self._process
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps({"argv": list(argv), "trace": _TRACE, "limit": limit}) + "\n")
            server.stdin.flush()
            line = server.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:  # the next run has a new sandbox
            self._end()
            return Outcome(None, Effects(reached=frozenset({"the processes of the sandbox, which ended"})), "")
        told = json.loads(line)
        if told["trace"] is None:
            raise RuntimeError(f"the sandbox did not run {argv[0]}: {told['output'][-500:]}")
        effects = read_trace(told["trace"])
        lasting = frozenset(told["changed"])
        wrote = self._lasting(effects.wrote) | lasting
        passing = frozenset(each for each in wrote - lasting if each.startswith(f"{self.home}/"))
        return Outcome(told["code"], effects._replace(wrote=wrote), told["output"], told["took"], passing)

    def _lasting(self, paths: frozenset[str]) -> frozenset[str]:
        """Leave out temporary files outside of the sample folders; those that are still there are told of apart."""
        scratch = f"{tempfile.gettempdir()}/"
        return frozenset(each for each in paths if not each.startswith(scratch) or each.startswith(f"{self.home}/"))

    def _start(self) -> subprocess.Popen[str]:
        command = [*self._confined(), sys.executable, "-S", str(_SERVER), str(self.home), tempfile.gettempdir()]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment(),
            start_new_session=True,
        )  # fmt: skip

    def _confined(self) -> list[str]:
        seen = [str(self.home / name) for name in ("bin", "samples", "samples-home")]
        return [
            "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
            "--tmpfs", tempfile.gettempdir(), "--tmpfs", "/run",
            *(word for path in (str(_ROOT), sys.prefix, *seen) for word in ("--ro-bind", path, path)),
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        canaries = {
            "PAGER": "pager-canary", "GIT_PAGER": "pager-canary", "MANPAGER": "pager-canary", "EDITOR": "editor-canary",
            "VISUAL": "editor-canary", "BROWSER": "browser-canary", "GIT_ASKPASS": "askpass-canary",
            "SSH_ASKPASS": "askpass-canary", "SHELL": "shell-canary",
        }  # fmt: skip
        # Where rustc is, if it comes from rustup; the folder can be read only.
        toolchains = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
        author = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        settings = {
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "PYTHONDONTWRITEBYTECODE": "1",
            "npm_config_fetch_retries": "0",
            "PIP_RETRIES": "0",
            "UV_HTTP_RETRIES": "0",
            "GH_TOKEN": "none",  # without these two, gh does nothing
            "GH_REPO": "owner/repository",
            "CHECKPOINT_DISABLE": "1",  # terraform asks for the newest version beside its work, sooner or later
            "RUSTUP_HOME": toolchains,
        }
        return {**canaries, **author, **settings, "PATH": self.path, "HOME": str(self.home / "home")}

    @property
    def path(self) -> str:
        """Where programs are looked for: those of the tests, of this environment, and of the system."""
        own = f"{self._programs}:{Path(sys.executable).parent}"
        return f"{own}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:{os.environ.get('PATH', '')}"
