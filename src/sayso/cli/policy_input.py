"""Loading of policies and parsing of calls for the command line.

Tests: tests/cli/test_policy_files.py
"""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from sayso.cli.screen import mistake_line, say, visible
from sayso.config.load_policy import load_policy, policy_files_here
from sayso.config.yaml_toml import read_policy_file
from sayso.core import realpath
from sayso.core.canonical import parse_args
from sayso.core.model import ToolCall
from sayso.errors import CanonicalError, ConfigurationError, Mistake, PolicyError
from sayso.policy.data_schema import Key, Problem, Shape, dotted, record, text, validate
from sayso.policy.policy import Policy
from sayso.policy.shell.obeyed_files import obeyed_files
from sayso.policy.shell.wrappers import Argv, pattern_warning
from sayso.policy.tool_names import idle_rules
from sayso.policy.zones import Zone

# Shorthands of calls: the tool, and the argument that gets the value.
SHORTHANDS = {
    "shell": ("shell", "command"),
    "read": ("read_file", "path"),
    "write": ("write_file", "path"),
    "delete": ("delete_file", "path"),
    "list": ("list_files", "path"),
}
_ARGS = Shape(
    kind="a mapping",
    fits=lambda value: isinstance(value, Mapping),
    find_problems=lambda _, __: (),
    schema={"type": "object", "description": "its arguments"},
)
CALL: Mapping[str, Shape] = {
    "tool": text("the tool's name"),
    "args": _ARGS,
    "shell": text("a line for the tool `shell`"),
    "read": text("a path for the tool `read_file`"),
    "write": text("a path for the tool `write_file`"),
    "delete": text("a path for the tool `delete_file`"),
    "list": text("a path for the tool `list_files`"),
}
_ONE_CALL = record("a call", CALL)


class FileMistakes(click.ClickException):
    """Error that lists the mistakes of a policy file, one per line."""

    def __init__(self, error: ConfigurationError) -> None:
        super().__init__(visible(str(error)))
        self._listed = error.mistakes if isinstance(error, PolicyError) else ()
        self.mistakes = self._listed or (Mistake("", None, None, str(error)),)

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - as click has it
        """Print the mistakes, or the one sentence."""
        if not self._listed:
            super().show(file)
        for each in self._listed:
            say(mistake_line(each), err=True)


def policy_files() -> list[Path]:
    """Return the policy files that apply here, the farthest first."""
    try:
        return list(policy_files_here())
    except ConfigurationError as error:  # an unreadable pyproject.toml in a parent folder
        raise FileMistakes(error) from None


def load(path: Path | None) -> Policy:
    """Load the policy of a file, or of all files that apply here."""
    try:
        return _load(path)[0]
    except ConfigurationError as error:
        raise FileMistakes(error) from None


def load_with_warnings(path: Path) -> tuple[Policy, list[Mistake]]:
    """Load the policy of a file, with its warnings."""
    policy, deprecated = _load(path)
    old = [Mistake(str(path), None, None, each) for each in deprecated]
    return policy, [*old, *(_parse_warning(each, str(path)) for each in policy.warnings)]


def _load(path: Path | None) -> tuple[Policy, list[str]]:
    with warnings.catch_warnings(record=True) as deprecated:
        warnings.simplefilter("always")
        policy = load_policy(path)
    return policy, [str(each.message) for each in deprecated]


def _parse_warning(warning: str, source: str) -> Mistake:
    line, column, message = warning.removeprefix(f"{source}:").split(":", 2)
    return Mistake(source, int(line), int(column), message.strip())


def parse_tool_names(given: Iterable[str]) -> list[str]:
    """Parse the names of tools: separated by commas or spaces, or in a file, as `@FILE`."""
    found: list[str] = []
    for each in given:
        names = re.split(r"[,\s]+", _read_names(each[1:]) if each.startswith("@") else each)
        found += (name for name in names if name)
    if given and not found:
        raise click.UsageError("--tools names no tool; write --tools read_file,pay, or @FILE with a name on each line")
    return list(dict.fromkeys(found))


