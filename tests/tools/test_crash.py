"""A process killed with SIGKILL at every step of writing a file: the old content or the new, and the audit says so."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sayso.core import audit
from sayso.stores.sqlite import SqliteStore

CHILD = Path(__file__).with_name("crash_child.py")
OLD, NEW = "OLD" * 10_000, "NEW" * 10_000


def run_child(folder: Path, fatal: int) -> "subprocess.CompletedProcess[str]":
    (folder / "w").mkdir(parents=True)
    (folder / "w/a.txt").write_text(OLD)
    command = [sys.executable, str(CHILD), str(folder), str(fatal)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


async def what_the_audit_says(folder: Path) -> tuple[list[str], str]:
    store = SqliteStore(folder / "state.db")
    found = [each async for each in audit.entries(store)]
    await audit.verify(store)
    request = await store.get(found[0]["request_id"])
    await store.aclose()
    assert request is not None
    return [each["step"] for each in found], request.state


@pytest.mark.proves("H16")
async def test_killed_at_any_step_of_a_write_the_file_is_old_or_new_and_the_audit_tells_how_far_it_came(
    tmp_path: Path,
) -> None:
    done = run_child(tmp_path / "whole", 0)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "whole/w/a.txt").read_text() == NEW
    assert await what_the_audit_says(tmp_path / "whole") == (
        ["asked", "approved", "claimed", "returned"],
        "used, returned",
    )
    steps = range(1, int(done.stdout) + 1)

    def killed_at(step: int) -> "subprocess.CompletedProcess[str]":
        return run_child(tmp_path / str(step), step)

    with ThreadPoolExecutor(2) as pool:
        killed = list(pool.map(killed_at, steps))
    contents: list[str] = []
    for step, child in zip(steps, killed, strict=True):
        assert child.returncode == -9, child.stderr
        contents.append((tmp_path / f"{step}/w/a.txt").read_text())
        said, state = await what_the_audit_says(tmp_path / str(step))
        assert (said, state) == (["asked", "approved", "claimed"], "used, result unknown")
        left = [each.name for each in (tmp_path / f"{step}/w").iterdir() if each.name != "a.txt"]
        assert all(name.startswith(".sayso-") and name.endswith(".part") for name in left), left
    assert set(contents) == {OLD, NEW}
    assert contents == sorted(contents, reverse=True), "once it is the new one, it stays so"
