"""Checks the history of a whole run, request by request, against the one thing that a request may do.

Two looks at the same operations. The rules name what must never be, each in a sentence. The search asks whether there
is any order of the operations, each at one moment between its begin and its end, that a single request could have
gone through; an operation whose outcome nobody heard may have happened at any moment from its begin on, or never. A
client that hears nothing sends its operation again, so what it heard at last may tell of more than its own doing.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

import msgspec
from tests.faults.history import Event, Kind, Word

SLACK = 0.5  # seconds by which what the database calls now may differ from what this machine does


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it stood in the end."""

    id: str
    call: str
    word: Word
    asked: str  # the arguments that were asked about
    expires_at: float = math.inf


class Final(msgspec.Struct, frozen=True, kw_only=True):
    """What the store had in the end."""

    rows: Sequence[Row]
    audit: Sequence[tuple[str, str]] = ()  # step and request, in order
    clock: float = 0.0  # what the machine's clock shows when the monotonic one shows zero


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a process did to a request."""

    process: str
    kind: Kind
    began: float
    ended: float = math.inf  # for ever, if nobody heard the outcome
    meant: Word | None = None
    found: Word | None = None
    taken: bool | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.ended < math.inf

    @property
    def is_yes(self) -> bool:
        return self.kind == "close" and self.meant is not None and self.meant.status == "approved"


class State(msgspec.Struct, frozen=True):
    """A request, and who has used up its approval."""

    word: Word | None = None
    claimed_by: str = ""
    ran: bool = False


def check(events: Iterable[Event], final: Final) -> list[str]:
    """Return everything that is wrong with a run, each in a sentence."""
    found: list[str] = []
    rows, ids = {row.call: row for row in final.rows}, {row.id: row.call for row in final.rows}
    if len(rows) < len(final.rows):
        found.append("a call has two requests")
    for call, operations in _by_call(events, ids).items():
        row = rows.get(call)
        if row is None:
            found += _without_row(call, operations)
            continue
        problems = [*_rules(operations, row, final.clock), *_audited(operations, row, final.audit)]
        if not problems and not _is_possible(operations, row):
            problems = ["no order of its operations explains what each of them found"]
        found += [f"{call}: {problem}" for problem in problems]
    return found


def _by_call(events: Iterable[Event], ids: Mapping[str, str]) -> dict[str, list[Operation]]:
    """Put the two halves of each operation together."""
    begun: dict[tuple[str, int], Event] = {}
    ended: dict[tuple[str, int], Event] = {}
    for event in (each for each in events if each.kind != "ready"):
        (begun if event.step == "invoked" else ended)[event.process, event.number] = event
    found: dict[str, list[Operation]] = defaultdict(list)
    for key in begun.keys() | ended.keys():
        last = ended.get(key) or begun[key]
        call = last.call or ids.get(last.request, last.request)
        found[call].append(
            Operation(
                process=last.process,
                kind=last.kind,
                began=begun.get(key, last).at,
                ended=last.at if last.step == "returned" else math.inf,
                meant=last.meant,
                found=last.found,
                taken=last.taken,
            )
        )
    return {call: sorted(operations, key=lambda each: each.began) for call, operations in found.items()}


def _without_row(call: str, operations: Iterable[Operation]) -> Iterator[str]:
    for each in operations:
        if each.kind == "run":
            yield f"{call}: ran, and the store knows nothing of it"
        elif each.is_acknowledged and each.kind != "refused":
            yield f"{call}: its {each.kind} was acknowledged, and is lost"


# The rules.


def _rules(operations: Sequence[Operation], row: Row, clock: float) -> Iterator[str]:
    runs = [each for each in operations if each.kind == "run"]
    if len(runs) > 1:
        yield f"ran {len(runs)} times"
    for run in runs:
        yield from _run_rules(run, operations, row)
    for each in operations:
        if each.kind == "close" and each.found is not None:
            yield from _answer_rules(each, row, clock)


def _run_rules(run: Operation, operations: Iterable[Operation], row: Row) -> Iterator[str]:
    before = [each for each in operations if each.began < run.began]
    if not any(each.is_yes for each in before):
        yield "ran without anybody having begun to say yes"
    claims = [each for each in before if each.kind == "claim" and each.taken and each.ended <= run.began]
    if run.process not in {each.process for each in claims}:
        yield "ran without having claimed the approval"
    if any(each.kind == "refused" and each.process == run.process for each in before):
        yield "ran after it was refused"
    if row.word.status != "used":
        yield f"ran, although it is {row.word.status}"
    elif run.meant is not None and run.meant.args != (row.word.args or row.asked):
        yield f"ran with {run.meant.args}, and approved was {row.word.args or row.asked}"


def _answer_rules(each: Operation, row: Row, clock: float) -> Iterator[str]:
    if each.found is None or each.found.status == "open":
        return
    if _closed(each.found) != _closed(row.word):
        yield f"acknowledged was {each.found}, and it is {row.word}"
    if each.found.status == "expired" and each.ended + clock < row.expires_at - SLACK:
        yield "expired before its time"
    is_taken = each.meant is not None and each.found == each.meant and each.found.status in {"approved", "denied"}
    if is_taken and each.began + clock > row.expires_at + SLACK:
        yield "an answer was taken after its time"


def _closed(word: Word) -> Word:
    """Return how a request was closed, used or not."""
    return Word("approved", word.who, word.args) if word.status == "used" else word


_CLOSES = {"approved", "denied", "expired", "withdrawn"}


def _audited(operations: Iterable[Operation], row: Row, audit: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Compare what is written down of a request with what it is and what was done."""
    steps = [step for step, request in audit if request == row.id]
    wanted = ["asked"]
    if row.word.status != "open":
        wanted.append(_closed(row.word).status)
    if row.word.status == "used":
        wanted.append("claimed")
    told = [step for step in steps if step in _CLOSES | {"asked", "claimed"}]
    if told != wanted:
        yield f"its audit says {told}, and it is {row.word.status}"
    if steps.count("returned") > len([each for each in operations if each.kind == "run"]):
        yield "its audit says that it returned, and it never ran"


