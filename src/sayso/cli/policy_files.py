"""Commands of the policy file: `init`, `schema`, `check`, `explain`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

from sayso.cli import policy_input
from sayso.cli.main import EXIT_CODES
from sayso.cli.screen import explanation, mistake_line, say, say_lines, short_path, standard_input, visible
from sayso.config.load_policy import NAMES
from sayso.core import json_codec
from sayso.core.model import ToolCall, new_id
from sayso.errors import CanonicalError, ConfigurationError, Mistake, PolicyError
from sayso.policy import file_schema
from sayso.policy.policy import Policy
from sayso.policy.tool_names import unnamed_tools

_LONGEST_LINE = 10_000_000
_A_FILE = click.Path(path_type=Path)
_CODES_OF_CHECK = "Ends with: 0 no mistake (a warning is none), 1 a mistake or an error, 2 wrong usage."
_NEXT_STEPS = """\
Now read it and make it yours. Then:
  sayso check                         find mistakes in it
  sayso explain --shell 'git status'  ask what happens to a call, and why
  sayso test                          run the cases in sayso.test.yaml"""


# --- init and schema ---------------------------------------------------------------------------------


@click.command(epilog=f"Example: sayso init\n\nEnds with: {EXIT_CODES}.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@click.argument("path", type=_A_FILE, default=NAMES[0])
def init(path: Path, *, force: bool) -> None:
    """Write a policy to start from, with comments that explain it.

    PATH is a file or a folder; else it is sayso.yaml in this folder.
    """
    target = path / NAMES[0] if path.is_dir() and path.name not in NAMES else path
    shown = visible(str(target))
    starter = resources.files("sayso.cli").joinpath("starter.yaml").read_text(encoding="utf-8")
    try:
        _write_atomically(target, starter, force=force)
    except FileExistsError:
        raise click.ClickException(f"{shown} is there already; use --force to overwrite it") from None
    except OSError as error:
        raise click.ClickException(f"{shown} cannot be written ({error.strerror}); name another place") from None
    say(f"Wrote {shown}. {_NEXT_STEPS}")


def _write_atomically(target: Path, content: str, *, force: bool) -> None:
    draft = target.with_name(f".{target.name}.{new_id()}")
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if force:
            draft.replace(target)
        else:
            target.hardlink_to(draft)  # fails if the target exists, even if it was created just now
    finally:
        draft.unlink(missing_ok=True)


@click.command(epilog=f"Example: sayso schema > sayso.schema.json\n\nEnds with: {EXIT_CODES}.")
def schema() -> None:
    """Print the JSON Schema of the policy file, for editors."""
    say(json.dumps(file_schema.policy_file_schema(), indent=2))


# --- check -------------------------------------------------------------------------------------------


@click.command(epilog=f"Example: sayso check sayso.yaml\n\n{_CODES_OF_CHECK}")
@click.option(
    "--tools",
    "named",
    multiple=True,
    metavar="NAMES",
    help="The agent's tools, as a,b,c or as @FILE: tell of rules about none of them, and of tools without a rule.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an array of {file, line, column, message, kind}.")
@click.argument("files", type=_A_FILE, nargs=-1)
def check(files: tuple[Path, ...], *, named: tuple[str, ...], as_json: bool) -> None:
    """Find every mistake in policy files.

    Without FILES, those that apply here are checked: your own, the project's, and the one that SAYSO_POLICY names.
    """
    tools = policy_input.parse_tool_names(named)
    try:
        checked = [_check_file(path, tools) for path in files or policy_input.policy_files()]
    except policy_input.FileMistakes as error:
        if as_json:
            say(json.dumps([_mistake_json("mistake", each) for each in error.mistakes], indent=2))
        raise
    if not checked:
        raise click.ClickException("there is no policy file here; run `sayso init` to write one, or name one")
    found = [*(each for file in checked for each in file.found), *_note_unnamed_tools(checked, tools)]
    if as_json:
        say(json.dumps([_mistake_json(kind, each) for kind, each in found], indent=2))
    else:
        _report(checked, found)
    if any(kind == "mistake" for kind, _ in found):
        raise click.exceptions.Exit(1)


_KindedMistake = tuple[str, Mistake]  # kind and mistake


class _CheckedFile(NamedTuple):
    """A policy file with its policy, unless it has mistakes, and all that was found in it."""

    path: Path
    policy: Policy | None
    found: list[_KindedMistake]


def _check_file(path: Path, tools: list[str]) -> _CheckedFile:
    try:
        policy, warnings = policy_input.load_with_warnings(path)
    except PolicyError as error:
        ordered = sorted(error.mistakes, key=lambda each: (each.line or 0, each.column or 0))
        return _CheckedFile(path, None, [("mistake", each) for each in ordered])
    except ConfigurationError as error:
        mistake = Mistake(str(path), None, None, str(error).removeprefix(f"{path}: "))
        return _CheckedFile(path, None, [("mistake", mistake)])
    warnings += policy_input.obeyed_file_warnings(path, policy)
    if tools:
        warnings += policy_input.idle_rule_warnings(path, policy, tools)
    return _CheckedFile(path, policy, [("warning", each) for each in warnings])


def _note_unnamed_tools(checked: list[_CheckedFile], tools: list[str]) -> Iterator[_KindedMistake]:
    """Yield a note about tools that no file names, at the default of the last file; none if a file has mistakes."""
    policies = [file.policy for file in checked if file.policy is not None]
    if not tools or len(policies) < len(checked):
        return
    unnamed = unnamed_tools(policies, tools)
    if unnamed:
        message = f"no rule names {', '.join(map(repr, unnamed))}, so the default decides"
        yield "note", policy_input.mistake_at(checked[-1].path, ("default",), message)


def _report(checked: Iterable[_CheckedFile], found: list[_KindedMistake]) -> None:
    for kind, each in found:
        say(mistake_line(each, "" if kind == "mistake" else f"{kind}: "), err=True)
    for path, policy, some in checked:
        warned = "" if policy is None or not some else f", {_count(len(some), 'warning')}"
        verdict = _count(len(some), "mistake") if policy is None else f"fine, {_count(len(policy.rules), 'rule')}"
        say(f"{visible(short_path(str(path)))}: {verdict}{warned}")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _mistake_json(kind: str, mistake: Mistake) -> dict[str, Any]:
    return {
        "file": mistake.source,
        "line": mistake.line,
        "column": mistake.column,
        "message": mistake.message,
        "kind": kind,
    }


# --- explain -----------------------------------------------------------------------------------------


@click.command(epilog=f"Example: sayso explain --shell 'git status && ls'\n\nEnds with: {EXIT_CODES}.")
@click.option("--policy", "path", type=_A_FILE, help="Ask this file instead of those that apply here.")
@click.option("--shell", metavar="LINE", help="A line for the tool shell.")
@click.option("--read", metavar="PATH", help="A path for the tool read_file, such as /zone/file.")
@click.option("--write", metavar="PATH", help="A path for the tool write_file.")
@click.option("--delete", metavar="PATH", help="A path for the tool delete_file.")
@click.option("--list", metavar="PATH", help="A path for the tool list_files.")
@click.option("--tool", metavar="NAME", help="Any tool.")
@click.option("--args", metavar="JSON", help="The arguments of --tool.")
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
@click.argument("call", required=False)
def explain(path: Path | None, call: str | None, *, as_json: bool, args: str | None, **words: str | None) -> None:
    """Say what happens to a call, and why.

    That is: which rule decides, and what every other rule that was considered says.

    CALL is JSON such as {"tool": "pay", "args": {"amount": 5}}; the options are shorter ways to say it. With - as CALL,
    a call is read from each line of the input, and an explanation as JSON is written for each.
    """
    given = {name: value for name, value in words.items() if value is not None}
    if len(given) + (call is not None) != 1:
        raise click.UsageError(
            "name one call: as JSON, or with one of --shell, --read, --write, --delete, --list, --tool"
        )
    if args is not None and "tool" not in given:
        raise click.UsageError("--args goes with --tool")
    if call == "-":
        _explain_lines(policy_input.load(path), standard_input("calls"))
    else:
        _explain_one(policy_input.load(path), _call(given, args, call), as_json=as_json)


def _call(given: Mapping[str, str], args: str | None, call: str | None) -> ToolCall:
    try:
        if call is not None:
            return policy_input.parse_call(call)
        if "tool" in given:
            return ToolCall.from_json(given["tool"], args)
        return policy_input.build_call(given)
    except (CanonicalError, ConfigurationError) as error:
        raise click.ClickException(visible(str(error))) from None


def _explain_one(policy: Policy, call: ToolCall, *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(_explanation_json(policy, call), indent=2))
        return
    say_lines(explanation(*policy.explain(call)))


def _explain_lines(policy: Policy, stream: IO[bytes]) -> None:
    """Explain calls from JSON lines, in constant memory; a bad line does not end the run."""
    has_errors = False
    for number, line in enumerate(_lines(stream), 1):
        try:
            result = _explanation_json(policy, _parse_call_line(line))
        except (CanonicalError, ConfigurationError) as error:
            result, has_errors = {"error": str(error), "line": number}, True
        say(json.dumps(result))
    if has_errors:
        raise click.exceptions.Exit(1)


def _lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Yield every line; None for one over the size limit."""
    while line := stream.readline(_LONGEST_LINE):
        whole = line.endswith(b"\n") or len(line) < _LONGEST_LINE
        yield line if whole else None
        while not whole:
            rest = stream.readline(_LONGEST_LINE)
            whole = not rest or rest.endswith(b"\n")


def _parse_call_line(line: bytes | None) -> ToolCall:
    if line is None:
        raise ConfigurationError(f"the line is longer than {_LONGEST_LINE // 1_000_000} MB")
    try:
        return policy_input.parse_call(line.decode())
    except UnicodeDecodeError:
        raise ConfigurationError("the line is not UTF-8") from None


def _explanation_json(policy: Policy, call: ToolCall) -> dict[str, Any]:
    verdict, considered = policy.explain(call)
    return {
        "tool": call.tool,
        "args": call.args,
        "approval": verdict.approval,
        "reason": verdict.reason,
        "rule": None if verdict.rule is None else json_codec.rule_to_dict(verdict.rule),
        "considered": [
            {
                "approval": each.approval,
                "rule": json_codec.rule_to_dict(each.rule),
                "reason": each.reason,
                "part": each.part,
            }
            for each in considered
        ],
    }
