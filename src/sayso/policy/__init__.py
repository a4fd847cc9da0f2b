"""Policy engine: turns a call into a verdict; pure, without any I/O."""
