"""Decision pipe: a hook's standard output, on which exactly one whole decision is written, whatever happens.

Coding agents run a call when its hook dies, is silent or says half a word. So the pipe is taken before anything else
can print, and a process that is told to stop, or hangs, still writes a refusal.

Tests: tests/cli/gateways/test_hook.py
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Never

_STOPPED = "Not executed: sayso was stopped before it could decide."
_LATE = "Not executed: sayso did not come to a decision in time."
_STDOUT, _STDERR = 1, 2
_REFUSED = 2  # the exit code that every coding agent takes for a refusal, if there is a sentence at standard error
FAREWELL_SECONDS = 5.0


class DecisionPipe:
    """Takes the standard output for one decision; what else is printed goes to standard error."""

    def __init__(self, refusal: Callable[[str], str]) -> None:
        """Take the pipe. `refusal` puts a sentence into the form of the client."""
        self._refusal = refusal
        self._pipe = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
        self._is_written = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, self._refuse_and_exit)

    def limit(self, seconds: float) -> None:
        """Refuse and exit after so many seconds, even if everything hangs."""
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def write(self, decision: str) -> None:
        """Write the decision as a whole; only the first one counts. Without a reader, exit as a refusal."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._is_written:
            return
        self._is_written = True
        data = decision.encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._pipe, data) :]
        except OSError as error:
            sys.stderr.write(f"sayso: the decision could not be written ({error.strerror}), so the call must not run\n")
            os._exit(_REFUSED)

    def refuse(self, sentence: str) -> None:
        """Write a refusal, in the form of the client."""
        self.write(self._refusal(sentence))

    def _refuse_and_exit(self, number: int, _: FrameType | None) -> Never:
        self.refuse(_LATE if number == signal.SIGALRM else _STOPPED)
        os._exit(0)
