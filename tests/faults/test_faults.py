"""What can go wrong between machines, done to real processes; the whole history of each run is checked.

`SAYSO_FAULT_SEED` gives another seed.
"""

import os
import random
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.faults.history import Event, of_kind
from tests.faults.world import SECONDS, Child, World
from tests.postgres import Postgres, Wire, running

SEED = int(os.environ.get("SAYSO_FAULT_SEED", "9"))


@pytest.fixture
def world(tmp_path: Path, database: str) -> Generator[World]:
    with World(tmp_path, database, seed=SEED) as world:
        yield world


def stop(*agents: Child) -> None:
    for each in agents:
        each.stop()


def finish(*agents: Child) -> None:
    for each in agents:
        each.finish()


# The server.


@pytest.mark.proves("H3", "H6", "H16")
def test_a_server_that_is_killed_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with running(durable=True) as server:
        server.make_template()
        with World(tmp_path, server.database(), seed=SEED) as world:
            agents = [world.agent(name, patience=SECONDS) for name in ("a", "b")]
            world.person("ann", patience=SECONDS)
            for _ in range(2):
                world.until_ran(10)
                server.kill()
                server.start()
            world.until_ran(10)
            stop(*agents)
            world.check()
            assert world.failed() == [], "a server that is back soon enough is waited for"


@pytest.mark.proves("H5", "H16")
def test_a_server_whose_disk_is_full_runs_nothing_and_loses_nothing(tmp_path: Path) -> None:
    with running(durable=True, room="128m") as server:
        server.make_template()
        with World(tmp_path, server.database(), seed=SEED) as world:
            agents = [world.agent(name) for name in ("a", "b")]
            world.person("ann")
            world.until_ran(10)
            with server.full():
                world.until(lambda _: len(world.failed()) >= 5)
            if not server.is_up:
                server.start()
            world.until_ran(10)
            stop(*agents)
            world.check()
            assert "No space left on device" in server.log


# The way to it.


@pytest.mark.proves("H3", "H6")
def test_connections_that_are_cut_neither_lose_nor_double_anything(
    world: World, postgres: Postgres, database: str
) -> None:
    with Wire(postgres) as wire:
        agents = [world.agent("a", store=wire.through(database)), world.agent("b")]
        world.person("ann", store=wire.through(database))
        for count, where in enumerate(("before", "answer", "before", "answer")):
            wire.cut(b'"step":', where)
            world.until(lambda _: wire.cuts > count)  # noqa: B023 - called at once
            world.until_ran(2)
        wire.break_down()
        wire.repair()
        for each in agents:
            world.until_ran(4, each)  # each has its connections again
        assert postgres.end_sessions(database) >= 6
        for each in agents:
            world.until_ran(4, each)
        stop(*agents)
        world.check()
        assert world.failed() == [], "a connection that is cut is made again"


@pytest.mark.proves("H3", "H6")
@pytest.mark.parametrize("where", ["between", "in a commit"])
def test_connections_that_fall_silent_hold_nobody_up_for_long(
    world: World, postgres: Postgres, database: str, where: str
) -> None:
    with Wire(postgres) as wire:
        far = world.agent("a", store=wire.through(database), hurry=True, patience=SECONDS)
        near = world.agent("b", hurry=True, patience=SECONDS)
        world.person("ann", hurry=True, patience=SECONDS)
        world.until_ran(3, far)
        if where == "between":
            assert wire.hold() >= 2
        else:
            wire.cut(b'"step":', "hold")
            world.until(lambda _: wire.cuts == 1)
        world.until_ran(5, near)
        world.until_ran(5, far)
        wire.repair()  # now arrives what everybody has given up
        stop(far, near)
        world.check()
        assert world.failed() == []


@pytest.mark.proves("H6")
def test_without_any_hint_everybody_hears_of_everything_all_the_same(
    world: World, postgres: Postgres, database: str
) -> None:
    with Wire(postgres, hushed=True) as wire:
        agents = [world.agent(name, store=wire.through(database), calls=12, at_once=12) for name in ("a", "b")]
        world.person("ann", store=wire.through(database))
        finish(*agents)
    final = world.check()
    assert {row.word.status for row in final.rows} == {"used", "denied"}


# Who uses it.


@pytest.mark.proves("H2", "H3", "H16")
def test_an_agent_that_is_killed_at_any_moment_and_comes_back_runs_nothing_twice(world: World) -> None:
    world.person("ann")
    fate = random.Random(SEED)  # noqa: S311 - no secret
    agent = world.agent("a", session="s", calls=24, at_once=4, fatal=1)
    for _ in range(8):
        agent.die()
        agent = world.again("agent", replace(agent.plan, fatal=fate.randint(1, 40)))
    agent.die()
    finish(world.again("agent", replace(agent.plan, fatal=0)))
    final = world.check()
    assert len(final.rows) == 24


