"""Rendering of the conversation before a call as terminal lines: each row behind the gutter, below the author's role.

Tests: tests/channels/terminal/test_conversation.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING

from sayso.channels.display.request_lines import GUTTER, NARROWEST, Line, display_width, word_wrap
from sayso.channels.display.sanitize import visible

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest

HEADING = "before this call, in the agent's words; what you allow does not rest on them"
GAP = "⋯ messages are left out ⋯"
_ROLE = 8  # columns of a role


def conversation_lines(request: ApprovalRequest, width: int) -> list[Line]:
    """Render the messages for this width; a text never stands where a role does."""
    room = max(width, NARROWEST) - display_width(GUTTER[1]) - _ROLE
    lines: list[Line] = [[("class:heading", row)] for row in textwrap.wrap(HEADING, max(width, NARROWEST))]
    for each in request.conversation:
        if each.gap:
            lines.append([GUTTER, ("class:folded", GAP)])
        roles = chain([each.role], repeat(""))
        lines += [
            [GUTTER, ("class:name", role.ljust(_ROLE)), ("class:value", row)]
            for role, row in zip(roles, _rows(each.text, room), strict=False)
        ]
    return lines


def _rows(text: str, room: int) -> Iterator[str]:
    """Yield a message as sanitised rows, wrapped between words where that is possible."""
    for line in text.split("\n"):
        yield from word_wrap(visible(line), room)
