"""A web app with an agent that pays: a process of its own, which a test can kill and start again.

`python server.py FOLDER MODE` prints its port; the store and what the tools did are in the folder. A bearer token is
the name of a person here, which stands for the sign-in of a real app; `examples/web_chat` has one.
"""

import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, RunContext
from pydantic_ai.ui import UIAdapter
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from sayso import ApprovalController, Policy
from sayso.adapters.pydantic_ai import Approvals, WebUser, accept_answers
from sayso.errors import ApprovalError, NotEntitled

ROLES = {"ann": ["cashier"], "tom": ["cashier", "treasurer"]}
POLICY = Policy({"pay": "required", "refund": {"approval": "required", "approvers": {"role": "treasurer"}}})


def pay(ctx: RunContext[str], amount: int, currency: str = "EUR") -> str:
    """Pay somebody."""
    return done(ctx, f"paid {amount} {currency}")


def refund(ctx: RunContext[str], amount: int) -> str:
    """Give somebody their money back."""
    return done(ctx, f"refunded {amount}")


def done(ctx: RunContext[str], deed: str) -> str:
    """Write down what was done in which chat, for the test."""
    with Path(sys.argv[1], "deeds").open("a", encoding="utf-8") as deeds:
        deeds.write(f"{ctx.conversation_id}\t{deed}\n")
    return deed


async def respond(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Call the tool that the prompt names, with each number in it; then say what came of it.

    The same prompt makes the same call ids again, as some providers do.
    """
    parts = list(messages[-1].parts)
    if isinstance(parts[-1], UserPromptPart):
        tool, *amounts = str(parts[-1].content).split()
        for at, amount in enumerate(amounts):
            yield {at: DeltaToolCall(tool, f'{{"amount": {amount}}}', tool_call_id=f"{tool}:{amount}:{at}")}
    else:
        yield " | ".join(str(part.content) for part in parts if isinstance(part, ToolReturnPart))


def session_of(ctx: RunContext[str]) -> str:
    return f"{ctx.deps}/{ctx.conversation_id}"


def ann(_: RunContext[str]) -> WebUser:
    return WebUser("ann", ROLES["ann"])


def agent(approvals: Approvals) -> Agent[str, Any]:
    return Agent(
        FunctionModel(stream_function=respond),
        deps_type=str,
        output_type=[str, DeferredToolRequests],
        tools=[pay, refund],
        capabilities=[approvals],
    )


class App:
    """One agent behind the front ends of PydanticAI."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.controller = ApprovalController(policy=POLICY, mode=mode, store=folder / "sayso.db")
        self.agent = agent(Approvals(self.controller, session_of=session_of))

    @property
    def starlette(self) -> Starlette:
        local = agent(Approvals(self.controller, answered_by=ann))
        routes = [
            Route("/vercel", self.vercel, methods=["POST"]),
            Route("/ag-ui", self.ag_ui, methods=["POST"]),
            Mount("/local", local.to_web(deps="ann")),
        ]
        return Starlette(routes=routes)

    async def vercel(self, request: Request) -> Response:
        adapter = await VercelAIAdapter[str, Any].from_request(request, agent=self.agent, sdk_version=6)
        return await self.answer(request, adapter)

    async def ag_ui(self, request: Request) -> Response:
        adapter = await AGUIAdapter[str, Any].from_request(request, agent=self.agent)
        return await self.answer(request, adapter)

    async def answer(self, request: Request, adapter: UIAdapter[Any, Any, Any, str, Any]) -> Response:
        """Give the answers of the signed-in person to the controller, and run the agent."""
        user = request.headers.get("authorization", "").removeprefix("Bearer ")
        if user not in ROLES:
            return JSONResponse({"error": "sign in first"}, status_code=401)
        try:
            results = await accept_answers(
                adapter.deferred_tool_results,
                adapter.messages,
                controller=self.controller,
                session=f"{user}/{adapter.conversation_id}",
                who=user,
                roles=ROLES[user],
            )
        except (NotEntitled, ApprovalError, ValueError) as error:
            return JSONResponse({"error": str(error)}, status_code=403)
        return adapter.streaming_response(adapter.run_stream(deferred_tool_results=results, deps=user))


def main(folder: str, mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        app = App(Path(folder), mode).starlette
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
