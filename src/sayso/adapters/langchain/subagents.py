"""Subagents of deepagents, each with `Approvals`: `create_deep_agent` gives them none of its own middleware.

Tests: tests/adapters/langchain/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from sayso.adapters.langchain.agent_middleware import Approvals
from sayso.errors import ConfigurationError


def guarded_subagents(subagents: Iterable[Mapping[str, Any]] = ()) -> list[Any]:
    """Return the subagents for `create_deep_agent(subagents=…)`, guarded, with the `general-purpose` one that it adds.

    Raises:
        ConfigurationError: a subagent is compiled or runs elsewhere, so it cannot be guarded from outside.
    """
    from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT  # noqa: PLC0415 - only for its users

    given = [dict(each) for each in subagents]
    for each in given:
        if "runnable" in each or "graph_id" in each:
            raise ConfigurationError(
                f"the subagent {each.get('name')!r} is compiled or runs elsewhere, so it cannot be guarded from here; "
                "build its agent with `Approvals()`, and pass it to create_deep_agent yourself"
            )
    if not any(each.get("name") == GENERAL_PURPOSE_SUBAGENT["name"] for each in given):
        given.insert(0, dict(cast("Mapping[str, Any]", GENERAL_PURPOSE_SUBAGENT)))
    return [{**each, "middleware": [*each.get("middleware", ()), Approvals()]} for each in given]
