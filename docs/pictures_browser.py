"""Screenshots of the hub's page and of a Streamlit app, each as a real server serves it to a real Chromium."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pictures_scene import NOW, STILL, Scene
from pictures_terminal import FRAME
from PIL import Image, ImageOps
from playwright.sync_api import Browser, Page, expect, sync_playwright

APP = Path(__file__).resolve().parents[1] / "examples" / "streamlit_app.py"
# Without these, Chromium would try to reach its maker.
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
COLOURS = 128  # enough for a page, and a third of the bytes
CARET = "* { caret-color: transparent !important; }"
_WAIT = 60_000.0  # milliseconds
expect.set_options(timeout=_WAIT)


@contextlib.contextmanager
def chromium() -> Generator[Browser]:
    """A browser that shows pages by day and in English."""
    program = os.environ.get("SAYSO_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        sys.exit("there is no Chromium: run `python3 dev.py pictures`, which installs it or says how")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=False, args=[*QUIET, "--disable-gpu", "--lang=en-GB"]
        )
        yield browser
        browser.close()


def hub(scene: Scene, browser: Browser) -> dict[str, bytes]:
    """The inbox of the hub with a question in full, on a desk and on a phone."""
    with _serving(scene, [str(STILL), str(NOW), "sayso", "serve", "--port", "0"]) as served:
        page = _page(browser, 1160, 1080)
        page.clock.set_fixed_time(datetime.fromtimestamp(NOW, UTC))
        page.goto(_address(served, r"http://\S+/sign-in\S+"))
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        desk = _asked(page, "edit_file")
        page.set_viewport_size({"width": 430, "height": 932})
        return {"hub.png": desk, "hub-phone.png": _asked(page, "transfer")}


def _address(served: subprocess.Popen[str], wanted: str) -> str:
    """Read the address that a server prints when it is ready."""
    for line in served.stdout or ():
        found = re.search(wanted, line)
        if found:
            return found[0]
    sys.exit(f"{served.args} has ended, or printed no address")


def _asked(page: Page, tool: str) -> bytes:
    """Open a question, and wait until it can be answered."""
    page.goto(page.url.partition("#")[0])
    page.get_by_role("link").filter(has_text=tool).click()
    expect(page.get_by_role("heading").filter(has_text=tool)).to_be_visible()
    expect(page.get_by_role("button", name="Allow once")).to_be_enabled()  # all of it is on the screen
    return _shot(page)


def streamlit(scene: Scene, browser: Browser) -> dict[str, bytes]:
    """The example's app with a question, after another one was answered."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "server.port": port,
        "server.address": "127.0.0.1",
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "minimal",
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    with _serving(scene, ["-m", "streamlit", "run", str(APP), *options]) as served:
        page = _page(browser, 740, 1040)  # too narrow for a side bar
        page.goto(_address(served, r"http://127\S+"))
        page.get_by_role("button", name="Pay the invoice").click()
        _allow(page, "Ann")
        expect(page.get_by_text("Your office")).to_be_visible()
        expect(page.get_by_text("paid 120 to Ann")).to_be_visible()
        page.mouse.move(0, 0)  # or what it rests on would show more than others see
        return {"streamlit.png": _shot(page, top=100)}


def _allow(page: Page, text: str) -> None:
    """Allow a request, once it has been on the screen for so long that an answer counts."""
    expect(page.get_by_text(text, exact=True)).to_be_visible()
    page.wait_for_timeout(1000)
    page.get_by_role("button", name="Allow once").click()


@contextlib.contextmanager
def _serving(scene: Scene, command: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    """A server in the scene."""
    program = [sys.executable, *command]
    with subprocess.Popen(  # noqa: S603 - what this file says
        program,
        cwd=scene.folder,
        env=scene.settings("ann"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as served:
        try:
            yield served
        finally:
            served.kill()


def _page(browser: Browser, width: int, height: int) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="light", locale="en-GB", timezone_id="UTC"
    )
    context.set_default_timeout(_WAIT)
    return context.new_page()


def _shot(page: Page, *, top: int = 0) -> bytes:
    """Return what is on the screen, below its empty top, as a small PNG."""
    with Image.open(io.BytesIO(page.screenshot(animations="disabled", style=CARET))) as image, io.BytesIO() as file:
        shown = image.convert("RGB").crop((0, top, *image.size))
        small = ImageOps.expand(shown, 1, FRAME).quantize(
            COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
        small.save(file, "PNG", optimize=True)
        return file.getvalue()
