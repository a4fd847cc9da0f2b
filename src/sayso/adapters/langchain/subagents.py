"""Subagents of deepagents, each with `Approvals`: `create_deep_agent` gives them none of its own middleware.

Tests: tests/adapters/langchain/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sayso.adapters.kit import WebUser
from sayso.adapters.langchain.agent_middleware import Approvals
from sayso.errors import ConfigurationError

# deepagents adds a subagent of this name by itself, without a guard, unless one is given.
_GENERAL_PURPOSE: Mapping[str, Any] = {
    "name": "general-purpose",
    "description": "An agent for questions and tasks of many steps, with all tools of the main agent.",
    "system_prompt": "Do what you are asked to do with the tools that you have, and report what came of it.",
}


def guarded_subagents(
    subagents: Iterable[Mapping[str, Any]] = (), *, answered_by: Callable[[Any], WebUser | None] | None = None
) -> list[Any]:
    """Return the subagents for `create_deep_agent(subagents=…)`, guarded, with the `general-purpose` one that it adds.

    Args:
        subagents: as `create_deep_agent` takes them.
        answered_by: as for `Approvals`, for the questions of the subagents.

    Raises:
        ConfigurationError: a subagent is compiled or runs elsewhere, so it cannot be guarded from outside.
    """
    given = [dict(each) for each in subagents]
    for each in given:
        if "runnable" in each or "graph_id" in each:
            raise ConfigurationError(
                f"the subagent {each.get('name')!r} is compiled or runs elsewhere, so it cannot be guarded from here; "
                "build its agent with `Approvals()`, and pass it to create_deep_agent yourself"
            )
    if not any(each.get("name") == _GENERAL_PURPOSE["name"] for each in given):
        given.insert(0, dict(_GENERAL_PURPOSE))
    return [{**each, "middleware": [*each.get("middleware", ()), Approvals(answered_by=answered_by)]} for each in given]
