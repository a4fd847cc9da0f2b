"""A process killed with SIGKILL at every step of a call, one after the other; then another process takes over."""

import asyncio
from pathlib import Path

import pytest
from tests.children import crash_runner

from sayso import ApprovalController, ApprovalDecision, ApprovalDenied, requires_approval
from sayso.adapters.function import resume
from sayso.core import audit
from sayso.stores.sqlite import SqliteStore


def effects(folder: Path) -> list[str]:
    file = folder / "effects"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


async def recover(folder: Path) -> str:
    """Take over after the crash, as the next process would; return the status that was found."""
    store = SqliteStore(folder / "sayso.db")
    controller = ApprovalController(mode="defer", store=store, session="s1")
    before = effects(folder)

    @requires_approval
    def pay(amount: int) -> str:
        with (folder / "effects").open("a", encoding="utf-8") as file:
            file.write(f"paid {amount}\n")
        return "paid"

    found = await store.audit()
    request = None
    for _, line, _ in found:
        if b'"asked"' in line:
            request = await store.get(_text_between(line, b'"request_id":"', b'"'))
    if request is None:
        assert before == [], "the call ran although nobody was asked"
        await store.aclose()
        return "nothing"
    status = request.status
    assert not before or status == "used", "the call ran without its approval having been used up"
    if status == "open":
        assert [each.id for each in await controller.pending()] == [request.id]
        first = await controller.answer(request.id, ApprovalDecision(approved=True), who="bob")
        second = await controller.answer(request.id, ApprovalDecision(approved=False), who="eve")
        assert first == second, "the request was answered twice"
    if status in {"open", "approved"}:
        assert await resume(pay, request.id, controller=controller) == "paid"
        assert effects(folder) == ["paid 5"]
    with pytest.raises(ApprovalDenied, match="already used"):
        await resume(pay, request.id, controller=controller)
    assert len(effects(folder)) <= 1, "the approved call ran twice"
    assert await audit.verify(store) >= len(found)
    await store.aclose()
    return status


def _text_between(line: bytes, start: bytes, end: bytes) -> str:
    return line.split(start, 1)[1].split(end, 1)[0].decode()


@pytest.mark.proves("H2", "H3", "H16", "R17")
def test_a_call_killed_at_any_step_is_answerable_once_runs_at_most_once_and_never_without_an_answer(
    tmp_path: Path,
) -> None:
    with crash_runner("tests.engine.crash_child") as run:
        assert run(tmp_path / "whole", 0) == 0
        steps = (tmp_path / "whole/steps").read_text(encoding="utf-8").splitlines()
        assert {"asked", "before the effect", "after the effect", "hook claimed", "hook returned"} <= set(steps)
        found: set[str] = set()
        for number, step in enumerate(steps, start=1):
            folder = tmp_path / f"step-{number}"
            assert run(folder, number) in {-9, 0}  # 0: grouped otherwise this time, and so through earlier
            try:
                found.add(asyncio.run(recover(folder)))
            except AssertionError as error:
                error.add_note(f"killed at step {number}: {step}")
                raise
    assert found == {"nothing", "open", "approved", "used"}, "not every state was met: the steps are too coarse"
