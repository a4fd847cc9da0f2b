"""A server of Prefect on a port of its own choice, which it prints."""

from importlib import import_module
from typing import Any

from uvicorn import Config, Server

create_app: Any = import_module("prefect.server.api.server").create_app  # not there where the types are checked


class PortPrinter(Server):
    """A server that says when it can be used."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


if __name__ == "__main__":
    PortPrinter(Config(create_app(), host="127.0.0.1", port=0, log_level="critical")).run()
