"""HTTP read by httptools, which is faster, and as strict as the reader in Python alone."""

from __future__ import annotations

from sayso.server.http.idle_timeout import IdleTimeout

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError as error:
    raise ImportError("httptools is not installed; run `pip install sayso[server-fast]`") from error

_LARGEST_HEAD = 65_536
_MOST_AT_ONCE = 100  # requests that one client sends before it has the answer to the first


class FastProtocol(IdleTimeout, HttpToolsProtocol):
    """Has the limits that httptools does not have: on what is no body, and on what comes at once."""

    _heads = 0  # bytes since the last piece of a body, or the end of the last request
    _in_head = True

    def data_received(self, data: bytes) -> None:
        """Refuse headers without end, and a client that does not wait for answers."""
        self._heads += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._heads > _LARGEST_HEAD:
            self.send_400_response("The headers are too large.")
        elif len(self.pipeline) > _MOST_AT_ONCE:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin with the headers of a request."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, but none that comes after the body: what has been checked already must stay as it is."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Let the request begin."""
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._heads = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._heads = 0
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Let the socket have the connection."""
        self.cancel_idle_timer()
        super().handle_websocket_upgrade()
