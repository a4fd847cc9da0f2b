"""Start check: a callback of LangChain for every tool that starts inside a guarded call, guarded or not.

Tests: tests/adapters/langchain/test_conformance.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

from sayso.adapters.kit import check_start
from sayso.engine import context
from sayso.errors import ApprovalBlocked

_HIDDEN = frozenset({"callbacks", "run_manager"})  # arguments of these names LangChain never shows to a callback
_LOST = (
    "a guarded call started it on a thread that knows nothing of that call; start the thread with "
    "`contextvars.copy_context().run`"
)


class StartCheck(BaseCallbackHandler):
    """Raises where a tool starts that did not pass a gate; LangChain then does not run it."""

    raise_error = True  # else LangChain would log what it raises, and run the tool
    run_inline = True  # in the context of the call

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,  # noqa: ARG002 - LangChain's signature
        *,
        inputs: dict[str, Any] | None = None,
        **_: Any,  # noqa: ANN401 - LangChain's own
    ) -> None:
        """Check a tool just before it runs, with its arguments but for those that LangChain injects."""
        name, running = str(serialized.get("name", "")), context.current_call()
        if running is None or running.call is None:
            # It was inherited with the callbacks of a guarded call, which did not bring their context along.
            raise ApprovalBlocked(name, _LOST, cause="unguarded")
        if inputs is not None and running.call.tool == name:
            inputs = {**inputs, **{each: value for each, value in running.call.args.items() if each in _HIDDEN}}
        check_start(name, inputs)


_START_CHECK = StartCheck()  # one for all: LangChain adds it only once to what inherits it
_CHECK: ContextVar[BaseCallbackHandler | None] = ContextVar("sayso_langchain_start_check", default=None)
register_configure_hook(_CHECK, inheritable=True)


@contextlib.contextmanager
def checked_starts() -> Generator[None]:
    """Check every tool that starts in the block."""
    token = _CHECK.set(_START_CHECK)
    try:
        yield
    finally:
        _CHECK.reset(token)
