"""The inbox in a real Streamlit app, in a real browser: it is live, several people share it, and text stays text."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
from playwright.async_api import Browser, Locator, Page, expect
from tests.browser.stage import SCREENSHOTS, WAIT, request
from tests.children import bounded

from sayso import ApprovalController, ApprovalDecision, ApprovalPresentation, ConversationMessage, Policy, guard
from sayso.errors import ApprovalDenied
from sayso.stores.sqlite import SqliteStore

expect.set_options(timeout=WAIT * 1000)

APP = Path(__file__).parent / "streamlit_app.py"
MARKUP = "<img src=x onerror=alert(1)> <b>b</b> **bold** [a](http://a.example) :smile: :red[r] $x^2$"
HOSTILE = f"{MARKUP} `c` \u202eabc\u200b"
DIFF = "--- a/till.py\n+++ b/till.py\n@@ -1,3 +1,3 @@\n def pay():\n-    return 5\n+    return 50\n # end"


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    """The address of an app that is served by the real thing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "server.port": port,
        "server.address": "127.0.0.1",
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "streamlit", "run", str(APP), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    with bounded(process) as served:
        try:
            deadline = time.monotonic() + 60
            while not _answers(port):
                assert served.poll() is None
                assert time.monotonic() < deadline
            yield f"http://127.0.0.1:{port}/"
        finally:
            served.terminate()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Desk:
    """An app over one store: the agents that ask through it, and the people who look."""

    def __init__(self, browser: Browser, address: str, file: Path) -> None:
        self.store = SqliteStore(file, synchronous="NORMAL")
        self.troubles: list[str] = []
        self._browser = browser
        self._address = address
        self._file = file
        self._pages: list[Page] = []

    async def person(self, who: str = "ann", **how: Any) -> Page:
        """Let somebody look, at a browser of their own."""
        context = await self._browser.new_context(viewport={"width": 1000, "height": 1000}, **how)
        context.set_default_timeout(WAIT * 1000)
        return await self.look(await context.new_page(), who)

    async def look(self, page: Page, who: str) -> Page:
        self._pages.append(page)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", lambda dialog: self.troubles.append(f"dialog {dialog.message}"))
        await page.goto(f"{self._address}?{urlencode({'store': str(self._file), 'who': who})}")
        await expect(page.get_by_text("wants to run").or_(page.get_by_text("Nothing waits")).first).to_be_visible()
        return page

    def agent(self, **settings: Any) -> ApprovalController:
        return ApprovalController(policy=Policy(default="required"), store=self.store, **settings)

    async def end(self) -> None:
        for page in self._pages:
            await page.context.close()
        await self.store.aclose()


@pytest.fixture
async def desk(browser: Browser, address: str, tmp_path: Path) -> AsyncGenerator[Desk]:
    found = Desk(browser, address, tmp_path / "sayso.db")
    yield found
    await found.end()
    assert not found.troubles


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


async def press(page: Page, name: str, then: str) -> None:
    """Press a button a second later: what has only just appeared cannot be answered."""
    await expect(button(page, name)).to_be_enabled()
    await page.wait_for_timeout(1000)
    await button(page, name).click()
    await expect(page.get_by_text(then).first).to_be_visible()


async def shot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"streamlit-{name}.png", full_page=True)


async def pay(amount: int, to: str = "ann") -> str:
    return f"paid {amount} to {to}"


@pytest.mark.proves("R72")
async def test_a_question_comes_by_itself_and_an_answer_lets_the_run_go_on(desk: Desk) -> None:
    ann = await desk.person()
    await expect(ann.get_by_text("Nothing waits for an answer.")).to_be_visible()
    running = asyncio.create_task(guard(pay, desk.agent())(5))
    await expect(ann.get_by_text("An agent wants to run")).to_be_visible()
    await press(ann, "Allow once", "Allowed: pay may run.")
    with anyio.fail_after(WAIT):
        assert await running == "paid 5 to ann"
    await expect(ann.get_by_text("Nothing waits for an answer.")).to_be_visible()


CLICKING = """() => {
  const click = () => [...document.querySelectorAll("button")].find((each) => each.innerText === "Allow once")?.click();
  const timer = setInterval(click, 5);
  setTimeout(() => { clearInterval(timer); document.title = "done"; }, 1500);
}"""


@pytest.mark.proves("R72")
async def test_many_clicks_at_once_are_one_answer_and_the_page_says_so(desk: Desk) -> None:
    """Each click makes Streamlit draw anew: those that come after the first are about nothing any more."""
    running = asyncio.create_task(guard(pay, desk.agent())(5))
    ann = await desk.person()
    await expect(button(ann, "Allow once")).to_be_enabled()
    await ann.evaluate(CLICKING)
    with anyio.fail_after(WAIT):
        assert await running == "paid 5 to ann"
    await expect(ann).to_have_title("done")
    await expect(ann.get_by_text("Nothing waits for an answer.")).to_be_visible()
    await expect(ann.get_by_text("Allowed: pay may run.")).to_be_visible()


@pytest.mark.proves("R72", "H6")
async def test_two_tabs_and_two_people_share_one_row(desk: Desk) -> None:
    """What somebody else answered stays in its place and says so; only the first answer counts."""
    running = asyncio.create_task(guard(pay, desk.agent())(5))
    ann = await desk.person("ann")
    tab = await desk.look(await ann.context.new_page(), "ann")
    bob = await desk.person("bob")
    await expect(bob.get_by_text("Also seen by ann")).to_be_visible()
    await press(bob, "Deny", "Denied: pay does not run.")
    for page in (ann, tab):
        await expect(page.get_by_text("pay was denied by bob (streamlit).")).to_be_visible()
        await expect(button(page, "Allow once")).to_have_count(0)
    with pytest.raises(ApprovalDenied), anyio.fail_after(WAIT):
        await running
    await button(ann, "Close").click()
    await expect(ann.get_by_text("Nothing waits for an answer.")).to_be_visible()


