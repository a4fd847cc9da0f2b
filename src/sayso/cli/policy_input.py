"""Loading of policies and parsing of calls for the command line.

Tests: tests/cli/test_policy_files.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from sayso.cli.screen import mistake_line, say, visible
from sayso.config.load_policy import load_policy, policy_files_here
from sayso.core.canonical import parse_args
from sayso.core.model import ToolCall
from sayso.errors import CanonicalError, ConfigurationError, Mistake, PolicyError
from sayso.policy.data_schema import Key, Problem, Shape, dotted, record, text, validate
from sayso.policy.policy import Policy

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
