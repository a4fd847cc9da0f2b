"""The checker itself: it passes what can happen, and finds each thing that must not."""

import itertools
import math
from typing import Any

import pytest
from tests.faults.checker import Final, Row, check
from tests.faults.history import Event, Kind, Word

ASKED, EDITED = '{"amount":1}', '{"amount":2}'
OPEN, YES, NO = Word("open"), Word("approved", "ann"), Word("denied", "ben")
USED, CHANGED = Word("used", "ann"), Word("approved", "ann", EDITED)


class Story:
    """A made-up history of one request, whose every step comes a second after the last."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._times = itertools.count(1.0)
        self._numbers = itertools.count()

    def begin(self, process: str, kind: Kind, **facts: Any) -> Event:
        facts = {"call": "c", **facts}
        event = Event(
            at=next(self._times),
            process=process,
            number=next(self._numbers),
            step="invoked",
            kind=kind,
            **facts,
        )
        self.events.append(event)
        return event

    def end(self, begun: Event, **facts: Any) -> None:
        kept = {"process": begun.process, "number": begun.number, "kind": begun.kind, "call": begun.call}
        step = facts.pop("step", "returned")
        self.events.append(Event(at=next(self._times), step=step, meant=begun.meant, **kept, **facts))

    def do(self, process: str, kind: Kind, *, meant: Word | None = None, **result: Any) -> None:
        self.end(self.begin(process, kind, meant=meant), **result)

    def run(self, process: str = "agent", args: str = ASKED) -> None:
        self.do(process, "run", meant=Word("used", args=args))

    def told(self, word: Word = USED, *steps: str, **facts: Any) -> list[str]:
        """Return what is wrong, with that as what the store has in the end."""
        row = Row(id="1", call="c", word=word, asked=ASKED, **facts)
        closed = {"used": ["approved", "claimed"], "open": []}.get(word.status, [word.status])
        audit = [(step, "1") for step in steps or ("asked", *closed)]
        return check(self.events, Final(rows=[row], audit=audit))


def approved(meant: Word = YES) -> Story:
    """Return a story in which ann has said yes."""
    story = Story()
    story.do("agent", "open", found=OPEN)
    story.do("ann", "close", meant=meant, found=meant)
    return story


def claimed(meant: Word = YES) -> Story:
    story = approved(meant)
    story.do("agent", "claim", taken=True)
    return story


# What can happen.


def test_a_call_that_is_asked_approved_claimed_and_run_is_fine() -> None:
    story = claimed()
    story.run()
    story.do("late", "close", meant=NO, found=USED)
    assert story.told(USED, "asked", "approved", "claimed", "returned") == []


def test_edited_arguments_that_run_as_edited_are_fine() -> None:
    story = claimed(CHANGED)
    story.run(args=EDITED)
    assert story.told(Word("used", "ann", EDITED)) == []


def test_an_answer_whose_outcome_nobody_heard_may_stand_or_not() -> None:
    for word in (OPEN, YES):
        story = Story()
        story.do("agent", "open", found=OPEN)
        story.do("ann", "close", meant=YES, step="failed", said="Away")
        assert story.told(word) == []


def test_of_two_answers_at_once_either_may_be_taken() -> None:
    for word in (YES, NO):
        story = Story()
        story.do("agent", "open", found=OPEN)
        ann, ben = story.begin("ann", "close", meant=YES), story.begin("ben", "close", meant=NO)
        story.end(ann, found=word)
        story.end(ben, found=word)
        assert story.told(word) == []


def test_what_a_client_sent_twice_may_be_older_than_what_the_second_answer_says() -> None:
    """The first answer died with a hub, and before the second try another hub went on."""
    asked = Story()
    opening = asked.begin("agent", "open")
    asked.do("ann", "close", meant=YES, found=YES)
    asked.end(opening, found=YES)
    assert asked.told(YES) == []
    answered = Story()
    answered.do("agent", "open", found=OPEN)
    answering = answered.begin("ann", "close", meant=YES)
    answered.do("agent", "claim", taken=True)
    answered.run()
    answered.end(answering, found=USED)
    assert answered.told() == []


def test_an_agent_that_was_killed_after_its_claim_is_fine() -> None:
    story = approved()
    story.begin("agent", "claim")
    story.do("next", "claim", taken=False)
    story.do("next", "refused")
    assert story.told(USED) == []


# What must not.


def one(problems: list[str]) -> str:
    assert len(problems) == 1, problems
    return problems[0]


def test_a_call_that_ran_without_an_answer_is_found() -> None:
    story = Story()
    story.do("agent", "open", found=OPEN)
    story.do("agent", "claim", taken=True)
    story.run()
    story.do("ann", "close", meant=YES, found=USED)
    assert "ran without anybody having begun to say yes" in one(story.told())


def test_a_call_that_ran_twice_is_found_whoever_ran_it() -> None:
    for second in ("agent", "other"):
        story = claimed()
        story.do(second, "claim", step="failed")
        story.run()
        story.run(second)
        assert "c: ran 2 times" in story.told()


def test_a_call_that_was_killed_in_the_middle_and_ran_again_is_found() -> None:
    story = claimed()
    story.begin("agent", "run", meant=Word("used", args=ASKED))
    story.run("agent")
    assert "c: ran 2 times" in story.told()


def test_two_claims_that_were_both_told_yes_are_found() -> None:
    story = claimed()
    story.do("other", "claim", taken=True)
    assert "no order of its operations" in one(story.told())


def test_a_call_that_ran_with_other_arguments_is_found() -> None:
    story = claimed()
    story.run(args=EDITED)
    assert "and approved was" in one(story.told())


def test_a_call_that_ran_on_a_claim_nobody_confirmed_is_found() -> None:
    story = approved()
    story.do("agent", "claim", step="failed")
    story.run()
    assert "ran without having claimed" in one(story.told())


@pytest.mark.parametrize("word", [NO, Word("expired"), Word("withdrawn"), YES])
def test_a_call_that_ran_although_its_request_says_otherwise_is_found(word: Word) -> None:
    story = Story()
    story.do("agent", "open", found=OPEN)
    story.do("ann", "close", meant=YES, step="failed")
    story.do("agent", "claim", taken=True)
    story.run()
    assert f"ran, although it is {word.status}" in one(story.told(word))


def test_a_call_that_ran_after_it_was_refused_is_found() -> None:
    story = claimed()
    story.do("agent", "refused")
    story.run()
    assert "ran after it was refused" in one(story.told())


def test_an_acknowledged_answer_that_is_lost_or_changed_is_found() -> None:
    for word in (OPEN, NO, Word("expired"), CHANGED, Word("approved", "ben")):
        assert "acknowledged was" in one(approved().told(word))


def test_two_answers_that_were_both_acknowledged_are_found() -> None:
    story = approved()
    story.do("ben", "close", meant=NO, found=NO)
    assert "acknowledged was" in one(story.told(YES))


def test_an_acknowledged_question_that_is_lost_is_found() -> None:
    story = Story()
    story.do("agent", "open", found=OPEN)
    assert "its open was acknowledged, and is lost" in one(check(story.events, Final(rows=[])))


def test_what_was_seen_after_an_answer_must_not_be_older_than_it() -> None:
    story = approved()
    story.do("again", "open", found=OPEN)
    assert "no order of its operations" in one(story.told(YES))


def test_what_was_found_before_anybody_had_sent_it_is_found() -> None:
    story = Story()
    story.do("ann", "close", meant=YES, found=YES)
    story.do("agent", "open", found=YES)
    assert "no order of its operations" in one(story.told(YES))


def test_an_answer_that_was_found_used_before_it_was_sent_is_found() -> None:
    story = Story()
    story.do("agent", "open", found=OPEN)
    story.do("agent", "claim", taken=True)
    story.do("ann", "close", meant=YES, found=USED)
    assert "no order of its operations" in one(story.told())


def test_a_claim_that_failed_although_the_approval_was_there_is_found() -> None:
    story = approved()
    story.do("agent", "claim", taken=False)
    assert "no order of its operations" in one(story.told(YES))


def test_a_request_that_nobody_closed_and_is_closed_is_found() -> None:
    story = Story()
    story.do("agent", "open", found=OPEN)
    assert "no order of its operations" in one(story.told(YES))


def test_a_call_with_two_requests_is_found() -> None:
    rows = [Row(id=each, call="c", word=OPEN, asked=ASKED) for each in "12"]
    assert check([], Final(rows=rows)) == ["a call has two requests"]


def test_answers_and_ends_at_the_wrong_time_are_found() -> None:
    assert "taken after its time" in one(approved().told(YES, expires_at=1.0))
    story = Story()
    story.do("agent", "open", found=OPEN)
    story.do("hub", "close", meant=Word("expired"), found=Word("expired"))
    assert "before its time" in one(story.told(Word("expired"), expires_at=100.0))
    assert story.told(Word("expired"), expires_at=2.0) == []
    assert "before its time" in one(story.told(Word("expired"), expires_at=math.inf))


@pytest.mark.parametrize(
    "steps",
    [
        ("approved", "claimed"),
        ("asked", "claimed"),
        ("asked", "approved"),
        ("asked", "denied", "claimed"),
        ("asked", "approved", "approved", "claimed"),
        ("asked", "claimed", "approved"),
        ("asked", "approved", "claimed", "returned"),
    ],
)
def test_an_audit_that_says_otherwise_is_found(steps: tuple[str, ...]) -> None:
    assert "its audit says" in one(claimed().told(USED, *steps))
