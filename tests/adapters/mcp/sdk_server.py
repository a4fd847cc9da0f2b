"""A server of the SDK, which speaks both eras of the protocol: over HTTP as an application, over stdio as a program."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel


class Confirmed(BaseModel):
    """What the server asks the client's user in the middle of a call."""

    sure: bool


def build(book: list[str]) -> MCPServer:
    """Return a server that notes in a book what has run."""
    server = MCPServer("the server's own name")

    @server.tool()
    def look(what: str = "") -> str:
        """Look."""
        book.append(f"look {what}")
        return f"seen {what}"

    @server.tool()
    def pay(amount: int) -> str:
        """Pay."""
        book.append(f"pay {amount}")
        return f"paid {amount}"

    @server.tool()
    def wipe() -> str:
        """Wipe."""
        book.append("wipe")
        return "wiped"

    @server.tool()
    async def slow(ctx: Context) -> str:
        """Tell of progress, and end."""
        await ctx.report_progress(1, 2, "half")
        book.append("slow")
        return "done"

    @server.tool()
    async def confirm(ctx: Context, amount: int) -> str:
        """Ask the client's user, and then do it."""
        answer = await ctx.elicit(f"really {amount}?", Confirmed)
        book.append(f"confirmed {amount} {answer.action}")
        return "confirmed"

    @server.resource("note://one")
    def note() -> str:
        return "a note"

    return server


if __name__ == "__main__":
    build([]).run()
