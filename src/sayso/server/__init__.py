"""The hub: approval server for the requests of all agents, with a page, REST, events and WebSocket."""
