"""Requests as they were last read or written here: a group decides by them and need not read them first.

The database says whether they still hold when the group is written, so an old copy costs a second try and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sayso.core import decide
from sayso.core.msgpack_codec import unpack_request

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.stores.postgres.connection import Row
    from sayso.stores.postgres.transaction import Need

_MOST, _LONGEST = 4096, 8192  # requests, and bytes of each


class RequestCache:
    """A few thousand requests, each with its change; the oldest go first."""

    def __init__(self) -> None:
        """Begin with none."""
        # The oldest of a plain dictionary is found behind the places of all that went before it.
        self.entries: OrderedDict[str, tuple[ApprovalRequest, int]] = OrderedDict()

    def put(self, request: ApprovalRequest, change: int, length: int) -> None:
        """Keep a request as it is since that change, if anything can still happen to it."""
        _, known = self.entries.pop(request.id, (None, -1))
        if known > change:
            return  # it was read before what is known to have happened; better none than that
        if length > _LONGEST or _is_over(request):
            return
        self.entries[request.id] = (request, change)
        if len(self.entries) > _MOST:
            self.entries.popitem(last=False)

    def unpack_row(self, row: Row) -> ApprovalRequest:
        """Return the request of a row (key, bytes, change), and keep it."""
        _, packed, change = row
        request = unpack_request(packed)
        self.put(request, change, len(packed))
        return request

    def select(self, needs: Iterable[Need]) -> dict[str, tuple[ApprovalRequest, int]]:
        """Return those of the requests that are needed which are kept."""
        kept = self.entries
        return {name: kept[name] for _, name in needs if isinstance(name, str) and name in kept}

    def forget(self, ids: Iterable[str]) -> None:
        """Keep these no longer."""
        for each in ids:
            self.entries.pop(each, None)

    def clear(self) -> None:
        """Keep nothing."""
        self.entries.clear()


def _is_over(request: ApprovalRequest) -> bool:
    return not decide.TRANSITIONS[request.status] and (request.status != "used" or request.result is not None)
