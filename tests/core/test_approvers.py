"""Rules about people: how many have to say yes, in which role, who else after a while, and who may never."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.people import YES

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall
from sayso.core.model import Approved, Denied, Pending
from sayso.errors import ConfigurationError, NotEntitled
from sayso.stores.sqlite import SqliteStore
from sayso.testing import FixedClock

pytestmark = [pytest.mark.anyio, pytest.mark.proves("H11")]

NO = ApprovalDecision(approved=False, note="no")
CALL = ToolCall(tool="pay", args={"amount": 5}, call_id="c1", session="s")


class Office:
    """An agent's controller, and what a hub does with the people whom it knows."""

    def __init__(self, store: SqliteStore, **approvers: Any) -> None:
        self.store = store
        self.clock = FixedClock()
        self.controller = self.under(**approvers)

    def under(self, **approvers: Any) -> ApprovalController:
        policy = Policy(tools={"pay": {"approval": "required", "approvers": approvers}}, default="none")
        return ApprovalController(mode="defer", store=self.store, clock=self.clock, policy=policy)

    async def ask(self) -> ApprovalRequest:
        pending = await self.controller.review(CALL)
        assert isinstance(pending, Pending)
        return pending.request

    async def outcome(self, controller: ApprovalController | None = None) -> str:
        outcome = await (controller or self.controller).review(CALL, asked=True)
        if isinstance(outcome, Denied):
            return outcome.cause
        return "approved" if isinstance(outcome, Approved) else "open"

    async def say(self, request: ApprovalRequest, decision: ApprovalDecision, who: str, *roles: str) -> str:
        return (await self.controller.answer(request.id, decision, who=who, roles=roles)).status


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "sayso.db")
    yield store
    await store.aclose()


async def test_a_call_runs_once_enough_different_people_said_yes(store: SqliteStore) -> None:
    office = Office(store, count=2)
    request = await office.ask()
    assert await office.say(request, YES, "ann") == "open"
    for name in ("ann", "Ann"):
        assert await office.say(request, YES, name) == "open", "nobody counts twice"
    assert await office.outcome() == "open"
    assert await office.say(request, YES, "bob") == "approved"
    assert await office.outcome() == "approved"


async def test_any_refusal_refuses(store: SqliteStore) -> None:
    office = Office(store, count=3)
    request = await office.ask()
    await office.say(request, YES, "ann")
    assert await office.say(request, NO, "bob") == "denied"
    assert await office.outcome() == "refused"


async def test_a_yes_counts_only_from_somebody_in_the_role(store: SqliteStore) -> None:
    office = Office(store, role="ops")
    request = await office.ask()
    with pytest.raises(NotEntitled, match="1 person in the role ops, and ann is not in that role"):
        await office.say(request, YES, "ann", "sales")
    assert await office.outcome() == "open"
    assert await office.say(request, YES, "bob", "ops") == "approved"


async def test_a_no_counts_from_anybody(store: SqliteStore) -> None:
    office = Office(store, count=2, role="ops")
    request = await office.ask()
    assert (await office.controller.answer(request.id, NO)).status == "denied"


@pytest.mark.parametrize("terms", [{"count": 2}, {"role": "ops"}])
async def test_nobody_is_believed_who_was_not_checked(store: SqliteStore, terms: dict[str, Any]) -> None:
    office = Office(store, **terms)
    request = await office.ask()
    with pytest.raises(NotEntitled, match="answer through a hub"):
        await office.controller.answer(request.id, YES, who="ann")
    with pytest.raises(NotEntitled, match="answer through a hub"):
        await office.controller.answer(request.id, YES, roles=["ops"])
    assert await office.outcome() == "open"


async def test_another_role_may_answer_when_nobody_did_for_long_enough(store: SqliteStore) -> None:
    office = Office(store, role="ops", escalate={"role": "lead", "after": "10m"})
    request = await office.ask()
    office.clock.advance(599)
    with pytest.raises(NotEntitled):
        await office.say(request, YES, "lea", "lead")
    office.clock.advance(1)
    assert await office.say(request, YES, "lea", "lead") == "approved"


async def test_whoever_asked_cannot_answer(store: SqliteStore) -> None:
    office = Office(store, count=1)
    asked = msgspec.structs.replace(await office.ask(), id="r2", tool_call_id="c2", asked_by="ann")
    request = await store.open(asked)
    for decision, name in ((YES, "ann"), (NO, "ann"), (YES, "Ann")):
        with pytest.raises(NotEntitled, match="whoever asks cannot answer"):
            await office.say(request, decision, name, "ops")
    assert await office.say(request, YES, "bob") == "approved"


async def test_what_several_people_say_yes_to_cannot_be_edited_or_remembered(store: SqliteStore) -> None:
    office = Office(store, count=2)
    request = await office.ask()
    assert request.scopes == ()
    with pytest.raises(ValueError, match="cannot be edited"):
        await office.say(request, ApprovalDecision(approved=True, override_args={"amount": 6}), "ann")


async def test_an_answer_falls_if_the_rule_asks_for_more_people_now(store: SqliteStore) -> None:
    office = Office(store, count=2)
    request = await office.ask()
    await office.say(request, YES, "ann")
    await office.say(request, YES, "bob")
    assert await office.outcome(office.under(count=3)) == "changed"
    assert await office.outcome(office.under(count=2, role="ops")) == "changed"
    assert await office.outcome() == "approved"


async def test_no_mode_stands_for_people_who_have_to_be_counted(store: SqliteStore) -> None:
    policy = Policy(tools={"pay": {"approval": "required", "approvers": {"count": 2}}}, default="none")
    outcome = await ApprovalController(mode="approve_all", store=store, policy=policy).settle(CALL)
    assert isinstance(outcome, Denied)
    assert (outcome.cause, "approve_all is nobody" in outcome.reason) == ("blocked", True)


async def test_a_local_yes_leaves_the_question_to_those_who_may_answer(store: SqliteStore) -> None:
    policy = Policy(tools={"pay": {"approval": "required", "approvers": {"count": 2}}}, default="none")
    controller = ApprovalController(approval_callback=lambda _: YES, store=store, policy=policy)
    pending = await controller.review(CALL)
    assert isinstance(pending, Pending)
    hub = ApprovalController(mode="defer", store=store)
    await hub.answer(pending.request.id, YES, who="ann", roles=())
    closed = await hub.answer(pending.request.id, YES, who="bob", roles=())
    assert (closed.status, [each.who for each in closed.votes]) == ("approved", ["ann", "bob"])


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"escalate": {"role": "lead", "after": "1m"}}, "names none; say who answers first"),
        ({"role": "ops", "escalate": {"role": "lead"}}, "needs `role` and `after`"),
        ({"role": "ops", "remind": "soon"}, "remind"),
    ],
)
def test_terms_about_people_that_make_no_sense_are_refused(terms: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Policy(tools={"pay": {"approval": "required", "approvers": terms}}, default="none")
