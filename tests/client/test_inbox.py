"""The inbox over a store and over a hub: an edit that does not fit the tool is never sent."""

import json
from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace
from tests.server.served import Served

from sayso.client.hub_inbox import HubInbox
from sayso.client.inbox import Inbox, StoreInbox
from sayso.core.model import ApprovalDecision
from sayso.errors import StillOpen
from sayso.stores.memory import MemoryStore
from sayso.testing.samples import sample_request

SCHEMA = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}}


@pytest.fixture(params=["store", "hub"])
async def inbox(request: pytest.FixtureRequest) -> AsyncGenerator[Inbox]:
    asked = replace(sample_request(), parameters=json.dumps(SCHEMA))
    if request.param == "store":
        store = MemoryStore()
        await store.open(asked)
        found: Inbox = StoreInbox(store)
    else:
        served: Served = request.getfixturevalue("served")
        served.do(served.store.open(asked))
        found = HubInbox(served.url, served.token())
    yield found
    await found.aclose()


async def test_an_edit_that_does_not_fit_is_refused_before_it_is_sent(inbox: Inbox) -> None:
    [request] = await inbox.pending()
    edit = ApprovalDecision(approved=True, override_args={"names": ["ann", 7]}, who="ann")
    with pytest.raises(StillOpen) as refused:
        await inbox.answer(request, edit)
    # A hub would add that nothing was decided: this was said here.
    assert str(refused.value) == "these arguments do not fit the tool: names.1: 7 is not of type 'string'"
    assert [each.status for each in await inbox.pending()] == ["open"]


async def test_an_edit_that_fits_is_the_answer(inbox: Inbox) -> None:
    [request] = await inbox.pending()
    edit = ApprovalDecision(approved=True, override_args={"names": ["ann", "bob"]}, who="ann")
    assert (await inbox.answer(request, edit)).accepted
    assert await inbox.pending() == []
