"""Routes for agents on other machines: msgpack RPC and JSON REST over the same operations."""
