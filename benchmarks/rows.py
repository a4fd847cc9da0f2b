"""Records of a measurement: our figure, the others', the ratios, and whether the goals are met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.timing import Ratio, middle

Unit = Literal["s", "/s", "B", ""]
Samples = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Goal of a ratio: an upper or lower bound."""

    sign: Literal["≤", "≥"]
    value: float

    def met(self, ratio: float) -> bool:
        return ratio <= self.value if self.sign == "≤" else ratio >= self.value

    def __str__(self) -> str:
        return f"{self.sign}{self.value:.3g}"

    def distance(self, ratio: float) -> float:
        """Return the distance from the goal: 1 is on it, less is better."""
        return ratio / self.value if self.sign == "≤" else self.value / ratio


def at_most(value: float) -> Goal:
    return Goal(sign="≤", value=value)


def at_least(value: float) -> Goal:
    return Goal(sign="≥", value=value)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A contender's figure, and ours as a multiple of it."""

    figure: float
    ratio: Ratio
    goal: Goal | None = None


def compare(ours: Samples, theirs: Samples, goal: Goal | None = None, *, least: bool = False) -> Compared:
    """Compare two contenders that took turns."""
    if least:
        return Compared(figure=min(theirs), ratio=Ratio.least(ours, theirs), goal=goal)
    return Compared(figure=middle(theirs), ratio=Ratio.paired(ours, theirs), goal=goal)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    target: str
    what: str
    ours: float
    unit: Unit = "s"
    limit: Compared | None = None
    peer: Compared | None = None
    exact: bool | None = None  # for counts, which are not measured …
    counted: tuple[float, float] | None = None  # … with the counts of limit and peer
    retried: bool = False

    @property
    def checks(self) -> list[tuple[Goal, float]]:
        compared = [each for each in (self.limit, self.peer) if each is not None]
        return [(each.goal, each.ratio.median) for each in compared if each.goal is not None]

    @property
    def ok(self) -> bool | None:
        """Whether every goal is met; None if there is none."""
        if not self.checks:
            return self.exact
        return all(goal.met(ratio) for goal, ratio in self.checks) and self.exact is not False


def row(
    target: str,
    what: str,
    ours: Samples,
    *,
    unit: Unit = "s",
    limit: Compared | None = None,
    peer: Compared | None = None,
) -> Row:
    """Return the row of a contender that took turns with the others."""
    return Row(target=target, what=what, ours=middle(ours), unit=unit, limit=limit, peer=peer)
