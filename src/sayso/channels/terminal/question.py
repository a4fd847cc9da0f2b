"""State of a question in the terminal: waiting time, presence of other viewers, and whether it is still open.

Tests: tests/channels/terminal/test_channel.py
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from sayso.channels.display.blocks import time_left, votes_text
from sayso.channels.display.durations import format_clock
from sayso.channels.display.phrases import request_title
from sayso.channels.display.request_lines import truncate
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.keys import Closed
from sayso.core.model import ApprovalDecision, ApprovalRequest, Seen
from sayso.core.ports import RequestHandle

T = TypeVar("T")
_PRESENCE_SECONDS = 2.0  # between two presence reports
_MOST_NAMES = 3
_LONGEST_NAME = 30


class Question:
    """A request in the queue or on the screen; only `answer` is thread-safe."""

    def __init__(
        self,
        request: ApprovalRequest,
        *,
        who: str,
        channel: str,
        handle: RequestHandle | None = None,
        since: float | None = None,
    ) -> None:
        self.request = request
        self.who = who
        self.channel = channel
        self.handle = handle
        self.number = 0  # position in the queue
        self.also_answers: list[str] = []  # ids of the other requests that the answer answers too
        self.seen: tuple[Seen, ...] = request.seen
        self.votes: tuple[ApprovalDecision, ...] = request.votes
        self.needs: str | None = None  # whose yes it needs, and whether this person's counts, if that is known
        self.since = time.time() if since is None else since
        self.answer: concurrent.futures.Future[ApprovalDecision | None] = concurrent.futures.Future()
        self.closed = asyncio.Event()  # used in the loop of the view

    @property
    def can_be_allowed(self) -> bool:
        """Whether an approval without identity (no token) would count."""
        return self.request.approvers is None or not self.request.approvers.needs_identity

    def yes(self, *, args: Mapping[str, Any] | None = None) -> ApprovalDecision:
        """Return an approval of this one call."""
        return ApprovalDecision(approved=True, override_args=args, who=self.who, channel=self.channel)

    def no(self, note: str | None = None) -> ApprovalDecision:
        """Return a denial."""
        return ApprovalDecision(approved=False, note=note, who=self.who, channel=self.channel)

    def settle(self, answer: ApprovalDecision | None) -> bool:
        """Set the answer; false if the question was closed before."""
        try:
            self.answer.set_result(answer)
        except concurrent.futures.InvalidStateError:
            return False
        return True

    def status(self, place: str) -> str:
        """Return the status line, with the title again: the lines above may be long, and written by the agent."""
        facts = [
            f"Run {request_title(self.request)}?",
            place,
            f"waiting {format_clock(time.time() - self.since)}",
        ]
        left = time_left(self.request, time.time())
        if left is not None:
            facts.append(f"expires in {format_clock(left)}")
        votes = votes_text(replace(self.request, votes=self.votes))
        if votes:
            facts.append(votes)
        others = self._other_viewers()
        if others:
            facts.append(f"also seen by {others}")
        return " · ".join(facts)

    def _other_viewers(self) -> str:
        names = [_viewer_name(each) for each in reversed(self.seen) if each.who != self.who]
        more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
        return ", ".join([*names[:_MOST_NAMES], *more])

    async def report_presence(self) -> None:
        """Report presence at intervals, and update the other viewers; failures are ignored."""
        while self.handle is not None:
            report = asyncio.ensure_future(self.handle.mark_seen(self.who, self.channel))
            try:
                await asyncio.wait({report})
            finally:
                report.cancel()
            if not report.cancelled() and report.exception() is None:
                self.seen = report.result()
            await asyncio.sleep(_PRESENCE_SECONDS)

    async def while_open(self, work: Awaitable[T]) -> T:
        """Await work for as long as the question is open.

        Raises:
            Closed: the question was closed before.
        """
        doing = asyncio.ensure_future(work)
        closing = asyncio.ensure_future(self.closed.wait())
        try:
            await asyncio.wait({doing, closing}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise Closed
        finally:
            closing.cancel()
            doing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({doing})


def _viewer_name(seen: Seen) -> str:
    return f"{truncate(visible(seen.who), _LONGEST_NAME)} ({truncate(visible(seen.channel), _LONGEST_NAME)})"
