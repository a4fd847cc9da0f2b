"""A Strands agent whose payments need your say-so; runs offline, with a model that is a script."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from strands import Agent, tool
from strands.models import Model

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.strands import Approvals


class Script(Model):
    """A model that wants to pay, and then says what came of it."""

    def __init__(self) -> None:
        """Begin at the first line of the script."""
        call = {"start": {"toolUse": {"name": "pay", "toolUseId": "call-1"}}}
        args = {"delta": {"toolUse": {"input": json.dumps({"to": "Ann", "amount": 5})}}}
        text = {"delta": {"text": "That is all."}}
        self.responses = iter(
            [
                [{"contentBlockStart": call}, {"contentBlockDelta": args}, "tool_use"],
                [{"contentBlockDelta": text}, "end_turn"],
            ]
        )

    def update_config(self, **model_config: object) -> None:
        """Take any settings: the script has none."""

    def get_config(self) -> dict[str, Any]:
        """Return no settings."""
        return {}

    def structured_output(self, *_: object, **__: object) -> AsyncGenerator[Any, None]:
        """Refuse: the script says only texts."""
        raise NotImplementedError

    async def stream(self, *_: object, **__: object) -> AsyncGenerator[Any, None]:
        """Say the next line of the script."""
        *blocks, reason = next(self.responses)
        for event in ({"messageStart": {"role": "assistant"}}, *blocks, {"contentBlockStop": {}}):
            yield event
        yield {"messageStop": {"stopReason": reason}}


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
agent = Agent(model=Script(), tools=[pay], plugins=[approvals], callback_handler=None)

if __name__ == "__main__":
    agent("Pay Ann what I owe her.")
    for message in agent.messages:
        for block in message["content"]:
            if "toolResult" in block:
                print("tool:", block["toolResult"]["content"][0].get("text"))
            elif "text" in block:
                print(f"{message['role']}: {block['text']}")
