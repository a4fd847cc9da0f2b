"""Ways to guard the tools of a framework, or plain functions: one module each."""
