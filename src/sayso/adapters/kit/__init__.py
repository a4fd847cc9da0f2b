"""Adapter kit: the parts that adapters of agent frameworks share; docs/adapter-kit.md shows how to write one."""

from sayso.adapters.kit.backstop import check_start
from sayso.adapters.kit.controllers import (
    ControllerSettings,
    OnDenied,
    SharedSettings,
    build_controller,
    check_on_denied,
    refuse_defer,
)
from sayso.adapters.kit.edited_calls import EditedCalls, edited_call
from sayso.adapters.kit.feedback import add_feedback, call_text, has_feedback
from sayso.adapters.kit.gate import Gate
from sayso.adapters.kit.guarded_run import GuardedRun
from sayso.adapters.kit.pauses import HeldPause, Pause, park, require_answers, resuming
from sayso.adapters.kit.repeated_calls import RepeatedCalls
from sayso.adapters.kit.schema_rules import description_details, marked_tool, rules_from_schema
from sayso.adapters.kit.started_calls import StartedCalls
from sayso.adapters.kit.suspended_calls import forget_suspended, is_suspended, resume_suspended, suspend
from sayso.adapters.kit.tool_calls import build_call, content_id, fill_defaults, schema_hash
from sayso.adapters.kit.web_answers import WebUser, give_answer

__all__ = [
    "ControllerSettings",
    "EditedCalls",
    "Gate",
    "GuardedRun",
    "HeldPause",
    "OnDenied",
    "Pause",
    "RepeatedCalls",
    "SharedSettings",
    "StartedCalls",
    "WebUser",
    "add_feedback",
    "build_call",
    "build_controller",
    "call_text",
    "check_on_denied",
    "check_start",
    "content_id",
    "description_details",
    "edited_call",
    "fill_defaults",
    "forget_suspended",
    "give_answer",
    "has_feedback",
    "is_suspended",
    "marked_tool",
    "park",
    "refuse_defer",
    "require_answers",
    "resume_suspended",
    "resuming",
    "rules_from_schema",
    "schema_hash",
    "suspend",
]
