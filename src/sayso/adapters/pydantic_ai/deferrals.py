"""Deferral metadata: what sayso writes into PydanticAI's `DeferredToolRequests`, and reads from them.

Tests: tests/adapters/pydantic_ai/test_deferred.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.tools import DeferredToolRequests

from sayso.core.canonical import thaw
from sayso.core.model import ApprovalRequest, ToolCall

METADATA_KEY = "sayso"  # key of sayso's facts in the metadata of a deferred call


def deferral_metadata(request: ApprovalRequest) -> dict[str, Any]:
    """Return the metadata of a deferred call: that of the tool, and the id of its request."""
    return {**thaw(request.metadata or {}), METADATA_KEY: {"request": request.id}}


def read_deferral(requests: DeferredToolRequests, call_id: str) -> Mapping[str, str]:
    """Return sayso's facts about a deferred call; empty if sayso did not defer it."""
    return _facts(requests.metadata.get(call_id))


def _facts(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found: Any = (metadata or {}).get(METADATA_KEY)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def tool_metadata(requests: DeferredToolRequests, call_id: str) -> dict[str, Any] | None:
    """Return the metadata of the tool itself, or None."""
    given = requests.metadata.get(call_id)
    return None if given is None else {key: value for key, value in given.items() if key != METADATA_KEY} or None


def request_ids(requests: DeferredToolRequests, call_id: str) -> list[str]:
    """Return the ids of the requests that a call waits for: its own, or those of an agent inside it."""
    return facts_request_ids(read_deferral(requests, call_id))


def all_request_ids(requests: DeferredToolRequests) -> list[str]:
    """Return the ids of all requests that a run waits for."""
    return [each for part in requests.approvals for each in request_ids(requests, part.tool_call_id)]


def raised_request_ids(raised: ApprovalRequired) -> list[str]:
    """Return the ids of the requests that the raised call waits for."""
    return facts_request_ids(_facts(raised.metadata))


def facts_request_ids(facts: Mapping[str, Any]) -> list[str]:
    """Return the ids of the requests in sayso's facts about a call."""
    nested = facts.get("requests")
    found: list[Any] = cast("list[Any]", nested) if isinstance(nested, list) else [facts.get("request")]
    return [each for each in found if isinstance(each, str)]


def is_nested(raised: ApprovalRequired) -> bool:
    """Whether an agent inside the tool asks, and not the tool itself."""
    return bool(_facts(raised.metadata).get("requests"))


def nested_run_name(call: ToolCall) -> str:
    """Return the name under which the run of an agent inside exactly this call is parked."""
    return "\0".join(("nested", call.key, call.digest(), *call.agent_path))


def waiting_mark_name(key: str) -> str:
    """Return the name of the mark that a call waits for an agent inside it."""
    return f"waiting\0{key}"
