"""A chat in the browser that pays only after your say-so: the Vercel AI SDK, PydanticAI, and people who sign in.

npm install && npm run build
pip install "sayso[pydantic-ai]" uvicorn starlette itsdangerous
python app.py  # then open http://127.0.0.1:8000 as ann, with the password ann
"""

import os
import secrets
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolResults, ToolApproved
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from sayso import ApprovalController, Policy
from sayso.adapters.pydantic_ai import Approvals, accept_answers
from sayso.errors import ApprovalBlocked, NotEntitled

HERE = Path(__file__).parent
PASSWORDS = {"ann": "ann", "bob": "bob"}  # your own sign-in goes here
SECRET = os.environ.get("CHAT_SECRET") or secrets.token_hex()  # signs the cookie; set it where several workers serve

# Where the questions and the answers are. All workers share it, and it survives a restart.
controller = ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store="chat.db")


def session_of(ctx: RunContext[str]) -> str:
    """Bind the session to the user: the id of the chat comes from the browser, and anybody can send one."""
    return f"{ctx.deps}/{ctx.conversation_id}"


agent = Agent(
    TestModel(),  # your own model goes here
    deps_type=str,
    output_type=[str, DeferredToolRequests],
    capabilities=[Approvals(controller, session_of=session_of)],
)


@agent.tool_plain
def pay(to: str, amount: int) -> str:
    return f"paid {amount} to {to}"


async def chat(request: Request) -> Response:
    user = request.session.get("user")
    if user is None:
        return JSONResponse("sign in first", status_code=401)
    try:
        adapter = await VercelAIAdapter[str, object].from_request(request, agent=agent, sdk_version=6)
        results = await accept_answers(
            with_edits(adapter.deferred_tool_results, await request.json()),
            adapter.messages,
            controller=controller,
            session=f"{user}/{adapter.conversation_id}",  # as `session_of` has it
            who=user,
        )
    except (NotEntitled, ApprovalBlocked) as error:
        return JSONResponse(str(error), status_code=403)
    except ValueError as error:
        return JSONResponse(str(error), status_code=422)
    return adapter.streaming_response(adapter.run_stream(deferred_tool_results=results, deps=user))


def with_edits(results: DeferredToolResults | None, body: dict[str, Any]) -> DeferredToolResults | None:
    """Add the edited arguments, for which the Vercel AI SDK has no field of its own: the page sends them beside it."""
    edits = TypeAdapter(dict[str, dict[str, Any]]).validate_python(body.get("edits", {}))
    if results is None:
        return None
    approved = [call_id for call_id, answer in results.approvals.items() if answer is True and call_id in edits]
    edited = {call_id: ToolApproved(override_args=edits[call_id]) for call_id in approved}
    return DeferredToolResults(approvals={**results.approvals, **edited})


async def sign_in(request: Request) -> Response:
    form = dict(parse_qsl((await request.body()).decode()))
    name = form.get("name", "")
    if name in PASSWORDS and compare_digest(form.get("password", ""), PASSWORDS[name]):
        request.session["user"] = name
    return RedirectResponse("/", status_code=303)


async def page(request: Request) -> Response:
    return FileResponse(HERE / ("chat.html" if "user" in request.session else "sign_in.html"))


async def script(_: Request) -> Response:
    return FileResponse(HERE / "dist" / "chat.js")


app = Starlette(
    routes=[
        Route("/", page),
        Route("/chat.js", script),
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/chat", chat, methods=["POST"]),
    ],
    middleware=[Middleware(SessionMiddleware, secret_key=SECRET, same_site="strict")],
)

if __name__ == "__main__":
    uvicorn.run(app)
