"""The other process: goes on with a pause from its record, and prints what ran."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
from pathlib import Path

from tests.adapters.conformance.driver import Driver
from tests.adapters.conformance.pausing import deferring
from tests.adapters.conformance.toolbox import Toolbox


async def go_on(driver: Driver, folder: Path) -> None:
    """Go on with the pause of a folder."""
    tools, pause = Toolbox(), driver.restore((folder / "record").read_bytes())
    async with deferring(folder) as controller:
        with contextlib.suppress(Exception):  # a pause that has gone on already may not be found any more
            await driver.go_on(pause, ["done"], [tools.pay()], controller)
    print(json.dumps(tools.ran))


if __name__ == "__main__":
    _, module, name, where = sys.argv
    asyncio.run(go_on(getattr(importlib.import_module(module), name)(), Path(where)))
