"""A run that waits in place: the stream to the browser stays open until somebody answers, in another process."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.web.processes import PATIENCE, Client, Server, Told, deeds

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest

YES = ApprovalDecision(approved=True)
NO = ApprovalDecision(approved=False, note="too much")
EDITED = ApprovalDecision(approved=True, override_args={"amount": 1, "currency": "USD"})


@pytest.fixture(scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Server]:
    async with Server(tmp_path_factory.mktemp("inline"), "interactive") as found:
        yield found


async def asked(inbox: ApprovalController) -> ApprovalRequest:
    """Return the first open request, once there is one."""
    async with asyncio.timeout(PATIENCE):
        point, _ = await inbox.store.changes()
        while not (found := await inbox.pending()):
            await inbox.store.changed(point)
            point, _ = await inbox.store.changes()
    return found[0]


async def told_after(client: Client, server: Server, decision: ApprovalDecision) -> Told:
    """Return what the person at the browser sees once this decision was made elsewhere."""
    async with ApprovalController(store=server.folder / "sayso.db") as inbox:
        sending = asyncio.create_task(client("send", text="pay 5"))
        await inbox.answer(await asked(inbox), decision, who="tom")
        return await sending


@pytest.mark.proves("H17")
@pytest.mark.parametrize(("decision", "said"), [(YES, "paid 5 EUR"), (EDITED, "paid 1 USD"), (NO, "refused by tom")])
async def test_the_stream_goes_on_with_the_answer(
    server: Server, client: Client, chat: str, decision: ApprovalDecision, said: str
) -> None:
    await client.open(server, chat=chat)
    told = await told_after(client, server, decision)
    assert (told.waiting, told.error) == ([], None)
    assert said in told.said[0]
    assert deeds(server.folder, chat) == ([said] if decision.approved else [])


@pytest.mark.proves("H17")
async def test_the_web_page_of_an_agent_waits_for_the_answer(server: Server, vercel: Client, chat: str) -> None:
    await vercel.open(server, chat=chat, path="/local/api/chat")
    assert (await told_after(vercel, server, YES)).said == ["paid 5 EUR"]
    assert deeds(server.folder, chat) == ["paid 5 EUR"]
