"""Remembered decisions: found for what they cover and nothing else, and gone when they are over or revoked."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalMemory,
    ApprovalRequest,
    Policy,
    ToolCall,
    guard,
    requires_approval,
)
from sayso.core import audit
from sayso.core.model import Remembered, Scope, new_id
from sayso.errors import NotEntitled, StoreError
from sayso.policy import scopes
from sayso.stores.memory import MemoryStore
from sayso.stores.sqlite import SqliteStore
from sayso.testing import FixedClock, ScriptedChannel

YES = ApprovalDecision(approved=True, remember="session")
NO = ApprovalDecision(approved=False, remember="session")
ALWAYS = ApprovalDecision(approved=True, remember="always")


def asked(**fields: Any) -> ApprovalRequest:
    """A request that offers the call and the whole tool."""
    given: dict[str, Any] = {"tool_name": "pay", "args": {"amount": 5}, "session": "s1", **fields}
    request = ApprovalRequest(**given)
    narrow = scopes.call_scope(request.tool_name, request.args, request.payload)
    return replace(request, scopes=(narrow, scopes.tool_scope(request.tool_name)))


def remembered(memory: ApprovalMemory, decision: ApprovalDecision, now: float = 0.0, **fields: Any) -> Remembered:
    (kept,) = memory.build(asked(**fields), decision, now=now)
    memory.add(kept)
    return kept


def found(memory: ApprovalMemory, *, session: str = "s1", now: float = 1.0, **fields: Any) -> Remembered | None:
    return memory.find(scopes.request_keys(asked(**fields)), session=session, now=now)


# Looking up and storing, in both signatures of the original documents.


@pytest.mark.proves("R4", "R26", "R55")
def test_a_stored_decision_is_found_for_the_same_tool_and_arguments_in_any_order() -> None:
    memory = ApprovalMemory()
    memory.store("pay", {"amount": 5, "to": {"a": 1, "b": 2}}, YES)
    assert memory.lookup("pay", {"to": {"b": 2, "a": 1}, "amount": 5}) == YES
    assert memory.lookup("pay", {"amount": 6, "to": {"a": 1, "b": 2}}) is None
    assert memory.lookup("read", {"amount": 5, "to": {"a": 1, "b": 2}}) is None
    assert memory.lookup("pay", {}) is None


@pytest.mark.proves("R26")
def test_both_signatures_mean_the_same() -> None:
    memory = ApprovalMemory()
    memory.store(ApprovalRequest(tool_name="pay", args={"amount": 5}), YES)
    memory.store("read", {"path": "a"}, NO)
    assert memory.lookup("pay", {"amount": 5}) == YES
    assert memory.lookup(ApprovalRequest(tool_name="pay", args={"amount": 5})) == YES
    assert memory.lookup(ApprovalRequest(tool_name="read", args={"path": "a"})) == NO


@pytest.mark.proves("R4")
def test_a_decision_that_is_not_to_be_remembered_is_never_stored() -> None:
    memory = ApprovalMemory()
    memory.store("pay", {"amount": 5}, ApprovalDecision(approved=True))
    assert memory.lookup("pay", {"amount": 5}) is None
    assert (memory.list(), bool(memory)) == ([], False)


@pytest.mark.proves("R24")
def test_requests_match_by_their_payload_and_not_by_their_other_arguments() -> None:
    memory = ApprovalMemory()
    memory.store(ApprovalRequest(tool_name="write", args={"path": "a", "content": "x"}, payload={"path": "a"}), YES)
    same = ApprovalRequest(tool_name="write", args={"path": "a", "content": "y"}, payload={"path": "a"})
    other = ApprovalRequest(tool_name="write", args={"path": "a", "content": "x"}, payload={"path": "b"})
    assert (memory.lookup(same), memory.lookup(other)) == (YES, None)
    assert memory.lookup("write", {"path": "a"}) == YES


@pytest.mark.proves("R25")
@pytest.mark.parametrize("how", ["requires_approval", "guard"])
async def test_excluded_keys_are_no_part_of_what_is_remembered(how: str) -> None:
    person = ScriptedChannel(YES)
    controller = ApprovalController(policy=Policy({"deploy": "required"}), channels=[person])
    ran: list[str] = []

    async def deploy(service: str, token: str) -> None:
        ran.append(token)

    marked = requires_approval(exclude_keys=["token"])(deploy)
    guarded = guard(deploy, controller, exclude_keys=["token"]) if how == "guard" else marked
    with controller.activated():
        await guarded("web", token="one")  # noqa: S106 - no secret
        await guarded("web", token="two")  # noqa: S106 - no secret
    assert (ran, len(person.asked)) == (["one", "two"], 1)
    assert person.asked[0].payload == {"service": "web"}


@pytest.mark.proves("R10")
def test_a_memory_object_is_shared_by_whoever_holds_it() -> None:
    memory = ApprovalMemory()
    for answer in (YES, ApprovalDecision(approved=True, remember="always")):
        memory.clear()
        ApprovalController(mode="auto_deny", memory=memory).memory.store("pay", {"amount": 5}, answer)
        other = ApprovalController(mode="approve_all", memory=memory)
        assert other.memory.lookup("pay", {"amount": 5}) == answer
        assert other.is_session_approved(ApprovalRequest(tool_name="pay", args={"amount": 5}))


@pytest.mark.proves("R5", "H4")
@pytest.mark.parametrize(
    "value", [object(), float("nan"), "\ud800", {1: 2}, bytearray(b"x")], ids=["object", "nan", "half", "key", "bytes"]
)
def test_arguments_that_cannot_be_canonicalised_are_neither_remembered_nor_found_nor_a_crash(value: Any) -> None:
    memory = ApprovalMemory()
    memory.store("t", {"a": value}, YES)
    memory.store(ApprovalRequest(tool_name="t", payload={"a": value}), YES)
    assert memory.list() == []
    assert memory.lookup("t", {"a": value}) is None
    assert memory.lookup(ApprovalRequest(tool_name="t", payload={"a": value})) is None


@pytest.mark.proves("R5", "H5")
def test_arguments_that_contain_themselves_are_no_crash_either() -> None:
    memory = ApprovalMemory()
    circle: dict[str, Any] = {}
    circle["self"] = circle
    memory.store("t", circle, YES)
    assert memory.lookup("t", circle) is None


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("who called my code?")


@pytest.mark.proves("R5", "H5")
def test_a_payload_with_an_object_that_cannot_be_printed_is_no_crash() -> None:
    memory = ApprovalMemory()
    memory.store(ApprovalRequest(tool_name="t", payload={"a": Rude()}), YES)
    assert memory.list() == []


@pytest.mark.proves("R5", "H4")
@pytest.mark.parametrize(
    ("stored", "asked_for"), [(Path("a"), "a"), (1, True), (b"a", "b'a'"), ((1,), [1]), ({1}, [1])]
)
def test_arguments_that_are_not_json_are_remembered_as_what_they_are(stored: object, asked_for: object) -> None:
    memory = ApprovalMemory()
    memory.store("t", {"a": stored}, YES)
    assert memory.lookup("t", {"a": stored}) == YES
    assert memory.lookup("t", {"a": asked_for}) is None


# How long, how often, how widely.


@pytest.mark.proves("H9")
def test_a_session_decision_covers_its_session_and_an_always_decision_every_one() -> None:
    memory = ApprovalMemory()
    remembered(memory, YES, session="s1")
    assert found(memory, session="s1") is not None
    assert found(memory, session="s2") is None
    remembered(memory, ALWAYS, args={"amount": 6})
    assert found(memory, session="s2", args={"amount": 6}) is not None


@pytest.mark.proves("H9")
def test_a_request_without_a_session_belongs_to_the_memorys_own() -> None:
    memory, other = ApprovalMemory(session="mine"), ApprovalMemory()
    memory.store("pay", {"amount": 5}, YES)
    assert [each.session for each in memory.list()] == ["mine"]
    assert memory.lookup(ApprovalRequest(tool_name="pay", args={"amount": 5}, session="other")) is None
    assert memory.session != other.session


@pytest.mark.proves("H9")
def test_a_decision_ends_when_its_time_is_up() -> None:
    memory = ApprovalMemory()
    remembered(memory, ApprovalDecision(approved=True, remember="always", until=10.0))
    assert found(memory, now=9.999) is not None
    assert found(memory, now=10.0) is None


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    ("until", "longest", "ends"),
    [(None, None, None), (500.0, None, 500.0), (None, 60.0, 160.0), (500.0, 60.0, 160.0), (120.0, 60.0, 120.0)],
)
def test_the_policys_longest_time_caps_what_a_person_asks_for(
    until: float | None, longest: float | None, ends: float | None
) -> None:
    decision = ApprovalDecision(approved=True, remember="always", until=until)
    (kept,) = ApprovalMemory().build(asked(), decision, now=100.0, longest=longest)
    assert (kept.expires_at, kept.remembered_at) == (ends, 100.0)


@pytest.mark.proves("H9")
def test_what_is_over_is_neither_listed_nor_looked_up() -> None:
    clock = FixedClock(100.0)
    memory = ApprovalMemory(clock=clock)
    memory.store("over", {}, ApprovalDecision(approved=True, remember="always", until=101.0))
    memory.store("stands", {}, ApprovalDecision(approved=True, remember="always", until=102.0))
    assert [each.tool for each in memory.list()] == ["over", "stands"]
    clock.advance(1.0)
    assert [each.tool for each in memory.list()] == ["stands"]
    assert memory.lookup("over", {}) is None
    assert memory.lookup("stands", {}) is not None


@pytest.mark.proves("H9")
async def test_a_counted_decision_is_spent_as_often_as_it_says_and_then_gone() -> None:
    memory = ApprovalMemory()
    kept = remembered(memory, ApprovalDecision(approved=True, remember="session", uses=2))
    assert kept.uses_left == 2
    assert await memory.spend(kept)
    left = found(memory)
    assert left is not None
    assert left.uses_left == 1
    assert await memory.spend(kept)
    assert found(memory) is None
    assert not await memory.spend(kept)
    assert (memory.list(), bool(memory)) == ([], False)


@pytest.mark.proves("H9")
def test_a_counted_decision_is_not_spent_more_often_by_many_threads_at_once() -> None:
    memory = ApprovalMemory()
    kept = remembered(memory, ApprovalDecision(approved=True, remember="session", uses=3))
    start = threading.Barrier(8)

    def spend() -> bool:
        start.wait()
        spending = memory.spend(kept)
        try:
            spending.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("nothing here has to wait")

    with ThreadPoolExecutor(8) as threads:
        spent = [each.result() for each in [threads.submit(spend) for _ in range(8)]]
    assert sum(spent) == 3


@pytest.mark.proves("H9")
def test_a_decision_covers_only_the_call_unless_the_whole_tool_was_chosen() -> None:
    memory = ApprovalMemory()
    remembered(memory, YES)
    assert found(memory, args={"amount": 6}) is None
    remembered(memory, ApprovalDecision(approved=True, remember="session", scope="tool"))
    assert found(memory, args={"amount": 6}) is not None
    assert found(memory, tool_name="read") is None


@pytest.mark.proves("H9")
@pytest.mark.parametrize(("kinds", "says"), [((), "offered: none"), (("call",), "offered: 'call'")])
def test_a_scope_that_is_not_offered_is_refused_and_nothing_is_kept(kinds: tuple[str, ...], says: str) -> None:
    memory = ApprovalMemory()
    offered = tuple(scope for scope in asked().scopes if scope.kind in kinds)
    request = ApprovalRequest(tool_name="pay", scopes=offered)
    with pytest.raises(ValueError, match=f"the scope 'tool' is not offered for this request .{says}"):
        memory.build(request, ApprovalDecision(approved=True, remember="session", scope="tool"), now=0.0)
    with pytest.raises(ValueError, match="not offered"):
        memory.store("pay", {}, ApprovalDecision(approved=True, remember="session", scope="tool"))
    assert memory.list() == []


@pytest.mark.proves("H9")
@pytest.mark.parametrize("fields", [{"scope": "tool"}, {}], ids=["the whole tool", "a payload"])
def test_edited_arguments_are_remembered_only_for_the_very_call_that_they_replace(fields: dict[str, Any]) -> None:
    memory = ApprovalMemory()
    edited: dict[str, Any] = {"approved": True, "override_args": {"amount": 1}, "remember": "session"}
    payload = None if fields else {"to": "ann"}
    with pytest.raises(ValueError, match="only for this exact call: it would replace other arguments"):
        memory.build(asked(payload=payload), ApprovalDecision(**edited, **fields), now=0.0)
    (kept,) = memory.build(asked(), ApprovalDecision(**edited), now=0.0)
    assert kept.decision.override_args == {"amount": 1}


@pytest.mark.proves("H2", "H9")
@pytest.mark.parametrize(
    ("remembered_for", "asked_for", "stands"), [("1", "1", True), ("1", "2", False), ("", "2", True), ("1", "", True)]
)
def test_a_decision_about_another_schema_of_the_tool_does_not_stand(
    remembered_for: str, asked_for: str, stands: bool
) -> None:
    memory = ApprovalMemory()
    remembered(memory, YES, schema_hash=remembered_for)
    request = asked(schema_hash=asked_for)
    keys = scopes.request_keys(request)
    assert (memory.find(keys, session="s1", now=1.0, schema_hash=asked_for) is not None) is stands
    assert (memory.lookup(request) is not None) is stands


@pytest.mark.proves("H9")
def test_a_no_beats_a_yes_however_broad_or_late_either_is() -> None:
    tool_wide: dict[str, Any] = {"remember": "session", "scope": "tool"}
    orders = [
        [ApprovalDecision(approved=True, **tool_wide), NO],
        [NO, ApprovalDecision(approved=True, **tool_wide)],
        [ApprovalDecision(approved=False, **tool_wide), YES],
        [YES, ApprovalDecision(approved=False, **tool_wide)],
        [YES, NO],
        [NO, YES],
    ]
    for order in orders:
        memory = ApprovalMemory()
        for decision in order:
            remembered(memory, decision)
        standing = found(memory)
        assert standing is not None
        assert not standing.decision.approved


@pytest.mark.proves("H9")
def test_of_two_that_agree_the_narrow_one_is_found() -> None:
    memory = ApprovalMemory()
    remembered(memory, ApprovalDecision(approved=True, remember="session", scope="tool"))
    narrow = remembered(memory, YES)
    assert found(memory) == narrow


# Listing and forgetting.


@pytest.mark.proves("R26", "H9")
def test_after_clear_nothing_is_remembered() -> None:
    memory = ApprovalMemory()
    memory.store("pay", {"amount": 5}, YES)
    memory.store("pay", {"amount": 5}, ALWAYS)
    assert bool(memory)
    memory.clear()
    assert memory.lookup("pay", {"amount": 5}) is None
    assert (memory.list(), bool(memory)) == ([], False)


def test_decisions_are_counted_and_listed_with_the_arguments_that_they_are_about() -> None:
    clock = FixedClock(0.0)
    memory = ApprovalMemory(clock=clock)
    assert (len(memory), memory.list_approvals()) == (0, [])
    memory.store("pay", {"amount": 5, "to": ["ann"]}, YES)
    memory.store(ApprovalRequest(tool_name="shell", args={"line": "rm a"}, payload={"program": "rm"}), NO)
    memory.store("pay", {"amount": 6}, ApprovalDecision(approved=True))
    assert len(memory) == 2
    assert memory.list_approvals() == [("pay", {"amount": 5, "to": ["ann"]}, YES), ("shell", {"program": "rm"}, NO)]
    remembered(memory, replace(YES, until=5.0))
    assert len(memory) == 3
    clock.advance(9.0)
    assert len(memory) == 2
    memory.clear()
    assert (len(memory), memory.list_approvals()) == (0, [])


@pytest.mark.parametrize("own_memory", [True, False])
async def test_a_given_answer_is_listed_with_its_arguments_and_one_for_every_call_without(*, own_memory: bool) -> None:
    tool_wide = replace(YES, scope="tool")
    channel = ScriptedChannel(YES, tool_wide)
    policy = Policy({"pay": {"approval": "required", "scope": "tool"}})
    memory = ApprovalMemory() if own_memory else None
    async with ApprovalController(channels=[channel], policy=policy, memory=memory) as controller:
        for amount in (5, 6):
            await controller.settle(ToolCall(tool="pay", args={"amount": amount}))
        listed = [(tool, args, given.scope) for tool, args, given in controller.memory.list_approvals()]
    assert listed == [("pay", {"amount": 5}, None), ("pay", None, "tool")]


def test_what_another_process_has_remembered_is_listed_without_its_arguments(tmp_path: Path) -> None:
    with contextlib.closing(ApprovalController(mode="auto_deny", store=tmp_path / "state.db")) as first:
        first.memory.store("pay", {"amount": 5}, ALWAYS)
        assert first.memory.list_approvals() == [("pay", {"amount": 5}, ALWAYS)]
    with contextlib.closing(ApprovalController(mode="auto_deny", store=tmp_path / "state.db")) as second:
        assert second.memory.list_approvals() == [("pay", None, ALWAYS)]


@pytest.mark.proves("H9")
def test_decisions_are_listed_oldest_first_and_revoked_one_by_one() -> None:
    memory = ApprovalMemory()
    late = remembered(memory, ALWAYS, now=2.0, id="r2")
    early = remembered(memory, ALWAYS, now=1.0, id="r1")
    assert memory.list() == [early, late]
    assert (early.request_id, early.tool, early.scope.kind) == ("r1", "pay", "call")
    assert memory.revoke(early.id)
    assert not memory.revoke(early.id)
    assert not memory.revoke("nobody")
    assert memory.list() == [late]
    assert found(memory) == late


@pytest.mark.proves("R29", "H9")
def test_clearing_a_session_leaves_other_sessions_and_what_is_for_always() -> None:
    memory = ApprovalMemory()
    remembered(memory, YES, session="s1")
    other = remembered(memory, YES, session="s2")
    always = remembered(memory, ALWAYS, session="s1", args={"amount": 6})
    memory.clear_session("s1")
    assert {each.id for each in memory.list()} == {other.id, always.id}
    assert found(memory, session="s1") is None


# Over a store.


@pytest.mark.proves("R10", "H9")
async def test_two_memories_over_one_store_learn_and_forget_together() -> None:
    store = MemoryStore()
    one, two = ApprovalMemory(store=store), ApprovalMemory(store=store)
    kept = remembered(one, ALWAYS)
    assert two.list() == [kept]
    assert found(two) == kept
    assert ApprovalMemory(store=store).list() == [kept]
    assert two.revoke(kept.id)
    assert (one.list(), found(one)) == ([], None)
    counted = remembered(one, ApprovalDecision(approved=True, remember="always", uses=1))
    assert await two.spend(counted)
    assert not await one.spend(counted)
    assert (one.list(), two.list()) == ([], [])


@pytest.mark.proves("H9", "H16")
async def test_what_is_remembered_or_revoked_survives_the_process(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "sayso.db")
    memory = ApprovalMemory(store=first)
    kept, revoked = remembered(memory, ALWAYS), remembered(memory, ALWAYS, args={"path": Path("a")})
    memory.revoke(revoked.id)
    await first.aclose()
    second = SqliteStore(tmp_path / "sayso.db")
    assert ApprovalMemory(store=second).list() == [kept]
    await second.aclose()


@pytest.mark.proves("H8", "H9")
@pytest.mark.parametrize("how", ["revoke", "clear", "clear_session"])
async def test_forgetting_a_decision_is_audited(how: str) -> None:
    store = MemoryStore()
    memory = ApprovalMemory(store=store)
    kept = remembered(memory, YES)
    forget = {
        "revoke": lambda: memory.revoke(kept.id, who="ann"),
        "clear": memory.clear,
        "clear_session": lambda: memory.clear_session("s1"),
    }
    forget[how]()
    entries = [each async for each in audit.entries(store)]
    assert [(each["step"], each["tool"]) for each in entries] == [("revoked", "pay")]
    assert ("revoked by ann" in entries[0]["reason"]) is (how == "revoke")


@pytest.mark.proves("H9")
def test_a_memory_belongs_to_its_store_only() -> None:
    store = MemoryStore()
    assert ApprovalMemory(store=store).belongs_to(store)
    assert not ApprovalMemory().belongs_to(store)
    assert not ApprovalMemory(store=MemoryStore()).belongs_to(store)


class SlowStore(MemoryStore):
    """A store that takes changes and tells of them late, as one does that other processes write to."""

    def __init__(self, *known: Remembered) -> None:
        super().__init__()
        self.told = list(known)
        self.written: list[tuple[list[Remembered], list[str]]] = []

    def attach(self, learn: Callable[[Sequence[Remembered]], None]) -> None:
        self.tell = learn
        learn(self.told)

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        self.written.append((list(added), list(dropped)))
        return len(dropped)


def a_decision(*, approved: bool = True) -> Remembered:
    return Remembered(
        id=new_id(),
        tool="pay",
        scope=Scope(kind="call", key=scopes.call_key("pay", {"amount": 5}), label="this call"),
        decision=ApprovalDecision(approved=approved, remember="always"),
        session=None,
        remembered_at=0.0,
    )


@pytest.mark.proves("H9")
@pytest.mark.parametrize("forget", ["revoke", "clear"])
def test_a_revoked_decision_is_not_brought_back_by_an_older_list_that_comes_late(forget: str) -> None:
    kept, unrelated = a_decision(), a_decision()
    store = SlowStore(kept)
    memory = ApprovalMemory(store=store)
    memory.clear() if forget == "clear" else memory.revoke(kept.id)
    assert store.written == [([], [kept.id])]
    for _ in range(2):
        store.tell([kept, unrelated])
        assert memory.list() == [unrelated]
        assert found(memory) == unrelated
    store.tell([unrelated])
    assert memory.list() == [unrelated]


@pytest.mark.proves("H9")
def test_a_no_just_remembered_is_not_forgotten_by_an_older_list_that_comes_late() -> None:
    """A queued change holds at once in this process; a yes that is lost only asks again, but a no would let run."""
    store = SlowStore()
    memory = ApprovalMemory(store=store)
    no, elsewhere = a_decision(approved=False), a_decision()
    memory.add(no)
    store.tell([elsewhere])
    assert found(memory) == no
    store.tell([elsewhere, no])
    store.tell([elsewhere])
    assert found(memory) == elsewhere


class HeldStore(SlowStore):
    """A store that takes its time over a change, and then says what a test wants."""

    def __init__(self, error: Exception | None = None, *known: Remembered) -> None:
        super().__init__(*known)
        self.error = error
        self.asked, self.goes_on = threading.Barrier(2, timeout=20), threading.Barrier(2, timeout=20)

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        self.asked.wait()
        self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return super().remember(added, dropped)


def while_held(store: HeldStore, change: Callable[[], object], *, meanwhile: Callable[[], None]) -> None:
    """Change what is remembered, and do something while the store has not answered yet."""
    with ThreadPoolExecutor(1) as other:
        changing = other.submit(change)
        store.asked.wait()
        try:
            meanwhile()
        finally:
            store.goes_on.wait()
        changing.result(20)


REFUSED_OR_FAILED = pytest.mark.parametrize(
    "error", [NotEntitled("only people"), StoreError("the disk is full")], ids=["refused", "failed"]
)


@pytest.mark.proves("H9")
@REFUSED_OR_FAILED
def test_a_yes_that_the_store_does_not_take_is_never_found(error: Exception) -> None:
    store = HeldStore(error)
    memory = ApprovalMemory(store=store)

    def nothing_is_found() -> None:
        assert (found(memory), memory.list(), bool(memory)) == (None, [], False)

    with pytest.raises(type(error)):
        while_held(store, lambda: memory.add(a_decision()), meanwhile=nothing_is_found)
    nothing_is_found()
    store.tell([])
    nothing_is_found()


@pytest.mark.proves("H9")
def test_a_yes_that_was_revoked_before_its_store_had_answered_does_not_come_back() -> None:
    store = HeldStore()
    memory = ApprovalMemory(store=store)
    yes = a_decision()

    def revoked_elsewhere() -> None:
        store.tell([yes])
        assert found(memory) == yes
        store.tell([])

    while_held(store, lambda: memory.add(yes), meanwhile=revoked_elsewhere)
    assert found(memory) is None


@pytest.mark.proves("H9")
def test_a_no_stands_before_the_store_has_answered_and_if_it_fails_or_refuses() -> None:
    for error in (None, StoreError("the disk is full"), NotEntitled("only people")):
        store = HeldStore(error)
        memory = ApprovalMemory(store=store)
        no = a_decision(approved=False)

        def it_stands(memory: ApprovalMemory = memory, no: Remembered = no) -> None:
            assert found(memory) == no

        with pytest.raises(type(error)) if error else contextlib.nullcontext():
            while_held(store, partial(memory.add, no), meanwhile=it_stands)
        assert found(memory) == no
        store.tell([])
        assert found(memory) == no


@pytest.mark.proves("H9")
@REFUSED_OR_FAILED
@pytest.mark.parametrize("forget", ["revoke", "clear"])
def test_a_no_stands_until_the_store_has_taken_its_revocation(error: Exception, forget: str) -> None:
    no, yes = a_decision(approved=False), a_decision()
    store = HeldStore(error, no, yes)
    memory = ApprovalMemory(store=store)

    def it_stands() -> None:
        assert found(memory) == no

    with pytest.raises(type(error)):
        while_held(store, memory.clear if forget == "clear" else lambda: memory.revoke(no.id), meanwhile=it_stands)
    it_stands()
    store.tell([no, yes])
    it_stands()


@pytest.mark.proves("H9")
def test_a_no_ends_when_the_store_has_taken_its_revocation() -> None:
    no = a_decision(approved=False)
    store = HeldStore(None, no)
    memory = ApprovalMemory(store=store)
    while_held(store, lambda: memory.revoke(no.id), meanwhile=lambda: None)
    store.tell([no])  # an older list, which comes late
    assert (found(memory), memory.list()) == (None, [])


@pytest.mark.proves("H9")
def test_a_refused_revocation_does_not_bring_back_a_yes_that_somebody_else_has_revoked() -> None:
    yes = a_decision()
    store = HeldStore(NotEntitled("only people"), yes)
    memory = ApprovalMemory(store=store)
    with pytest.raises(NotEntitled):
        while_held(store, memory.clear, meanwhile=lambda: store.tell([]))
    assert (found(memory), memory.list()) == (None, [])


@pytest.mark.proves("H1", "H9")
def test_a_no_is_never_missing_while_a_new_list_is_learnt() -> None:
    store = HandsOutLists()
    memory = ApprovalMemory(store=cast("Any", store))
    no = remembered_no()

    class Watched(list[Remembered]):
        """A list that looks, at every step of being read, whether the no still stands."""

        def __iter__(self) -> Iterator[Remembered]:
            for index in range(len(self)):
                assert memory.find([no.scope.key], session="s", now=0.0) == no
                yield self[index]

    store.learn([no])
    for _ in range(3):
        store.learn(
            Watched([no, *(replace(no, id=f"other{n}", scope=replace(no.scope, key=f"k{n}")) for n in range(5))])
        )
    assert memory.find([no.scope.key], session="s", now=0.0) == no


class HandsOutLists:
    """A store that teaches what a test hands it."""

    def attach(self, learn: Callable[[Sequence[Remembered]], None]) -> None:
        self.learn = learn


def remembered_no() -> Remembered:
    decision = ApprovalDecision(approved=False, remember="always")
    scope = scopes.tool_scope("rm")
    return Remembered(id="no", tool="rm", scope=scope, decision=decision, session=None, remembered_at=0.0)
