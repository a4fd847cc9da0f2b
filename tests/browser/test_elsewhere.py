"""People with accounts elsewhere, and people who are told elsewhere: `sayso serve` as a process, and a real browser."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser, Page, expect
from standardwebhooks import Webhook, WebhookVerificationError
from tests.browser.stage import Person
from tests.server.accounts import CLIENT, SECRET, Accounts
from tests.server.ear import Ear
from tests.server.started import Hub

SHARED = "whsec_" + base64.b64encode(b"a secret of both sides").decode()


class Team:
    """A hub that was started for a team, with accounts at a provider, a phone and a program that are told."""

    def __init__(self, hub: Hub, accounts: Accounts, phone: Ear, program: Ear) -> None:
        self.hub = hub
        self.accounts = accounts
        self.phone = phone
        self.program = program


@pytest.fixture(scope="module")
async def team(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Team]:
    folder: Path = tmp_path_factory.mktemp("team")
    async with Ear() as phone, Ear() as program:
        (folder / "notices.yaml").write_text(
            f"people: [{{name: ann, roles: [ops], arguments: [purpose, password], to: ['json://{phone.address}/']}}]\n"
            f"webhooks: [{{url: 'http://{program.address}/hook', secret: 'env:HOOK'}}]\n"
        )
        with Accounts() as accounts:
            oidc = ("--oidc-issuer", accounts.url, "--oidc-client", CLIENT, "--oidc-roles", "teams")
            environ = {"SAYSO_OIDC_SECRET": SECRET, "HOOK": SHARED}
            options = (*oidc, "--oidc-domain", "example.org", "--notify", "notices.yaml")
            hub = Hub(folder, *options, environ=environ)
            yield Team(hub, accounts, phone, program)
            hub.kill()


async def hears(ear: Ear, *words: str) -> tuple[dict[str, str], str]:
    """Return the next message in which all these words are."""
    while True:
        headers, body = await ear.next()
        if all(each in body for each in words):
            return headers, body


@pytest.fixture
async def page(browser: Browser) -> AsyncGenerator[Page]:
    context = await browser.new_context(viewport={"width": 1280, "height": 820})
    person = Person("ann", await context.new_page())
    yield person.page
    await context.close()
    assert not person.troubles


async def test_an_account_elsewhere_signs_in_on_the_page_and_the_audit_says_who_answered(
    team: Team, page: Page
) -> None:
    await page.goto(team.hub.url)
    offer = page.get_by_role("link", name="Sign in with your account at localhost")
    team.accounts.claims["email_verified"] = False
    await offer.click()
    await page.get_by_role("button", name="Continue as Ann").click()
    await expect(page.locator("#problem")).to_contain_text("That account may not sign in here")
    await expect(offer).to_be_visible()
    await Person("ann", page).shot("account-refused")
    team.accounts.be_honest()
    await offer.click()
    await page.get_by_role("button", name="Continue as Ann").click()
    await expect(page.locator("#connection")).to_have_text("Live")
    await expect(page.locator(".me-name")).to_have_text("ann@example.org")
    (asked,) = await asyncio.to_thread(team.hub.ask)
    person = Person("ann", page)
    await person.opens("pay")
    await page.locator("[data-act=allow]").click()
    await expect(page.locator(".result")).to_contain_text("Allowed by ann@example.org (page from 127.0.0.1)")
    entries = (await (await page.request.get(f"{team.hub.url}/audit")).json())["items"]
    answers = [each for each in entries if each["call_id"] == asked.tool_call_id and each["step"] == "approved"]
    assert [(each["who"], each["channel"]) for each in answers] == [("ann@example.org", "page from 127.0.0.1")]


@pytest.mark.proves("H10")
async def test_whoever_is_told_elsewhere_opens_the_request_by_a_link_that_decides_nothing_and_works_once(
    team: Team, page: Page
) -> None:
    (asked,) = await asyncio.to_thread(team.hub.ask, purpose="books", password="hunter2")  # noqa: S106 - a secret to be hidden
    _, told = await hears(team.phone, "books")
    assert "hunter2" not in told
    address = re.findall(r"http\S+", json.loads(told)["message"])[-1]
    headers, body = await hears(team.program, asked.id, "approval.asked")
    Webhook(SHARED).verify(body, headers)
    assert "hunter2" not in body
    assert "code=" not in body, "a program gets nothing that signs a person in"
    async with httpx2.AsyncClient() as looks:  # as a mail program does
        assert [(await looks.get(address)).status_code for _ in range(2)] == [200, 200]
        assert not looks.cookies
    await page.goto(address)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator(f"article[data-id='{asked.id}']")).to_be_visible()
    await expect(page.locator(".me-name")).to_have_text("ann")
    await Person("ann", page).settles()
    await page.locator("[data-act=deny]").click()
    await expect(page.locator(".result")).to_contain_text("Denied by ann (page from 127.0.0.1)")
    headers, body = await hears(team.program, asked.id, "approval.closed")
    Webhook(SHARED).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SHARED).verify(body.replace("denied", "approved"), headers)
    await page.goto(address)
    await expect(page.locator(f"article[data-id='{asked.id}']")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    await page.goto(address)
    await expect(page.get_by_role("heading", name="This link does not work any more")).to_be_visible()
