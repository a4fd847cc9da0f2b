"""When a key counts, by a clock that the test moves."""

import asyncio

from sayso.channels.keys import Touch


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


def test_a_key_that_is_held_down_is_no_answer_to_what_comes_next() -> None:
    loop, taken = _Loop(), list[str]()
    try:
        touch = Touch()
        loop.call_soon(touch.arm, lambda: None)
        for _ in range(50):
            _after(loop, 0.2)
            loop.call_soon(touch.take, lambda: taken.append("held"))
        _after(loop, 0.1)
        assert not touch.armed
        _after(loop, 0.4)
        loop.call_soon(touch.take, lambda: taken.append("typed"))
        _after(loop, 0.1)
        _after(loop, 0.1)
    finally:
        loop.close()
    assert taken == ["typed"]
