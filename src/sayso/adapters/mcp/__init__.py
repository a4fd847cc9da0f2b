"""Relay before an MCP server: every tool call of a client is decided about, and all else passes unread."""
