"""Long lists on the page: filters that say what they leave out, searches that can be shared, numbers by name."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Locator, Route, expect
from tests.browser.stage import Person, Stage, request
from tests.browser.test_reach import PHONE, fits, is_accessible

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.core import json_codec
from sayso.core.filters import parse_filter
from sayso.core.model import new_id

DAY = 86_400.0
MARKUP = "<img src=x onerror=alert(1)>"


def aged(tool: str, days: float, **facts: Any) -> ApprovalRequest:
    """Return a request of days ago; its id has that time, too."""
    at = time.time() - days * DAY
    return replace(request(tool, asked_at=at, **facts), id=f"{int(at * 1000):012x}{new_id()[12:]}")


async def answered(stage: Stage, asked: ApprovalRequest, who: str, *, yes: bool = True, after: float = 20) -> None:
    await stage.opened(asked)
    decision = ApprovalDecision(approved=yes, who=who, decided_at=asked.asked_at + after)
    await stage.store.close(asked.id, "approved" if yes else "denied", decision, now=asked.asked_at)


async def some_history(stage: Stage) -> None:
    await answered(stage, aged("refund", 9, args={"to": "Eve"}, agent_path=("report", "payer")), "Bob", yes=False)
    await answered(stage, aged("git_push", 5, agent_path=("coder",)), "ann")
    await answered(stage, aged("git_pull", 0.1, agent_path=("coder",)), "bob", after=200)
    await stage.opened(aged("pay", 0, agent_path=("coder",)))


def entries(person: Person) -> Locator:
    return person.page.locator(".entry")


def tools(person: Person) -> Locator:
    return person.page.locator(".entry .tool")


async def with_more_filters(person: Person) -> None:
    await person.page.get_by_text("More filters").click()


async def test_history_is_filtered_by_tool_agent_person_and_dates_and_the_address_keeps_it(stage: Stage) -> None:
    await some_history(stage)
    ann = await stage.person()
    await ann.page.get_by_role("link", name="History").click()
    await expect(entries(ann)).to_have_count(4)
    await with_more_filters(ann)
    await ann.page.get_by_label("Tool").fill("GIT_*")
    await expect(tools(ann)).to_have_text(["git_pull", "git_push"])
    await ann.page.get_by_label("Answered by").fill("bob")
    await expect(tools(ann)).to_have_text(["git_pull"])
    await expect(ann.page.get_by_text("More filters (2 set)")).to_be_visible()
    assert ann.page.url.endswith("#/history?tool=GIT_*&who=bob")
    await entries(ann).first.locator("a").click()
    await expect(ann.page.locator("#view-history .result")).to_contain_text("Allowed by bob")
    assert "?tool=GIT_*&who=bob" in ann.page.url
    bob = await stage.person("bob")
    await bob.page.goto(ann.page.url)
    await expect(tools(bob)).to_have_text(["git_pull"])
    await expect(bob.page.get_by_label("Answered by")).to_have_value("bob")
    await expect(bob.page.locator("#view-history .result")).to_contain_text("Allowed by bob")
    await bob.button("Show everything").click()
    await expect(entries(bob)).to_have_count(4)
    assert "?" not in bob.page.url
    await bob.page.get_by_label("Agent").fill("payer")
    await expect(tools(bob)).to_have_text(["refund"])
    await bob.page.get_by_role("link", name="History").click()
    await expect(entries(bob)).to_have_count(4)


async def test_a_day_in_a_filter_is_a_whole_day_where_the_person_is(stage: Stage) -> None:
    await some_history(stage)
    ann = await stage.person()
    five = (datetime.now().astimezone() - timedelta(days=5)).date().isoformat()
    await ann.page.goto(f"{stage.url}#/history?from={five}&to={five}")
    await expect(tools(ann)).to_have_text(["git_push"])
    await ann.page.get_by_label("From").fill("")
    await expect(tools(ann)).to_have_text(["git_push", "refund"])
    await ann.page.goto(f"{stage.url}#/history?from=never&status=odd")
    await expect(entries(ann)).to_have_count(4)
    await expect(ann.page.get_by_label("State")).to_have_value("all")


async def test_a_rare_match_is_found_behind_thousands_and_nothing_found_says_so(stage: Stage) -> None:
    await stage.opened(aged("rare", 3))
    await asyncio.gather(*(stage.store.open(request(f"tool_{number}")) for number in range(10_050)))
    ann = await stage.person()
    await ann.page.goto(f"{stage.url}#/history?tool=rare")
    await expect(tools(ann)).to_have_text(["rare"])
    await ann.page.locator("#history-tool").fill("rarer")
    await expect(ann.page.locator("#view-history .quiet").first).to_have_text(
        "Nothing was found: try other words, or fewer filters."
    )


async def test_what_waits_is_filtered_by_the_line_of_the_terminal(stage: Stage) -> None:
    await stage.opened(
        request("pay", agent_path=("report", "payer"), args={"to": "eve"}), request("git_push", agent_path=("coder",))
    )
    ann = await stage.person()
    await expect(ann.rows).to_have_count(2)
    await ann.page.keyboard.press("/")
    await ann.page.keyboard.type("tool:GIT*")
    await expect(ann.rows).to_have_count(1)
    await expect(ann.page.locator("#view-inbox .count")).to_have_text("1 found of 2 waiting")
    await ann.page.locator("#search").fill("agent:payer eve")
    await expect(ann.rows.first).to_contain_text("pay")
    await stage.opened(request("mail"))
    await expect(ann.page.locator("#view-inbox .count")).to_have_text("1 found of 3 waiting")
    await ann.page.locator("#search").fill("agent:nobody")
    await expect(ann.page.get_by_text("Nothing that waits fits this search.")).to_be_visible()


LINES = [
    "",
    "tool:pay",
    "tool:p*y",
    "tool:*a",
    "agent:coder",
    "agent:c*r x",
    "eve 5",
    "EVE",
    "4711.0",
    "note",
    "to:eve",
]


async def test_the_page_and_the_terminal_filter_alike(stage: Stage) -> None:
    asked = [
        request("pay", args={"to": "Eve", "sums": [5, {"more": 4711.0}]}, agent_path=("coder",), asked_by="hub"),
        request("papaya", args={"x": None, "b": True}, agent_path=("c", "cx*r")),
        request("Pay", args={"text": "to:eve"}, reason="a note"),
    ]
    ann = await stage.person()
    script = """async ([lines, rows]) => {
        const { parseFilter, matchesRequest, requestText } = await import("./page/filters.js");
        const { parseJson } = await import("./page/exact_json.js");
        const requests = rows.map(parseJson);
        return lines.map((line) => requests.map((each) => matchesRequest(parseFilter(line), each, requestText(each))));
    }"""
    rows = [json_codec.request_to_json(each) for each in asked]
    found = await ann.page.evaluate(script, [LINES, rows])
    assert found == [[parse_filter(line).matches(each, 0.0) for each in asked] for line in LINES]


async def test_remembered_answers_are_searched(stage: Stage) -> None:
    for tool, note in (("pay", "small sums"), ("mail", MARKUP)):
        controller = stage.agent(Policy({tool: {"approval": "required", "scope": "tool"}}))

        async def call(to: str) -> str:
            return to

        call.__name__ = tool
        waiting = stage.asks(call, "bob", agent=controller)
        ann = stage.people[0] if stage.people else await stage.person()
        await expect(ann.page.locator(".list .row", has_text=tool)).to_have_count(1)
        (asked,) = await stage.store.pending()
        lasting = ApprovalDecision(approved=True, remember="always", scope="tool", note=note)
        await stage.hub.controller.answer(asked.id, lasting, who="ann", channel="page")
        await waiting
    await ann.page.get_by_role("link", name="Remembered").click()
    await expect(ann.page.locator(".card")).to_have_count(2)
    await ann.page.keyboard.press("/")
    await ann.page.keyboard.type("tool:PAY sums")
    await expect(ann.page.locator(".card .tool")).to_have_text(["pay"])
    await expect(ann.page.get_by_text("1 of 2 match.")).to_be_visible()
    await is_accessible(ann, "remembered-search")
    await ann.page.locator("#remembered-search").fill("nothing like it")
    await expect(ann.page.get_by_text("0 of 2 match.")).to_be_visible()


async def test_the_overview_has_a_row_for_each_agent_and_person(stage: Stage) -> None:
    await some_history(stage)
    await answered(stage, aged(MARKUP, 0.2, agent_path=(MARKUP,)), MARKUP, after=7)
    ann = await stage.person()
    await ann.page.goto(f"{stage.url}#/overview")
    await ann.page.get_by_label("Over", exact=True).select_option(label="the last 30 days")
    agents = ann.page.get_by_role("table", name="By agent").locator("tbody tr")
    await expect(agents).to_have_count(3)
    await expect(agents.first.locator("th, td")).to_have_text(["coder", "3", "2", "0", "0", "0", "20 s", "3 min"])
    people = ann.page.get_by_role("table", name="By person").locator("tbody tr")
    await expect(people).to_have_count(3)
    first = people.first.locator("th, td")
    assert [each.lower() for each in await first.all_inner_texts()] == ["bob", "2", "1", "1", "20 s", "3 min"]
    await expect(people.filter(has_text=MARKUP)).to_have_count(1)
    await expect(ann.page.locator(".chart").first).to_contain_text("in the busiest hour, from")
    await is_accessible(ann, "overview-by-name")


async def test_a_late_reply_for_another_period_does_not_replace_the_chosen_one(stage: Stage) -> None:
    await some_history(stage)
    ann = await stage.person()
    chosen = asyncio.Event()

    async def late(route: Route) -> None:
        await chosen.wait()
        await route.continue_()

    await ann.page.route("**/stats?hours=24", late)
    await ann.page.goto(f"{stage.url}#/overview")
    agents = ann.page.get_by_role("table", name="By agent").locator("tbody tr")
    await ann.page.get_by_label("Over", exact=True).select_option(label="the last 30 days")
    await expect(agents.first.locator("td").first).to_have_text("3")
    async with ann.page.expect_response("**/stats?hours=24") as reply:
        chosen.set()
    await (await reply.value).finished()
    await ann.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    await expect(agents.first.locator("td").first).to_have_text("3")


@pytest.mark.parametrize("width", ["wide", "phone"])
async def test_the_filters_fit_a_screen_and_a_phone(stage: Stage, width: str) -> None:
    await some_history(stage)
    ann = await stage.person(**(PHONE if width == "phone" else {}))
    await ann.page.goto(f"{stage.url}#/history?tool=git_*")
    await expect(entries(ann)).to_have_count(2)
    await fits(ann)
    await is_accessible(ann, f"history-filters-{width}")
    await ann.page.goto(f"{stage.url}#/overview")
    await expect(ann.page.get_by_role("table", name="By person")).to_be_visible()
    await fits(ann)
    await ann.page.get_by_role("heading", name="By agent").scroll_into_view_if_needed()
    await ann.shot(f"overview-names-{width}")
    await ann.page.goto(f"{stage.url}#/remembered")
    await expect(ann.page.get_by_text("Nothing is remembered")).to_be_visible()
    await fits(ann)
    await ann.page.goto(f"{stage.url}#/inbox")
    await ann.page.locator("#search").fill("tool:pa*")
    await expect(ann.page.locator("#view-inbox .count")).to_have_text("1 found of 1 waiting")
    await fits(ann)
    await ann.shot(f"inbox-filter-{width}")
