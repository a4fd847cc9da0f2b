"""The last word before a tool or a model: our callback behind all others.

ADK calls the plugins first, in their order, and then the callbacks of the agent. A plugin alone could not see what
those make of a call. So ours is the last plugin, and puts a callback behind those of the agent, each time before ADK
calls them.

Tests: tests/adapters/google_adk/test_order.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from google.adk.agents import LlmAgent
from google.adk.plugins.base_plugin import BasePlugin

from sayso.adapters.kit import check_start
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from google.adk.agents import Context, InvocationContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools import BaseTool, ToolContext

    Decide = Callable[[BaseTool, dict[str, Any], ToolContext, InvocationContext], Awaitable[dict[str, Any] | None]]
    Shape = Callable[[LlmRequest], None]

Field = Literal["before_tool_callback", "before_model_callback"]


_NO_WORD = (BasePlugin.before_tool_callback, BasePlugin.before_model_callback)


class _LastWord(NamedTuple):
    """Whose callback has the last word in a context of ADK."""

    context: Context
    invocation: InvocationContext
    act: Any


_LAST_WORD: ContextVar[_LastWord | None] = ContextVar("sayso_adk_last_word", default=None)


def decide_last(plugin: BasePlugin, invocation: InvocationContext, context: ToolContext, decide: Decide) -> None:
    """Let `decide` be the last callback before a tool of an agent.

    Raises:
        ConfigurationError: it would not be.
    """
    require_last_plugin(plugin, invocation)
    _place_last(invocation.agent, "before_tool_callback", _before_tool)
    _LAST_WORD.set(_LastWord(context, invocation, decide))


def shape_last(plugin: BasePlugin, invocation: InvocationContext, context: Context, shape: Shape) -> None:
    """Let `shape` be the last callback before the model of an agent.

    Raises:
        ConfigurationError: it would not be.
    """
    require_last_plugin(plugin, invocation)
    _place_last(invocation.agent, "before_model_callback", _before_model)
    _LAST_WORD.set(_LastWord(context, invocation, shape))


async def _before_tool(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any] | None:
    last = _LAST_WORD.get()
    if last is None or last.context is not tool_context:  # the agent runs in an app without `Approvals`
        check_start(tool.name, args)
        return None
    _require_last(last.invocation.agent, "before_tool_callback", _before_tool)
    return await cast("Decide", last.act)(tool, args, tool_context, last.invocation)


async def _before_model(callback_context: Context, llm_request: LlmRequest) -> None:
    last = _LAST_WORD.get()
    if last is not None and last.context is callback_context:
        _require_last(last.invocation.agent, "before_model_callback", _before_model)
        cast("Shape", last.act)(llm_request)


def _place_last(agent: object, field: Field, callback: Callable[..., Any]) -> None:
    if not isinstance(agent, LlmAgent):
        raise ConfigurationError(
            f"an agent of the type {type(agent).__name__} calls tools, and it is no LlmAgent, so its callbacks could "
            "change what was decided; use an LlmAgent"
        )
    known = _callbacks(agent, field)
    if not known or known[-1] is not callback:
        setattr(agent, field, [*(each for each in known if each is not callback), callback])
        _require_last(agent, field, callback)


def _require_last(agent: object, field: Field, callback: Callable[..., Any]) -> None:
    """Check that ADK calls our callback, and nothing behind it.

    Raises:
        ConfigurationError: it does not.
    """
    known = _callbacks(agent, field)
    if not known or known[-1] is not callback:
        raise ConfigurationError(
            f"the last {field} of an agent is not that of `Approvals`, so what was decided could be changed; put no "
            "callback behind it while it is called, and do not override those of the agent"
        )


def _callbacks(agent: object, field: Field) -> list[Any]:
    """Return the callbacks of an agent as ADK finds them, which a subclass may override."""
    return list(getattr(agent, f"canonical_{field}s"))


def require_last_plugin(plugin: BasePlugin, invocation: InvocationContext) -> None:
    """Check that no plugin after ours has a word before a tool or a model, with which it could undo ours.

    Raises:
        ConfigurationError: one has.
    """
    plugins = invocation.plugin_manager.plugins
    for each in plugins[plugins.index(plugin) + 1 :]:
        words: Any = (each.before_tool_callback, each.before_model_callback)  # which an object may have of its own
        if tuple(getattr(word, "__func__", None) for word in words) != _NO_WORD:
            raise ConfigurationError(
                f"the plugin {each.name!r} comes after `Approvals`, and could change what runs; put `Approvals` last"
            )
