"""Shell tool: runs exactly the line that was judged, in a folder and an environment that the host has fixed.

A line of one plain command runs directly, without a shell. Any other line runs in bash, the language in which it was
judged. Where a person was asked, it runs only if the fingerprint of its programs, folder and environment is unchanged
(TOCTOU).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sayso.adapters.function import guard
from sayso.core import realpath
from sayso.core.model import ApprovalPresentation, Deed, Preview
from sayso.engine import context
from sayso.engine.context import Grant
from sayso.engine.settings import check_policy
from sayso.errors import ConfigurationError, ToolError
from sayso.policy.policy import Policy
from sayso.policy.shell.judge import ShellRules
from sayso.policy.shell.lexer import NotProvable, Part, lex
from sayso.policy.shell.rules import Confinement
from sayso.policy.zones import Zones
from sayso.tools import previews
from sayso.tools.exec import confine, processes
from sayso.tools.exec.mounts import sandbox_view
from sayso.tools.exec.programs import Programs
from sayso.tools.fs.directory import OpenDirectory

_BASH = ("bash", "--noprofile", "--norc", "-c")
_SHELLS = "/bin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"  # not PATH, where an agent may have put its own
_ONE_COMMAND = {"", ";", "\n"}  # operators behind it; `&` would leave it running
_CONFINED_HOME = "/tmp"  # noqa: S108 - the one that bubblewrap makes, which is private
_MARKS = {"none": "   ", "required": "ask", "once_per_session": "ask", "blocked": "no "}


class _LaunchPlan(NamedTuple):
    """Launch plan of a line: the command, and everything on which it depends."""

    argv: tuple[str, ...]
    program: str
    parts: tuple[Part, ...] | None  # None if its commands cannot be proved
    programs: Programs
    environment: dict[str, str]

    @property
    def is_direct(self) -> bool:
        """Whether no shell is needed."""
        return self.argv[: len(_BASH)] != _BASH


class ShellTool(AbstractContextManager["ShellTool"]):
    """Shell tool under the shell rules of a policy; `functions` is the tool, for `guard` or for an agent."""

    def __init__(
        self, policy: Policy, *, limits: processes.ProcessLimits | None = None, environment: Iterable[str] = ()
    ) -> None:
        """Open the folder in which lines run.

        Args:
            policy: the controller's, or the one below it; with `shell` rules.
            limits: the timeout of a line, and the size of its output.
            environment: names of variables to pass besides the usual harmless ones.
        """
        policy = check_policy(policy, prefix="")
        if not policy.shells:
            raise ConfigurationError("the policy has no `shell` rules, so no line could ever be judged")
        self._shell, self._zones = policy.shells[0], policy.zones
        self._folder_path = _folder(policy.shells, self._zones)
        self._confinement = _confinement(policy.shells)
        problem = None if self._confinement is None else confine.unavailable_reason()
        if problem is not None:
            raise ConfigurationError(f"the policy says `shell.confine`, but {problem}")
        self._limits = limits or processes.ProcessLimits()
        self._extra_names = tuple(environment)
        processes.clean_environment({}, extra=self._extra_names)  # refuses names that steer
        self._folder = OpenDirectory(self._folder_path)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder."""
        self._folder.close()

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The tool, guarded by the active controller."""
        return [guard(self.shell, name="shell", preview=self._preview)]

    async def shell(self, command: str) -> str:
        """Run a line of bash, and return its exit code and what it wrote. It gets no input.

        Args:
            command: the line, such as: git status
        """
        if context.current_grant(command=command) is None:
            raise ConfigurationError("the shell runs only behind a controller; use that of `ShellTool.functions`")
        grant = context.current_grant(Deed("shell", command, self._shell.folder))
        if grant is None:
            raise ToolError("no shell rules have judged this line; nothing was run")
        plan = self._plan_launch(command)
        if not grant.rest_on(self._basis(plan)):
            raise ToolError("its program, folder or environment was changed after it was approved; nothing was run")
        return _result_text(await self._run(plan, grant), self._limits)

    async def _run(self, plan: _LaunchPlan, grant: Grant) -> processes.ProcessResult:
        argv, program, environment = list(plan.argv), plan.program, plan.environment
        if self._confinement is not None:
            argv = self._confined(plan, self._confinement, grant.own_files)
            program, environment = argv[0], environment | {"HOME": _CONFINED_HOME, "TMPDIR": _CONFINED_HOME}
        with self._folder.duplicated_fd() as folder:
            return await processes.run_program(
                argv, program=program, folder=folder, environment=environment, limits=self._limits
            )

    def _confined(self, plan: _LaunchPlan, confinement: Confinement, own_files: Iterable[str]) -> list[str]:
        view = sandbox_view(self._zones, own_files)
        return confine.bwrap_command(
            plan.argv,
            program=plan.program,
            folder=self._folder_path,
            mounts=view.mounts,
            hidden=view.hidden,
            frozen=view.frozen,
            network=confinement.network,
            readable=confinement.readable,
        )

    def _preview(self, command: str) -> Preview:
        plan = self._plan_launch(command)
        words = [*self._finding_lines(command), "", *self._launch_lines(plan)]
        return Preview(
            description=f"Run a command in {previews.line(self._folder_path)}",
            presentation=ApprovalPresentation(
                title=previews.line(f"Run {command}"),
                content="\n".join(words),
                content_type="text/plain",
                language="bash",
            ),
            metadata={
                "program": plan.program,
                "programs": list(plan.programs.found),
                "folder": self._folder_path,
                "runs": "directly" if plan.is_direct else "in bash",
                "writes": _writes(plan.parts),
                "confined": self._confinement is not None,
            },
            basis=self._basis(plan),
        )

    def _finding_lines(self, command: str) -> Iterator[str]:
        """Yield a line for each finding of the rules."""
        for each in self._shell.findings(command):
            yield previews.line(f"{_MARKS[each.approval]} {each.part}  ({each.reason})")

    def _launch_lines(self, plan: _LaunchPlan) -> Iterator[str]:
        yield previews.line(
            f"runs {plan.program} {'directly' if plan.is_direct else 'with the line'}, in {self._folder_path}"
        )
        if self._confinement is not None:
            yield f"confined to the zones, {'with' if self._confinement.network else 'without'} network"
        yield from (previews.line(f"starts {each}") for each in plan.programs.found if each != plan.program)
        if not plan.programs.all_known:
            yield "not all programs that it starts are known"
        yield from (previews.line(f"writes {each}") for each in _writes(plan.parts))

    def _plan_launch(self, command: str) -> _LaunchPlan:
        self._check_folder()
        environment = processes.clean_environment(os.environ, extra=self._extra_names)
        try:
            parts = lex(command)
        except NotProvable:
            parts = None
        programs = Programs.from_parts(parts, self._folder_path, environment["PATH"])
        if parts is not None and _is_plain(parts) and programs.first is not None:
            return _LaunchPlan(parts[0].argv, programs.first, parts, programs, environment)
        bash = processes.find_program("bash", _SHELLS)
        if bash is None:
            raise ToolError("there is no bash here, and this line needs one; use a single command")
        return _LaunchPlan((*_BASH, command), bash, parts, programs, environment)

    def _check_folder(self) -> None:
        """Refuse to run if the path of the folder leads to another folder than the judged one."""
        try:
            facts = os.lstat(self._folder_path)
        except OSError:
            facts = None
        if facts is None or (facts.st_dev, facts.st_ino) != self._folder.identity:
            raise ToolError(f"{self._folder_path!r} is no longer the folder that it was; nothing was run")

    def _basis(self, plan: _LaunchPlan) -> str:
        variables = [f"{name}={value}" for name, value in sorted(plan.environment.items())]
        programs = plan.programs.identities(plan.program)
        return previews.fingerprint(
            *plan.argv, "", *programs, "", *variables, "", self._folder_path, str(self._folder.identity)
        )


def _is_plain(parts: tuple[Part, ...]) -> bool:
    only = parts[0] if len(parts) == 1 else None
    extras = only is None or only.redirects or only.assignments or only.expands
    return only is not None and not extras and only.operator in _ONE_COMMAND


def _writes(parts: tuple[Part, ...] | None) -> list[str]:
    return [each.target for part in parts or () for each in part.redirects if each.writes]


def _folder(shells: Iterable[ShellRules], zones: Zones | None) -> str:
    """Return the folder of the lines, which is the same for all rules, and inside a zone if there are zones."""
    folders = {shell.folder for shell in shells}
    if len(folders) > 1:
        raise ConfigurationError(
            f"shell lines would run in {' and in '.join(sorted(folders))}; name one `shell.folder`"
        )
    folder = folders.pop()
    try:
        found = realpath.resolve(folder)
    except OSError as error:
        raise ConfigurationError(f"shell lines cannot run in {folder!r}: {error.strerror}") from error
    inside = zones is None or any(f"{found}/".startswith(f"{zone.root.rstrip('/')}/") for zone in zones.zones)
    if not inside:
        raise ConfigurationError(f"shell lines would run in {found!r}, which is in no zone; set `shell.folder`")
    return found


def _confinement(shells: Iterable[ShellRules]) -> Confinement | None:
    """Return the confinement if any policy has one: the intersection of all of them."""
    said = [shell.confinement for shell in shells if shell.confinement is not None]
    if not said:
        return None
    common = tuple(folder for folder in said[0].readable if all(folder in each.readable for each in said))
    return Confinement(network=all(each.network for each in said), readable=common)


def _result_text(result: processes.ProcessResult, limits: processes.ProcessLimits) -> str:
    """Return the text for the model about a program that has run."""
    if result.timed_out:
        how = f"it was ended because it ran longer than {limits.seconds:g} seconds"
    else:
        how = f"ended by {result.signal}" if result.signal else f"exit code {result.exit_code}"
    streams = [f"{name}:\n{text}" for name, text in (("stdout", result.stdout), ("stderr", result.stderr)) if text]
    rest = ["something that it had started was not waited for, and may still run"] if result.lingered else []
    return "\n".join([how, *streams, *rest])
