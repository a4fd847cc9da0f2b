"""Opening requests: building the record, and the fan-out of notifications to the channels.

Tests: tests/engine/test_controller.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from sayso.channels.callback import CallbackChannel
from sayso.core.backoff import backoff
from sayso.core.canonical import canonical, freeze
from sayso.core.conversation import ConversationLimit, ConversationMessage, last_messages
from sayso.core.model import ApprovalDecision, ApprovalRequest, ToolCall, Verdict, new_id
from sayso.core.ports import InteractiveChannel
from sayso.core.redaction import redact_text
from sayso.engine import context
from sayso.engine.journal import brief_error
from sayso.errors import CanonicalError, NotEntitled, StoreError, Unattended
from sayso.policy import scopes

if TYPE_CHECKING:
    from sayso.core.ports import Channel, RequestHandle
    from sayso.engine.lifecycle import RequestLifecycle

_LOG = logging.getLogger("sayso")
LONGEST_OPEN = 7 * 24 * 3600.0  # seconds; unless the owner says otherwise: the process that asked may have died
_WITHDRAW_ATTEMPTS = 5  # within about a minute, when the store fails


def new_request(
    call: ToolCall,
    verdict: Verdict,
    *,
    now: float,
    timeout: float | None,
    remember_max: float | None,
    parameters: str = "",
    conversation: tuple[ConversationMessage, ...] = (),
) -> ApprovalRequest:
    """Return the request to open for a call; raises `CanonicalError` if nothing can be bound to it."""
    for name, word in (("tool", call.tool), ("call_id", call.call_id), ("session", call.session), ("run", call.run)):
        if type(word) is not str:
            raise CanonicalError(f"{name} is {word!r}, and only a text can be stored")
    shown = None if verdict.presentation is None else verdict.presentation.metadata
    for name, values in (("payload", verdict.payload), ("metadata", verdict.metadata), ("presentation", shown)):
        if values is not None:
            canonical(freeze(values), name)  # refused here, so that it does not depend on the store
    known_only = verdict.approvers is not None and verdict.approvers.needs_identity
    spans = [span for span in (verdict.expires, timeout) if span is not None]
    return ApprovalRequest(
        id=new_id(),
        tool_name=call.tool,
        args=call.args,
        description=verdict.description or f"Run {call.tool}",
        described_by=verdict.described_by if verdict.description else "default",
        payload=verdict.payload,
        presentation=verdict.presentation,
        metadata=verdict.metadata,
        summary=summary_of(verdict.metadata) or verdict.description,
        tool_call_id=call.call_id,
        session=call.session,
        run=call.run,
        agent_path=call.agent_path,
        schema_hash=call.schema_hash,
        parameters=parameters,
        digest=call.digest_with(verdict.basis),
        reason=verdict.reason,
        rule=verdict.rule,
        approval=verdict.approval,
        scopes=() if known_only else scopes.offered(call, verdict),
        approvers=verdict.approvers,
        remember_max=remember_max,
        conversation=conversation,
        asked_at=now,
        expires_at=now + min(spans, default=LONGEST_OPEN),
    )


def messages_before(limit: ConversationLimit) -> tuple[ConversationMessage, ...]:
    """Return the messages before the current call; none if they cannot be had, since nothing rests on them."""
    collect = context.current_messages()
    if collect is None or not limit.messages:
        return ()
    try:
        return last_messages(collect(), limit)
    except Exception as error:  # noqa: BLE001 - a history is other people's code; the question is asked without it
        _LOG.warning("a request shows no messages before it: %s", redact_text(brief_error(error)))
        return ()


def summary_of(metadata: Mapping[str, Any] | None) -> str | None:
    """Return a tool's own summary of a call, from the first of these keys."""
    given = metadata or {}
    return next((str(given[key]) for key in ("summary", "reason", "path") if given.get(key)), None)


def _channel_name(channel: Channel) -> str:
    return "the approval callback" if isinstance(channel, CallbackChannel) else type(channel).__name__


