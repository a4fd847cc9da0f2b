"""The base of all cases: the driver, and the reasons why a framework cannot have some of them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.adapters.conformance.driver import Driver, Response, Seen, Tool

from sayso import ApprovalController

SERVER = Path(__file__).parent / "mcp_server.py"


class Cases:
    """A part of the suite; a framework's test class sets its driver."""

    driver: ClassVar[Driver]

    @pytest.fixture(autouse=True)
    def only_what_the_framework_can_have(self, request: pytest.FixtureRequest) -> None:
        """Leave out a case that the framework cannot have, and say why."""
        name = request.function.__name__.removeprefix("test_")
        if name in self.driver.cannot:
            pytest.skip(f"{self.driver.name} cannot: {self.driver.cannot[name]}")

    async def attempt(
        self, responses: Sequence[Response], tools: Sequence[Tool], controller: ApprovalController, **options: Any
    ) -> Seen | None:
        """Run an agent that may end with an error of its framework; only what ran counts."""
        with contextlib.suppress(Exception):
            return await self.driver.run(responses, tools, controller, **options)

    def mcp_server(self, book: Path) -> tuple[str, list[str]]:
        """Return the command of an MCP server with one tool, which writes into a book."""
        return sys.executable, [str(SERVER), str(book)]
