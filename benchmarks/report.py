"""Report of the results: a table in the terminal, a JSON file and a plot."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rows import Compared, Row, Unit

RESULTS = Path(__file__).parent / "results"

_STEPS: dict[Unit, list[tuple[float, str]]] = {
    "s": [(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")],
    "/s": [(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
    "B": [(1e6, " MB"), (1e3, " kB"), (1.0, " B")],
    "": [(1.0, "")],
}
_FORM = "{:3} {:32} {:>7} {:>7} {:>7} {:>14} {:>6} {:>9} {}"
HEADING = _FORM.format("", "what", "ours", "limit", "peer", "÷ limit", "÷ peer", "goals", "")


def line(row: Row) -> str:
    """Return a row of the table."""
    verdict = {True: "ok", False: "MISSED", None: "·"}[row.ok]
    return _FORM.format(
        row.target,
        row.what,
        figure(row.ours, row.unit),
        _theirs(row.limit, row.unit) or _counted(row, 0),
        _theirs(row.peer, row.unit) or _counted(row, 1),
        _ratio(row.limit),
        _number(row.peer.ratio.median) if row.peer else "",
        _goals(row),
        verdict + ("²" if row.retried else ""),
    )


def figure(value: float, unit: Unit) -> str:
    """Write a number with three digits and its unit."""
    size, name = next((step for step in _STEPS[unit] if value >= step[0]), _STEPS[unit][-1])
    return _number(value / size) + name


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.01 else f"{value:.1g}"


def _theirs(compared: Compared | None, unit: Unit) -> str:
    return figure(compared.figure, unit) if compared else ""


def _counted(row: Row, which: int) -> str:
    return figure(row.counted[which], row.unit) if row.counted else ""


def _ratio(compared: Compared | None) -> str:
    if compared is None:
        return ""
    ratio = compared.ratio
    if ratio.low == ratio.high:
        return _number(ratio.median)
    return f"{_number(ratio.median)} [{_short(ratio.low)}..{_short(ratio.high)}]"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _goals(row: Row) -> str:
    limit = str(row.limit.goal) if row.limit and row.limit.goal else ""
    peer = str(row.peer.goal) if row.peer and row.peer.goal else ""
    return f"{limit or '·'} {peer}" if peer else limit


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for databases, on the disk of the checkout: /tmp may be in memory."""
    RESULTS.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=RESULTS)


def machine() -> str:
    """Return an anonymous description of the machine."""
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def write(rows: Sequence[Row], *, quick: bool, name: str, drawn: bool) -> list[Path]:
    """Write the JSON file and, if it is wanted, the plot; return their paths."""
    RESULTS.mkdir(exist_ok=True)
    data = {
        "machine": machine(),
        "quick": quick,
        "rows": [{**dataclasses.asdict(row), "ok": row.ok} for row in rows],
    }
    numbers, picture = RESULTS / f"{name}.json", RESULTS / f"{name}.png"
    numbers.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not drawn:
        return [numbers]
    _draw([row for row in rows if row.checks], picture)
    return [numbers, picture]


def _draw(rows: Sequence[Row], target: Path) -> None:
    """Plot the distance of each row from its hardest goal; left of the line is met."""
    import matplotlib as mpl  # noqa: PLC0415 - heavy, so not loaded while contenders are timed

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - as above

    figure, axes = plt.subplots(figsize=(9, 1 + 0.24 * len(rows)), layout="constrained")
    for place, row in enumerate(reversed(rows)):
        distance = max(goal.distance(ratio) for goal, ratio in row.checks)
        axes.plot([1, distance], [place, place], color="tab:blue" if row.ok else "tab:red", linewidth=3)
        axes.plot(distance, place, "o", color="tab:blue" if row.ok else "tab:red")
    axes.set_yticks(range(len(rows)), [f"{row.target}  {row.what}" for row in reversed(rows)], fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("distance from the hardest goal (left of 1: met)")
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(target, dpi=120)
