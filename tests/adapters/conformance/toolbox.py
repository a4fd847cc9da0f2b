"""Tools and people of the conformance suite: what ran is written down, and answers come when a case says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from sayso import ApprovalDecision
from sayso.core.model import ApprovalRequest


class Toolbox:
    """Plain functions that write down what ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []

    def pay(self) -> Callable[..., str]:
        """Return a tool that pays."""

        def pay(amount: int, to: str = "bob") -> str:
            """Pay somebody."""
            self.ran.append(("pay", {"amount": amount, "to": to}))
            return f"paid {amount}"

        return pay

    def look(self) -> Callable[..., str]:
        """Return a tool that does no harm."""

        def look(what: str) -> str:
            """Look at something."""
            self.ran.append(("look", {"what": what}))
            return f"looked at {what}"

        return look

    def wipe(self) -> Callable[..., str]:
        """Return a tool that no policy here allows."""

        def wipe() -> str:
            """Delete everything."""
            self.ran.append(("wipe", {}))
            return "wiped"

        return wipe

    def fail(self) -> Callable[..., str]:
        """Return a tool that fails each time."""

        def fail(amount: int) -> str:
            """Fail."""
            self.ran.append(("fail", {"amount": amount}))
            raise OSError("the bank is closed")

        return fail

    @property
    def names(self) -> list[str]:
        """The names of the tools that ran, in order."""
        return [name for name, _ in self.ran]

    @property
    def amounts(self) -> list[int]:
        """The amounts that were paid, in order."""
        return [args["amount"] for name, args in self.ran if name == "pay"]


YES = ApprovalDecision(approved=True, who="ann")
NO = ApprovalDecision(approved=False, note="too much", who="ann")


class Desk:
    """A channel that only takes note of its questions; cases answer them by the controller, when they like."""

    def __init__(self) -> None:
        self._asked: list[ApprovalRequest] = []
        self._changed = threading.Condition()

    async def announce(self, request: ApprovalRequest) -> None:
        """Take note of a question, from any loop and thread."""
        with self._changed:
            self._asked.append(request)
            self._changed.notify_all()

    async def wait_for(self, count: int) -> list[ApprovalRequest]:
        """Return the questions once there are so many."""
        return await asyncio.to_thread(self._wait_for, count)

    def _wait_for(self, count: int) -> list[ApprovalRequest]:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._asked) >= count, timeout=20):
                raise TimeoutError(f"{len(self._asked)} of {count} questions were asked")
            return list(self._asked)
