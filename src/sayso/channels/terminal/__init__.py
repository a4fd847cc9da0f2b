"""The terminal channel: a prompt, and the full screen of `sayso watch`."""

from sayso.channels.terminal.channel import TerminalChannel, unavailable_reason

__all__ = ["TerminalChannel", "unavailable_reason"]
