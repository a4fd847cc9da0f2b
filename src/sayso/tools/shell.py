"""The tool for shell lines: what was judged is what runs, in a folder and an environment that the host has fixed.

A line that is one plain command runs as that command, without a shell. Everything else is for bash, which is what the
judge has read it as. Where a person was asked, it runs only if its programs, its folder and its environment are still
the ones that they were shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sayso import context, realpath
from sayso.adapters.function import guard
from sayso.errors import ConfigurationError, ToolError
from sayso.model import ApprovalPresentation, Preview
from sayso.policy.shell.judge import Shell
from sayso.policy.shell.lexer import NotProvable, Part, lex
from sayso.policy.tools import Policy
from sayso.policy.zones import Zones
from sayso.tools import confine, previews, processes
from sayso.tools.handles import Root

_BASH = ("bash", "--noprofile", "--norc", "-c")
_SHELLS = "/bin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"  # not PATH, in which an agent may have put its own
_ONE_COMMAND = {"", ";", "\n"}  # what may stand behind it; `&` would leave it running
_CONFINED_HOME = "/tmp"  # noqa: S108 - the one that bubblewrap makes, which nobody else sees
_STEERS_GIT = (".git/hooks", ".git/config")  # the rest of .git has to change when work is committed


class _Start(NamedTuple):
    """How a line is run, and everything that this depends on."""

    argv: tuple[str, ...]
    program: str
    parts: tuple[Part, ...] | None  # None if nobody can say which commands it runs
    programs: tuple[str, ...]  # of all its commands, where they could be found
    environment: dict[str, str]

    @property
    def is_direct(self) -> bool:
        """Whether no shell is needed."""
        return self.argv[: len(_BASH)] != _BASH


class ShellTool:
    """Shell lines under the shell rules of a policy; `functions` is the tool, for `guard` or for an agent."""

    def __init__(
        self, policy: Policy, *, limits: processes.Limits | None = None, environment: Iterable[str] = ()
    ) -> None:
        """Hold the folder open in which lines run.

        Args:
            policy: the one that the controller has, or the one that is under it; with `shell` rules.
            limits: how long a line may run, and how much of its output is kept.
            environment: names of variables that are passed on besides the usual harmless ones.
        """
        if policy.shell is None:
            raise ConfigurationError("the policy has no `shell` rules, so no line could ever be judged")
        self._shell, self._zones = policy.shell, policy.zones
        self._where = _folder(self._shell, self._zones)
        problem = confine.problem() if self._shell.confine else None
        if problem is not None:
            raise ConfigurationError(f"the policy says `shell.confine`, but {problem}")
        self._limits = limits or processes.Limits()
        self._also = tuple(environment)
        processes.clean({}, also=self._also)  # refuses names that steer
        self._folder = Root(self._where)

    def __enter__(self) -> Self:
        """Use the tool for a while."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        self._folder.close()

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The tool, behind the controller that it runs under."""
        return [guard(self.shell, name="shell", preview=self._preview)]

    async def shell(self, command: str) -> str:
        """Run a line of bash, and return its exit code and what it wrote. It gets no input.

        Args:
            command: the line, such as: git status
        """
        terms = context.terms(command=command)
        if terms is None:
            raise ConfigurationError("the shell runs only behind a controller; use that of `ShellTool.functions`")
        start = self._start(command)
        if terms.basis is not None and terms.basis != self._basis(start):
            raise ToolError("its program, folder or environment was changed after it was approved; nothing was run")
        ended = await self._run(start)
        return _told(ended, self._limits)

    async def _run(self, start: _Start) -> processes.Ended:
        argv, program, environment = list(start.argv), start.program, start.environment
        if self._shell.confine:
            argv = self._confined(start)
            program, environment = argv[0], environment | {"HOME": _CONFINED_HOME, "TMPDIR": _CONFINED_HOME}
        with self._folder.handle() as folder:
            return await processes.run(
                argv, program=program, folder=folder, environment=environment, limits=self._limits
            )

    def _confined(self, start: _Start) -> list[str]:
        zones = self._zones.zones if self._zones else ()
        return confine.confined(
            start.argv,
            program=start.program,
            folder=self._where,
            mounts=[confine.Mount(zone.root, zone.mode == "rw") for zone in zones],
            hidden=[each for each in (self._zones.own if self._zones else ()) if _in_a_zone(each, self._zones)],
            frozen=[each for zone in zones if zone.mode == "rw" for each in _steering(zone.root, self._zones)],
            network=self._shell.network,
        )

    def _preview(self, command: str) -> Preview:
        start = self._start(command)
        words = [*self._judged(command), "", *self._facts(start)]
        return Preview(
            description=f"Run a command in {self._where}",
            presentation=ApprovalPresentation(
                title=f"Run {command}", content="\n".join(words), content_type="text/plain", language="bash"
            ),
            metadata={
                "program": start.program,
                "programs": list(start.programs),
                "folder": self._where,
                "runs": "directly" if start.is_direct else "in bash",
                "writes": _writes(start.parts),
                "confined": self._shell.confine,
            },
            basis=self._basis(start),
        )

    def _judged(self, command: str) -> Iterator[str]:
        """Yield what the rules say about each part, those that ask first seen."""
        marks = {"none": "   ", "required": "ask", "once_per_session": "ask", "blocked": "no "}
        for each in self._shell.findings(command):
            yield f"{marks[each.approval]} {each.part}  ({each.reason})"

    def _facts(self, start: _Start) -> Iterator[str]:
        yield f"runs {start.program} {'directly' if start.is_direct else 'with the line'}, in {self._where}"
        if self._shell.confine:
            yield f"confined to the zones, {'with' if self._shell.network else 'without'} network"
        for each in start.programs:
            if each != start.program:
                yield f"starts {each}"
        for each in _writes(start.parts):
            yield f"writes {each}"

    def _start(self, command: str) -> _Start:
        self._check_folder()
        environment = processes.clean(os.environ, also=self._also)
        try:
            parts = lex(command)
        except NotProvable:
            parts = None
        programs = [self._find(part.argv[0], environment["PATH"]) for part in parts or () if part.argv]
        found = tuple(dict.fromkeys(each for each in programs if each is not None))
        if parts is not None and _is_plain(parts) and found:
            return _Start(parts[0].argv, found[0], parts, found, environment)
        bash = processes.find("bash", _SHELLS)
        if bash is None:
            raise ToolError("there is no bash here, and this line needs one; use a single command")
        return _Start((*_BASH, command), bash, parts, found, environment)

    def _check_folder(self) -> None:
        """Refuse to run elsewhere than the rules have judged by its path."""
        try:
            facts = os.lstat(self._where)
        except OSError:
            facts = None
        if facts is None or (facts.st_dev, facts.st_ino) != self._folder.identity:
            raise ToolError(f"{self._where!r} is no longer the folder that it was; nothing was run")

    def _find(self, name: str, path: str) -> str | None:
        if "/" in name and not name.startswith("/"):
            name = f"{self._where}/{name}"
        return processes.find(name, path)

    def _basis(self, start: _Start) -> str:
        variables = [f"{name}={value}" for name, value in sorted(start.environment.items())]
        programs = [_identity(each) for each in (start.program, *start.programs)]
        return previews.fingerprint(
            *start.argv, "", *programs, "", *variables, "", self._where, str(self._folder.identity)
        )


def _is_plain(parts: tuple[Part, ...]) -> bool:
    only = parts[0] if len(parts) == 1 else None
    beside = only is None or only.redirects or only.assignments or only.expands
    return only is not None and not beside and only.operator in _ONE_COMMAND


def _writes(parts: tuple[Part, ...] | None) -> list[str]:
    return [each.target for part in parts or () for each in part.redirects if each.writes]


def _identity(program: str) -> str:
    try:
        facts = Path(program).stat()
    except OSError as error:
        raise ToolError(f"{program!r} cannot be run: {error.strerror}") from error
    return f"{program}:{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"


def _folder(shell: Shell, zones: Zones | None) -> str:
    """Return where lines run, which is inside a zone if there are some."""
    try:
        found = realpath.resolve(shell.folder)
    except OSError as error:
        raise ConfigurationError(f"shell lines cannot run in {shell.folder!r}: {error.strerror}") from error
    if zones is not None and not _in_a_zone(found, zones):
        raise ConfigurationError(f"shell lines would run in {found!r}, which is in no zone; set `shell.folder`")
    return found


def _in_a_zone(path: str, zones: Zones | None) -> bool:
    return any(f"{path}/".startswith(f"{zone.root.rstrip('/')}/") for zone in (zones.zones if zones else ()))


def _steering(root: str, zones: Zones | None) -> list[str]:
    """Return what there is directly in a zone that programs or agents obey, so that it must not be changed."""
    if zones is None:
        return []
    found = [name for name in os.listdir(root) if name != ".git" and zones.is_protected(name)]  # noqa: PTH208 - names
    return [path for name in (*found, *_STEERS_GIT) if (path := f"{root}/{name}") and Path(path).exists()]


def _told(ended: processes.Ended, limits: processes.Limits) -> str:
    """Return what the model is told about a program that has run."""
    if ended.timed_out:
        how = f"it was ended because it ran longer than {limits.seconds:g} seconds"
    else:
        how = f"ended by {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    streams = [f"{name}:\n{text}" for name, text in (("stdout", ended.stdout), ("stderr", ended.stderr)) if text]
    rest = ["something that it started and left running was ended"] if ended.lingered else []
    return "\n".join([how, *streams, *rest])
