"""The laboratory of each test."""

from tests.adapters.claude_agent.agent_lab import lab

__all__ = ["lab"]
