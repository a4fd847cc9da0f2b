"""The inbox of a hub, as `sayso watch` follows it."""

import asyncio

import pytest
from anyio import fail_after
from msgspec.structs import replace
from tests.server.served import PATIENCE, Served

from sayso.client.hub_inbox import HubInbox
from sayso.errors import ConfigurationError
from sayso.testing.samples import sample_request


async def test_of_many_questions_that_come_at_once_none_is_missed(served: Served) -> None:
    async def ask_many() -> list[str]:
        requests = [replace(sample_request(call_id=f"c{number}"), session="s1") for number in range(30)]
        return [each.id for each in await asyncio.gather(*map(served.store.open, requests))]

    inbox = HubInbox(served.url, served.token())
    try:
        point, _ = await inbox.changes()
        asked, heard = set(served.do(ask_many())), set[str]()
        with fail_after(PATIENCE):
            while heard != asked:
                await inbox.changed(point)
                point, found = await inbox.changes(point)
                heard |= {each.id for each in found}
        assert (await inbox.changes(point))[1] == []
    finally:
        await inbox.aclose()


@pytest.mark.parametrize("odd", ["\n", "\nsecond", " ", "\x00", "ä", "\u2028"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(odd: str) -> None:
    with pytest.raises(ConfigurationError, match="has a line break or another odd character") as refused:
        HubInbox("http://127.0.0.1:9", f"sayso_approver_id_SECRET{odd}")
    assert "SECRET" not in str(refused.value)
