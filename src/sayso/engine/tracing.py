"""OpenTelemetry spans of a call: how long it waited for its answer, and how long it ran. Never its arguments.

ApprovalController(…, hooks=[trace_steps()])
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

try:
    from opentelemetry import trace
    from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise ImportError("tracing is not installed; run `pip install sayso[otel]`") from error

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer, TracerProvider

    from sayso.core.model import AuditEntry
    from sayso.core.ports import Hook

_ANSWERS = frozenset({"approved", "denied", "expired", "withdrawn"})
_RESULTS = frozenset({"returned", "raised"})
_ID = re.compile(r"[0-9a-f]{32}")


def trace_steps(provider: TracerProvider | None = None) -> Hook:
    """Return a hook that records a span of each request, from question to answer, and of each run."""
    tracer = trace.get_tracer("sayso", tracer_provider=provider)

    def record_step(entry: AuditEntry) -> None:
        if entry.step in _ANSWERS and entry.request is not None:
            _record_span(tracer, entry, f"approval {entry.about.tool}", entry.request.asked_at)
        elif entry.step in _RESULTS and entry.seconds is not None:
            _record_span(tracer, entry, f"execute_tool {entry.about.tool}", entry.at - entry.seconds)

    return record_step


def _record_span(tracer: Tracer, entry: AuditEntry, name: str, began: float) -> None:
    request_id = _request_id(entry)
    facts = {
        "gen_ai.tool.name": entry.about.tool,
        "gen_ai.tool.call.id": entry.about.call_id,
        "sayso.step": entry.step,
        "sayso.request.id": request_id,
        "sayso.agent.path": list(entry.about.agent_path),
    }
    decision = entry.request.decision if entry.request is not None else None
    if decision is not None and decision.channel:
        facts["sayso.channel"] = decision.channel
    span = tracer.start_span(
        name, _parent(request_id), kind=SpanKind.INTERNAL, attributes=facts, start_time=_nanoseconds(began)
    )
    if entry.step == "raised":
        span.set_status(Status(StatusCode.ERROR))
    span.end(_nanoseconds(entry.at))


def _request_id(entry: AuditEntry) -> str:
    if entry.request is not None:
        return entry.request.id
    return (entry.outcome.request_id if entry.outcome is not None else None) or ""


def _parent(request_id: str) -> Context | None:
    """Return the parent of a span: the current span or, without one, the trace of the request.

    The id of a request is the id of its trace, so that the spans of an agent, a hub and a person's terminal are joined.
    """
    if trace.get_current_span().get_span_context().is_valid or not _ID.fullmatch(request_id):
        return None
    number = int(request_id, 16)
    context = SpanContext(
        trace_id=number,
        span_id=(number & 0xFFFFFFFFFFFFFFFF) or 1,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(NonRecordingSpan(context))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
