"""The browser of the tests, and a stage for each of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright
from tests.browser.stage import Stage

# Without these, Chromium would try to reach its maker.
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
# It need not play a graphics card, nor start a process for everybody.
ARGUMENTS = [*QUIET, "--disable-gpu", "--renderer-process-limit=1"]


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """One event loop for all these tests, in which their browser lives."""
    return "asyncio"


def _program() -> str:
    given = os.environ.get("SAYSO_CHROMIUM")
    found = given or shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "there is no Chromium: run `python3 dev.py test`, which installs it or says how"
    return found


@pytest.fixture(scope="package")
async def browser() -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(
            executable_path=_program(), chromium_sandbox=False, args=[*ARGUMENTS, "--lang=en-GB"]
        )
        yield found
        await found.close()


@pytest.fixture
async def stage(browser: Browser, tmp_path: Path) -> AsyncGenerator[Stage]:
    """A stage on which nothing may go wrong unseen: no error and no breach of the page's own policy."""
    found = Stage(browser, tmp_path)
    await found.start()
    yield found
    troubles = [f"{person.name}: {trouble}" for person in found.people for trouble in person.troubles]
    await found.end()
    assert not troubles
