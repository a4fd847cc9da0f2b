"""An agent of Agent Framework whose payments need your say-so; runs offline, with a model that is a script."""

import asyncio
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.agent_framework import Approvals

Layers: Any = (FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient)  # those of every client


class Script(*Layers):
    """A model that wants to pay, and then says what came of it."""

    def __init__(self) -> None:
        """Begin at the first line of the script."""
        super().__init__()
        call = Content.from_function_call("call-1", "pay", arguments={"to": "Ann", "amount": 5})
        self.lines = iter([call, Content.from_text("That is all.")])

    async def _inner_get_response(self, **_: object) -> ChatResponse[Any]:
        return ChatResponse(messages=[Message("assistant", [next(self.lines)])])


@tool
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def ask(request: ApprovalRequest) -> ApprovalDecision:
    """Ask at the terminal; anything but a yes is a no, and another number is another amount."""
    typed = input(f"{request} — run it? [y/N/amount] ").strip().lower()
    if typed.isdigit():
        return ApprovalDecision(approved=True, override_args={**request.args, "amount": int(typed)})
    return ApprovalDecision(approved=typed == "y", note=None if typed in {"y", "n", ""} else typed)


approvals = Approvals(Policy({"pay": "required"}), approval_callback=ask)
agent = Agent(client=Script(), tools=[pay], middleware=[approvals])


async def main() -> None:
    """Let the agent pay, and print what was said."""
    response = await agent.run("Pay Ann what I owe her.")
    for message in response.messages:
        for content in message.contents:
            said = content.result if content.type == "function_result" else content.text
            if said:
                print(f"{message.role}: {said}")


if __name__ == "__main__":
    asyncio.run(main())
