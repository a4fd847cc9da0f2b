"""Services of the hub: feeds, expiry, metrics, rate limits, connections, audit check."""
