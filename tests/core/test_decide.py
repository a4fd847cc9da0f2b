"""The decision as a table and as invariants, and the states of a request as a machine."""

import itertools
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from sayso import ApprovalDecision, ApprovalRequest, ToolCall, Verdict
from sayso.core.approvers import Approvers
from sayso.core.decide import TRANSITIONS, Mode, claim, close, decide, finish, is_overdue, parse_mode, spend
from sayso.core.model import Approval, Approved, Ask, Denied, Pending, Remembered, Result, Scope, Status
from sayso.errors import ConfigurationError

CALL = ToolCall(tool="pay", args={"amount": 5}, call_id="c1", session="s1")
DIGEST = CALL.digest()
EDITED = {"amount": 1}
BLOCKED = Verdict(approval="blocked", reason="too much")

APPROVALS: tuple[Approval, ...] = get_args(Approval)
MODES: tuple[Mode, ...] = get_args(Mode)
STATUSES: tuple[Status, ...] = get_args(Status)
ANSWERS = {
    "approved": ApprovalDecision(approved=True, who="ann"),
    "used": ApprovalDecision(approved=True, who="ann"),
    "denied": ApprovalDecision(approved=False, who="bob", note="not today"),
    "withdrawn": ApprovalDecision(approved=False, note="the run was cancelled"),
}


def a_request(status: Status, digest: str = DIGEST, decision: ApprovalDecision | None = None) -> ApprovalRequest:
    return ApprovalRequest(
        id="r1",
        tool_name="pay",
        args=CALL.args,
        tool_call_id="c1",
        session="s1",
        digest=digest,
        status=status,
        decision=decision or ANSWERS.get(status),
    )


def a_memory(decision: ApprovalDecision, uses_left: int | None = None) -> Remembered:
    return Remembered(
        id="m1",
        tool="pay",
        scope=Scope(kind="call", key="k", label="this call"),
        decision=decision,
        session=None,
        remembered_at=0.0,
        uses_left=uses_left,
    )


REQUESTS = [None, *(a_request(status, digest) for status in STATUSES for digest in (DIGEST, "another"))]
YES = a_memory(ApprovalDecision(approved=True, remember="always", who="ann"))
NO = a_memory(ApprovalDecision(approved=False, remember="always", who="bob", note="never"))
EDITING_YES = a_memory(ApprovalDecision(approved=True, remember="always", override_args=EDITED))
MEMORIES: list[tuple[Remembered | None, Verdict | None]] = [
    (None, None),
    (YES, None),
    (NO, None),
    (EDITING_YES, None),
    (EDITING_YES, Verdict(approval="required", reason="asks")),
    (EDITING_YES, BLOCKED),
]


def outcome_of(outcome: Approved | Denied | Pending | Ask) -> tuple[str, str]:
    """An outcome in two words: what, and by whom or why."""
    match outcome:
        case Approved(by=by):
            return "approved", by
        case Denied(cause=cause):
            return "denied", cause
        case Pending():
            return "ask", "again"
        case Ask():
            return "ask", "first"


def expected(
    verdict: Verdict,
    mode: Mode,
    request: ApprovalRequest | None,
    memory: tuple[Remembered | None, Verdict | None],
    *,
    asked: bool,
) -> tuple[str, str]:
    """The design's order, written down a second time: blocked, own answer, none, remembered and mode, ask."""
    remembered, edited = memory
    if verdict.approval == "blocked":
        return "denied", "blocked"
    if request is not None:
        if request.digest != DIGEST and request.status in {"open", "approved"}:
            return "denied", "changed"
        by_status = {
            "open": ("ask", "again"),
            "approved": ("approved", "answer"),
            "denied": ("denied", "refused"),
            "expired": ("denied", "expired"),
            "withdrawn": ("denied", "withdrawn"),
            "used": ("denied", "replayed"),
        }
        blocked_edit = request.status == "approved" and edited is BLOCKED
        return ("denied", "blocked") if blocked_edit else by_status[request.status]
    if verdict.approval == "none":
        return "approved", "policy"
    if asked:
        return "denied", "forged"
    if remembered is NO or mode == "auto_deny":
        return "denied", "refused"
    if remembered is not None and verdict.remember:
        return ("denied", "blocked") if edited is BLOCKED else ("approved", "memory")
    return ("approved", "mode") if mode == "approve_all" else ("ask", "first")


