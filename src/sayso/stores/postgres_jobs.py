"""The two jobs of a group that there are most of, worked out as far as possible before the group has its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from sayso import audit, decide
from sayso.errors import CanonicalError
from sayso.model import ApprovalDecision, ApprovalRequest, Remembered, Status
from sayso.wire import pack_request

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


class _Change(msgspec.Struct, frozen=True, gc=False):
    """What becomes of a request: the bytes of it, and the line of the audit."""

    before: ApprovalRequest
    after: ApprovalRequest
    packed: bytes
    line: bytes


class Closing(msgspec.Struct, gc=False):
    """Close a request."""

    request_id: str
    status: Status
    decision: ApprovalDecision | None
    now: float
    remember: Sequence[Remembered]
    _change: _Change | None = None

    def foresee(self, request: ApprovalRequest | None) -> None:
        """Work it out for what the request was when it was last heard of; the group may know better."""
        if request is None or request.status != "open":
            return
        try:
            self._change = self._of(request)
        except CanonicalError:
            return  # it cannot be written; whether it has to be turns out in the group, and there it is told

    @property
    def size(self) -> int:
        """About how many bytes it writes, as far as that is known."""
        return 0 if self._change is None else len(self._change.packed)

    def _of(self, before: ApprovalRequest) -> _Change | None:
        after = decide.close(before, self.status, self.decision, self.now)
        if after is before:
            return None
        line = audit.body(audit.of_request(after, decide.step_of(after), self.now))
        return _Change(before, after, pack_request(after), line)

    def __call__(self, group: Group) -> ApprovalRequest:
        """Return the request as it stands."""
        before, change = group.known(self.request_id), self._change
        if change is None or change.before is not before:
            change = self._of(before)
        if change is None:
            return before
        after = change.after
        group.update(after, change.packed)
        group.record(change.line)
        if after.status == "open":
            return after
        group.closed.append(after)
        if self.remember and after.status == self.status:
            group.remember(self.remember)
        return after
