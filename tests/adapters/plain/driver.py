"""Plain functions under the conformance suite: the script calls the guarded functions itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.adapters.conformance import Call, Driver, Response, Seen, Tool

from sayso import ApprovalController, guard

_NO_MODEL = "a plain function has no model"
_NO_PAUSE = "a plain function has no run that stops; `resume` runs an approved request"
_NO_AGENT = "a plain function is no agent; guarded functions inside each other ask one by one"


class PlainDriver(Driver):
    """Guarded functions, called in the order of the script; calls of one response at once."""

    name = "plain functions"
    cannot: ClassVar = {
        "edited_arguments_run_and_the_model_is_told": _NO_MODEL,
        "a_blocked_tool_is_hidden": _NO_MODEL,
        "a_rule_that_names_no_tool_is_warned_about_once": "a function does not know which other tools there are",
        "a_tool_of_an_mcp_server_is_asked_about": "a tool of an MCP server is no function",
        "a_framework_s_own_mark_asks_once": "there is no framework",
        "a_late_hook_cannot_change_what_was_approved": "there are no hooks",
        "a_late_hook_does_what_it_likes_without_sayso": "there are no hooks",
        "two_calls_with_one_id_need_two_answers": "a call of a function has no id of a model",
        **dict.fromkeys(
            (
                "a_run_stops_for_the_answer_and_goes_on",
                "a_refusal_after_a_stop_reaches_the_model",
                "an_edit_after_a_stop_runs_and_the_model_is_told",
                "several_questions_of_one_response_are_answered_before_it_goes_on",
                "a_run_can_stop_twice",
                "a_run_that_is_resumed_early_says_so_and_stays",
                "a_made_up_approval_runs_nothing",
                "a_made_up_approval_does_not_take_back_a_refusal",
                "a_pause_that_is_resumed_twice_runs_once",
                "a_copy_of_a_pause_runs_nothing_more",
                "copies_of_a_pause_that_go_on_at_once_run_once",
                "arguments_that_are_changed_in_the_pause_do_not_run",
                "a_refusal_stands_though_the_rules_are_loosened",
                "an_approval_falls_where_the_rules_are_tightened",
                "an_approval_does_not_pass_to_another_tool_of_that_name",
                "a_run_goes_on_in_another_process",
            ),
            _NO_PAUSE,
        ),
        **dict.fromkeys(
            (
                "a_nested_agent_asks_the_controller_of_the_outer_one",
                "the_policy_of_a_nested_agent_only_tightens",
                "a_block_of_a_nested_agent_holds_under_a_loose_one",
                "a_nested_agent_that_nobody_guards_cannot_run_what_asks",
                "a_nested_agent_that_nobody_guards_runs_it_without_sayso",
                "a_nested_agent_stops_and_goes_on_with_the_outer_one",
                "outer_and_nested_call_are_both_asked_about_and_both_run_once",
                "a_refused_nested_call_stays_refused",
            ),
            _NO_AGENT,
        ),
    }

    async def run(
        self,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None,
        *,
        how: str = "async",
        name: str = "agent",
        **options: Any,
    ) -> Seen:
        on_denied = "raise" if options.get("on_denied") == "raise" else "return"
        wrapped = [_as_async(each) if how != "sync" else each for each in tools]
        guarded = {each.__name__: guard(each, controller, on_denied=on_denied) for each in wrapped}
        seen = Seen()
        for response in responses:
            if isinstance(response, str):
                seen.text = response
                continue
            results = await asyncio.gather(*(_call(guarded[each.tool], each) for each in response))
            seen.told.update({each.id: str(result) for each, result in zip(response, results, strict=True)})
        return seen


def _as_async(function: Any) -> Any:
    """Return an async twin of a function, with its name, signature and mark."""
    marked = getattr(function, "__sayso__", None)
    if marked is not None:
        return function

    async def twin(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    twin.__name__, twin.__doc__, twin.__annotations__ = function.__name__, function.__doc__, function.__annotations__
    vars(twin)["__signature__"] = inspect.signature(function)
    return twin


async def _call(function: Any, call: Call) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(**call.args)
    return await asyncio.to_thread(function, **call.args)
