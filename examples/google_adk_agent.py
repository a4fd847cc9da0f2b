"""An agent of Google ADK whose payments need your say-so; runs offline, with a model that is a script."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.google_adk import Approvals

USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)


class Script(BaseLlm):
    """A model that says one part after the other."""

    parts: list[types.Part]

    async def generate_content_async(self, *_: object, **__: object) -> AsyncGenerator[LlmResponse, None]:
        """Say the next line of the script."""
        content = types.Content(role="model", parts=[self.parts.pop(0)])
        yield LlmResponse(content=content, usage_metadata=USAGE)


def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def ask(request: ApprovalRequest) -> ApprovalDecision:
    """Ask at the terminal; anything but a yes is a no, and another number is another amount."""
    typed = input(f"{request} — run it? [y/N/amount] ").strip().lower()
    if typed.isdigit():
        return ApprovalDecision(approved=True, override_args={**request.args, "amount": int(typed)})
    return ApprovalDecision(approved=typed == "y", note=None if typed in {"y", "n", ""} else typed)


call = types.FunctionCall(id="call-1", name="pay", args={"to": "Ann", "amount": 5})
model = Script(model="script", parts=[types.Part(function_call=call), types.Part(text="That is all.")])
agent = LlmAgent(name="clerk", model=model, tools=[pay])
approvals = Approvals(Policy({"pay": "required"}), approval_callback=ask)
app = App(name="bank", root_agent=agent, plugins=[approvals])


async def main() -> None:
    """Run the agent, and print what came of it."""
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="Pay Ann what I owe her.")])
    async with aclosing(runner.run_async(user_id="ann", session_id="1", new_message=message)) as events:
        async for event in events:
            for response in event.get_function_responses():
                told = response.response or {}
                print("tool:", told.get("result") or told.get("error"))
            if event.is_final_response() and event.content and event.content.parts:
                print(f"{event.author}: {event.content.parts[0].text}")


if __name__ == "__main__":
    asyncio.run(main())
