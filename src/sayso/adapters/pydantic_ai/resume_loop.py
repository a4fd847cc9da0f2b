"""Resume loop: goes on with every parked run whose requests are answered, once or until it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic_ai import Agent
from pydantic_ai.run import AgentRunResult

from sayso.adapters.pydantic_ai.parking import FRAMEWORK, resume
from sayso.core.backoff import backoff
from sayso.core.model import ParkedRun
from sayso.engine.controller import ApprovalController
from sayso.errors import AlreadyResuming, ApprovalPending, ConfigurationError, UnknownRequest

_LOG = logging.getLogger("sayso")
_POLL_SECONDS = 5.0  # a run may be parked after its last answer, or be left by a process that died
_SETTLE_SECONDS = 0.1  # after a change: at a busy store, many come at once
_LONGEST_PAUSE = 600.0  # before a run that keeps failing is tried again

Agents = Agent[Any, Any] | Iterable[Agent[Any, Any]]


class Resumed(NamedTuple):
    """What came of one resumed run: its result, which may ask again, or the error that it failed with."""

    run: ParkedRun
    result: AgentRunResult[Any] | None = None
    error: Exception | None = None


async def resume_answered(
    agents: Agents,
    *,
    controller: ApprovalController,
    **settings: Any,  # noqa: ANN401 - those of `Agent.run`
) -> list[Resumed]:
    """Resume each parked run of these agents whose requests are all answered, one after the other.

    An agent finds its runs by its name. A run that needs the results of external calls is left for `resume`. A run that
    fails stays parked, and does not keep the others from going on.

    Args:
        agents: one or several, built as those that were suspended, each with its name.
        controller: one on the store in which the runs are parked.
        **settings: those of `Agent.run`, for all of them.
    """
    known = _by_name(agents)
    return [each async for each in _resume_each(known, controller, settings, frozenset())]


async def keep_resuming(
    agents: Agents,
    *,
    controller: ApprovalController,
    **settings: Any,  # noqa: ANN401 - those of `Agent.run`
) -> AsyncGenerator[Resumed]:
    """Resume each parked run of these agents as soon as its requests are answered, until cancelled.

    Several processes can do this on one store: each run goes on in one of them. A run that fails is tried again after a
    pause, which grows. Arguments as for `resume_answered`.
    """
    known, pauses = _by_name(agents), _Pauses()
    store, clock = controller.store, controller.adapter.clock
    while True:
        point, _ = await store.changes()  # first: what is answered from here on wakes the wait below
        async for each in _resume_each(known, controller, settings, pauses.not_due(clock.now())):
            pauses.note(each, clock.now())
            yield each
        with contextlib.suppress(TimeoutError):
            async with clock.until(clock.now() + _POLL_SECONDS):
                await store.changed(point)
                await asyncio.sleep(_SETTLE_SECONDS)


def _by_name(agents: Agents) -> dict[str, Agent[Any, Any]]:
    given = [agents] if isinstance(agents, Agent) else list(agents)
    if not all(agent.name for agent in given):
        raise ConfigurationError("an agent finds its parked runs by its name: pass `name=` when you build it")
    known = {str(agent.name): agent for agent in given}
    if len(known) < len(given):
        raise ConfigurationError("two of these agents have the same name, by which their parked runs are found")
    return known


async def _resume_each(
    agents: Mapping[str, Agent[Any, Any]],
    controller: ApprovalController,
    settings: Mapping[str, Any],
    paused: frozenset[str],
) -> AsyncGenerator[Resumed]:
    for run in await _answered_runs(controller):
        agent = agents.get(run.agent)
        resumed = None if agent is None or run.id in paused else await _try_resume(agent, run, controller, settings)
        if resumed is not None:
            yield resumed


async def _try_resume(
    agent: Agent[Any, Any], run: ParkedRun, controller: ApprovalController, settings: Mapping[str, Any]
) -> Resumed | None:
    try:
        return Resumed(run, await resume(agent, run.id, controller=controller, **settings))
    except (AlreadyResuming, ApprovalPending, UnknownRequest):
        return None  # another process was faster
    except Exception as error:  # noqa: BLE001 - a model or a tool may raise anything, and the other runs go on
        _LOG.warning("the run %s of %s could not go on: %r", run.id, run.agent, error)
        return Resumed(run, error=error)


async def _answered_runs(controller: ApprovalController) -> Iterator[ParkedRun]:
    runs = [run for run in await controller.parked_runs() if run.framework == FRAMEWORK and not run.calls]
    still_open = {request.id for request in await controller.pending()} if runs else set[str]()
    return (run for run in runs if still_open.isdisjoint(run.requests))


class _Pauses:
    """The pauses before runs that failed are tried again."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, Iterator[float]]] = {}

    def not_due(self, now: float) -> frozenset[str]:
        """Return the ids of the runs that are not tried yet."""
        return frozenset(run_id for run_id, (due, _) in self._due.items() if now < due)

    def note(self, resumed: Resumed, now: float) -> None:
        """Begin or lengthen the pause of a run that failed, and forget that of one that went on."""
        if resumed.error is None:
            self._due.pop(resumed.run.id, None)
            return
        known = self._due.get(resumed.run.id)
        waits = backoff(first=_POLL_SECONDS, longest=_LONGEST_PAUSE) if known is None else known[1]
        self._due[resumed.run.id] = now + next(waits), waits
