"""A PydanticAI agent whose payments need your say-so; runs offline, with a model that is a script."""

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.pydantic_ai import Approvals


def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def ask(request: ApprovalRequest) -> ApprovalDecision:
    """Ask at the terminal; anything but a yes is a no."""
    return ApprovalDecision(approved=input(f"{request} — run it? [y/N] ").strip().lower() == "y")


approvals = Approvals(Policy({"pay": "required"}), approval_callback=ask)
agent = Agent(TestModel(), tools=[pay], capabilities=[approvals])

if __name__ == "__main__":
    print(agent.run_sync("Pay Ann what I owe her.").output)
