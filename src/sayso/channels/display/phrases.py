"""Phrases about requests that all front ends share: title, outcome, caveat.

Tests: tests/cli/test_watch.py
"""

from __future__ import annotations

from sayso.channels.display.request_lines import asker, truncate
from sayso.channels.display.sanitize import visible
from sayso.core.model import ApprovalRequest

_LONGEST_AGENT, _LONGEST_TOOL = 40, 60
JUDGED_LATER = "The rules and the tool judge these arguments where the call runs, and may still refuse them."


def request_title(request: ApprovalRequest) -> str:
    """Return agent and tool, truncated so that they fit on any screen; the request itself shows all of it."""
    who, tool = visible(asker(request)), visible(request.tool_name)
    return f"{truncate(who, _LONGEST_AGENT)}: {truncate(tool, _LONGEST_TOOL)}" if who else truncate(tool, _LONGEST_TOOL)


def closed_text(request: ApprovalRequest) -> str:
    """Return how a request was closed elsewhere: expired, withdrawn, allowed or denied."""
    decision = request.decision
    if request.status == "expired":
        return f"{request_title(request)} has expired: nobody answered in time."
    if decision is not None and decision.unattended:
        return f"{request_title(request)} was withdrawn: nobody could be asked."
    if request.status == "withdrawn" or decision is None:
        return f"{request_title(request)} was withdrawn: the agent no longer waits for an answer."
    where = f" ({decision.channel})" if decision.channel else ""
    word = "allowed" if decision.approved else "denied"
    return f"{request_title(request)} was {word} by {decision.who or 'somebody'}{where}."