@pytest.mark.proves("R28", "R54", "R9", "R10", "H1", "H2", "H3")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("approval", APPROVALS)
def test_every_combination_is_decided_as_the_design_says(approval: Approval, mode: Mode) -> None:
    table = itertools.product(REQUESTS, MEMORIES, (False, True), (False, True))
    for request, memory, asked, may_remember in table:
        verdict = Verdict(approval=approval, reason="so", remember=may_remember)
        remembered, edited = memory
        found = decide(
            call=CALL,
            verdict=verdict,
            mode=mode,
            request=request,
            digest=DIGEST,
            edited=edited,
            remembered=remembered,
            asked=asked,
        )
        wanted = expected(verdict, mode, request, memory, asked=asked)
        assert outcome_of(found) == wanted, (request, memory, asked, may_remember)


# What each outcome carries.


@pytest.mark.proves("R11", "R64", "H2")
@pytest.mark.parametrize(("edit", "args"), [(None, CALL.args), (EDITED, EDITED), ({}, {})])
def test_an_approval_carries_the_arguments_that_were_approved(edit: dict[str, int] | None, args: object) -> None:
    answer = ApprovalDecision(approved=True, who="ann", override_args=edit)
    verdict = Verdict(approval="required", reason="so")
    own = decide(call=CALL, verdict=verdict, request=a_request("approved", decision=answer), digest=DIGEST)
    memory = a_memory(replace(answer, remember="always"))
    remembered = decide(call=CALL, verdict=verdict, remembered=memory)
    assert isinstance(own, Approved)
    assert isinstance(remembered, Approved)
    assert (own.args, own.request_id, own.decision, own.reason) == (args, "r1", answer, "approved by ann")
    assert (remembered.args, remembered.remembered, remembered.request_id) == (args, memory, None)


@pytest.mark.proves("R12", "H12")
def test_a_refusal_says_who_and_carries_their_note() -> None:
    verdict = Verdict(approval="required", reason="so")
    own = decide(call=CALL, verdict=verdict, request=a_request("denied"), digest=DIGEST)
    remembered = decide(call=CALL, verdict=verdict, remembered=NO)
    assert own == Denied(cause="refused", reason="refused by bob", note="not today", request_id="r1")
    reason = "refused by bob, who had it remembered"
    assert remembered == Denied(cause="refused", reason=reason, note="never", by="memory")


@pytest.mark.proves("R57", "H5")
def test_a_block_names_the_reason_of_the_rule() -> None:
    outcome = decide(call=CALL, verdict=BLOCKED, mode="approve_all", remembered=YES)
    assert outcome == Denied(cause="blocked", reason="blocked by policy: too much")


@pytest.mark.proves("H5")
def test_expired_withdrawn_and_refused_are_told_apart() -> None:
    verdict = Verdict(approval="required", reason="so")
    closed: tuple[Status, ...] = ("denied", "expired", "withdrawn")
    outcomes = [decide(call=CALL, verdict=verdict, request=a_request(each), digest=DIGEST) for each in closed]
    assert [outcome_of(each)[1] for each in outcomes] == ["refused", "expired", "withdrawn"]
    assert len({each.reason for each in outcomes if isinstance(each, Denied)}) == 3


@pytest.mark.proves("H5")
@pytest.mark.parametrize("decision", [None, ApprovalDecision(approved=False)], ids=["no decision", "a no"])
def test_a_row_that_says_approved_without_a_yes_in_it_approves_nothing(decision: ApprovalDecision | None) -> None:
    """No step of the table makes such a row; whoever wrote it was not a person at the door."""
    row = replace(a_request("approved"), decision=decision)
    outcome = decide(call=CALL, verdict=Verdict(approval="required", reason="so"), request=row, digest=DIGEST)
    assert not isinstance(outcome, Approved)


# Invariants, over everything that can be put in.

VERDICTS = st.builds(Verdict, approval=st.sampled_from(APPROVALS), reason=st.just("so"), remember=st.booleans())
DECISIONS = st.builds(
    ApprovalDecision,
    approved=st.booleans(),
    override_args=st.sampled_from([None, EDITED, {}]),
    remember=st.just("always"),
)
ANY_REQUEST = st.none() | st.builds(
    a_request, st.sampled_from(STATUSES), st.sampled_from([DIGEST, "another", ""]), st.none() | DECISIONS
)
ANY_MEMORY = st.none() | st.builds(a_memory, DECISIONS)
ANY_EDIT = st.none() | VERDICTS
ANYTHING = {
    "verdict": VERDICTS,
    "mode": st.sampled_from(MODES),
    "request": ANY_REQUEST,
    "edited": ANY_EDIT,
    "remembered": ANY_MEMORY,
    "asked": st.booleans(),
}
everything = settings(deadline=None, max_examples=150)


