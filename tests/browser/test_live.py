"""The list follows what happens: without a reload, without moving under a finger, and however much waits."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import time

import anyio
import pytest
from playwright.async_api import expect
from tests.browser.stage import WAIT, Stage, request

from sayso import ApprovalDecision
from sayso.core import tokens

SENT: list[str] = []


async def send_mail(to: str) -> None:
    SENT.append(to)


async def test_after_the_hub_restarts_the_page_says_so_catches_up_and_answers(stage: Stage) -> None:
    SENT.clear()
    ann = await stage.person()
    await stage.stop()
    await expect(ann.page.locator("#connection")).to_contain_text("Connection lost")
    await ann.page.get_by_role("link", name="Remembered").click()
    await expect(ann.page.locator("#view-remembered")).to_contain_text("The hub cannot be reached.")
    await ann.shot("lost")
    call = stage.asks(send_mail, "bob")  # asked while nobody could hear of it
    await expect(ann.rows).to_have_count(0)
    await stage.start()
    await expect(ann.page.locator("#connection")).to_have_text("Live")
    await expect(ann.page.locator("#polite")).to_have_text("Connected again; everything is up to date.")
    await expect(ann.page.locator("#view-remembered")).to_contain_text("Nothing is remembered")
    await ann.page.get_by_role("link", name="Inbox").click()
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=allow]").click()
    with anyio.fail_after(WAIT):
        await call
    assert SENT == ["bob"]


async def test_an_answer_while_the_hub_is_away_is_told_as_not_given(stage: Stage) -> None:
    await stage.opened(request("send_mail"))
    ann = await stage.person()
    await ann.opens("send_mail")
    await stage.stop()
    await ann.page.locator("[data-act=allow]").click()
    await expect(ann.notice).to_contain_text("The hub cannot be reached.")
    await stage.start()
    await expect(ann.page.locator("#connection")).to_have_text("Live")
    (row,) = await stage.store.pending()
    assert row.status == "open"


async def test_whoever_is_signed_out_elsewhere_is_told_and_sees_nothing_more(stage: Stage) -> None:
    await stage.opened(request("secret"))
    ann = await stage.person()
    await ann.opens("secret")
    for token in await stage.store.tokens():
        await stage.store.take_token(token.id)
    await stage.opened(request("send_mail"))
    await expect(ann.page.get_by_role("heading", name="You are not signed in")).to_be_focused()
    await expect(ann.page.locator("#app")).to_be_hidden()
    await expect(ann.page.locator("#app")).to_be_empty()


async def test_a_link_signs_in_once_and_opens_its_request(stage: Stage) -> None:
    asked = request("send_mail")
    await stage.opened(request("other"), asked)
    address = tokens.sign_in_address(stage.url, await stage.code("bob", opens=asked.id), asked.id)
    ann = await stage.person("ann")
    await ann.page.goto(address)
    assert "code" not in ann.page.url
    await expect(ann.page.get_by_role("link", name="Stay signed in as ann")).to_be_visible()
    await expect(ann.page.locator("#told")).to_contain_text("signs this browser in as bob, once")
    await ann.shot("sign-in-as-another")
    await ann.button("Sign in as bob").click()
    await expect(ann.page.locator("article h2")).to_contain_text("send_mail")
    await expect(ann.page.locator(".me-name")).to_have_text("bob")
    for _ in range(2):
        await ann.page.goto(address)
        await expect(ann.page.locator(f"article[data-id='{asked.id}']")).to_be_visible()
    await ann.button("Sign out").click()
    await expect(ann.page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    await ann.page.goto(address)
    await expect(ann.page.get_by_role("heading", name="This link does not work any more")).to_be_visible()
    await expect(ann.page.get_by_text("ask the person who runs this hub to send you a new link")).to_be_visible()
    await expect(ann.page.locator("#sign-in")).to_be_hidden()
    await expect(ann.page.get_by_text("bob")).to_have_count(0)
    await ann.shot("link-used-up")


async def test_an_unused_link_leads_the_person_it_is_for_to_its_request_without_using_it_up(stage: Stage) -> None:
    asked = request("send_mail")
    await stage.opened(request("other"), asked)
    code = await stage.code("ann", opens=asked.id)
    ann = await stage.person("ann")
    await ann.page.goto(f"{stage.url}sign-in?code={code}")
    await expect(ann.page.locator(f"article[data-id='{asked.id}']")).to_be_visible()
    phone = await stage.browser.new_context()
    assert (await phone.request.post(f"{stage.url}sign-in", data={"code": code})).ok
    await phone.close()


async def test_where_there_is_room_the_first_request_is_open_beside_the_list(stage: Stage) -> None:
    await stage.opened(request("first"), request("second"))
    ann = await stage.person("ann")
    await expect(ann.page.locator("article h2 .tool")).to_have_text("first")
    bob = await stage.person("bob", viewport={"width": 390, "height": 780})
    await expect(bob.rows).to_have_count(2)
    await expect(bob.page.locator("article")).to_have_count(0)
    await expect(ann.page.locator(".people")).not_to_contain_text("bob")
    await ann.opens("second")
    await ann.page.get_by_role("link", name="History").click()
    await ann.page.get_by_role("link", name="Inbox").click()
    await expect(ann.page.locator("#view-inbox article h2 .tool")).to_have_text("first")


async def test_what_comes_while_nothing_is_open_does_not_open_by_itself(stage: Stage) -> None:
    ann = await stage.person("ann")
    await stage.opened(request("first"))
    await expect(ann.rows).to_have_count(1)
    await expect(ann.page.locator("article")).to_have_count(0)


async def test_the_list_has_the_time_that_is_left_and_what_the_policy_says_of_the_call(stage: Stage) -> None:
    args = {"to": "eve", "amount": 5000}
    await stage.opened(
        request("pay", description="Pay 5000 to eve", args=args, expires_at=time.time() + 600),
        request("plain", args={"to": "bob"}),
    )
    ann = await stage.person("ann")
    first, second = ann.rows.nth(0), ann.rows.nth(1)
    await expect(first.locator(".time")).to_have_text(re.compile(r"^\d+ s · 9 min left$"))
    await expect(first.locator(".row-brief")).to_have_text("Pay 5000 to eve · to: eve · amount: 5000")
    await expect(second.locator(".time")).to_have_text(re.compile(r"^\d+ s$"))
    await expect(second.locator(".row-brief")).to_have_text("bob")


@pytest.mark.parametrize("width", [1280, 390])
async def test_a_notice_covers_nothing_of_a_request_and_goes_with_the_view(stage: Stage, width: int) -> None:
    await stage.opened(request("send_mail"), request("other"))
    ann = await stage.person("ann", viewport={"width": width, "height": 780})
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=deny]").click()
    await expect(ann.notice).to_have_text("Denied: send_mail does not run.")
    covered = await ann.page.evaluate("""() => {
        const box = (each) => document.querySelector(each).getBoundingClientRect();
        const [notice, reading, actions] = ["#notice", ".reading", ".actions"].map(box);
        const meets = (one) => notice.left < one.right && one.left < notice.right
            && notice.top < one.bottom && one.top < notice.bottom;
        return [meets(reading), meets(actions)];
    }""")
    assert covered == [False, False]
    await ann.shot(f"notice-{width}")
    await ann.page.get_by_role("link", name="History").click()
    await expect(ann.notice).to_be_hidden()


@pytest.mark.proves("R75")
async def test_a_minimal_client_in_a_browser_answers_each_request_over_the_socket(stage: Stage) -> None:
    SENT.clear()
    ann = await stage.person()
    calls = [stage.asks(send_mail, to) for to in ("bob", "mallory")]
    answered = await ann.page.evaluate("""() => new Promise((done) => {
        const socket = new WebSocket(`ws://${location.host}/ws/minimal`);
        const came = {};
        socket.onmessage = ({ data }) => {
            const { type, id, args, status } = JSON.parse(data);
            if (type === "approval_request") {
                const outcome = args.to === "bob" ? "proceed_once" : "cancel";
                socket.send(JSON.stringify({ type: "approval_response", id, outcome }));
            }
            if (type === "approval_result") came[id] = status;
            if (Object.keys(came).length === 2) done(Object.values(came).sort());
        };
    })""")
    assert answered == ["approved", "denied"]
    with anyio.fail_after(WAIT):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each).__name__ for each in ended] == ["NoneType", "ApprovalDenied"]
    assert SENT == ["bob"]


async def test_what_others_answer_stays_in_its_place_and_moves_nothing(stage: Stage) -> None:
    asked = [request(f"tool_{at}") for at in range(4)]
    await stage.opened(*asked)
    ann = await stage.person()
    await ann.opens("tool_2")
    box = await ann.rows.nth(2).bounding_box()
    button = await ann.page.locator("[data-act=allow]").bounding_box()
    await stage.hub.controller.answer(asked[0].id, ApprovalDecision(approved=True), who="bob")
    await stage.opened(request("tool_new"))
    await expect(ann.rows).to_have_count(5)
    await expect(ann.rows.nth(0)).to_contain_text("allowed")
    assert await ann.rows.nth(2).bounding_box() == box
    assert await ann.page.locator("[data-act=allow]").bounding_box() == button
    await expect(ann.page.locator("article h2")).to_contain_text("tool_2")
    await stage.hub.controller.answer(asked[2].id, ApprovalDecision(approved=False, note="mine"), who="bob")
    await expect(ann.page.locator(".result")).to_contain_text("Denied by bob")
    await expect(ann.page.locator("article h2")).to_contain_text("tool_2")
    await ann.page.get_by_role("button", name="Take 2 answered requests off the list").click()
    await expect(ann.rows).to_have_count(4)  # the one on the screen stays


async def test_an_answer_key_does_nothing_to_what_has_only_just_appeared(stage: Stage) -> None:
    await stage.opened(request("first"), request("second"))
    ann = await stage.person()
    await ann.opens("first")
    # Both keys in one turn of the browser: nobody can have looked at the second request.
    await ann.page.evaluate(
        """() => { for (const key of ["j", "y"]) dispatchEvent(new KeyboardEvent("keydown", { key })); }"""
    )
    await expect(ann.notice).to_contain_text("This has only just appeared.")
    assert [row.status for row in await stage.store.pending()] == ["open", "open"]


async def test_new_requests_are_told_politely_and_results_at_once(stage: Stage) -> None:
    ann = await stage.person()
    await stage.opened(request("send_mail", agent_path=("planner", "mailer")))
    await expect(ann.page.locator("#polite")).to_have_text("New request: planner › mailer wants to run send_mail.")  # noqa: RUF001 - as people read paths
    await expect(ann.page).to_have_title("(1) Inbox · sayso")
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=deny]").click()
    await expect(ann.page.locator("#assertive")).to_have_text("Denied: send_mail does not run.")
    await expect(ann.page.get_by_role("button", name="Next request")).to_be_focused()


async def test_an_audit_that_somebody_changed_is_told_at_once_and_in_words(stage: Stage) -> None:
    asked = [request("send_mail") for _ in range(3)]
    await stage.opened(*asked)
    for each in asked:
        await stage.hub.controller.answer(each.id, ApprovalDecision(approved=True), who="bob")
    with contextlib.closing(sqlite3.connect(stage.path)) as forger, forger:
        forger.execute("UPDATE audit SET line = ? WHERE number = 2", (b'{"step":"asked"}',))
    ann = await stage.person()
    await ann.page.get_by_role("link", name="Overview").click()
    await expect(ann.page.locator(".chain.broken")).to_contain_text("is broken: audit entry 2 was changed")
    await expect(ann.page.locator(".chart", has_text="Waiting for an answer")).to_contain_text("3 answers")
    await ann.shot("audit-broken")


@pytest.mark.timeout(240)
async def test_of_ten_thousand_requests_only_those_in_view_are_in_the_document(stage: Stage) -> None:
    now = time.time()
    many = [request(f"tool_{at}", args={"number": at}, asked_at=now - 20_000 + at) for at in range(10_000)]
    await stage.opened(*many)
    ann = await stage.person()
    await expect(ann.page.locator(".count").first).to_have_text("10,000 waiting", timeout=60_000)
    in_document = await ann.rows.count()
    assert 5 < in_document < 30
    await ann.shot("many")
    await ann.page.locator(".scroll").evaluate("element => { element.scrollTop = element.scrollHeight; }")
    await expect(ann.page.locator(".row-link", has_text="tool_9999")).to_be_visible()
    assert await ann.rows.count() < 30
    await ann.page.locator("#search").fill("tool_7777")
    await expect(ann.page.locator(".count").first).to_have_text("1 found of 10,000 waiting")
    await ann.opens("tool_7777")
    await ann.page.locator("[data-act=deny]").click()
    await expect(ann.page.locator(".result")).to_contain_text("Denied by ann")
    await ann.page.locator("#search").fill("")
    await expect(ann.page.locator(".count").first).to_have_text("9,999 waiting")
    assert await ann.rows.count() < 30


async def test_the_page_works_where_the_hub_is_mounted_in_another_application(stage: Stage) -> None:
    SENT.clear()
    await stage.stop()
    stage.mounted_at = "/tools/hub"
    await stage.start()
    ann = await stage.person()
    call = stage.asks(send_mail, "bob")
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=allow]").click()
    with anyio.fail_after(WAIT):
        await call
    assert SENT == ["bob"]
    await ann.button("Sign out").click()
    await ann.page.get_by_role("link", name="I have a code").click()
    await expect(ann.page.get_by_label("The code from your link")).to_be_visible()
