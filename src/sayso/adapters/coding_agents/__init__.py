"""Hooks of coding agents: events of other programs become calls, and outcomes become the decisions that they read."""
