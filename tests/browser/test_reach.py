"""The page is for everybody: by keyboard alone, on a phone, with a screen reader, in the dark, at twice the size."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio
import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore[reportMissingTypeStubs] - it has none
from playwright.async_api import expect
from tests.browser.stage import WAIT, Person, Stage, request

from sayso import ApprovalDecision, ApprovalPresentation, ApprovalRequest, ConversationMessage, Policy
from sayso.channels.display.answer_keys import ANSWER_KEYS
from sayso.core.approvers import Approvers
from sayso.core.model import Rule
from sayso.policy.scopes import call_scope, tool_scope

STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECK = "runOnly => axe.run({ runOnly, resultTypes: ['violations'] }).then(({ violations }) => violations)"
SCHEMES = ("light", "dark")
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
DIFF = """\
--- a/srv/shop/prices.py
+++ b/srv/shop/prices.py
@@ -12,8 +12,10 @@
 TAX = 0.19

-def total(items):
-    return sum(item.price for item in items) * (1 + TAX)
+def total(items, discount=0):
+    whole = sum(item.price for item in items)  # without "tax", in euros
+    return (whole - discount) * (1 + TAX)

 def receipt(items):
     lines = [f"{item.name} {item.price}" for item in items]
"""
SHELL = """\
    git add -A  (rule 'git add')
ask git push --force origin main  (no rule names 'git push')
no  rm -rf /  (blocked)

