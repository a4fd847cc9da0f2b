"""The two jobs of a group that there are most of, without the closures that thousands of them at a time would need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from sayso import decide
from sayso.model import ApprovalDecision, ApprovalRequest, Remembered, Status

if TYPE_CHECKING:
    from sayso.stores.postgres_group import Group


class Opening(msgspec.Struct, frozen=True, gc=False):
    """Add a request; its bytes and the line of the audit are written out beforehand, not while others wait."""

    request: ApprovalRequest
    call: bytes
    packed: bytes
    line: bytes

    def __call__(self, group: Group) -> ApprovalRequest:
        """Return the request, or the one that its call has."""
        return group.open(self.request, self.call, self.packed, self.line)


class Closing(msgspec.Struct, frozen=True, gc=False):
    """Close a request."""

    request_id: str
    status: Status
    decision: ApprovalDecision | None
    now: float
    remember: Sequence[Remembered]

    def __call__(self, group: Group) -> ApprovalRequest:
        """Return the request as it stands."""
        before = group.known(self.request_id)
        after = decide.close(before, self.status, self.decision, self.now)
        if after is before:
            return before
        group.update(after)
        group.step(after, decide.step_of(after), self.now)
        if after.status == "open":
            return after
        group.closed.append(after)
        if self.remember and after.status == self.status:
            group.remember(self.remember)
        return after
