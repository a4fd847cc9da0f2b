"""Zones against a model of the tree: random trees, zones and paths, and every verdict has to be the model's.

`SAYSO_FUZZ_SEED` gives another seed; `--slow` compares half a million verdicts.
"""

import os
import random
from pathlib import Path

import pytest
from tests.policy.path_model import OPERATIONS, draw_path, draw_tree, draw_zones, expected

from sayso.core.model import Approval
from sayso.core.realpath import resolve
from sayso.policy.zones import Zones

SEED = int(os.environ.get("SAYSO_FUZZ_SEED", "20261118"))
SIZE = 40  # entries of a tree
ZONES = 10  # sets of zones for a tree
PATHS = 50  # paths for a set of zones


def compare(top: Path, verdicts: int) -> tuple[list[str], dict[Approval, int]]:
    """Compare so many verdicts; return every difference, and how often each word was said."""
    chance = random.Random(SEED)  # noqa: S311 - a seed makes it repeatable
    wrong: list[str] = []
    said: dict[Approval, int] = dict.fromkeys(("none", "once_per_session", "required", "blocked"), 0)
    for number in range(verdicts // (ZONES * PATHS * len(OPERATIONS))):
        folder = Path(resolve(str(top))) / str(number)
        folder.mkdir()
        tree = draw_tree(chance, folder, SIZE)
        tree.write()
        for zones in (draw_zones(chance, tree) for _ in range(ZONES)):
            judge = Zones(zones, resolve=resolve)
            for path in (draw_path(chance, tree, zones) for _ in range(PATHS)):
                for operation in OPERATIONS:
                    wanted, verdict = expected(tree, zones, path, operation), judge.judge(path, operation)
                    said[verdict.approval] += 1
                    if verdict.approval != wanted:
                        roots = {zone.name: zone.root for zone in zones}
                        wrong.append(f"{operation} {path!r} in {roots}: {verdict}, and the model says {wanted!r}")
    return wrong, said


@pytest.mark.proves("R51", "R52")
def test_every_verdict_is_that_of_the_model(tmp_path: Path) -> None:
    wrong, said = compare(tmp_path, 10_000)
    assert wrong[:5] == []
    assert min(said.values()) > 300  # else the paths are too odd to prove anything


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_half_a_million_verdicts_are_those_of_the_model(tmp_path: Path) -> None:
    wrong, said = compare(tmp_path, 500_000)
    assert wrong[:5] == []
    assert sum(said.values()) == 500_000
