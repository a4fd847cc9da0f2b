"""The ways to ask that a configuration can choose, all over one controller."""

# AdalFlow has no types of its own.
# pyright: basic

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.adalflow.scripted import Till, agent_of, run

from sayso import ApprovalDecision, Policy
from sayso.adapters.adalflow import (
    ApprovalOutcome,
    ApprovalRunner,
    CLIPermissionManager,
    PermissionManager,
    RESTPermissionManager,
    StreamlitPermissionManager,
    WebSocketPermissionManager,
    permission_manager,
)
from sayso.errors import ConfigurationError
from sayso.stores.sqlite import SqliteStore
from sayso.testing import FixedClock

PAY = ("pay", {"amount": 5})


@pytest.mark.proves("R74")
def test_a_configuration_names_the_channel(tmp_path: Path) -> None:
    store = {"store": tmp_path / "sayso.db"}
    shared = dict.fromkeys(("rest", "websocket", "streamlit"), store)
    chosen: dict[str, Any] = {"cli": {}, **shared, "callback": {"approval_callback": print}}
    kinds = [type(permission_manager(name, **settings)) for name, settings in chosen.items()]
    assert kinds == [
        CLIPermissionManager,
        RESTPermissionManager,
        WebSocketPermissionManager,
        StreamlitPermissionManager,
        PermissionManager,
    ]
    assert permission_manager("none") is None


@pytest.mark.proves("R74", "H5")
@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        (
            "pigeon",
            {},
            "there is no channel 'pigeon'; choose one of 'callback', 'cli', 'rest', .*'none'",
        ),
        ("none", {"policy": Policy(default="none")}, "'none' takes no settings"),
        ("callback", {}, "nobody to ask"),
        ("rest", {"store": "memory:"}, "nobody to ask"),
        ("rest", {"store": "gopher://x"}, "cannot be opened"),
    ],
)
def test_a_configuration_that_names_nobody_is_an_error(name: str, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        permission_manager(name, **settings)


@pytest.mark.parametrize("kind", [RESTPermissionManager, WebSocketPermissionManager])
async def test_whoever_shares_the_store_answers(kind: Any, till: Till, tmp_path: Path) -> None:
    """As a hub does: another store object on the same file."""
    agent, _ = agent_of(till.tools(), PAY)
    mine, hub = kind(store=tmp_path / "sayso.db"), SqliteStore(tmp_path / "sayso.db")
    try:
        point, _ = await hub.changes()
        running = asyncio.create_task(ApprovalRunner(agent, permission_manager=mine).acall({"input_str": "go"}))
        await hub.changed(point)
        (request,) = await hub.pending()
        assert dict(request.args) == {"amount": 5, "to": "ann"}
        await hub.close(request.id, "approved", ApprovalDecision(approved=True, who="ann"), now=request.asked_at)
        await running
        assert till.ran == [("pay", 5, "ann")]
    finally:
        await hub.aclose()
        await mine.controller.aclose()


@pytest.mark.proves("R70")
def test_without_an_answer_it_is_over_after_half_a_minute(till: Till, tmp_path: Path) -> None:
    clock = FixedClock()
    agent, script = agent_of(till.tools(), PAY)

    class Late:
        async def announce(self, request: Any) -> None:
            assert request.expires_at == request.asked_at + 30
            asyncio.get_running_loop().call_soon(clock.advance, 30)

    mine = WebSocketPermissionManager(store=tmp_path / "sayso.db", clock=clock, channels=[Late()])
    run(ApprovalRunner(agent, permission_manager=mine), "call")
    assert "nobody answered in time" in script.last
    assert till.ran == []
    mine.controller.close()


def test_at_a_terminal_that_is_none_nothing_runs(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "1")
    agent, script = agent_of(till.tools(), PAY)
    run(ApprovalRunner(agent, permission_manager=CLIPermissionManager(who="ann")), "call")
    assert "nobody can be asked: this is a CI run" in script.last
    assert till.ran == []


def test_the_words_of_the_seed_are_the_outcomes() -> None:
    assert {each.value for each in ApprovalOutcome} == {"proceed_once", "proceed_always", "cancel", "modify"}


def test_without_adalflow_the_error_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['adalflow'] = None\n"
        "try:\n    import sayso.adapters.adalflow\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install sayso[adalflow]" in done.stdout


def test_without_a_vocabulary_the_error_says_what_to_do(tmp_path: Path) -> None:
    script = (
        "import importlib.abc, sys\n"
        "class Offline(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'adalflow': raise ConnectionError('no network')\n"
        "sys.meta_path.insert(0, Offline())\n"
        "try:\n    import sayso.adapters.adalflow\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "TIKTOKEN_CACHE_DIR" in done.stdout
