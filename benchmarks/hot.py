"""P1, P3: the hot path, calls that are decided by a rule or by a remembered decision."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks import peers, report
from benchmarks.rows import Compared, Row, at_most, compare, row
from benchmarks.timing import Effort, Sample, interleave, minus, repeat_async
from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall
from sayso.core.canonical import thaw
from sayso.core.model import Approved

RULES = 1_000
NAME = "write_file"
ARGS = {"path": "reports/2026/summary.txt", "text": "forty characters of text, near enough ..", "mode": "append"}


async def write_file(path: str, text: str, mode: str) -> str:  # noqa: ARG001 - a minimal tool
    return "done"


def run_tool(args: dict[str, Any]) -> Awaitable[str]:
    return write_file(**args)


def controller(approval: str, store: Path | None = None) -> ApprovalController:
    """Return a controller with many rules, one of which is about the tool."""
    rules = {f"other_{number}": "none" for number in range(RULES - 1)}
    policy = Policy({**rules, NAME: approval})
    return ApprovalController(policy=policy, approval_callback=_unasked, store=store)


async def _unasked(_: ApprovalRequest) -> ApprovalDecision:
    raise NotImplementedError


def wanted(under: ApprovalController) -> ToolCall:
    """Return the call as a framework's adapter builds it: the framework brings the id."""
    return ToolCall(tool=NAME, args=ARGS, call_id="call_1", session=under.session)


def gate(under: ApprovalController) -> Callable[[], Awaitable[object]]:
    """Return the call that P1 measures: built, judged, queued for the audit and run."""

    async def call() -> None:
        outcome = await under.review(wanted(under))
        if not isinstance(outcome, Approved):
            raise TypeError(outcome)
        await run_tool(thaw(outcome.args))

    return call


def recorded(under: ApprovalController) -> Callable[[], Awaitable[object]]:
    """Return the same with a second audit entry for its result, which no peer has."""
    return lambda: under.run(wanted(under), run_tool)


def seal(under: ApprovalController) -> Callable[[], Awaitable[object]]:
    """Return the function that seals the queued audit of a memory store."""
    return under.store.audit_ends


def limit() -> Sample:
    rules = {NAME: "none"}

    async def call() -> None:
        if rules[NAME] == "none":
            await write_file(**ARGS)

    return repeat_async(call)


def bare() -> Sample:
    return repeat_async(lambda: write_file(**ARGS))


async def allowed_by_rule(effort: Effort) -> list[Row]:
    """P1 with the audit queued: the latency of the call itself."""
    ours = controller("none")
    seconds = await interleave(
        {
            "limit": limit(),
            "bare": bare(),
            "gate": repeat_async(gate(ours), then=seal(ours)),
            "recorded": repeat_async(recorded(ours), then=seal(ours)),
            "ungated": repeat_async(await peers.plain(write_file, ARGS)),
            "peer": repeat_async(await peers.pre_approved(write_file, ARGS, RULES - 1)),
        },
        effort,
    )
    added = minus(seconds["gate"], seconds["bare"])
    peer_added = minus(seconds["peer"], seconds["ungated"])
    return [
        row(
            "P1",
            "build, review, run",
            seconds["gate"],
            limit=compare(seconds["gate"], seconds["limit"], at_most(5)),
            peer=compare(seconds["gate"], seconds["peer"]),
        ),
        row("P1", "… added; peer: pre_approved", added, peer=compare(added, peer_added, at_most(1 / 5))),
        row("P1", "… and the result recorded", seconds["recorded"], limit=_against_limit(seconds, "recorded")),
    ]


async def allowed_with_file(effort: Effort) -> list[Row]:
    """P1 with the audit in SQLite, and the sustained rates while the audit is written."""
    with report.scratch() as folder:
        memory, file = controller("none"), controller("none", Path(folder) / "hot.db")
        queued = await interleave(
            {"limit": limit(), "file": repeat_async(recorded(file), then=file.flush)}, effort, most=4_000
        )
        sustained = await interleave(
            {
                "limit": limit(),
                "memory": repeat_async(recorded(memory), then=seal(memory), counted=True),
                "file": repeat_async(recorded(file), then=file.flush, counted=True),
            },
            effort,
        )
        await file.aclose()
    return [
        row("P1", "… audit queued for SQLite", queued["file"], limit=_against_limit(queued, "file")),
        row("P1", "… sustained, audit in memory", sustained["memory"], limit=_against_limit(sustained, "memory")),
        row("P1", "… sustained, audit in SQLite", sustained["file"], limit=_against_limit(sustained, "file")),
    ]


async def remembered(effort: Effort) -> list[Row]:
    """P3: the call would be asked about, but an approval for always is remembered."""
    ours = controller("required")
    ours.memory.store(NAME, ARGS, ApprovalDecision(approved=True, remember="always"))
    seconds = await interleave(
        {
            "limit": limit(),
            "ours": repeat_async(gate(ours), then=seal(ours)),
            "peer": repeat_async(await peers.from_memory(write_file, ARGS)),
            "json": repeat_async(_json_key_lookup()),
        },
        effort,
    )
    return [
        row(
            "P3",
            "remembered; peer: README cache",
            seconds["ours"],
            limit=compare(seconds["ours"], seconds["limit"], at_most(8)),
            peer=compare(seconds["ours"], seconds["peer"], at_most(1 / 8)),
        ),
        row(
            "P3",
            "…; peer: plain json.dumps key",
            seconds["ours"],
            peer=compare(seconds["ours"], seconds["json"], at_most(1)),
        ),
    ]


def _json_key_lookup() -> Callable[[], Awaitable[object]]:
    """Return a call whose approval is looked up by a `json.dumps` key."""
    known = {(NAME, json.dumps(ARGS, sort_keys=True, default=str)): True}

    async def call() -> None:
        if known[NAME, json.dumps(ARGS, sort_keys=True, default=str)]:
            await write_file(**ARGS)

    return call


def _against_limit(seconds: dict[str, list[float]], name: str) -> Compared:
    return compare(seconds[name], seconds["limit"])


MEASUREMENTS = (allowed_by_rule, allowed_with_file, remembered)