# The search.


def _is_possible(operations: Sequence[Operation], row: Row) -> bool:
    """Whether one request can have gone through all this, in an order that the times allow."""
    known = [each for each in operations if each.kind != "refused"]
    known += [_unheard(each) for each in known if each.found not in {None, each.meant, Word("open")}]
    needed = frozenset(i for i, each in enumerate(known) if each.is_acknowledged or each.kind == "run")

    @cache
    def leads_on(left: frozenset[int], state: State) -> bool:
        if not left & needed and state.word == row.word:
            return True
        first_end = min((known[i].ended for i in left & needed), default=math.inf)
        return any(
            leads_on(left - {i}, after)
            for i in left
            if known[i].began <= first_end
            for after in _after(state, known[i], row)
        )

    return leads_on(frozenset(range(len(known))), State())


def _unheard(operation: Operation) -> Operation:
    """Return the first try of an operation that found what came later; behind the second, it changes nothing."""
    return msgspec.structs.replace(operation, ended=math.inf, found=None)


def _after(state: State, operation: Operation, row: Row) -> Iterator[State]:
    """Yield what a request can be after an operation that found what this one found."""
    word = state.word
    match operation.kind:
        case "open":
            yield from _found(operation, state, [word or Word("open")])
        case "close" if word is not None and operation.meant is not None:
            yield from _found(operation, state, [operation.meant, Word("expired")] if word.status == "open" else [word])
        case "claim" if word is not None:
            can = word.status == "approved"
            if can and operation.taken is not False:
                yield State(Word("used", word.who, word.args), operation.process)
            elif not can and not operation.taken:
                yield state
        case "run" if word is not None and operation.meant is not None:
            is_own = state.claimed_by == operation.process and not state.ran
            if is_own and operation.meant.args == (word.args or row.asked):
                yield State(word, state.claimed_by, ran=True)
        case _:
            return


def _found(operation: Operation, state: State, words: Iterable[Word]) -> Iterator[State]:
    for word in words:
        if operation.found in {None, word}:
            yield State(word, state.claimed_by, state.ran)
