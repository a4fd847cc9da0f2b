"""The server of a hub: how it holds its connections."""

import asyncio
import socket
from typing import cast

from tests.server.served import Served
from uvicorn.protocols.http.h11_impl import H11Protocol


def test_no_part_of_an_answer_waits_for_an_acknowledgement(served: Served) -> None:
    async def options() -> list[int]:
        connections = cast("set[H11Protocol]", served.server.server_state.connections)
        sockets = [cast("socket.socket", each.transport.get_extra_info("socket")) for each in connections]
        return [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in sockets]

    assert type(served.loop) is asyncio.SelectorEventLoop  # the loop of an installation without extras
    with served.client() as client:
        client.get("/healthz")
        assert served.do(options()) == [1]
