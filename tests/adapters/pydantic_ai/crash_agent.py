"""The agent of the crash test: it pays twice, each time with approval, and its payments are lines of a file."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.tools import DeferredToolRequests
from tests.adapters.pydantic_ai.scripted import Scripted

from sayso import ApprovalController, Policy
from sayso.adapters.pydantic_ai import Approvals
from sayso.engine.clock import SystemClock

FILE = "state.db"
EFFECTS = "effects"


class LaterClock(SystemClock):
    """The time of a process that comes later, when the leases of the dead are over."""

    now = staticmethod(lambda: time.time() + 200.0)


def controller_at(file: str | Path, clock: SystemClock | None = None) -> ApprovalController:
    return ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=file, session="s", clock=clock)


def cashier(
    controller: ApprovalController, step: Callable[[str], None] = lambda _: None, folder: Path = Path()
) -> Agent[None, Any]:
    def pay(amount: int) -> str:
        step("before the effect")
        with (folder / EFFECTS).open("a", encoding="utf-8") as effects:
            effects.write(f"{amount}\n")
            effects.flush()
            os.fsync(effects.fileno())
        step("after the effect")
        return f"paid {amount}"

    model = Scripted([("pay", {"amount": 5})], [("pay", {"amount": 6})]).model
    outputs = [str, DeferredToolRequests]
    return Agent(model, name="cashier", tools=[pay], output_type=outputs, capabilities=[Approvals(controller)])
