"""P7: policy lookup by tool name, with few rules and with many, half of them exact and half globs."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Callable, Sequence

from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, Sample, interleave, over
from sayso import Policy, ToolCall

SIZES = (10, 100, 1_000, 10_000)
DEFAULT = "none"
Judge = Callable[[str], str]


def rules(count: int) -> dict[str, str]:
    """Return that many rules: exact names, and globs with heads of several lengths."""
    exact = {f"tool_{number}": "none" for number in range(count // 2)}
    globs = {f"service{number}_{'x' * (number % 5)}*": "required" for number in range(count - len(exact))}
    return {**exact, **globs}


def known_names(count: int) -> Callable[[], Callable[[], str]]:
    """Return a cycle of few names (cache hits): hits of the last rules, and misses."""
    last = count - count // 2 - 1
    names = [f"tool_{count // 2 - 1}", "tool_0", f"service{last}_{'x' * (last % 5)}run", "nothing", "tool_x", "a_b_c"]
    return lambda: itertools.cycle(names).__next__


def fresh_names(count: int) -> Callable[[], Callable[[], str]]:
    """Return a source of fresh names (cache misses): glob hits and misses."""
    last = count - count // 2 - 1
    forms = [f"service{last}_{'x' * (last % 5)}run", "service0_get", "nothing", "tool_x"]
    numbers = itertools.count()
    return lambda: lambda: f"{forms[(number := next(numbers)) % len(forms)]}{number}"


def index(given: dict[str, str]) -> Judge:
    """Return the limit: a dictionary of names, and one of glob heads with their few lengths."""
    exact = {name: word for name, word in given.items() if not name.endswith("*")}
    heads = {name[:-1]: word for name, word in given.items() if name.endswith("*")}
    sizes = sorted({len(head) for head in heads}, reverse=True)

    def judge(tool: str) -> str:
        if tool in exact:
            return exact[tool]
        for size in sizes:
            if tool[:size] in heads:
                return heads[tool[:size]]
        return DEFAULT

    return judge


def scan(given: dict[str, str]) -> Judge:
    """Return the peer: the loop over all rules that most tools have."""
    pairs = list(given.items())

    def judge(tool: str) -> str:
        return next((word for pattern, word in pairs if fnmatch.fnmatchcase(tool, pattern)), DEFAULT)

    return judge


def contenders(count: int, names: Callable[[], Callable[[], str]]) -> dict[str, Sample]:
    """Return limit, ours and peer over the same rules and names."""
    given = rules(count)
    compiled = Policy(given, default=DEFAULT)
    _check_agreement(compiled, [index(given), scan(given)], names()())

    def calls() -> Callable[[], ToolCall]:
        name = names()
        return lambda: ToolCall(tool=name(), call_id="1")

    return {
        f"limit{count}": over(index(given), names),
        f"ours{count}": over(compiled.judge, calls),
        f"peer{count}": over(scan(given), names),
    }


def _check_agreement(compiled: Policy, others: Sequence[Judge], name: str) -> None:
    verdicts = {compiled.judge(ToolCall(tool=name)).approval, *(judge(name) for judge in others)}
    if len(verdicts) != 1:
        raise AssertionError(f"the contenders do not agree about {name!r}: {verdicts}")


async def _decisions(effort: Effort, kind: str, names: Callable[[int], Callable[[], Callable[[], str]]]) -> list[Row]:
    samples = {name: sample for count in SIZES for name, sample in contenders(count, names(count)).items()}
    seconds = await interleave(samples, effort)
    rows = [
        row(
            "P7",
            f"{kind}, {count} rules; peer: scan",
            ours := seconds[f"ours{count}"],
            limit=compare(ours, seconds[f"limit{count}"], at_most(3)),
            peer=compare(ours, seconds[f"peer{count}"], at_most(1 / 100) if count == SIZES[-1] else None),
        )
        for count in SIZES
    ]
    many, few = seconds[f"ours{SIZES[-1]}"], seconds[f"ours{SIZES[0]}"]
    flat = row("P7", f"{kind}, 10000 ÷ 10 rules", [min(many)], limit=compare(many, few, at_most(2.5), least=True))
    return [*rows, flat]


async def known(effort: Effort) -> list[Row]:
    """Decide about names that were seen before, as in a running agent."""
    return await _decisions(effort, "known", known_names)


async def fresh(effort: Effort) -> list[Row]:
    """Decide about names that were never seen, as with an agent that makes them up."""
    return await _decisions(effort, "new", fresh_names)


async def compiling(effort: Effort) -> list[Row]:
    """Compile many rules."""
    given = rules(SIZES[-1])

    def source() -> Callable[[], dict[str, str]]:
        return lambda: given

    samples = {"limit": over(index, source), "ours": over(Policy, source)}
    seconds = await interleave(samples, effort)
    ours = seconds["ours"]
    return [row("P7", "compile 10000 rules", ours, limit=compare(ours, seconds["limit"], at_most(25)))]


MEASUREMENTS = (known, fresh, compiling)
