"""A crew whose payments need your say-so; runs offline, with a model that is a script."""

from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.crewai import Approvals


class Script(BaseLLM):
    """A model that wants to pay, and then repeats what came of it."""

    def supports_function_calling(self) -> bool:
        """Make calls, not texts that describe them."""
        return True

    def call(self, messages: Any, *_: object, **__: object) -> Any:  # noqa: ANN401 - CrewAI's signature
        """Call the tool; then repeat its result."""
        told = [each["content"] for each in messages if each["role"] == "tool"]
        pay = {"name": "pay", "arguments": '{"to": "Ann", "amount": 5}'}
        return told[-1] if told else [{"id": "call-1", "type": "function", "function": pay}]


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


clerk = Agent(
    role="clerk", goal="Pay what is owed.", backstory="You keep the books.", llm=Script(model="script"), tools=[pay]
)
task = Task(description="Pay Ann what I owe her.", expected_output="What was paid.", agent=clerk)
crew = Approvals(Policy({"pay": "required"}), approval_callback=ask).guard(Crew(agents=[clerk], tasks=[task]))

if __name__ == "__main__":
    print(f"crew: {crew.kickoff()}")
