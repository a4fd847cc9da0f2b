"""The filter of requests: what each criterion means, and that a period reads no more of a store than it has to."""

from typing import Any

import pytest
from msgspec.structs import replace

from sayso.core.filters import RequestFilter, StatusFilter, candidates, filter_line, parse_filter
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.stores.memory import MemoryStore
from sayso.testing.samples import sample_remembered, sample_request

DAY = 86_400.0
NOW = 1_800_000_000.0


def asked(at: float = NOW, **facts: Any) -> ApprovalRequest:
    """Return a request of that time; its id begins with the time, as ids do."""
    request = sample_request(asked_at=at)
    return replace(request, id=f"{int(at * 1000):012x}{request.id[12:]}", **facts)


def yes(who: str, **facts: Any) -> ApprovalDecision:
    return ApprovalDecision(approved=True, who=who, **facts)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("pay", "pay", True),
        ("PAY", "pay", True),
        ("pay", "payee", False),
        ("pay*", "payee", True),
        ("*ee", "payee", True),
        ("p*y*e", "payee", True),
        ("*", "payee", True),
        ("pay*pay", "pay", False),  # one text cannot be start and end at once
        ("pay*", "pay", True),
        ("a*b*c", "acb", False),
        ("[p]ay", "pay", False),
        ("file[w]", "file[w]", True),
        ("*a" * 200 + "*b", "a" * 500, False),  # at once: no step is tried twice
    ],
)
def test_a_name_is_meant_whole_unless_a_star_stands_for_the_rest(pattern: str, name: str, fits: bool) -> None:
    assert RequestFilter(tool=pattern).matches(asked(tool_name=name), NOW) is fits
    assert RequestFilter(agent=pattern).matches(asked(agent_path=("root", name)), NOW) is fits


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (RequestFilter(), True),
        (RequestFilter(text="Ann INVOICE"), True),
        (RequestFilter(text="ann nobody"), False),
        (RequestFilter(text="amount"), True),
        (RequestFilter(text="4711"), True),
        (RequestFilter(text="weekend"), True),  # the note of the answer
        (RequestFilter(text="edited-to"), True),
        (RequestFilter(who="BOB"), True),
        (RequestFilter(who="cem"), True),  # one of several who said yes
        (RequestFilter(who="dora"), False),
        (RequestFilter(agent="hub-name"), True),
        (RequestFilter(status="approved"), True),
        (RequestFilter(status="denied"), False),
        (RequestFilter(status="pending"), False),
        (RequestFilter(since=NOW), True),
        (RequestFilter(since=NOW + 1), False),
        (RequestFilter(until=NOW), False),
        (RequestFilter(until=NOW + 1), True),
        (RequestFilter(tool="pay", agent="payer", text="ann", who="bob", since=NOW, until=NOW + 1), True),
        (RequestFilter(tool="pay", agent="other", text="ann", who="bob"), False),
    ],
)
def test_every_criterion_that_is_given_has_to_hold(wanted: RequestFilter, fits: bool) -> None:
    request = asked(
        args={"amount": 4711, "lines": [{"to": "ann", "what": "invoice"}]},
        agent_path=("report", "payer"),
        asked_by="hub-name",
        status="approved",
        votes=(yes("cem"),),
        decision=yes("bob", note="before the weekend", override_args={"to": "edited-to"}),
    )
    assert wanted.matches(request, NOW) is fits


def test_a_request_past_its_expiry_does_not_wait_any_more() -> None:
    late = asked(expires_at=NOW)
    for status in ("pending", "open"):
        assert RequestFilter(status=status).matches(late, NOW - 1)
        assert not RequestFilter(status=status).matches(late, NOW)
    assert RequestFilter().matches(late, NOW)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (RequestFilter(tool="p*"), True),
        (RequestFilter(text="this CALL"), True),
        (RequestFilter(text="invoice"), True),  # of the request that was answered
        (RequestFilter(text="refund"), False),
        (RequestFilter(who="Ann"), True),
        (RequestFilter(who="bob"), False),
        (RequestFilter(agent="payer"), True),
        (RequestFilter(since=NOW + 1), False),
    ],
)
def test_a_remembered_decision_is_found_by_its_own_facts_and_by_its_request(wanted: RequestFilter, fits: bool) -> None:
    kept = replace(sample_remembered(), decision=yes("ann"), remembered_at=NOW)
    request = asked(args={"what": "invoice"}, agent_path=("payer",))
    assert wanted.matches_remembered(kept, request) is fits
    assert RequestFilter(agent="payer").matches_remembered(kept, None) is False, "nobody knows who asked"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", RequestFilter()),
        ("tool:pay", RequestFilter(tool="pay")),
        ("Agent:coder  rm -rf", RequestFilter(agent="coder", text="rm -rf")),
        ("https://x.example", RequestFilter(text="https://x.example")),
        ("tool:", RequestFilter()),  # still being typed
    ],
)
def test_a_line_of_words_is_a_filter_and_can_be_written_again(line: str, wanted: RequestFilter) -> None:
    assert parse_filter(line) == wanted
    assert parse_filter(filter_line(wanted)) == wanted


class Counting(MemoryStore):
    """A store that counts the requests that were read from it."""

    reads = 0

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        found = await super().recent(limit, part, before)
        self.reads += len(found)
        return found


@pytest.mark.parametrize("skew", [-0.9 * DAY, 0.0, 0.9 * DAY])
async def test_a_period_is_found_by_the_ids_even_if_clocks_differ_by_most_of_a_day(skew: float) -> None:
    store = Counting()
    days = [await store.open(replace(asked(NOW + day * DAY), asked_at=NOW + day * DAY + skew)) for day in range(500)]
    wanted = RequestFilter(since=NOW + 100 * DAY + skew, until=NOW + 102 * DAY + skew)
    found = [each async for batch in candidates(store, wanted) for each in batch if wanted.matches(each, NOW)]
    assert found == [days[101], days[100]]
    assert store.reads <= 200, "it began at the end of the period, and went no further than its start"


@pytest.mark.parametrize("status", ["all", "pending"])
@pytest.mark.parametrize("skew", [-0.9 * DAY, 0.9 * DAY])
async def test_no_end_of_a_period_is_lost_between_two_reads(status: StatusFilter, skew: float) -> None:
    store, pause = MemoryStore(), 300.0
    asked_at = [NOW + number * pause for number in range(900)]
    for at in asked_at:
        await store.open(replace(asked(at), asked_at=at + skew))
    wanted = RequestFilter(status=status, since=asked_at[300] + skew, until=asked_at[600] + skew)
    found = [each async for batch in candidates(store, wanted) for each in batch if wanted.matches(each, NOW)]
    assert sorted(each.asked_at - skew for each in found) == asked_at[300:600]


async def test_what_waits_is_read_in_the_order_of_arrival_within_the_period() -> None:
    store = MemoryStore()
    days = [await store.open(asked(NOW + day * DAY)) for day in range(250)]
    wanted = RequestFilter(status="pending", since=NOW + 10 * DAY, until=NOW + 240 * DAY)
    found = [each async for batch in candidates(store, wanted) for each in batch if wanted.matches(each, NOW)]
    assert found == days[10:240]
    rest = [each async for batch in candidates(store, wanted, days[200].id) for each in batch]
    assert rest[0] == days[201]
