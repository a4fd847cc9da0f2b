"""Pauses: a framework's own suspended run, sealed in the store with its session and requests, and resumed once.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

import msgspec

from sayso.core.model import ParkedRun, new_id
from sayso.engine import context
from sayso.errors import ApprovalPending

if TYPE_CHECKING:
    from sayso.engine.controller import ApprovalController
    from sayso.engine.parked_runs import HeldRun


class Pause(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A suspended run: what the framework needs to resume it, and the requests that it waits for."""

    session: str  # in which its requests were opened
    state: msgspec.Raw  # JSON, of the framework's own
    requests: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()  # the ids of the external calls whose results it waits for
    agent: str = ""  # the name of the outermost agent
    run: str = ""  # the framework's id of the run, where its calls have none of their own


class HeldPause:
    """A parked run that this process is resuming."""

    def __init__(self, held: HeldRun, parked_id: str, framework: str, controller: ApprovalController) -> None:
        self._held = held
        self._id = parked_id
        self._framework = framework
        self._controller = controller

    @property
    def pause(self) -> Pause:
        """The pause to resume from."""
        return _decode(self._held.state)

    async def save(self, pause: Pause) -> None:
        """Replace the pause: from here on, the run resumes from this one."""
        await self._held.save(msgspec.json.encode(pause), _listing(self._id, pause, self._framework, self._controller))

    async def end(self) -> None:
        """Delete the pause: the run has come to its end."""
        await self._held.end()


async def park(pause: Pause, controller: ApprovalController, *, framework: str) -> str:
    """Store a suspended run; return the id to resume it by."""
    parked_id = new_id()
    await controller.adapter.runs.add(msgspec.json.encode(pause), _listing(parked_id, pause, framework, controller))
    return parked_id


@contextlib.asynccontextmanager
async def resuming(parked_id: str, controller: ApprovalController, *, framework: str) -> AsyncGenerator[HeldPause]:
    """Hold a parked run whose requests are answered, in its session; no other process resumes it meanwhile.

    Raises:
        ApprovalPending: one of its requests is still open.
        AlreadyResuming: another process is resuming it.
        UnknownRequest: no run is parked under this id, or no longer.
        StoreError: the state is of another version, or was changed.
    """
    runs = controller.adapter.runs
    await require_answers(_decode(await runs.read(parked_id)).requests, controller)
    async with runs.hold(parked_id) as held:
        pause = _decode(held.state)
        await require_answers(pause.requests, controller)
        with context.activate_unless_nested(controller), context.resumed_session(pause.session):
            yield HeldPause(held, parked_id, framework, controller)


async def require_answers(requests: Iterable[str], controller: ApprovalController) -> None:
    """Raise `ApprovalPending` if one of these requests is still open."""
    for each in requests:
        row = await controller.store.get(each)
        if row is not None and row.status == "open":
            raise ApprovalPending.for_request(row)


def _listing(parked_id: str, pause: Pause, framework: str, controller: ApprovalController) -> ParkedRun:
    return ParkedRun(
        id=parked_id,
        agent=pause.agent,
        framework=framework,
        session=pause.session,
        requests=pause.requests,
        calls=pause.calls,
        parked_at=controller.adapter.clock.now(),
    )


def _decode(body: bytes) -> Pause:
    return msgspec.json.decode(body, type=Pause)
