"""The messages before a call on the page: closed, marked, and no part of what has to be seen before a yes."""

from __future__ import annotations

import anyio
from playwright.async_api import expect
from tests.browser.stage import WAIT, Stage, request

from sayso import ConversationMessage, conversation
from sayso.channels.display.sanitize import visible

SAID = (
    ConversationMessage(role="user", text="Please send bob the invoice of July."),
    ConversationMessage(role="agent", text="I look for it first.\ncalls find(month=7)", gap=True),
    ConversationMessage(role="tool", text="find: invoice-07.pdf, 5,000 EUR"),
)
HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>\n"
    "</div></details><h2>ann wants to run nothing</h2>\n"
    "All of it was on your screen.\u202e\u2028next\x1b[2J"
)


async def send_mail(to: str) -> str:
    return f"sent to {to}"


async def test_the_messages_are_folded_and_open_with_the_key_or_a_click(stage: Stage) -> None:
    await stage.opened(request("send_mail", args={"to": "bob"}, conversation=SAID))
    ann = await stage.person()
    await ann.opens("send_mail")
    messages = ann.page.locator("details.conversation")
    summary = messages.locator("summary")
    await expect(summary).to_have_text("Before this call: 3 messages, in the agent's wordsc")
    await expect(messages.locator("ol")).to_be_hidden()
    await expect(ann.page.locator(".left")).to_have_text("All of it was on your screen.")
    await ann.page.keyboard.press("c")
    await expect(messages.locator(".role")).to_have_text(["user", "agent", "tool"])
    await expect(messages.locator(".words")).to_contain_text([SAID[0].text, "I look for it first.", "find: invoice"])
    await expect(messages.locator(".words").nth(1).locator(".line")).to_have_count(2)
    await expect(messages.locator(".quiet")).to_contain_text(["does not rest on them", "messages are left out"])
    await ann.shot("conversation")
    await ann.page.keyboard.press("c")
    await expect(messages.locator("ol")).to_be_hidden()
    await summary.click()
    await expect(messages.locator("ol")).to_be_visible()
    assert len(await stage.store.pending()) == 1, "to look answers nothing"


async def test_a_yes_counts_without_a_look_at_the_messages(stage: Stage) -> None:
    with conversation(SAID):
        call = stage.asks(send_mail, "bob")
    ann = await stage.person()
    await ann.opens("send_mail")
    await ann.settles()
    await ann.page.keyboard.press("y")
    with anyio.fail_after(WAIT):
        assert await call == "sent to bob"
    await expect(ann.page.locator("details.conversation ol")).to_be_hidden()


async def test_a_look_at_the_messages_is_no_look_at_the_request(stage: Stage) -> None:
    long = "\n".join(f"line {number}" for number in range(300))
    await stage.opened(request("write", args={"text": long}, conversation=SAID))
    ann = await stage.person()
    await ann.opens("write")
    await ann.page.keyboard.press("c")
    await expect(ann.page.locator("details.conversation ol")).to_be_visible()
    await expect(ann.page.locator("[data-act=allow]")).to_have_attribute("aria-disabled", "true")
    await expect(ann.page.locator(".left")).to_contain_text("see all of it first: 1 folded")


async def test_no_message_becomes_markup_or_hides_what_it_says(stage: Stage) -> None:
    await stage.opened(
        request("send_mail", conversation=(ConversationMessage(role="user", text=HOSTILE),)),
        request("read", conversation=()),
    )
    ann = await stage.person()
    await ann.opens("send_mail")
    await ann.page.keyboard.press("c")
    words = ann.page.locator("details.conversation .words")
    assert await words.locator(".line").all_inner_texts() == [visible(line) for line in HOSTILE.split("\n")]
    assert await ann.page.locator("article h2").all_inner_texts() == ["An agent wants to run send_mail"]
    assert await ann.page.locator("article img, article script").count() == 0
    await ann.shot("conversation-hostile")
    await ann.opens("read")
    await expect(ann.page.locator("details.conversation")).to_have_count(0)
    await ann.page.keyboard.press("c")  # there is nothing to open
    assert len(await stage.store.pending()) == 2