def _read_names(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.ClickException(f"{visible(file)} is not UTF-8; write a name on each line") from None
    except OSError as error:
        raise click.ClickException(f"{visible(file)} cannot be read ({error.strerror}); name another file") from None


def idle_rule_warnings(path: Path, policy: Policy, tools: Collection[str]) -> list[Mistake]:
    """Return a warning, with its place, for each rule of a file that is about none of these tools."""
    found: list[Mistake] = []
    for pattern, rule, message in idle_rules(policy, tools):
        section = rule.key.removesuffix(f".{pattern}")
        listed = re.fullmatch(r"(\w+)\[(\d+)\]", section)
        key: Key = (listed[1], int(listed[2])) if listed else (section, pattern)
        found.append(mistake_at(path, key, message))
    return found


def obeyed_file_warnings(path: Path, policy: Policy) -> list[Mistake]:
    """Return a warning for each rule of a file that lets a program run unasked what the file tools write unasked."""
    found: list[Mistake] = []
    for rule in (each for shell in policy.shells for each in shell.rules if each.approval == "none"):
        files = () if _has_bare_name(rule.words) else obeyed_files(rule.words)
        file, zone = next(((file, zone) for file in files for zone in _unasked_zones(policy, file)), ("", ""))
        if not zone or _approval(policy, {"shell": shlex.join(rule.words)}) != "none":
            continue
        message = (
            f"{rule.rule.key}: `{' '.join(rule.words)}` runs what {file!r} says, and the zone {zone!r} lets agents "
            "write that unasked; set `approval: {write: required}` for the zone, or `approval: required` for this rule"
        )
        key = tuple(int(each) if each.isdigit() else each for each in re.findall(r"\w+", rule.rule.key))
        found.append(mistake_at(path, key, message))
    return found


def _has_bare_name(words: Argv) -> bool:
    """Whether the rule names a program alone that is warned of already."""
    return len(words) == 1 and pattern_warning(words) is not None


def _unasked_zones(policy: Policy, file: str) -> Iterator[str]:
    """Yield the zones in which a file in the folder of lines is written unasked; behind `**/`, in one below as well."""
    try:
        folder = realpath.resolve(policy.shells[0].folder)
    except OSError:
        return
    name = file.removeprefix("**/")
    below = () if name == file or policy.zones is None else (zone.root for zone in policy.zones.zones)
    for place in (folder, *(root for root in below if root.startswith(f"{folder.rstrip('/')}/"))):
        zone = None if policy.zones is None else policy.zones.innermost_zone(f"{place}/{name}")
        if zone is not None and _writes_unasked(policy, zone, f"{place}/{name}"):
            yield zone.name


def _writes_unasked(policy: Policy, zone: Zone, place: str) -> bool:
    shown = f"/{zone.name}{place.removeprefix(zone.root.rstrip('/'))}"
    calls = [{"write": shown}, {"tool": "edit_file", "args": {"path": shown, "old": "a", "new": "b"}}]
    return any(_approval(policy, call) == "none" for call in calls)


def _approval(policy: Policy, call: Mapping[str, Any]) -> str:
    return policy.judge(build_call(call)).approval


def mistake_at(path: Path, key: Key, message: str) -> Mistake:
    """Return a mistake at a key of a policy file, or at the key above it."""
    document = read_policy_file(path)
    line, column = (None, None) if document is None else document.mark(key)
    return Mistake(str(path), line, column, message)


def parse_call(line: str) -> ToolCall:
    """Parse a call from JSON, strictly.

    Raises:
        ConfigurationError: the call is malformed.
    """
    try:
        data = parse_args(line)
    except CanonicalError as error:
        raise ConfigurationError(f"this cannot be read as a call: {error}") from None
    problems = list(validate(_ONE_CALL, data, ("call",))) or list(problems_of_call(data))
    if problems:
        raise ConfigurationError("; ".join(each.message for each in problems))
    return build_call(data)


def problems_of_call(data: Mapping[str, Any], key: Key = ()) -> Iterator[Problem]:
    """Yield semantic errors of a call whose fields have the right types."""
    named = [name for name in ("tool", *SHORTHANDS) if name in data]
    place = dotted(key) if key else "the call"
    if len(named) != 1:
        problem = f"has {' and '.join(f'`{name}`' for name in named)}" if named else "names no call"
        yield Problem(key, f"{place} {problem}; use one of tool, {', '.join(SHORTHANDS)}")
    if "args" in data and "tool" not in data:
        yield Problem((*key, "args"), f"{place} has `args` without `tool`; only a tool has arguments of its own")


def build_call(data: Mapping[str, Any]) -> ToolCall:
    """Build the call from its fields."""
    for word, (tool, argument) in SHORTHANDS.items():
        if word in data:
            return ToolCall(tool=tool, args={argument: data[word]})
    return ToolCall(tool=data["tool"], args=data.get("args", {}))
