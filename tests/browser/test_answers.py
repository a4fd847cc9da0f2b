"""An agent asks, a person answers on the page, and that is what happens to the call."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

import anyio
import pytest
from playwright.async_api import Route, expect
from tests.browser.stage import WAIT, Person, Stage, request

from sayso import ApprovalDecision, ApprovalDenied, ApprovalRequest, ApprovalTimeout, Policy
from sayso.core.approvers import Approvers, Escalation
from sayso.core.model import Rule
from sayso.policy.scopes import call_scope, tool_scope

SENT: list[tuple[object, ...]] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


async def send_mail(to: str, amount: int = 3, kind: Literal["draft", "final"] = "draft", urgent: bool = False) -> str:  # noqa: FBT002 - a tool as people write them
    SENT.append((to, amount, kind, urgent))
    return f"sent to {to}"


async def test_an_allowed_call_runs_and_the_page_tells_what_came_of_it(stage: Stage) -> None:
    ann = await stage.person()
    await expect(ann.page.get_by_text("Nothing waits for you.")).to_be_visible()
    call = stage.asks(send_mail, "bob@example.org")
    await ann.opens("send_mail")
    await expect(ann.page.locator("[data-name=to] .value")).to_have_text('"bob@example.org"')
    assert not SENT
    await ann.page.locator("[data-act=allow]").click()
    with anyio.fail_after(WAIT):
        assert await call == "sent to bob@example.org"
    assert SENT == [("bob@example.org", 3, "draft", False)]
    await expect(ann.notice).to_have_text("Allowed: send_mail may run.")
    await expect(ann.page.locator(".result")).to_contain_text("Allowed by ann (page from 127.0.0.1)")
    await expect(ann.page.locator(".result")).to_contain_text("it ran and returned")


async def test_an_answer_that_comes_after_what_the_feed_told_takes_nothing_back(stage: Stage) -> None:
    ann = await stage.person()
    told = asyncio.Event()

    async def late(route: Route) -> None:
        answer = await route.fetch()
        await told.wait()
        await route.fulfill(response=answer)

    call = stage.asks(send_mail, "bob@example.org")
    await ann.opens("send_mail")
    await ann.page.route("**/approvals/*", late)
    await ann.page.locator("[data-act=allow]").click()
    with anyio.fail_after(WAIT):
        await call
    await expect(ann.page.locator(".result")).to_contain_text("it ran and returned")
    told.set()
    await expect(ann.notice).to_have_text("Allowed: send_mail may run.")
    await expect(ann.page.locator(".result")).to_contain_text("it ran and returned")


async def test_a_refusal_with_a_note_reaches_the_agent(stage: Stage) -> None:
    ann = await stage.person()
    call = stage.asks(send_mail, "everybody@example.org")
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=note]").click()
    await ann.page.get_by_label("A note; the agent is told it").fill("Only to <b>bob</b>, please.")
    await ann.button("Deny with this note").click()
    with anyio.fail_after(WAIT), pytest.raises(ApprovalDenied, match=r"note: Only to <b>bob</b>, please\."):
        await call
    assert not SENT
    await expect(ann.page.locator(".result blockquote")).to_have_text("Only to <b>bob</b>, please.")


@pytest.mark.proves("R64")
async def test_edited_arguments_are_shown_once_more_and_are_what_runs(stage: Stage) -> None:
    ann = await stage.person()
    call = stage.asks(send_mail, "bob@example.org", 3)
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=edit]").click()
    dialog = ann.page.get_by_role("dialog")
    await dialog.get_by_label("amount", exact=True).fill("three")
    await dialog.get_by_role("combobox", name="kind", exact=True).select_option(label="final")
    await dialog.get_by_role("combobox", name="urgent", exact=True).select_option(label="true")
    await ann.button("Look at it once more").click()
    await expect(dialog.locator("[data-name=amount] .field-problem")).to_have_text("This must be a whole number.")
    await dialog.get_by_label("amount", exact=True).fill("4")
    await ann.shot("edit")
    await ann.button("Look at it once more").click()
    await expect(dialog.locator(".argument.edited")).to_have_count(3)
    await expect(dialog.locator("[data-name=amount]")).to_contain_text("was 3")
    assert not SENT
    await ann.shot("edit-review")
    await ann.button("Allow with these arguments").click()
    with anyio.fail_after(WAIT):
        await call
    assert SENT == [("bob@example.org", 4, "final", True)]
    await expect(ann.page.locator(".result")).to_contain_text("with edited arguments")


async def save(name: str, text: str, number: int, weight: float) -> None:
    SENT.append((name, text, number, weight))


async def test_what_is_not_edited_stays_exactly_what_it_was(stage: Stage) -> None:
    odd = "a\r\nb\u200bc\t\u202e" + " " * 50
    ann = await stage.person()
    call = stage.asks(save, "old", odd, 12345678901234567890, 1.0)
    await ann.opens("save")
    await ann.page.locator("[data-act=edit]").click()
    await expect(ann.page.get_by_label("text", exact=True)).to_have_value(
        re.compile(r"^\"a\\r\\nb\\u200bc\\t\\u202e +\"$")
    )
    await ann.page.get_by_label("name", exact=True).fill("new")
    await ann.button("Look at it once more").click()
    await expect(ann.page.get_by_role("dialog").locator(".argument.edited")).to_have_count(1)
    await ann.button("Allow with these arguments").click()
    with anyio.fail_after(WAIT):
        await call
    assert [("new", odd, 12345678901234567890, 1.0)] == SENT
    assert type(SENT[0][3]) is float


async def test_an_edit_that_the_hub_refuses_is_told_beside_the_field(stage: Stage) -> None:
    schema = (
        '{"type": "object", "properties": {"code": {"type": "string", "not": {"const": "A1"}}}, "required": ["code"]}'
    )
    await stage.opened(request("run", args={"code": "abc"}, parameters=schema))
    ann = await stage.person()
    await ann.opens("run")
    await ann.page.locator("[data-act=edit]").click()
    await ann.page.get_by_label("code", exact=True).fill("A1")
    await ann.button("Look at it once more").click()
    await ann.button("Allow with these arguments").click()
    problem = ann.page.locator(".field[data-name=code] .field-problem")
    await expect(problem).to_contain_text("should not be valid")
    await expect(ann.page.get_by_label("code", exact=True)).to_be_focused()
    (row,) = await stage.store.pending()
    assert row.status == "open"


async def test_an_answer_can_be_remembered_and_revoked(stage: Stage) -> None:
    agent = stage.agent(Policy({"send_mail": {"approval": "required", "scope": "tool"}}))
    ann = await stage.person()
    call = stage.asks(send_mail, "bob@example.org", agent=agent)
    await ann.opens("send_mail")
    await ann.page.locator("[data-act=lasting]").click()
    dialog = ann.page.get_by_role("dialog")
    await dialog.get_by_label("The whole tool").check()
    await dialog.get_by_label("How many calls after this one").fill("0")
    await ann.button("Allow and remember").click()
    await expect(dialog.locator(".field-problem")).to_have_text("This must be a whole number from 1 up, or empty.")
    await dialog.get_by_label("How many calls after this one").fill("2")
    await ann.shot("allow-for")
    await ann.button("Allow and remember").click()
    with anyio.fail_after(WAIT):
        await call
        await stage.asks(send_mail, "carla@example.org", agent=agent)  # nobody is asked
    assert len(SENT) == 2
    await ann.page.get_by_role("link", name="Remembered").click()
    card = ann.page.locator(".card")
    await expect(card).to_contain_text("every call of send_mail, whatever its arguments")
    await ann.shot("remembered")
    await card.get_by_role("button").click()
    await ann.button("Revoke it").click()
    await expect(ann.page.get_by_text("Nothing is remembered")).to_be_visible()
    assert not stage.hub.controller.memory.list()


async def test_a_remembered_yes_names_the_other_requests_that_it_answers_too(stage: Stage) -> None:
    def pay(amount: int, session: str, **facts: object) -> ApprovalRequest:
        scopes = (call_scope("pay", {"amount": amount}), tool_scope("pay"))
        return request("pay", args={"amount": amount}, scopes=scopes, session=session, agent_path=("payer",), **facts)

    rows = [pay(1, "s1"), pay(2, "s1"), *(pay(amount, "s2") for amount in range(3, 9))]
    apart = [pay(50, "s1", approvers=Approvers(roles=("ops",))), request("mail", scopes=(tool_scope("mail"),))]
    await stage.opened(rows[0])
    ann = await stage.person()
    await ann.opens("pay")
    await stage.opened(*rows[1:], *apart)
    await expect(ann.rows).to_have_count(10)
    await ann.page.locator("[data-act=lasting]").click()
    dialog = ann.page.get_by_role("dialog")
    others = dialog.locator(".covered")
    await expect(others).to_have_text("It answers no other open request.")
    await dialog.get_by_label("The whole tool").check()
    await expect(others).to_contain_text("This also allows 1 other open request:")
    await expect(others.locator("li")).to_have_text(["pay for payeramount: 2"])
    await dialog.get_by_label("In every session of this project").check()
    await expect(others).to_contain_text("This also allows 7 other open requests:")
    await expect(others.locator("li")).to_have_count(6)
    await expect(others.locator("li").last).to_have_text("and 2 more")
    await dialog.get_by_label("How many calls after this one").fill("3")
    await expect(others).to_have_text("It answers no other open request.")
    await dialog.get_by_label("How many calls after this one").fill("")
    await expect(others).to_contain_text("7 other")
    await stage.opened(pay(9, "s3"))  # while the dialog is open
    await expect(others).to_contain_text("This also allows 8 other open requests:")
    await ann.shot("allow-for-others")
    await ann.button("Allow and remember").click()
    await expect(ann.notice).to_have_text(
        "Allowed: pay may run. It is remembered. The same answer went to 8 other open requests."
    )
    assert {row.id for row in await stage.store.pending()} == {each.id for each in apart}


async def test_where_the_hub_cannot_say_what_else_a_yes_answers_the_yes_is_off(stage: Stage) -> None:
    await stage.opened(request("pay", scopes=(tool_scope("pay"),)))
    ann = await stage.person()
    await ann.opens("pay")
    await ann.page.route("**/covered?*", lambda route: route.abort())
    await ann.page.locator("[data-act=lasting]").click()
    others = ann.page.locator(".covered")
    await expect(others).to_contain_text("Which other requests this answers is not known. The hub cannot be reached.")
    await expect(ann.button("Allow and remember")).to_be_disabled()
    await ann.page.unroute("**/covered?*")
    await ann.button("Ask again").click()
    await expect(others).to_have_text("It answers no other open request.")
    await expect(ann.button("Allow and remember")).to_be_enabled()


async def test_a_request_whose_time_is_up_is_shown_as_expired_and_did_not_run(stage: Stage) -> None:
    ann = await stage.person()
    call = stage.asks(send_mail, "bob@example.org", agent=stage.agent(timeout=3))
    await ann.page.locator(".row-link", has_text="send_mail").click()
    await expect(ann.page.locator(".times .urgent")).to_contain_text("expires in")
    with anyio.fail_after(WAIT), pytest.raises(ApprovalTimeout):
        await call
    await expect(ann.page.locator(".result")).to_contain_text("Expired: nobody answered in time.")
    await expect(ann.page.locator("[data-act=allow]")).to_have_count(0)
    assert not SENT


@pytest.mark.proves("H6")
async def test_of_two_people_the_second_is_told_who_was_faster(stage: Stage) -> None:
    ann, bob = await stage.person("ann"), await stage.person("bob")
    call = stage.asks(send_mail, "carla@example.org")
    await ann.opens("send_mail")
    await bob.opens("send_mail")
    await expect(ann.page.locator(".people")).to_contain_text("Also seen by bob")
    # Bob does not hear of Ann's answer before he gives his own.
    await bob.page.route("**/events*", lambda route: route.abort())
    await bob.page.locator("[data-act=note]").click()
    await bob.page.get_by_label("A note; the agent is told it").fill("no")
    held = anyio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await bob.page.route("**/approvals/*", hold)
    await bob.button("Deny with this note").click()
    await ann.page.locator("[data-act=allow]").click()
    with anyio.fail_after(WAIT):
        await call
    held.set()
    await expect(bob.notice).to_contain_text("Somebody was faster. Allowed by ann")
    await expect(bob.notice).to_contain_text("Your answer changed nothing.")
    assert len(SENT) == 1


async def test_where_two_people_are_needed_one_yes_is_told_and_not_enough(stage: Stage) -> None:
    policy = Policy({"send_mail": {"approval": "required", "approvers": {"count": 2, "role": "ops"}}})
    ann, bob = [await stage.person(name, roles=["ops"]) for name in ("ann", "bob")]
    call = stage.asks(send_mail, "carla@example.org", agent=stage.agent(policy))
    await ann.opens("send_mail")
    await expect(ann.page.locator(".people")).to_contain_text("0 of 2 people have said yes")
    await ann.page.locator("[data-act=allow]").click()
    await expect(ann.page.locator(".people")).to_contain_text("1 of 2 people have said yes: ann")
    await expect(ann.page.get_by_text("You have said yes; somebody else has to")).to_be_visible()
    assert not SENT
    await bob.opens("send_mail")
    await expect(bob.page.locator(".people")).to_contain_text("1 of 2 people have said yes: ann")
    await bob.shot("quorum")
    await bob.page.locator("[data-act=allow]").click()
    with anyio.fail_after(WAIT):
        await call
    assert len(SENT) == 1


ANSWERS = ("allow", "lasting", "edit", "deny", "note")


async def switched_off(person: Person) -> list[str]:
    """Return the answers that are not offered."""
    return [each for each in ANSWERS if await person.page.locator(f"[data-act={each}][aria-disabled]").count()]


async def test_a_yes_is_off_with_the_reason_beside_it_for_somebody_without_the_role(stage: Stage) -> None:
    policy = Policy({"send_mail": {"approval": "required", "approvers": {"role": "ops"}}})
    cem = await stage.person("cem")
    stage.asks(send_mail, "carla@example.org", agent=stage.agent(policy))
    await cem.opens("send_mail")
    await expect(cem.page.locator("#left")).to_have_text("Your yes would not count: it needs the role ops.")
    assert await switched_off(cem) == ["allow", "edit"]
    await cem.shot("not-entitled")
    await cem.page.keyboard.press("y")
    await expect(cem.notice).to_have_text("Your yes would not count: it needs the role ops.")
    (row,) = await stage.store.pending()
    refused = await cem.page.request.post(f"{stage.url}approvals/{row.id}", data={"outcome": "proceed_once"})
    assert refused.status == 403, "the hub refuses by itself"
    assert not SENT


async def test_whoever_asked_is_offered_no_answer(stage: Stage) -> None:
    await stage.opened(request("send_mail", asked_by="Ann"))
    ann = await stage.person("ann")
    await ann.opens("send_mail")
    await expect(ann.page.locator("#left")).to_have_text("You asked this yourself, so somebody else has to answer.")
    assert await switched_off(ann) == ["allow", "edit", "deny", "note"]
    await ann.page.keyboard.press("n")
    await expect(ann.notice).to_contain_text("somebody else has to answer")
    (row,) = await stage.store.pending()
    assert row.status == "open"


async def test_an_escalation_switches_the_yes_on_when_its_time_has_come(stage: Stage) -> None:
    late = Approvers(roles=("ops",), escalate=Escalation(role="lead", after=600))
    await stage.opened(request("send_mail", approvers=late))
    lea = await stage.person("lea", roles=["lead"])
    await lea.page.clock.install()
    await lea.page.reload()
    await lea.opens("send_mail")
    await expect(lea.page.locator("#left")).to_contain_text("If nobody answers, yours counts from")
    assert await switched_off(lea) == ["allow", "edit"]
    await lea.page.clock.fast_forward(600_000)
    await expect(lea.page.locator("#left")).to_have_text("All of it was on your screen.")
    assert await switched_off(lea) == []


async def test_what_the_hub_refuses_is_told_as_a_sentence(stage: Stage) -> None:
    policy = Policy({"send_mail": {"approval": "required", "approvers": {"role": "ops"}}})
    cem = await stage.person("cem", roles=["ops"])

    async def without_roles(route: Route) -> None:
        await route.fulfill(status=403, json={"detail": "its rule asks for 1 person in the role ops"})

    stage.asks(send_mail, "carla@example.org", agent=stage.agent(policy))
    await cem.opens("send_mail")
    await cem.page.route("**/approvals/*", without_roles)
    await cem.page.locator("[data-act=allow]").click()
    await expect(cem.notice).to_have_text("Its rule asks for 1 person in the role ops.")


async def test_a_yes_to_several_leaves_out_what_differs_until_it_was_opened(stage: Stage) -> None:
    rule = Rule(source="sayso.yaml", key="tools.send_mail", line=3)
    alike = [request("send_mail", args={"to": name}, rule=rule) for name in ("bob", "carla")]
    other = request("wipe_disk", args={"disk": "sda"}, rule=Rule(source="sayso.yaml", key="tools.wipe_disk", line=9))
    await stage.opened(*alike, other)
    ann = await stage.person()
    await expect(ann.rows).to_have_count(3)
    for at in range(3):
        await ann.rows.nth(at).get_by_role("checkbox").check()
    await ann.together("Allow…").click()
    dialog = ann.page.get_by_role("dialog")
    await expect(
        dialog.get_by_text("differs from the first: another tool (wipe_disk) and another rule")
    ).to_be_visible()
    await expect(dialog.get_by_text("sda")).to_have_count(0)
    await ann.shot("several")
    await dialog.get_by_role("button", name="Allow 2").click()
    await expect(ann.notice).to_have_text("2 allowed.")
    assert [row.tool for row in await stage.store.pending()] == ["wipe_disk"]


async def test_what_differs_is_left_out_though_it_was_looked_at_before(stage: Stage) -> None:
    await stage.opened(request("send_mail", args={"to": "bob"}), request("wipe_disk", args={"disk": "sda"}))
    ann = await stage.person()
    await ann.opens("wipe_disk")
    for at in range(2):
        await ann.rows.nth(at).get_by_role("checkbox").check()
    await ann.together("Allow…").click()
    dialog = ann.page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Allow 1")).to_be_enabled()
    await expect(dialog.get_by_role("heading", level=2)).to_have_text("Allow 1 of 2 requests, once each")
    await dialog.get_by_role("button", name="Open it, and include it").click()
    await expect(dialog.get_by_text("sda")).to_be_visible()
    await expect(dialog.get_by_role("heading", level=2)).to_have_text("Allow 2 requests, once each")
    await dialog.get_by_role("button", name="Allow 2").click()
    await expect(ann.notice).to_have_text("2 allowed.")


async def test_a_yes_to_several_says_which_of_them_need_more_people(stage: Stage) -> None:
    deploys = [request("deploy", args={"to": to}, approvers=Approvers(count=3)) for to in ("lab", "shop")]
    pays = [request("pay", args={"amount": amount}) for amount in (5, 6)]
    ops = request("restart", approvers=Approvers(roles=("ops",)))
    await stage.opened(*pays, *deploys, ops)
    await stage.hub.controller.answer(deploys[0].id, ApprovalDecision(approved=True), who="bob", roles=())
    ann = await stage.person()
    await ann.rows.first.get_by_role("checkbox").check()
    await ann.page.get_by_role("button", name="Select all on the list").click()
    await ann.together("Allow…").click()
    dialog = ann.page.get_by_role("dialog")
    await expect(dialog.locator("li", has_text="restart")).to_contain_text("Left out. Your yes would not count")
    lab = dialog.locator(f"li[data-id='{deploys[0].id}']")
    await expect(lab).to_contain_text("1 of 3 people have said yes: bob. After yours it needs one more yes")
    await expect(dialog.locator(f"li[data-id='{deploys[1].id}']")).to_contain_text("After yours it needs 2 more")
    for _ in range(2):
        await dialog.get_by_role("button", name="Open it, and include it").first.click()
    await ann.shot("several-people")
    await dialog.get_by_role("button", name="Allow 4").click()
    await expect(ann.notice).to_have_text("2 allowed; deploy needs one more yes; deploy needs 2 more.")
    await ann.shot("several-people-done")
    assert {row.tool: len(row.votes) for row in await stage.store.pending()} == {"deploy": 1, "restart": 0}


async def test_several_are_denied_together_with_one_note(stage: Stage) -> None:
    await stage.opened(*(request("send_mail", args={"to": str(at)}) for at in range(5)))
    ann = await stage.person()
    await ann.rows.first.get_by_role("checkbox").check()
    await ann.page.get_by_role("button", name="Select all on the list").click()
    await ann.together("Deny…").click()
    await ann.page.get_by_label("A note for the agents").fill("not today")
    await ann.button("Deny all 5").click()
    await expect(ann.notice).to_have_text("5 denied.")
    assert {(row.status, row.decision and row.decision.note) for row in await stage.store.recent()} == {
        ("denied", "not today")
    }
