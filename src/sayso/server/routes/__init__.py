"""HTTP and WebSocket routes of the hub, one module per subject."""
