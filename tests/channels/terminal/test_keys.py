"""When a key counts, by a clock that the test moves."""

import asyncio

import pytest

from sayso.channels.terminal.keys import TypeAheadGuard


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose time stands still until it is moved."""

    now = 0.0

    def time(self) -> float:
        return self.now


def _after(loop: _Loop, seconds: float) -> None:
    loop.now += seconds
    for _ in range(3):  # what is due, and what that makes due
        loop.call_soon(loop.stop)
        loop.run_forever()


@pytest.mark.parametrize(("startled", "counts"), [(False, ["at half a second", "later"]), (True, ["later"])])
def test_after_a_question_that_went_away_by_itself_a_key_counts_only_a_second_later(
    startled: bool, counts: list[str]
) -> None:
    """Whoever was about to answer the one has the other before them."""
    loop, taken = _Loop(), list[str]()
    try:
        touch = TypeAheadGuard(previous_vanished=startled)
        loop.call_soon(touch.arm, lambda: None)
        for seconds, when in ((0.2, "at once"), (0.5, "at half a second"), (1.5, "later")):
            _after(loop, seconds)
            loop.call_soon(touch.accept_key, lambda when=when: taken.append(when))
            _after(loop, 0.0)
            _after(loop, 0.1)
    finally:
        loop.close()
    assert taken == counts


def test_a_key_that_is_held_down_is_no_answer_to_what_comes_next() -> None:
    loop, taken = _Loop(), list[str]()
    try:
        touch = TypeAheadGuard()
        loop.call_soon(touch.arm, lambda: None)
        for _ in range(50):
            _after(loop, 0.2)
            loop.call_soon(touch.accept_key, lambda: taken.append("held"))
        _after(loop, 0.1)
        assert not touch.armed
        _after(loop, 0.4)
        loop.call_soon(touch.accept_key, lambda: taken.append("typed"))
        _after(loop, 0.1)
        _after(loop, 0.1)
    finally:
        loop.close()
    assert taken == ["typed"]
