"""What the hub runs and keeps beside its routes: feeds, expiry, metrics, rate limit."""
