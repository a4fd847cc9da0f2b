"""P7: decisions by a whole policy file (names, globs, shell lines, paths), compared with pycasbin and Cedar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import casbin
import cedarpy

from benchmarks import report
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, Sample, interleave, repeat
from sayso import Policy, ToolCall

SIZES = (10, 10_000)
CASBIN_MODEL = """
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act, eft
[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))
[matchers]
m = keyMatch(r.obj, p.obj) && r.act == p.act
"""


def document(count: int) -> dict[str, Any]:
    """Return a policy with that many rules: a third each of exact names, globs and shell prefixes."""
    third = count // 3
    names = {f"tool_{number}": "none" for number in range(third)}
    globs = {f"service{number}_*": "required" for number in range(third)}
    lines = [{"pattern": f"program{number} status", "approval": "none"} for number in range(count - 2 * third)]
    return {
        "version": 1,
        "default": "required",
        "tools": {**names, **globs},
        "sandbox": {"zones": {"scratch": {"root": ".", "approval": {"write": "none"}}}},
        "shell": {"default": "required", "rules": lines},
    }


def calls(count: int) -> dict[str, ToolCall]:
    """Return one call of each kind, each about the last rule of its kind."""
    last = count // 3 - 1
    line = f"program{count - 2 * (count // 3) - 1} status --short | program0 status"
    return {
        "name": ToolCall(tool=f"tool_{last}"),
        "glob": ToolCall(tool=f"service{last}_get"),
        "shell": ToolCall(tool="shell", args={"command": line}),
        "path": ToolCall(tool="write_file", args={"path": "/scratch/notes.txt"}),
    }


def ours(policy: Policy, call: ToolCall) -> Sample:
    return repeat(lambda: policy.judge(call))


def by_casbin(count: int, folder: Path) -> Callable[[], object]:
    """Return a query to pycasbin with as many rules, about the last one."""
    (folder / "model.conf").write_text(CASBIN_MODEL, encoding="utf-8")
    lines = [f"p, agent, tool_{number}, call, allow" for number in range(count)]
    (folder / "policy.csv").write_text("\n".join(lines), encoding="utf-8")
    enforcer = casbin.Enforcer(str(folder / "model.conf"), str(folder / "policy.csv"))
    return lambda: enforcer.enforce("agent", f"tool_{count - 1}", "call")


def by_cedar(count: int) -> Callable[[], object]:
    """Return a query to Cedar with as many policies, about the last one."""
    text = "\n".join(
        f'permit(principal, action == Action::"call", resource == Tool::"tool_{number}");' for number in range(count)
    )
    request = {
        "principal": 'Agent::"agent"',
        "action": 'Action::"call"',
        "resource": f'Tool::"tool_{count - 1}"',
        "context": {},
    }
    policies = cedarpy.PolicySet.from_str(text) if hasattr(cedarpy, "PolicySet") else text
    return lambda: cedarpy.is_authorized(request, policies, [])


async def deciding(effort: Effort) -> list[Row]:
    """Decide with few rules and with many, and query the engines by name, the simplest case."""
    with report.scratch() as folder:
        samples: dict[str, Sample] = {}
        for count in SIZES:
            policy = Policy.from_dict(document(count), base=folder)
            samples |= {f"{kind} {count}": ours(policy, call) for kind, call in calls(count).items()}
        few, many = SIZES
        samples["casbin"] = repeat(by_casbin(many, Path(folder)))
        samples["cedar"] = repeat(by_cedar(many))
        seconds = await interleave(samples, effort)
    rows = [
        row(
            "P7",
            f"{kind}, {many} ÷ {few} rules",
            seconds[f"{kind} {many}"],
            limit=compare(seconds[f"{kind} {many}"], seconds[f"{kind} {few}"], at_most(2), least=True),
        )
        for kind in calls(few)
    ]
    name = seconds[f"name {many}"]
    return [
        *rows,
        row(
            "P7", f"name, {many} rules; peer: pycasbin", name, peer=compare(name, seconds["casbin"], at_most(1 / 1000))
        ),
        row("P7", f"name, {many} rules; peer: cedarpy", name, peer=compare(name, seconds["cedar"], at_most(1 / 1000))),
    ]


MEASUREMENTS = (deciding,)