runs /bin/bash with the line, in /srv/shop"""

SENT: list[str] = []


async def send_mail(to: str) -> None:
    SENT.append(to)


def everything() -> list[ApprovalRequest]:
    """Return one request of each kind that looks different."""
    rule = Rule(source="sayso.yaml", key="sandbox.zones.shop", line=14)
    return [
        request(
            "edit_file",
            args={"path": "/srv/shop/prices.py", "new": "def total(items, discount=0):\n    ..."},
            agent_path=("planner", "coder"),
            description="Change prices.py",
            reason="writes in the zone 'shop' are asked about",
            rule=rule,
            presentation=ApprovalPresentation(title="Change /srv/shop/prices.py", diff=DIFF),
            scopes=(call_scope("edit_file", {}), tool_scope("edit_file")),
        ),
        request(
            "shell",
            args={"command": "git add -A && git push --force origin main; rm -rf /"},
            presentation=ApprovalPresentation(title="Run git add -A …", content=SHELL, language="bash"),
        ),
        request(
            "refund",
            args={
                "customer": "6",
                "amount": 129.5,
                "lines": [{"sku": "A-1", "count": 2}],
                "notify": True,
                "note": None,
            },
            approvers=Approvers(count=2, roles=("finance",)),
            votes=(ApprovalDecision(approved=True, who="bob", channel="page", decided_at=time.time()),),
            expires_at=time.time() + 50,
            parameters='{"type": "object", "properties": {"customer": {"type": "string"}, "amount": {"type": "number", '
            '"minimum": 0, "maximum": 500}, "notify": {"type": "boolean"}, "note": {"anyOf": [{"type": "string"}, '
            '{"type": "null"}]}, "currency": {"enum": ["EUR", "USD"]}}, "required": ["customer", "amount"]}',
        ),
        request("send_mail", args={"to": "finance@p\u0430ypal.com", "body": "Dear all,\x1b[2K\n" + "line\n" * 60}),
    ]


async def violations(person: Person, rules: list[str]) -> list[tuple[str, list[Any]]]:
    if not await person.page.evaluate("'axe' in window"):
        await person.page.evaluate(AXE_SCRIPT)
    found = await person.page.evaluate(CHECK, rules)
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]


async def is_accessible(person: Person, name: str) -> None:
    """Check the page as it is now, in light and in dark, and keep a picture of both."""
    for scheme in SCHEMES:
        await person.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await person.shot(f"{name}-{scheme}")
        assert not await violations(person, STANDARDS if scheme == "light" else ["color-contrast"]), f"{name}-{scheme}"


async def fits(person: Person) -> None:
    """Nothing is cut off at the side, and nothing has to be scrolled sideways."""
    wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not await person.page.evaluate(wider)


async def test_no_main_state_keeps_anybody_out(stage: Stage) -> None:
    ann = await stage.person(roles=["finance"])
    await is_accessible(ann, "empty")
    await stage.opened(*everything())
    await expect(ann.rows).to_have_count(4)
    await is_accessible(ann, "list")
    for tool in ("edit_file", "shell", "refund", "send_mail"):
        await ann.opens(tool)
        await is_accessible(ann, f"detail-{tool}")


async def test_the_messages_before_a_call_keep_nobody_out(stage: Stage) -> None:
    said = (
        ConversationMessage(role="user", text="Please send " + "x" * 900),
        ConversationMessage(role="agent", text="\u202e"),
    )
    await stage.opened(request("send_mail", args={"to": "bob"}, conversation=said))
    ann = await stage.person()
    await ann.opens("send_mail")
    await ann.page.keyboard.press("c")
    await expect(ann.page.locator("details.conversation ol")).to_be_visible()
    await is_accessible(ann, "conversation")
    await ann.page.set_viewport_size({"width": 390, "height": 844})
    await fits(ann)
    await ann.shot("conversation-phone")


async def test_no_dialog_keeps_anybody_out(stage: Stage) -> None:
    await stage.opened(*everything())
    ann = await stage.person(roles=["finance"])
    await ann.opens("refund")
    await ann.page.keyboard.press("e")
    await is_accessible(ann, "form")
    await ann.page.keyboard.press("Escape")
    await ann.opens("edit_file")
    await ann.page.keyboard.press("v")
    await expect(ann.page.locator("#left")).to_have_text("All of it was on your screen.")
    await ann.settles()
    await ann.page.keyboard.press("a")
    await is_accessible(ann, "lasting")
    await ann.page.keyboard.press("Escape")
    await ann.page.keyboard.press("?")
    await is_accessible(ann, "keys")
    await ann.page.keyboard.press("Escape")
    await ann.page.keyboard.press("n")
    await expect(ann.page.locator(".result")).to_contain_text("Denied by ann")
    await is_accessible(ann, "denied")


async def test_no_other_view_keeps_anybody_out(stage: Stage) -> None:
    agent = stage.agent(Policy({"send_mail": {"approval": "required", "scope": "tool"}}))
    ann = await stage.person()
    call = stage.asks(send_mail, "bob", agent=agent)
    await expect(ann.rows).to_have_count(1)
    (asked,) = await stage.store.pending()
    lasting = ApprovalDecision(approved=True, remember="always", scope="tool")
    await stage.hub.controller.answer(asked.id, lasting, who="ann", channel="page")
    with anyio.fail_after(WAIT):
        await call
    await stage.opened(*everything())
    await ann.page.goto(f"{stage.url}#/history")
    await ann.page.locator("#view-history").get_by_label("Search").fill("SEND_mail")
    entries = ann.page.locator(".entry")
    await expect(entries).to_have_count(2)
    await ann.page.get_by_label("State").select_option(label="allowed and run")
    await expect(entries).to_have_count(1)
    await entries.first.locator("a").click()
    await expect(ann.page.locator("#view-history .result")).to_contain_text("Allowed by ann (page)")
    await is_accessible(ann, "history")
    await ann.page.get_by_role("link", name="Remembered").click()
    await expect(ann.page.locator(".card")).to_have_count(1)
    await is_accessible(ann, "remembered")


async def test_no_gate_and_no_chart_keeps_anybody_out(stage: Stage) -> None:
    await stage.opened(*everything())
    ann = await stage.person()
    await ann.page.get_by_role("link", name="Overview").click()
    await expect(ann.page.locator(".chain")).to_contain_text("is whole")
    await ann.page.get_by_text("As a table").first.click()
    await expect(ann.page.locator(".chart").first).to_contain_text("4 asked")
    await expect(ann.page.get_by_role("table").first).to_be_visible()
    await is_accessible(ann, "overview")
    await ann.page.goto(f"{stage.url}sign-in")
    await is_accessible(ann, "sign-in")
    await ann.page.goto(stage.url)
    await ann.button("Sign out").click()
    await expect(ann.page.locator("#signed-out")).to_be_visible()
    await is_accessible(ann, "signed-out")


async def test_requests_are_allowed_and_denied_by_keyboard_alone(stage: Stage) -> None:
    SENT.clear()
    ann = await stage.person()
    calls = [stage.asks(send_mail, to) for to in ("bob", "carla")]
    await expect(ann.rows).to_have_count(2)
    keys, value = ann.page.keyboard, ann.page.locator("[data-name=to] .value")
    await keys.press("j")
    await expect(ann.page.locator("article h2")).to_be_focused()
    await ann.settles()
    first = await value.inner_text()
    await keys.press("y")
    await expect(ann.page.get_by_role("button", name="Next request")).to_be_focused()
    await keys.press("Enter")
    await expect(value).not_to_have_text(first)
    await ann.settles()
    await keys.press("m")
    await keys.type("jadx, not now")  # letters in a field are letters
    await keys.press("Tab")
    await keys.press("Enter")
    await expect(ann.page.locator(".result blockquote")).to_have_text("jadx, not now")
    with anyio.fail_after(WAIT):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(each).__name__ for each in ended) == ["ApprovalDenied", "NoneType"]
    assert [first.strip('"')] == SENT


async def test_arguments_are_edited_by_keyboard_alone(stage: Stage) -> None:
    SENT.clear()
    ann = await stage.person()
    call = stage.asks(send_mail, "bob")
    await expect(ann.rows).to_have_count(1)
    keys = ann.page.keyboard
    await keys.press("j")
    await ann.settles()
    await keys.press("/")
    await expect(ann.page.locator("#search")).to_be_focused()
    await keys.type("d")  # outside of a field it would deny
    await keys.press("Escape")
    await keys.press("e")
    await keys.press("Control+A")
    await keys.type("eve")
    await keys.press("Tab")
    await keys.press("Enter")
    await expect(ann.page.get_by_role("heading", name="This will run")).to_be_focused()
    yes = ann.button("Allow with these arguments")
    await expect(yes).to_be_enabled()
    await keys.press("Tab")
    await expect(yes).to_be_focused()
    await keys.press("Enter")
    with anyio.fail_after(WAIT):
        await call
    assert SENT == ["eve"]


async def test_whoever_holds_enter_to_see_more_does_not_come_to_say_yes(stage: Stage) -> None:
    await stage.opened(request("send_mail", args={"body": "line\n" * 60}))
    ann = await stage.person(reduced_motion="reduce")
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=more]").focus()
    for _ in range(20):
        if await ann.page.locator("[data-act=more]").count() == 0:
            break
        await ann.page.keyboard.press("Enter")
        await ann.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    await expect(ann.page.locator("#left")).to_have_text("All of it was on your screen.")
    await ann.settles()
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.locator(".actions")).to_be_focused()
    assert [row.status for row in await stage.store.pending()] == ["open"]


async def test_arrow_keys_walk_the_list_and_the_focus_is_never_lost(stage: Stage) -> None:
    await stage.opened(*(request(f"tool_{at:03}") for at in range(200)))
    ann = await stage.person()
    await expect(ann.rows.first).to_be_visible()
    await ann.rows.first.locator("a").focus()
    for key, tool in (("ArrowDown", "tool_001"), ("End", "tool_199"), ("ArrowUp", "tool_198"), ("Home", "tool_000")):
        await ann.page.keyboard.press(key)
        await expect(ann.page.locator(".row.selected a")).to_be_focused()
        await expect(ann.page.locator(".row.selected")).to_contain_text(tool)
        await expect(ann.page.locator(".row.selected")).to_be_in_viewport()
    await expect(ann.page.locator(".row.selected")).to_have_attribute("aria-posinset", "1")
    await expect(ann.page.locator(".row.selected")).to_have_attribute("aria-setsize", "200")
    await ann.page.locator(".scroll").evaluate("element => { element.scrollTop = element.scrollHeight; }")
    await expect(ann.page.locator(".row", has_text="tool_199")).to_be_visible()
    await expect(ann.page.locator(".row.selected a")).to_be_focused()


async def test_the_keys_mean_what_they_mean_in_the_terminal_and_only_y_runs_a_call(stage: Stage) -> None:
    SENT.clear()
    call = stage.asks(send_mail, "bob")
    ann = await stage.person()
    await ann.opens("send_mail")
    await ann.settles()
    labels = await ann.page.locator("[data-act] kbd").all_inner_texts()
    assert labels == [each.key for each in ANSWER_KEYS if each.action not in {"view", "conversation"}]
    for key in "adfrolqjk":  # what other tools or older pages may have had there
        await ann.page.keyboard.press(key)
        await ann.page.keyboard.press("Escape")
    assert SENT == []
    assert len(await stage.store.pending()) == 1
    await ann.settles()
    await ann.page.keyboard.press("y")
    with anyio.fail_after(WAIT):
        await call
    assert SENT == ["bob"]


async def test_single_letters_can_be_switched_off(stage: Stage) -> None:
    await stage.opened(request("first"))
    ann = await stage.person()
    await ann.opens("first")
    await ann.button("Keys").click()
    await ann.page.get_by_label("Single letters act").uncheck()
    await ann.page.keyboard.press("Escape")
    await ann.page.keyboard.press("n")
    await ann.page.keyboard.press("?")
    await expect(ann.page.get_by_role("dialog")).to_have_count(0)
    assert len(await stage.store.pending()) == 1
    await ann.page.reload()
    await expect(ann.page.locator("article")).to_be_visible()
    await ann.settles()
    await ann.page.keyboard.press("n")
    await ann.page.locator("[data-act=deny]").click()  # buttons work all the same
    await expect(ann.page.locator(".result")).to_contain_text("Denied by ann")


async def test_on_a_phone_a_request_is_found_read_and_answered(stage: Stage) -> None:
    SENT.clear()
    await stage.opened(*everything())
    ann = await stage.person(**PHONE)
    call = stage.asks(send_mail, "bob")
    await expect(ann.rows).to_have_count(5)
    await fits(ann)
    await is_accessible(ann, "phone-list")
    await ann.page.locator(".row-link", has_text="edit_file").tap()
    await expect(ann.page.locator(".list-pane").first).to_be_hidden()
    await fits(ann)
    await is_accessible(ann, "phone-detail")
    await ann.page.get_by_role("link", name="Back to the list").tap()
    await ann.page.locator(".row-link", has_text="bob").tap()
    await ann.settles()
    allow = ann.page.locator("[data-act=allow]")
    box = await allow.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    await allow.tap()
    with anyio.fail_after(WAIT):
        await call
    assert SENT == ["bob"]
    for view in ("history", "remembered", "overview"):
        await ann.page.goto(f"{stage.url}#/{view}")
        await expect(ann.page.locator(f"#view-{view} h2").first).to_be_visible()
        await fits(ann)
        await ann.shot(f"phone-{view}")


@pytest.mark.parametrize(("width", "height"), [(640, 410), (320, 256)], ids=["200 %", "400 %"])
async def test_enlarged_nothing_is_lost(stage: Stage, width: int, height: int) -> None:
    """A window of 1280 by 1024 at 200 % and 400 % has as many points as this."""
    await stage.opened(request("send_mail", args={"to": "bob"}))
    ann = await stage.person(viewport={"width": width, "height": height})
    await ann.page.locator(".row-link").click()
    await ann.page.locator(".argument .line").scroll_into_view_if_needed()  # else the way to the button shows it first
    await expect(ann.page.locator("#left")).to_have_text("All of it was on your screen.")
    await ann.settles()
    await fits(ann)
    await ann.page.locator("[data-act=deny]").click()
    await expect(ann.page.locator(".result")).to_contain_text("Denied by ann")
    await ann.shot(f"enlarged-{width}")