class Announcer:
    """Fan-out to the channels: one task per channel and request, cancelled when the request is closed elsewhere."""

    def __init__(self, channels: Iterable[Channel], lifecycle: RequestLifecycle) -> None:
        # Checked once: this takes longer than the rest of an announcement.
        self._channels = tuple((each, isinstance(each, InteractiveChannel)) for each in channels)
        self._lifecycle = lifecycle
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._answerable_elsewhere: set[str] = set()
        lifecycle.add_listener(self.stop)

    def announce(self, request: ApprovalRequest, handle: RequestHandle) -> None:
        """Start a task for every channel."""
        tasks = {
            asyncio.create_task(self._run_channel(channel, request, handle if interactive else None))
            for channel, interactive in self._channels
        }
        if tasks:
            self._tasks[request.id] = tasks
        for task in tasks:
            task.add_done_callback(lambda done: self._discard_task(request.id, done))

    def stop(self, request_id: str) -> None:
        """Cancel the tasks of a request that is closed."""
        self._answerable_elsewhere.discard(request_id)
        for task in self._tasks.pop(request_id, ()):
            with contextlib.suppress(RuntimeError):  # its loop is closed, and has ended the task
                task.get_loop().call_soon_threadsafe(task.cancel)

    async def _run_channel(self, channel: Channel, request: ApprovalRequest, handle: RequestHandle | None) -> None:
        try:
            if handle is None:
                decision = await channel.announce(request)
            else:
                decision = await cast("InteractiveChannel", channel).ask_interactively(request, handle)
            self._discard_task(
                request.id, asyncio.current_task()
            )  # an answer cancels the tasks of its request, except its own
            if decision is None and not isinstance(channel, CallbackChannel):
                self._answerable_elsewhere.add(request.id)  # a notified person may answer by another way
            elif isinstance(decision, ApprovalDecision):  # pyright: ignore[reportUnnecessaryIsInstance] - other people's code
                await self._lifecycle.answer(request.id, decision)
            else:
                await self._report_failure(channel, request, f"returned {decision!r} instead of an ApprovalDecision")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the request was closed elsewhere, or the loop ends
            await self._report_failure(channel, request, "was cancelled by itself")
        except Unattended as error:
            await self._withdraw_if_unanswerable(request, str(error), unattended=True)
        except NotEntitled as error:  # another person may answer
            self._answerable_elsewhere.add(request.id)
            _LOG.warning("an answer by %s was not taken: %s", _channel_name(channel), error)
        except Exception as error:  # noqa: BLE001 - a channel is other people's code; no error of it may approve
            _LOG.debug("%s raised", _channel_name(channel), exc_info=error)
            await self._report_failure(channel, request, f"raised {type(error).__name__}: {error}")

    async def _report_failure(self, channel: Channel, request: ApprovalRequest, problem: str) -> None:
        _LOG.warning("%s %s", _channel_name(channel), problem)
        await self._withdraw_if_unanswerable(request, f"{_channel_name(channel)} {problem}")

    async def _withdraw_if_unanswerable(
        self, request: ApprovalRequest, reason: str, *, unattended: bool = False
    ) -> None:
        """Withdraw the request if no other channel can answer it: its waiter must not wait forever."""
        self._discard_task(request.id, asyncio.current_task())
        if self._tasks.get(request.id) or request.id in self._answerable_elsewhere:
            return
        for pause in islice(backoff(longest=60.0, factor=5.0), _WITHDRAW_ATTEMPTS):
            try:
                await self._lifecycle.withdraw(request.id, reason, unattended=unattended)
            except StoreError as error:
                _LOG.warning("the question %s could not be withdrawn: %s", request.id, error)
                await asyncio.sleep(pause)
            else:
                return

    def _discard_task(self, request_id: str, task: asyncio.Task[None] | None) -> None:
        tasks = self._tasks.get(request_id)
        if tasks is not None and task is not None:
            tasks.discard(task)
            if not tasks:
                self._tasks.pop(request_id, None)
