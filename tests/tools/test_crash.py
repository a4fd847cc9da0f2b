"""A process killed with SIGKILL at every step of writing a file: the old content or the new, and the audit says so."""

import signal
from pathlib import Path

import pytest
from tests.children import crash_runner

from sayso.core import audit
from sayso.stores.sqlite import SqliteStore

OLD, NEW = "OLD" * 10_000, "NEW" * 10_000


def folder_with_the_old_file(folder: Path) -> Path:
    (folder / "w").mkdir(parents=True)
    (folder / "w/a.txt").write_text(OLD)
    return folder


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
    with crash_runner("tests.tools.crash_child") as run:
        whole = folder_with_the_old_file(tmp_path / "whole")
        assert run(whole, 0) == 0
        assert (whole / "w/a.txt").read_text() == NEW
        assert await what_the_audit_says(whole) == (["asked", "approved", "claimed", "returned"], "used, returned")
        contents: list[str] = []
        for step in range(1, int((whole / "steps").read_text()) + 1):
            folder = folder_with_the_old_file(tmp_path / str(step))
            assert run(folder, step) == -signal.SIGKILL
            contents.append((folder / "w/a.txt").read_text())
            said, state = await what_the_audit_says(folder)
            assert (said, state) == (["asked", "approved", "claimed"], "used, result unknown")
            left = [each.name for each in (folder / "w").iterdir() if each.name != "a.txt"]
            assert all(name.startswith(".sayso-") and name.endswith(".part") for name in left), left
    assert set(contents) == {OLD, NEW}
    assert contents == sorted(contents, reverse=True), "once it is the new one, it stays so"