class Situation:
    """What goes into a decision, and what came out."""

    def __init__(
        self,
        *,
        verdict: Verdict,
        mode: Mode,
        request: ApprovalRequest | None,
        edited: Verdict | None,
        remembered: Remembered | None,
        asked: bool,
    ) -> None:
        self.verdict, self.request = verdict, request
        self.mode: Mode = mode
        self.remembered, self.asked = remembered, asked
        self.outcome = decide(
            call=CALL,
            verdict=verdict,
            mode=mode,
            request=request,
            digest=DIGEST,
            edited=edited,
            remembered=remembered,
            asked=asked,
        )

    @property
    def was_answered_yes(self) -> bool:
        return self.request is not None and (self.request.status, self.request.digest) == ("approved", DIGEST)


SITUATIONS = st.builds(Situation, **ANYTHING)


@pytest.mark.proves("H1")
@everything
@given(SITUATIONS)
def test_what_is_blocked_is_never_approved_nor_asked_in_any_mode(each: Situation) -> None:
    if each.verdict.approval == "blocked":
        assert outcome_of(each.outcome) == ("denied", "blocked")


@pytest.mark.proves("H2", "H3")
@everything
@given(SITUATIONS)
def test_what_is_approved_has_a_reason_to_be(each: Situation) -> None:
    if isinstance(each.outcome, Approved):
        reasons = {
            "policy": each.verdict.approval == "none" and each.request is None,
            "answer": each.was_answered_yes,
            "memory": each.remembered is not None and each.remembered.decision.approved and each.verdict.remember,
            "mode": each.mode == "approve_all" and each.verdict.asks,
        }
        assert reasons[each.outcome.by]


@pytest.mark.proves("H2")
@everything
@given(SITUATIONS, VERDICTS)
def test_a_refusal_stands_whatever_the_rules_become(each: Situation, loosened: Verdict) -> None:
    for status in ("denied", "expired", "withdrawn", "used"):
        outcome = decide(
            call=CALL,
            verdict=loosened,
            mode=each.mode,
            request=a_request(status),
            digest=DIGEST,
            remembered=each.remembered,
            asked=each.asked,
        )
        assert isinstance(outcome, Denied)


@pytest.mark.proves("R9", "R54")
@everything
@given(SITUATIONS)
def test_auto_deny_approves_nothing_that_asks_unless_this_very_request_was_answered(each: Situation) -> None:
    if each.mode == "auto_deny" and each.verdict.asks and isinstance(each.outcome, Approved):
        assert each.outcome.by == "answer"
        assert each.was_answered_yes


@pytest.mark.proves("R28")
@everything
@given(SITUATIONS)
def test_a_remembered_no_beats_every_mode(each: Situation) -> None:
    said_no = each.remembered is not None and not each.remembered.decision.approved
    if said_no and each.verdict.asks and each.request is None:
        assert isinstance(each.outcome, Denied)


@pytest.mark.proves("H9")
@everything
@given(SITUATIONS)
def test_a_rule_that_always_asks_cannot_be_out_remembered(each: Situation) -> None:
    if not each.verdict.remember and isinstance(each.outcome, Approved):
        assert each.outcome.by != "memory"


@pytest.mark.proves("H3")
@everything
@given(SITUATIONS)
def test_a_claim_to_have_been_asked_before_is_not_believed_without_a_request(each: Situation) -> None:
    if each.asked and each.request is None and each.verdict.asks:
        assert outcome_of(each.outcome) == ("denied", "forged")


@pytest.mark.proves("H2")
@everything
@given(SITUATIONS)
def test_an_answer_to_other_arguments_never_counts(each: Situation) -> None:
    if each.request is not None and each.request.digest != DIGEST:
        assert outcome_of(each.outcome)[0] == "denied"


