"""A LangChain agent whose payments need your say-so; runs offline, with a model that is a script."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.langchain import Approvals


class Script(GenericFakeChatModel):
    """A model that wants to pay, and then says what came of it."""

    def bind_tools(self, tools: object, **_: object) -> "Script":  # noqa: ARG002 - LangChain's signature
        """Take any tools: the script does not read them."""
        return self


def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def ask(request: ApprovalRequest) -> ApprovalDecision:
    """Ask at the terminal; anything but a yes is a no, and another number is another amount."""
    typed = input(f"{request} — run it? [y/N/amount] ").strip().lower()
    if typed.isdigit():
        return ApprovalDecision(approved=True, override_args={**request.args, "amount": int(typed)})
    return ApprovalDecision(approved=typed == "y", note=None if typed in {"y", "n", ""} else typed)


CALL: Any = {"name": "pay", "args": {"to": "Ann", "amount": 5}, "id": "call-1"}
script = Script(messages=iter([AIMessage("", tool_calls=[CALL]), AIMessage("That is all.")]))
approvals = Approvals(Policy({"pay": "required"}), approval_callback=ask)
agent: Any = create_agent(script, [pay], middleware=[approvals])

if __name__ == "__main__":
    for message in agent.invoke({"messages": [("user", "Pay Ann what I owe her.")]})["messages"]:
        print(f"{message.type}: {message.text}")
