"""The hub: one place where the questions of all agents wait, with a page, REST, events and WebSocket."""
