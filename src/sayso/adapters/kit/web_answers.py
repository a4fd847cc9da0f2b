"""Answers from a framework's own front end, given to the controller in the name of a person the host has authenticated.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from sayso.errors import ApprovalBlocked, NotEntitled

if TYPE_CHECKING:
    from sayso.core.model import ApprovalDecision, ApprovalRequest
    from sayso.engine.controller import ApprovalController

_LOG = logging.getLogger("sayso")
_CHANNEL = "web"


class WebUser(NamedTuple):
    """A person whom the host has authenticated, with the roles that it has verified."""

    who: str
    roles: Collection[str] = ()


async def give_answer(
    controller: ApprovalController, request: ApprovalRequest, decision: ApprovalDecision, user: WebUser
) -> None:
    """Give an answer to the controller; one that does not count is logged, and leaves the question open."""
    try:
        await controller.answer(request, decision, who=user.who, channel=_CHANNEL, roles=user.roles)
    except (NotEntitled, ApprovalBlocked, ValueError) as error:
        _LOG.warning("the answer of %s to request %s does not count: %s", user.who, request.id, error)
