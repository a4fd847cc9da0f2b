"""The example in examples/web_chat: its page, bundled with the real client of the Vercel AI SDK, and its app."""

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from tests.web.processes import HERE, PACKAGES, Process, node

from sayso import ApprovalRequest
from sayso.stores.sqlite import SqliteStore

EXAMPLE = HERE.parents[1] / "examples" / "web_chat"
# As `python app.py` does, at a port that is free.
SERVE = """
import socket, uvicorn
from app import app
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, with its page built."""
    copy = tmp_path_factory.mktemp("example") / "web_chat"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(PACKAGES)
    assert node()
    build = json.loads((copy / "package.json").read_text())["scripts"]["build"].split()
    subprocess.run([copy / "node_modules" / ".bin" / build[0], *build[1:]], cwd=copy, check=True, capture_output=True)
    return copy


@pytest.fixture(scope="module")
async def url(folder: Path) -> AsyncGenerator[str]:
    async with Process(sys.executable, "-c", SERVE, folder=folder) as server:
        yield f"http://127.0.0.1:{int(await server.read_line())}"


@pytest.fixture
async def page(browser: Browser, url: str) -> AsyncGenerator[Page]:
    """The page of ann, who has signed in."""
    async with await browser.new_context() as context:
        page = await context.new_page()
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        await page.goto(url)
        await page.get_by_label("Name").fill("ann")
        await page.get_by_label("Password").fill("ann")
        await page.get_by_role("button", name="Sign in").click()
        yield page
        assert not troubles


async def card(page: Page) -> Locator:
    """Ask the agent to pay, and return the card of its question."""
    await page.get_by_label("Message").fill("Pay Ann.")
    await page.get_by_role("button", name="Send").click()
    return page.get_by_role("form", name="May it pay?")


async def newest(folder: Path) -> ApprovalRequest:
    store = SqliteStore(folder / "chat.db")
    try:
        return (await store.recent(1))[0]
    finally:
        await store.aclose()


async def test_the_chat_pays_after_a_yes(page: Page, folder: Path) -> None:
    question = await card(page)
    await expect(question.get_by_label("Arguments")).to_have_value('{\n  "to": "a",\n  "amount": 0\n}')
    await question.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("paid 0 to a")).to_be_visible()
    assert (await newest(folder)).state == "used, returned"


async def test_the_chat_does_not_pay_after_a_no(page: Page, folder: Path) -> None:
    question = await card(page)
    await question.get_by_label("Reason").fill("too much")
    await question.get_by_role("button", name="Deny").click()
    await expect(page.get_by_text("Not executed: refused by ann.")).to_contain_text("Their note: too much")
    denied = await newest(folder)
    assert denied.decision is not None
    assert (denied.status, denied.decision.who) == ("denied", "ann")


async def test_the_chat_pays_what_the_person_has_written(page: Page) -> None:
    question = await card(page)
    await question.get_by_label("Arguments").fill("{")
    await question.get_by_role("button", name="Approve").click()
    await expect(page.get_by_role("alert")).to_have_text("The arguments are no JSON: correct them, or deny the call.")
    await question.get_by_label("Arguments").fill('{"to": "bob", "amount": 7}')
    await question.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("paid 7 to bob")).to_be_visible()


async def test_what_is_no_chat_is_refused_with_a_reason(page: Page, url: str) -> None:
    talk: dict[str, Any] = {"trigger": "submit-message", "id": "c", "messages": [], "edits": {"c1": "all of it"}}
    answer = await page.context.request.post(f"{url}/chat", data=talk)
    assert answer.status == 422
    assert "valid dictionary" in await answer.text()


async def test_nobody_chats_without_signing_in(browser: Browser, url: str) -> None:
    async with await browser.new_context() as context:
        answer = await context.request.post(f"{url}/sign-in", form={"name": "ann", "password": "bob"})
        assert "Sign in" in await answer.text()
        assert (await context.request.post(f"{url}/chat", data={})).status == 401


def test_the_example_has_the_client_that_the_tests_have() -> None:
    wanted, tested = (json.loads((each / "package.json").read_text()) for each in (EXAMPLE, HERE))
    assert {**wanted["dependencies"], **wanted["devDependencies"]}.items() <= tested["dependencies"].items()
