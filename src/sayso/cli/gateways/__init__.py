"""Commands of gateways: before MCP servers."""
