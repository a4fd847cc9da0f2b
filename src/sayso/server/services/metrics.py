"""Prometheus metrics: requests opened and closed, answer times, open requests and connections.

Tests: tests/server/routes/test_approvals.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.server.services.connections import Connections
    from sayso.server.services.open_requests import OpenRequests

_CLOSED = ("approved", "denied", "expired", "withdrawn")
_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)


class Metrics:
    """Prometheus metrics of one hub, for all requests in its store, of every hub on it."""

    def __init__(self, open_requests: OpenRequests, connections: Connections) -> None:
        self._open_requests = open_requests
        self._registry = CollectorRegistry()
        self._opened = Counter("sayso_requests_opened", "Requests that were asked.", registry=self._registry)
        self._closed = Counter(
            "sayso_requests_closed", "Requests that were closed, by how.", ["outcome"], registry=self._registry
        )
        for outcome in _CLOSED:
            self._closed.labels(outcome)  # exports a zero
        self._seconds = Histogram(
            "sayso_answer_seconds", "How long people took to answer.", buckets=_SECONDS, registry=self._registry
        )
        for name, text, read_value in (
            ("sayso_requests_waiting", "Requests that wait for an answer now.", open_requests.__len__),
            (
                "sayso_oldest_waiting_seconds",
                "How long the oldest of them has waited.",
                lambda: open_requests.oldest_age,
            ),
            ("sayso_connections", "Streams, sockets and long polls that are open now.", connections.__len__),
        ):
            Gauge(name, text, registry=self._registry).set_function(read_value)

    def observe(self, request: ApprovalRequest) -> None:
        """Count a change of a request; called before `OpenRequests.update`, which drops closed requests."""
        was_open = request.id in self._open_requests
        status = "approved" if request.status == "used" and was_open else request.status
        if not was_open and status != "used":  # a change after the answer was counted with it
            self._opened.inc()
        if status not in _CLOSED:
            return
        self._closed.labels(status).inc()
        decision = request.decision
        if status in {"approved", "denied"} and decision is not None and decision.decided_at is not None:
            self._seconds.observe(max(0.0, decision.decided_at - request.asked_at))

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)
