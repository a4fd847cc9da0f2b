"""Access log: middleware that logs one line per request, without arguments, answers or tokens; and its formatters.

Tests: tests/server/test_middleware.py
"""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger("sayso.access")
_LONGEST = 200


class AccessLog:
    """Access log middleware; it never logs the query, which may contain the code of a sign-in link."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and log the request when its response is complete."""
        if scope["type"] == "lifespan" or not _LOG.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        facts: dict[str, Any] = {
            "method": scope.get("method", "WS"),
            "path": str(scope["path"])[:_LONGEST],
            "status": None,
        }
        began = time.perf_counter()

        async def send_and_note_status(message: Message) -> None:
            if message["type"].endswith(("response.start", "websocket.accept")):
                facts["status"] = message.get("status", 101)
            await send(message)

        try:
            await self._app(scope, receive, send_and_note_status)
        finally:
            client = scope.get("client")
            facts |= {"ms": round((time.perf_counter() - began) * 1000, 1), "from": client[0] if client else None}
            if "sayso.who" in scope:
                facts["who"] = scope["sayso.who"]
            _LOG.info("%(method)s %(path)s %(status)s %(ms)s ms", facts, extra={"facts": facts})


class JsonLines(logging.Formatter):
    """Log formatter: one line of JSON per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        more = record.__dict__.get("facts")
        if isinstance(more, dict):
            facts |= more
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts, default=str)


class ShortLines(logging.Formatter):
    """Log formatter: one short line per record, with control characters escaped (log injection)."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return "\n".join(_printable(line) for line in super().format(record).split("\n"))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging has it
        """Return the message escaped to one line; only a traceback has more."""
        return _printable(super().formatMessage(record))


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