@pytest.mark.proves("R72")
async def test_what_is_being_typed_outlives_the_refreshes(desk: Desk) -> None:
    running = asyncio.create_task(guard(pay, desk.agent())(5))
    ann = await desk.person()
    clock = ann.get_by_text("waiting 0:")
    await button(ann, "Deny with a note…").click()
    note = ann.get_by_role("textbox", name="Why not?")
    await note.press_sequentially("not on a ")
    before = await clock.inner_text()
    await expect(clock).not_to_have_text(before)  # the app has drawn it anew meanwhile
    await note.press_sequentially("Friday")
    await press(ann, "Deny with this note", "Denied: pay does not run.")
    with pytest.raises(ApprovalDenied, match="not on a Friday"), anyio.fail_after(WAIT):
        await running


@pytest.mark.proves("R64", "R72")
async def test_edited_arguments_are_shown_once_more_and_run_as_shown(desk: Desk) -> None:
    running = asyncio.create_task(guard(pay, desk.agent())(5))
    ann = await desk.person()
    await button(ann, "Edit…").click()
    text = ann.get_by_role("textbox", name="All arguments")
    await text.fill('{"amount": "much", "to": "ann"}')
    await text.press("Control+Enter")
    await expect(ann.get_by_text("This does not fit the tool: amount")).to_be_visible()
    await expect(button(ann, "Allow with these arguments")).to_be_disabled()
    await text.fill("amount: 7\nto: bob")
    await text.press("Control+Enter")
    await expect(ann.get_by_text("This will run")).to_be_visible()
    await expect(button(ann, "Allow with these arguments")).to_be_enabled()
    await shot(ann, "edit")
    await press(ann, "Allow with these arguments", "Allowed: pay may run.")
    with anyio.fail_after(WAIT):
        assert await running == "paid 7 to bob"


@pytest.mark.proves("H10")
async def test_markup_in_every_field_stays_text(desk: Desk) -> None:
    """Neither HTML nor Markdown nor Streamlit's own words in it come to life, and what is hidden is shown."""
    hostile = request(
        HOSTILE,
        description=HOSTILE,
        reason=HOSTILE,
        agent_path=(HOSTILE,),
        args={HOSTILE: HOSTILE, "long": f"{HOSTILE}\n" * 3},
        presentation=ApprovalPresentation(title=HOSTILE, content=HOSTILE, language="html"),
    )
    other = request(HOSTILE, args={"x": HOSTILE})
    await asyncio.gather(desk.store.open(hostile), desk.store.open(other))
    ann = await desk.person()
    app = ann.get_by_test_id("stMain")
    await expect(app.get_by_text("1 more waits")).to_be_visible()
    await expect(app.locator("img, b, strong, em, a, .katex, [role=img]")).to_have_count(0)
    # In each of its fields once, in one three times, and on the list; whatever draws some of them is loaded later.
    counted = (
        "([text, count]) => document.querySelector('[data-testid=stMain]').innerText.split(text).length === count + 1"
    )
    await ann.wait_for_function(counted, arg=[MARKUP, 12])
    shown = await app.inner_text()
    assert "\\u202eabc\\u200b" in shown
    assert "\u202e" not in shown
    await shot(ann, "markup")
    decision = ApprovalDecision(approved=False, note=HOSTILE, who=HOSTILE, channel=HOSTILE)
    await desk.agent().answer(hostile.id, decision)
    await expect(app.get_by_text("was denied by")).to_be_visible()
    await expect(app.get_by_text("Their note")).to_be_visible()
    await expect(app.locator("img, b, strong, em, a, .katex, [role=img]")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_looks_as_developers_expect(desk: Desk, scheme: Any) -> None:
    """Kept for developers to look at, by day and by night."""
    diff = request(
        "write_file",
        description="Change till.py",
        agent_path=("report", "writer"),
        args={"path": "till.py", "count": 3, "text": "def pay():\n    return 50\n# end"},
        presentation=ApprovalPresentation(title="Change till.py", diff=DIFF),
        expires_at=time.time() + 600,
    )
    line = request("shell", args={"command": "git status && rm -rf build"}, agent_path=("report",))
    await asyncio.gather(desk.store.open(diff), desk.store.open(line))
    ann = await desk.person(color_scheme=scheme)
    await expect(ann.get_by_text("What would change: Change till.py")).to_be_visible()
    await shot(ann, scheme)
    await button(ann, "Open").click()
    await expect(ann.get_by_text("git status && rm -rf build").first).to_be_visible()
    await shot(ann, f"{scheme}-second")


async def test_the_messages_before_a_call_are_closed_until_somebody_opens_them(desk: Desk) -> None:
    said = (ConversationMessage(role="user", text=f"pay eve\n{HOSTILE}"), ConversationMessage(role="agent", text="ok"))
    await desk.store.open(request("pay", args={"amount": 5}, conversation=said))
    page = await desk.person()
    words = page.get_by_text("pay eve")
    await expect(page.get_by_text("Before this call: 2 messages, in the agent's words")).to_be_visible()
    await expect(words).to_be_hidden()
    await page.get_by_text("Before this call").click()
    await expect(words).to_be_visible()
    await expect(page.get_by_text("\\u202eabc").first).to_be_visible()
    await expect(page.get_by_text(MARKUP).first).to_be_visible()
    await page.wait_for_timeout(1000)  # the inbox refreshes itself meanwhile, and closes nothing
    await expect(words).to_be_visible()
    await shot(page, "conversation")