@pytest.mark.parametrize("status", STATUSES)
def test_an_answer_to_another_call_of_the_same_id_is_told_as_that(status: Status) -> None:
    """What was answered is nobody's business who asks about something else."""
    other = a_request(status, "another")
    verdict = Verdict(approval="required", reason="so")
    call = ToolCall(tool="pay", args={"amount": 6}, call_id=CALL.call_id)
    assert outcome_of(decide(call=call, verdict=verdict, request=other, digest=DIGEST)) == ("denied", "changed")


@pytest.mark.proves("R64", "H1")
@everything
@given(SITUATIONS)
def test_edited_arguments_that_are_blocked_never_run(each: Situation) -> None:
    remembered = each.remembered or YES
    request = each.request or a_request("approved")
    verdict = Verdict(approval="required", reason="so")
    for outcome in (
        decide(call=CALL, verdict=verdict, mode=each.mode, remembered=remembered, edited=BLOCKED),
        decide(call=CALL, verdict=verdict, mode=each.mode, request=request, digest=DIGEST, edited=BLOCKED),
    ):
        assert not isinstance(outcome, Approved)


# Modes.


@pytest.mark.proves("R27", "R54")
@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("interactive", "interactive"),
        ("prompt", "interactive"),
        ("approve_all", "approve_all"),
        ("auto_approve", "approve_all"),
        ("auto_deny", "auto_deny"),
        ("strict", "auto_deny"),
        ("reject_all", "auto_deny"),
        ("defer", "defer"),
    ],
)
def test_every_name_of_a_mode_is_understood(word: str, mode: Mode) -> None:
    assert parse_mode(word) == mode


@pytest.mark.proves("H5")
@pytest.mark.parametrize("word", ["yolo", "", "INTERACTIVE", "none", "approve"])
def test_an_unknown_mode_is_a_configuration_error_that_lists_the_known_ones(word: str) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown mode .*'interactive'.*'approve_all'.*'auto_deny'.*'defer'"):
        parse_mode(word)


# The states of a request.


@pytest.mark.proves("H3")
def test_the_transitions_are_exactly_those_of_the_design() -> None:
    assert {status: set(after) for status, after in TRANSITIONS.items()} == {
        "open": {"approved", "denied", "expired", "withdrawn"},
        "approved": {"used"},
        "denied": set(),
        "expired": set(),
        "withdrawn": set(),
        "used": set(),
    }
    assert set(TRANSITIONS) == set(STATUSES)


YES_ANSWER = ApprovalDecision(approved=True, who="ann")


@pytest.mark.proves("H6")
@pytest.mark.parametrize("before", STATUSES)
@pytest.mark.parametrize("after", STATUSES)
def test_closing_follows_the_table_and_an_illegal_step_changes_nothing(before: Status, after: Status) -> None:
    request = a_request(before)
    closed = close(request, after, YES_ANSWER, now=1.0)
    if before == "open" and after == "expired":
        assert closed == replace(request, status=after, decision=YES_ANSWER, expires_at=1.0)
    elif before == "open" and after in {"approved", "denied", "withdrawn"}:
        assert closed == replace(request, status=after, decision=YES_ANSWER)
    else:
        assert closed is request


@pytest.mark.proves("H6")
@pytest.mark.parametrize("status", ["approved", "denied", "withdrawn", "expired"])
@pytest.mark.parametrize(
    ("now", "late"), [(9.999, False), (10.0, True), (11.0, True)], ids=["in time", "on the dot", "late"]
)
def test_an_answer_when_the_time_is_up_finds_the_request_expired(status: Status, now: float, late: bool) -> None:
    request = replace(a_request("open"), expires_at=10.0)
    assert is_overdue(request, now) is late
    closed = close(request, status, YES_ANSWER, now)
    assert (closed.status, closed.decision) == (("expired", None) if late else (status, YES_ANSWER))


def test_only_an_open_request_can_be_overdue() -> None:
    for status in STATUSES:
        assert is_overdue(replace(a_request(status), expires_at=1.0), 2.0) is (status == "open")
    assert not is_overdue(a_request("open"), 1e12)


@pytest.mark.proves("H3")
@pytest.mark.parametrize("status", STATUSES)
def test_only_an_approval_can_be_claimed(status: Status) -> None:
    request = a_request(status)
    claimed = claim(request, now=7.0)
    if status == "approved":
        assert claimed == replace(request, status="used", used_at=7.0)
        assert claimed is not None
        assert claim(claimed, now=8.0) is None
    else:
        assert claimed is None


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("result", get_args(Result))
def test_only_a_used_request_takes_a_result_and_only_the_first(status: Status, result: Result) -> None:
    request = a_request(status)
    finished = finish(request, result)
    if status != "used":
        assert finished is request
        return
    assert finished == replace(request, result=result)
    for second in get_args(Result):
        assert finish(finished, second) is finished