@pytest.mark.proves("H2", "H3")
def test_of_two_agents_that_carry_the_same_calls_one_runs_each(world: World) -> None:
    world.person("ann")
    finish(*(world.agent(name, session="s", calls=24, at_once=12) for name in ("a", "b")))
    final = world.check()
    assert len(final.rows) == 24
    used = [each for each in final.rows if each.word.status == "used"]
    assert world.ran() == len(used), "nobody was killed, so what was used has run"


@pytest.mark.proves("H3", "H6", "H16")
def test_a_hub_that_is_killed_and_comes_back_loses_nothing_and_the_others_go_on(world: World) -> None:
    hubs = [world.hub("h1"), world.hub("h2")]
    agents = [
        world.agent(name, store=hub.url, token=world.token("agent", name), patience=SECONDS)
        for name, hub in zip("ab", hubs, strict=True)
    ]
    for name, hub in zip(("ann", "ben"), hubs, strict=True):
        world.person(name, store=hub.url, token=world.token("approver", name))
    world.until_ran(4, agents[0])
    hubs[0].kill()
    world.until_ran(4, agents[1])
    world.ready(world.again("hub", hubs[0].plan))
    world.until_ran(4, agents[0])
    stop(*agents)
    world.check()


def lost(events: list[Event]) -> int:
    """Return how many answers a hub tried to write, and found that the other one had been faster."""
    return len([each for each in of_kind(events, "close") if each.found != each.meant and each.process[0] == "h"])


@pytest.mark.proves("H2", "H6")
def test_of_two_people_at_two_hubs_who_answer_at_once_one_is_taken(world: World) -> None:
    hubs = [world.hub("h1"), world.hub("h2")]
    for name, hub in zip(("ann", "ben"), hubs, strict=True):
        world.person(name, store=hub.url, token=world.token("approver", name))
    world.agent("x", at_once=16)
    world.agent("y", store=hubs[1].url, token=world.token("agent", "y"), at_once=16)
    world.until(lambda events: lost(events) >= 3)
    world.check()


@pytest.mark.proves("H5", "H6")
def test_clocks_that_are_wrong_by_an_hour_change_nothing(world: World) -> None:
    hub = world.hub("h1", clock_ahead=3600.0)
    world.person("ann", store=hub.url, token=world.token("approver", "ann"), ignores="late")
    agents = [
        world.agent("slow", calls=10, timeout=300.0, clock_ahead=-3600.0),
        world.agent("fast", calls=10, timeout=300.0, clock_ahead=3600.0),
        world.agent("far", store=hub.url, token=world.token("agent", "far"), calls=10, timeout=300.0),
        world.agent("late", calls=8, timeout=1.0, clock_ahead=-3600.0),
    ]
    finish(*agents)
    final = world.check()
    expired = {row.call.partition("-")[0] for row in final.rows if row.word.status == "expired"}
    assert expired == {"late"}
    assert len([row for row in final.rows if row.word.status == "expired"]) == 8


# Everything at once.


class Storm:
    """All processes at once, through one line to one server, and everything that can be done to them."""

    def __init__(self, world: World, server: Postgres, wire: Wire, seed: int) -> None:
        self._fate = random.Random(seed)  # noqa: S311 - no secret
        self._world, self._server, self._wire = world, server, wire
        far = wire.through(world.url)
        self.hubs = [world.hub(name, store=far, hurry=True) for name in ("h1", "h2")]
        self.agents = [
            world.agent("a", hurry=True),
            world.agent("b", store=far, hurry=True),
            world.agent("c", store=self.hubs[0].url, token=world.token("agent", "c")),
        ]
        for name, hub in zip(("ann", "ben"), self.hubs, strict=True):
            world.person(name, store=hub.url, token=world.token("approver", name))
        self._blows = (
            self._server_dies,
            self._hub_dies,
            self._agent_dies,
            self._cut,
            self._hold,
            self._break,
            self._end,
        )

    def strike(self) -> None:
        blow = self._fate.choice(self._blows)
        print(blow.__name__)
        blow()

    def _server_dies(self) -> None:
        self._server.kill()
        self._server.start()

    def _hub_dies(self) -> None:
        i = self._fate.randrange(len(self.hubs))
        self.hubs[i].kill()
        self.hubs[i] = self._world.ready(self._world.again("hub", self.hubs[i].plan))

    def _agent_dies(self) -> None:
        i = self._fate.randrange(len(self.agents))
        self.agents[i].kill()
        self.agents[i] = self._world.again("agent", self.agents[i].plan)

    def _cut(self) -> None:
        self._wire.cut(b'"step":', self._fate.choice(["before", "answer", "hold"]))

    def _hold(self) -> None:
        self._wire.hold()

    def _break(self) -> None:
        self._wire.break_down()
        self._wire.repair()

    def _end(self) -> None:
        self._server.end_sessions(self._world.url)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_whatever_comes_in_whatever_order_nothing_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    with running(durable=True) as server, Wire(server) as wire:
        server.make_template()
        with World(tmp_path, server.database(), seed=seed) as world:
            storm = Storm(world, server, wire, seed)
            for _ in range(12):
                world.until_ran(10)
                storm.strike()
            wire.repair()
            world.until_ran(10)
            stop(*storm.agents)
            world.check()
