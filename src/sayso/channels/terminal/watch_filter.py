"""Filter line of the full-screen inbox: the criteria, and the row in which they are typed.

Tests: tests/cli/test_watch_filter.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import ConditionalContainer, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl

from sayso.channels.display.sanitize import visible
from sayso.core.filters import RequestFilter, filter_line, parse_filter
from sayso.core.model import ApprovalRequest

HOW_TO_FILTER = "Words, tool:name or agent:name, with * for any characters. Enter lists what matches, Esc lists all."


class FilterLine:
    """The filter of the list; `on_change` is called when it has changed, or was left as it is."""

    def __init__(self, wanted: RequestFilter, on_change: Callable[[], None]) -> None:
        self.is_open = False  # it is being typed
        self.buffer = Buffer(multiline=False, accept_handler=self._on_line_entered)
        self._wanted = wanted
        self._on_change = on_change
        self._matching: set[str] = set()

    @property
    def text(self) -> str:
        """The criteria as they are typed, sanitised; empty if all requests are listed."""
        return visible(filter_line(self._wanted))

    def container(self) -> ConditionalContainer:
        """Return the row in which the line is typed."""
        words = Window(FormattedTextControl("Filter: "), dont_extend_width=True, height=1)
        row = VSplit([words, Window(BufferControl(self.buffer), height=1)])
        return ConditionalContainer(row, filter=Condition(lambda: self.is_open))

    def open(self) -> None:
        """Begin to type a new line; the present filter holds until that is entered."""
        self.buffer.reset()
        self.is_open = True

    def clear(self) -> None:
        """List all requests, and close the line."""
        self._apply("")

    def add(self, requests: Iterable[ApprovalRequest]) -> None:
        """Note which of these requests match."""
        for each in requests:
            if self._wanted.matches(each, each.asked_at):  # the list itself drops those whose time is up
                self._matching.add(each.id)

    def forget(self, request_id: str) -> None:
        """Drop a request that is closed."""
        self._matching.discard(request_id)

    def reset(self, requests: Iterable[ApprovalRequest]) -> None:
        """Compare all requests again, after a change of the filter."""
        self._matching.clear()
        self.add(requests)

    def matches(self, request_id: str) -> bool:
        """Whether a request that was added is listed."""
        return request_id in self._matching

    def _on_line_entered(self, buffer: Buffer) -> bool:
        self._apply(buffer.text)
        return False

    def _apply(self, line: str) -> None:
        self._wanted = parse_filter(line)
        self.is_open = False
        self._on_change()
