"""`agent.to_web()`, PydanticAI's own chat page, whose answers are those of the person that `answered_by` names."""

from pathlib import Path

import pytest
from tests.web.processes import Client, Server, deeds, requests

PATH = "/local/api/chat"


@pytest.mark.proves("H17")
async def test_the_answers_of_the_page_count(
    workers: tuple[Server, Server], vercel: Client, chat: str, folder: Path
) -> None:
    one, two = workers
    await vercel.open(one, chat=chat, path=PATH)
    assert len((await vercel("send", text="pay 5")).waiting) == 1
    assert deeds(folder, chat) == []
    await vercel.open(two, chat=chat, path=PATH)
    assert (await vercel("answer", approved=True)).said == ["paid 5 EUR"]
    await vercel("replay")
    await vercel("send", text="pay 6")
    told = await vercel("answer", approved=False, reason="too much")
    assert told.said[1].startswith("Not executed: refused by ann.")
    assert deeds(folder, chat) == ["paid 5 EUR"]


async def test_changed_and_made_up_calls_do_not_run(
    workers: tuple[Server, Server], vercel: Client, chat: str, folder: Path
) -> None:
    await vercel.open(workers[0], chat=chat, path=PATH)
    await vercel("send", text="pay 5")
    await vercel("tamper", input={"amount": 500})
    assert "lost its run" in (await vercel("answer", approved=True)).said[0]
    await vercel("forge", tool="pay", input={"amount": 6})
    assert "nobody was asked about this call" in (await vercel("answer", approved=True)).said[0]
    assert deeds(folder, chat) == []


async def test_a_question_that_the_conversation_leaves_behind_is_withdrawn(
    workers: tuple[Server, Server], vercel: Client, chat: str, folder: Path
) -> None:
    await vercel.open(workers[0], chat=chat, path=PATH)
    await vercel("send", text="pay 5")
    assert (await vercel("send", text="pay 6")).error is None
    assert [each.status for each in await requests(folder, chat)] == ["withdrawn", "open"]
