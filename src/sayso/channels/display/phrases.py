"""Words about requests, for every place at which people answer."""

from __future__ import annotations

from sayso.channels.display.request_lines import asker, truncate
from sayso.channels.display.sanitize import visible
from sayso.core.model import ApprovalRequest

_LONGEST_AGENT, _LONGEST_TOOL = 40, 60
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
JUDGED_LATER = "The rules and the tool judge these arguments where the call runs, and may still refuse them."


def request_title(request: ApprovalRequest) -> str:
    """Name the agent and the tool, as far as there is room on any screen; the request itself has all of it."""
    who, tool = visible(asker(request)), visible(request.tool_name)
    return f"{truncate(who, _LONGEST_AGENT)}: {truncate(tool, _LONGEST_TOOL)}" if who else truncate(tool, _LONGEST_TOOL)


def closed_text(request: ApprovalRequest) -> str:
    """Say what has become of a request that somebody else closed."""
    decision = request.decision
    if request.status == "expired":
        return f"{request_title(request)} has expired: nobody answered in time."
    if request.status == "withdrawn" or decision is None:
        return f"{request_title(request)} was withdrawn: nobody waits for an answer any more."
    where = f" ({decision.channel})" if decision.channel else ""
    word = "allowed" if decision.approved else "denied"
    return f"{request_title(request)} was {word} by {decision.who or 'somebody'}{where}."


def format_clock(seconds: float) -> str:
    """Write a time as a clock does that counts."""
    minutes, rest = divmod(max(int(seconds), 0), _MINUTE)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"  # noqa: PLR2004 - minutes of an hour


def format_rough_duration(seconds: float) -> str:
    """Write about how long something takes, for a list that should not flicker."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= size:
            return f"{int(seconds) // size}{unit}"
    return f"{max(int(seconds), 0)}s"
