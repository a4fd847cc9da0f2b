"""The lives of a workflow: its processes, one after the other, and what they leave behind in their folder."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.adapters.pydantic_ai.durable.process import POINTS

from sayso import ApprovalRequest
from sayso.stores.sqlite import SqliteStore

Live = Callable[[Path, int], int]


def begin(folder: Path, **plan: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "plan").write_text(json.dumps(plan), encoding="utf-8")
    return folder


def die_and_recover(live: Live, folder: Path, point: str) -> None:
    assert live(folder, POINTS.index(point)) == -9
    assert live(folder, 0) == 0


def lines(folder: Path, file: str) -> list[str]:
    return (folder / file).read_text(encoding="utf-8").splitlines() if (folder / file).exists() else []


def ended(folder: Path) -> Any:
    return json.loads((folder / "ended").read_text(encoding="utf-8"))


def heard(folder: Path) -> list[str]:
    return ended(folder)["heard"]


def requests(folder: Path) -> list[ApprovalRequest]:
    """All requests of the process, and a chain of audit entries that is whole."""

    async def read() -> list[ApprovalRequest]:
        store = SqliteStore(folder / "state.db")
        found = [json.loads(line) for _, line, _ in await store.audit()]
        ids = dict.fromkeys(entry["request_id"] for entry in found if entry.get("request_id"))
        rows = [await store.get(each) for each in ids]
        await store.aclose()
        return [row for row in rows if row is not None]

    return asyncio.run(read())
