"""A run that ends for its answer: the browser has the history and the person, the store has the approval."""

from pathlib import Path

import pytest
from tests.web.processes import Client, Server, deeds, requests

from sayso import ApprovalController, ApprovalDecision

Workers = tuple[Server, Server]
LOST = "the history has lost its run, and no single approval of this session fits this call"


@pytest.mark.proves("H17")
async def test_a_yes_runs_the_call_once(workers: Workers, client: Client, chat: str, folder: Path) -> None:
    await client.open(workers[0], chat=chat)
    assert len((await client("send", text="pay 5")).waiting) == 1
    assert deeds(folder, chat) == []
    told = await client("answer", approved=True)
    assert (told.waiting, told.said, told.error) == ([], ["paid 5 EUR"], None)
    await client("replay")
    assert deeds(folder, chat) == ["paid 5 EUR"]
    (used,) = await requests(folder, f"ann/{chat}")
    assert used.decision is not None
    assert (used.state, used.decision.who, used.decision.channel) == ("used, returned", "ann", "web")


@pytest.mark.proves("H12")
async def test_a_no_is_told_with_its_reason_and_leaves_nothing_open(
    workers: Workers, client: Client, chat: str, folder: Path
) -> None:
    await client.open(workers[0], chat=chat)
    await client("send", text="pay 10")
    told = await client("answer", approved=False, reason="too much")
    assert told.waiting == []
    assert told.said[0].startswith("Not executed: refused by ann.")
    assert told.said[0].endswith("Their note: too much")
    (denied,) = await requests(folder, f"ann/{chat}")
    assert denied.status == "denied"
    assert deeds(folder, chat) == []


async def test_edited_arguments_run_in_the_place_of_those_asked_about(
    workers: Workers, ag_ui: Client, chat: str, folder: Path
) -> None:
    await ag_ui.open(workers[0], chat=chat)
    await ag_ui("send", text="pay 2000")
    told = await ag_ui("answer", approved=True, edited={"amount": 20, "currency": "USD"})
    ran = 'it ran as pay(amount=20, currency="USD")'
    assert told.said == [f"A person changed the arguments: {ran}. Result: paid 20 USD"]
    assert deeds(folder, chat) == ["paid 20 USD"]


@pytest.mark.proves("H16")
async def test_a_server_that_was_killed_goes_on_where_it_was(client: Client, tmp_path: Path) -> None:
    async with Server(tmp_path) as first:
        await client.open(first)
        await client("send", text="pay 5")
    async with Server(tmp_path) as second:
        await client.open(second)
        assert (await client("answer", approved=True)).said == ["paid 5 EUR"]
    assert deeds(tmp_path) == ["paid 5 EUR"]


@pytest.mark.proves("R17")
async def test_another_worker_takes_the_answer(workers: Workers, client: Client, chat: str, folder: Path) -> None:
    asked_at, answered_at = workers
    await client.open(asked_at, chat=chat)
    await client("send", text="pay 30 31")
    await client.open(answered_at, chat=chat)
    told = await client("answer", approved=True)
    assert told.said == ["paid 30 EUR | paid 31 EUR"]
    await client("replay")
    assert (await client("send", text="pay 32")).error is None
    await client.open(asked_at, chat=chat)
    assert (await client("answer", approved=False)).said[-1].startswith("Not executed")
    assert sorted(deeds(folder, chat)) == ["paid 30 EUR", "paid 31 EUR"]


async def test_two_workers_that_get_the_same_answer_at_once_run_the_call_once(
    workers: Workers, vercel: Client, chat: str, folder: Path
) -> None:
    one, two = workers
    for number in range(5):
        await vercel.open(one, chat=chat)
        await vercel("send", text=f"pay {number}")
        await vercel.open(one, chat=chat, twin=two)
        await vercel("answer", approved=True)
        assert deeds(folder, chat) == [f"paid {each} EUR" for each in range(number + 1)]


@pytest.mark.proves("H3")
async def test_the_same_call_in_the_next_turn_is_asked_about_for_itself(
    workers: Workers, vercel: Client, chat: str, folder: Path
) -> None:
    """Its id comes again, too, so the first answer looks like one to the second question."""
    await vercel.open(workers[0], chat=chat)
    await vercel("send", text="pay 50")
    await vercel("answer", approved=True)
    assert len((await vercel("send", text="pay 50")).waiting) == 1
    await vercel("replay", at=1)
    assert deeds(folder, chat) == ["paid 50 EUR"]
    await vercel("answer", approved=True)
    assert deeds(folder, chat) == ["paid 50 EUR"] * 2


@pytest.mark.proves("H2")
async def test_arguments_that_the_history_has_changed_do_not_run(
    workers: Workers, client: Client, chat: str, folder: Path
) -> None:
    await client.open(workers[0], chat=chat)
    await client("send", text="pay 60")
    await client("tamper", input={"amount": 61})
    assert LOST in (await client("answer", approved=True)).said[0]
    assert deeds(folder, chat) == []


@pytest.mark.proves("H3")
async def test_an_approval_of_a_call_that_nobody_asked_about_does_not_count(
    workers: Workers, client: Client, chat: str, folder: Path
) -> None:
    await client.open(workers[0], chat=chat)
    await client("forge", tool="pay", input={"amount": 70})
    told = await client("answer", approved=True)
    assert "nobody was asked about this call in this session" in told.said[0]
    assert deeds(folder, chat) == []


@pytest.mark.proves("H11")
async def test_somebody_else_with_the_same_chat_id_answers_nothing(
    workers: Workers, client: Client, chat: str, folder: Path
) -> None:
    await client.open(workers[0], chat=chat)
    await client("send", text="pay 80")
    await client.open(workers[0], chat=chat, user="tom")
    assert "nobody was asked about this call in this session" in (await client("answer", approved=True)).said[0]
    (request,) = await requests(folder, f"ann/{chat}")
    assert request.status == "open"
    assert deeds(folder, chat) == []


async def test_whoever_is_not_entitled_is_told_and_the_question_waits_for_those_who_are(
    workers: Workers, ag_ui: Client, chat: str, folder: Path
) -> None:
    await ag_ui.open(workers[0], chat=chat)
    await ag_ui("send", text="refund 90")
    told = await ag_ui("answer", approved=True)
    assert told.error is not None
    assert "its rule asks for 1 person in the role treasurer, and ann is not in that role" in told.error
    (request,) = await requests(folder, f"ann/{chat}")
    assert request.status == "open"
    async with ApprovalController(store=folder / "sayso.db") as elsewhere:
        yes = ApprovalDecision(approved=True)
        await elsewhere.answer(request, yes, who="tom", roles=["treasurer"])
    assert (await ag_ui("answer", approved=True)).said == ["refunded 90"]


async def test_a_question_that_the_conversation_leaves_behind_is_withdrawn(
    workers: Workers, vercel: Client, chat: str, folder: Path
) -> None:
    await vercel.open(workers[0], chat=chat)
    await vercel("send", text="pay 100")
    assert (await vercel("send", text="pay 101")).error is None
    assert [each.status for each in await requests(folder, f"ann/{chat}")] == ["withdrawn", "open"]


async def test_the_browser_sees_the_id_of_the_question_and_nothing_else_of_it(
    workers: Workers, ag_ui: Client, chat: str, folder: Path
) -> None:
    await ag_ui.open(workers[0], chat=chat)
    told = await ag_ui("send", text="pay 110")
    (request,) = await requests(folder, f"ann/{chat}")
    assert told.metadata == [{"sayso": {"request": request.id}}]
