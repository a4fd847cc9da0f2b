"""Reading the rows of a store that keeps records as bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sayso.errors import StoreError
from sayso.wire import unpack_request

if TYPE_CHECKING:
    from sayso.model import ApprovalRequest

_LOG = logging.getLogger("sayso")


def readable(rows: Iterable[Any], read: Callable[[Any], ApprovalRequest] = unpack_request) -> list[ApprovalRequest]:
    """Read the rows; one that cannot be read cannot be answered, and must not keep the others from it."""
    found: list[ApprovalRequest] = []
    for each in rows:
        try:
            found.append(read(each))
        except StoreError as error:
            _LOG.warning("a request is left out: %s", error)
    return found
