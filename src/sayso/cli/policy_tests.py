"""`sayso test`: unit tests of a policy, each a call and the expected verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from sayso.cli import policy_input
from sayso.cli.screen import bold, rule_location, say, say_lines, short_path, visible, wrap_text
from sayso.config.yaml_toml import Document, read_policy_file
from sayso.core import json_codec
from sayso.core.model import Approval, Rule, ToolCall, Verdict
from sayso.errors import ConfigurationError, Mistake, PolicyError
from sayso.policy.data_schema import Problem, list_of, one_of, record, text, validate
from sayso.policy.policy import Policy
from sayso.policy.vocabulary import APPROVALS, suggest

_NAMES = ("sayso.test.yaml", "sayso.test.yml")
_A_FILE = click.Path(path_type=Path)
_CODES = "Ends with: 0 every case passed, 1 a case failed or an error, 2 wrong usage."
_CASE = record(
    "a call, and what has to happen to it",
    {
        **policy_input.CALL,
        "expect": one_of("what has to happen", tuple(APPROVALS)),
        "rule": text("the key of the rule that has to decide, such as 'shell.rules[0]'"),
        "name": text("what this case shows"),
    },
    required=("expect",),
)
CASES = record("cases for a policy", {"cases": list_of("calls", _CASE)}, required=("cases",))


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """Test case: a call, the expected verdict, and its place in the file."""

    name: str
    call: ToolCall
    expect: Approval
    rule: str | None
    line: int


class _CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """Test case with the actual verdict."""

    case: _Case
    verdict: Verdict

    @property
    def passed(self) -> bool:
        """Whether approval and, if named, rule are the expected ones."""
        return self.verdict.approval == self.case.expect and self.case.rule in {None, self.decider}

    @property
    def decider(self) -> str | None:
        """The key of the deciding rule."""
        return None if self.verdict.rule is None else self.verdict.rule.key


@click.command("test", epilog=f"Example: sayso test --strict\n\n{_CODES}")
@click.option("--policy", "path", type=_A_FILE, help="Test this file instead of those that apply here.")
@click.option("--strict", is_flag=True, help="Fail also if a rule is never exercised.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.argument("cases", type=_A_FILE, required=False)
def test(path: Path | None, cases: Path | None, *, strict: bool, as_json: bool) -> None:
    """Run the cases of a policy, and say which rules no case exercises.

    CASES is a file; else it is sayso.test.yaml beside the policy. Under cases: it has a list of calls, each with what
    has to happen: {shell: git push, expect: required}. For shell can stand read, write, delete, list, or tool and args;
    rule names the rule that has to decide, and name says what the case shows.
    """
    policy = policy_input.load(path)
    source = cases or _find_cases_file(path)
    try:
        wanted = list(_read_cases(source))
    except ConfigurationError as error:
        raise policy_input.FileMistakes(error) from None
    outcomes, idle = _run_cases(policy, wanted)
    if as_json:
        say(json.dumps(_results_json(outcomes, idle), indent=2))
    else:
        _report(outcomes, idle, policy.rules, short_path(str(source)))
    if not all(each.passed for each in outcomes) or (strict and idle):
        raise click.exceptions.Exit(1)


def _run_cases(policy: Policy, cases: Iterable[_Case]) -> tuple[list[_CaseResult], list[Rule]]:
    """Run the cases; return the results, and the rules that no case exercised."""
    outcomes: list[_CaseResult] = []
    idle = dict.fromkeys(policy.rules)
    for case in cases:
        verdict, considered = policy.explain(case.call)
        outcomes.append(_CaseResult(case=case, verdict=verdict))
        for each in considered:
            if each.applies:
                idle.pop(each.rule, None)
    return outcomes, list(idle)


# --- Reading the cases -------------------------------------------------------------------------------


def _find_cases_file(policy: Path | None) -> Path:
    policies = [policy] if policy is not None else policy_input.policy_files()[::-1]
    for each in policies:
        for name in _NAMES:
            if each.with_name(name).is_file():
                return each.with_name(name)
    example = "cases:\n  - {shell: git status, expect: none}\n  - {tool: pay, args: {amount: 5}, expect: required}"
    missing = visible(short_path(str(policies[0].with_name(_NAMES[0]))))
    raise click.ClickException(f"there is no {missing}; write one, such as:\n\n{example}")


def _read_cases(path: Path) -> Iterator[_Case]:
    document = None if path.suffix.lower() == ".toml" else read_policy_file(path)
    if document is None:
        raise ConfigurationError(f"{path}: cases are written in YAML; name a file such as {_NAMES[0]}")
    problems = list(validate(CASES, document.data)) or list(_find_problems(document.data["cases"]))
    if problems:
        raise PolicyError([Mistake(document.source, *document.mark(each.key), each.message) for each in problems])
    for at, each in enumerate(document.data["cases"]):
        yield _case(each, document, at)


def _find_problems(cases: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if not cases:
        yield Problem(("cases",), "cases is empty; write one, such as {shell: git status, expect: none}")
    for at, each in enumerate(cases):
        yield from policy_input.problems_of_call(each, ("cases", at))


def _case(each: Mapping[str, Any], document: Document, at: int) -> _Case:
    return _Case(
        name=each.get("name") or _case_title(each),
        call=policy_input.build_call(each),
        expect=APPROVALS[each["expect"]],
        rule=each.get("rule"),
        line=document.mark(("cases", at)).line,
    )


def _case_title(each: Mapping[str, Any]) -> str:
    short = next((f"{name} {each[name]}" for name in policy_input.SHORTHANDS if name in each), None)
    return short or f"{each['tool']} {json.dumps(each.get('args', {}), ensure_ascii=False)}"


# --- Reporting the results ---------------------------------------------------------------------------


def _report(outcomes: Sequence[_CaseResult], idle: Sequence[Rule], rules: Sequence[Rule], source: str) -> None:
    keys = [each.key for each in rules]
    for each in outcomes:
        if not each.passed:
            say_lines(_failure(each, source, keys))
            say()
    failed = sum(not each.passed for each in outcomes)
    summary = f"{len(outcomes) - failed} passed, {failed} failed"
    say(click.style(summary, fg="red" if failed else "green", bold=True))
    if idle:
        say(f"\n{bold('Never exercised')} ({len(idle)} of {len(rules)} rules):")
    for rule in idle:
        say(f"  {rule_location(rule)}")


def _failure(outcome: _CaseResult, source: str, keys: Sequence[str]) -> Iterator[str]:
    case, verdict = outcome.case, outcome.verdict
    yield from wrap_text(
        f"{source}:{case.line}: {case.name}", head=click.style("failed", fg="red", bold=True), indent=8
    )
    if verdict.approval != case.expect:
        yield f"  expected  {case.expect}"
        yield f"  got       {verdict.approval}"
    if case.rule not in {None, outcome.decider}:
        hint = "" if case.rule in keys else f", which is no rule{suggest(case.rule, keys)}"
        yield from wrap_text(f"by {case.rule}{hint}", head="  expected", indent=12)
    yield from wrap_text(verdict.reason, head="  because", indent=12)
    if verdict.rule is not None:
        yield from wrap_text(rule_location(verdict.rule), head="  by", indent=12)


def _results_json(outcomes: Sequence[_CaseResult], idle: Iterable[Rule]) -> dict[str, Any]:
    return {
        "passed": sum(each.passed for each in outcomes),
        "failed": sum(not each.passed for each in outcomes),
        "cases": [
            {
                "name": each.case.name,
                "line": each.case.line,
                "passed": each.passed,
                "expected": each.case.expect,
                "got": each.verdict.approval,
                "reason": each.verdict.reason,
                "rule": None if each.verdict.rule is None else json_codec.rule_to_dict(each.verdict.rule),
            }
            for each in outcomes
        ],
        "never_exercised": [json_codec.rule_to_dict(each) for each in idle],
    }
