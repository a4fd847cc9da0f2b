"""A process killed with SIGKILL at every change of the store while it resumes a run; then another one takes over."""

import asyncio
from pathlib import Path

import pytest
from pydantic_ai.messages import ToolReturnPart
from tests.adapters.pydantic_ai.crash_agent import EFFECTS, FILE, LaterClock, cashier, controller_at
from tests.children import crash_runner

from sayso import ApprovalDecision
from sayso.adapters.pydantic_ai import resume_answered


async def recover(folder: Path) -> tuple[str, list[str]]:
    """Go on as the next process would; return the run's output and what the model heard of its calls."""
    async with controller_at(folder / FILE, LaterClock()) as controller:
        agent = cashier(controller, folder=folder)
        heard: list[str] = []
        output = "over before"
        while runs := await controller.parked_runs():
            for asked in runs[0].requests:
                await controller.answer(asked, ApprovalDecision(approved=True))
            (each,) = await resume_answered(agent, controller=controller)
            assert each.error is None
            assert each.result is not None
            output = str(each.result.output)
            parts = [part for message in each.result.all_messages() for part in message.parts]
            heard = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
            waited_for = [asked for run in await controller.parked_runs() for asked in run.requests]
            assert [request.id for request in await controller.pending()] == waited_for, "a question without its run"
        return output, heard


@pytest.mark.proves("H2", "H3", "H16", "R17")
@pytest.mark.timeout(480)  # one process after another, as many as there are steps
def test_a_run_killed_at_any_step_of_its_resume_goes_on_and_pays_each_sum_at_most_once(tmp_path: Path) -> None:
    with crash_runner("tests.adapters.pydantic_ai.crash_child") as run:
        assert run(tmp_path / "whole", 0) == 0
        steps = (tmp_path / "whole/steps").read_text(encoding="utf-8").splitlines()
        assert sum(step == "before the effect" for step in steps) == 1
        lost: list[str] = []
        for number, step in enumerate(steps, start=1):
            folder = tmp_path / f"step-{number}"
            assert run(folder, number) in {-9, 0}  # 0: grouped otherwise this time, and so through earlier
            try:
                output, heard = asyncio.run(recover(folder))
                effects = (folder / EFFECTS).read_text(encoding="utf-8").splitlines()
                assert output == "done"
                assert sorted(set(effects)) == sorted(effects), "a sum was paid twice"
                assert "6" in effects
                if heard[0] != "paid 5":
                    lost.append(step)
            except AssertionError as error:
                error.add_note(f"killed at step {number}: {step}")
                raise
    # The result is lost only between the claim and the next checkpoint; then the model hears that it is not known.
    assert 0 < len(lost) < len(steps) / 2
