"""An AdalFlow agent whose payments need your say-so; runs offline, with a planner that is a script."""

# AdalFlow has no types of its own.
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false

from typing import Any

from sayso.adapters.adalflow import (
    ApprovalOutcome,
    ApprovalResponse,
    ApprovalRunner,
    PermissionManager,
    PermissionRequest,
)

# isort: split
# After sayso: where AdalFlow cannot be imported, sayso says why in one sentence.
from adalflow.components.agent.agent import Agent
from adalflow.core.func_tool import FunctionTool
from adalflow.core.types import Function, GeneratorOutput


def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def ask(request: PermissionRequest) -> ApprovalResponse:
    """Ask at the terminal: y is a yes, a number pays that much instead, anything else is a no and the reason for it."""
    typed = input(f"{request.confirmation_message} {dict(request.tool_kwargs)} [y/amount/why not] ").strip()
    if typed.isdigit():
        return ApprovalResponse(ApprovalOutcome.MODIFY, kwargs={**request.tool_kwargs, "amount": int(typed)})
    return ApprovalResponse(ApprovalOutcome.PROCEED_ONCE if typed == "y" else ApprovalOutcome.CANCEL, typed)


class Script:
    """Scripted planner: pays, and then repeats the result."""

    def call(self, prompt_kwargs: dict[str, Any], **_: Any) -> GeneratorOutput[Any]:  # noqa: ANN401 - AdalFlow's own
        """Return the next step."""
        steps = prompt_kwargs["step_history"]
        if steps:
            return GeneratorOutput(data=Function(_is_answer_final=True, _answer=steps[-1].observation))
        return GeneratorOutput(data=Function(name="pay", kwargs={"to": "Ann", "amount": 5}))

    def get_prompt(self, **_: Any) -> str:  # noqa: ANN401 - AdalFlow's own
        """Return what a model would be shown."""
        return ""


agent = Agent(name="clerk", tools=[FunctionTool(pay, require_approval=True)], planner=Script())
runner = ApprovalRunner(agent, permission_manager=PermissionManager(ask))

if __name__ == "__main__":
    print(runner.call({"input_str": "Pay Ann what I owe her."}).answer)
