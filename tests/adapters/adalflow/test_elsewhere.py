"""People who are asked elsewhere: through a real hub, by REST and by WebSocket, and in a Streamlit app."""

# AdalFlow has no types of its own.
# pyright: basic

import json
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from tests.adapters.adalflow.scripted import Till, agent_of
from tests.server.served import PATIENCE, Served, heard

from sayso.adapters.adalflow import (
    ApprovalRunner,
    RESTPermissionManager,
    StreamlitPermissionManager,
    WebSocketPermissionManager,
)

PAY, MORE = ("pay", {"amount": 5}), ("pay", {"amount": 6})


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Served]:
    served = Served(tmp_path)
    served.start()
    monkeypatch.setenv("SAYSO_TOKEN", served.token("agent", "clerk"))
    yield served
    served.stop()


class Run:
    """A run of an agent, in a thread of its own."""

    def __init__(self, manager: Any, till: Till, *steps: Any) -> None:
        agent, self.script = agent_of(till.tools(), *steps)
        self._manager = manager
        self._runner = ApprovalRunner(agent, permission_manager=manager)
        self._thread = threading.Thread(target=self._runner.call, args=({"input_str": "go"},))
        self._thread.start()

    def over(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._manager.controller.close()


@pytest.mark.proves("R69")
def test_through_a_hub_by_rest(hub: Served, till: Till) -> None:
    """What waits is listed, answered by its id, edited, and gone then; nobody answers what is not there."""
    run = Run(RESTPermissionManager(store=hub.url), till, PAY, MORE)
    with hub.person("ann") as ann:
        assert ann.post("/approvals/nothing", json={"outcome": "cancel"}).status_code == 404
        first = _waits(ann)
        assert (first["tool"], first["args"], first["asked_by"]) == ("pay", {"amount": 5, "to": "ann"}, "clerk")
        edited = {"outcome": "modify", "args": {"amount": 1, "to": "bob"}}
        assert ann.post(f"/approvals/{first['id']}", json=edited).status_code == 200
        second = _waits(ann, after=first["id"])
        said = {"outcome": "cancel", "note": "enough"}
        assert ann.post(f"/approvals/{second['id']}", json=said).json()["status"] == "denied"
        assert ann.post(f"/approvals/{second['id']}", json={"outcome": "proceed_once"}).status_code == 409
        run.over()
        assert ann.get("/approvals", params={"status": "pending"}).json()["items"] == []
    assert till.ran == [("pay", 1, "bob")]
    assert "Their note: enough" in run.script.last


def _waits(ann: Any, after: str = "") -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        items = [
            each for each in ann.get("/approvals", params={"status": "pending"}).json()["items"] if each["id"] > after
        ]
        if items:
            return items[0]
    raise AssertionError("nothing waits")


@pytest.mark.proves("R68")
def test_through_a_hub_by_websocket(hub: Served, till: Till) -> None:
    """Two runs wait at once, and each gets its own answer, by the id."""
    with hub.socket(hub.token("approver", "ann")) as ann:
        tills = [till, Till()]
        steps = [PAY, MORE]
        runs = [
            Run(WebSocketPermissionManager(store=hub.url), each, step) for each, step in zip(tills, steps, strict=True)
        ]
        asked: dict[int, str] = {}
        while len(asked) < 2:
            message = heard(ann)
            if message["type"] == "approval_request":
                assert message["tool"] == "pay"
                asked[message["args"]["amount"]] = message["id"]
        for amount, outcome in ((6, "cancel"), (5, "proceed_once")):
            ann.send(json.dumps({"type": "approval_response", "id": asked[amount], "outcome": outcome}))
        for run in runs:
            run.over()
    assert [each.ran for each in tills] == [[("pay", 5, "ann")], []]


@pytest.mark.proves("R72")
def test_in_a_streamlit_app(till: Till, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in seed 002, with nothing said about where; the answers are allow, always and cancel."""
    monkeypatch.chdir(tmp_path)
    run = Run(StreamlitPermissionManager(), till, PAY, PAY, MORE, ("pay", {"amount": 7}))
    code = "from sayso.streamlit import show_approval_requests\nshow_approval_requests(who='ann')"
    page = AppTest.from_string(code, default_timeout=PATIENCE)
    for amount, *labels in (("5", "Allow for…", "Allow and remember"), ("6", "Deny"), ("7", "Allow once")):
        deadline = time.monotonic() + PATIENCE
        while amount not in (shown := [each.value for each in page.run().code]):
            assert time.monotonic() < deadline, shown
        for label in labels:
            page.session_state["sayso-desk"].since = 0.0
            next(each for each in page.button if each.label == label).click().run()
    run.over()
    assert till.ran == [("pay", 5, "ann"), ("pay", 5, "ann"), ("pay", 7, "ann")]
