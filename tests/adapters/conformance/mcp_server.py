"""A small MCP server over stdio, with one tool, for the conformance suite."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # before its second major release
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("bank")


@server.tool()
def pay_remote(amount: int) -> str:
    """Pay from another process."""
    with Path(sys.argv[1]).open("a", encoding="utf-8") as book:
        book.write(f"{amount}\n")
    return f"paid {amount} there"


if __name__ == "__main__":
    server.run()