@pytest.mark.proves("H9")
def test_a_counted_decision_is_spent_one_by_one_and_an_uncounted_one_never() -> None:
    counted = a_memory(YES.decision, uses_left=2)
    once = spend(counted)
    assert once == replace(counted, uses_left=1)
    twice = spend(once)
    assert twice == replace(counted, uses_left=0)
    assert spend(twice) is None
    assert spend(a_memory(YES.decision)) is None
    assert spend(None) is None


class LifeOfARequest(RuleBasedStateMachine):
    """Everybody answers, claims and reports at any time, in any order, while the clock goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.request = replace(a_request("open"), expires_at=10.0)
        self.history: list[Status] = ["open"]
        self.uses = 0

    def becomes(self, request: ApprovalRequest) -> None:
        if request.status != self.history[-1]:
            self.history.append(request.status)
        self.request = request

    @rule(seconds=st.sampled_from([0.5, 4.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(status=st.sampled_from(STATUSES), decision=st.none() | st.builds(ApprovalDecision, approved=st.booleans()))
    def somebody_closes_it(self, status: Status, decision: ApprovalDecision | None) -> None:
        before, due = self.request, is_overdue(self.request, self.now)
        self.becomes(close(before, status, decision, self.now))
        if due and self.request is not before:
            assert (self.request.status, self.request.decision) == ("expired", None)
        if before.status != "open":
            assert self.request is before

    @rule()
    def somebody_claims_it(self) -> None:
        claimed = claim(self.request, self.now)
        if claimed is not None:
            self.uses += 1
            self.becomes(claimed)

    @rule(result=st.sampled_from(get_args(Result)))
    def somebody_reports_a_result(self, result: Result) -> None:
        before = self.request
        self.becomes(finish(before, result))
        assert before.result in {None, self.request.result}

    @precondition(lambda self: self.now >= 10.0)
    @rule()
    def a_late_yes_approves_nothing(self) -> None:
        was_open = self.request.status == "open"
        self.becomes(close(self.request, "approved", YES_ANSWER, self.now))
        assert not was_open or self.request.status == "expired"

    @invariant()
    def it_only_ever_takes_steps_of_the_table(self) -> None:
        for before, after in itertools.pairwise(self.history):
            assert after in TRANSITIONS[before]

    @invariant()
    def it_is_used_at_most_once_and_only_when_approved(self) -> None:
        assert self.uses <= 1
        assert ("used" in self.history) == (self.uses == 1)
        if "used" in self.history:
            assert self.history == ["open", "approved", "used"]

    @invariant()
    def a_result_comes_only_of_use(self) -> None:
        assert self.request.result is None or self.request.status == "used"


@pytest.mark.proves("H3", "H6")
class TestTheLifeOfARequest(LifeOfARequest.TestCase):
    settings = settings(deadline=None, max_examples=60, stateful_step_count=30)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("approvers", [Approvers(count=2), Approvers(roles=("ops",))])
def test_no_answer_mode_or_memory_passes_for_approvers_that_nobody_can_check(approvers: Approvers) -> None:
    call = ToolCall(tool="pay", args={"amount": 5}, call_id="c", session="s")
    verdict = Verdict(approval="required", reason="asks", approvers=approvers)
    yes = ApprovalDecision(approved=True, who="ann")
    request = ApprovalRequest(
        tool_name="pay", args=call.args, tool_call_id="c", id="r", digest=call.digest(), status="approved", decision=yes
    )
    answered = decide(call=call, verdict=verdict, request=request, digest=call.digest())
    by_mode = decide(call=call, verdict=verdict, mode="approve_all")
    assert isinstance(answered, Denied)
    assert isinstance(by_mode, Denied)
    assert (answered.cause, by_mode.cause) == ("changed", "blocked")
    remembered = Remembered(
        id="m",
        tool="pay",
        scope=Scope(kind="tool", key="tool:pay", label="pay"),
        decision=yes,
        session=None,
        remembered_at=0.0,
    )
    assert isinstance(decide(call=call, verdict=verdict, remembered=remembered), Ask)
