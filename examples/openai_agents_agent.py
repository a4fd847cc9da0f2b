"""An agent of the OpenAI Agents SDK whose payments need your say-so; runs offline, with a model that is a script."""

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from sayso import ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.openai_agents import Approvals

set_tracing_disabled(disabled=True)  # it would be sent to OpenAI


@function_tool
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def ask(request: ApprovalRequest) -> ApprovalDecision:
    """Ask at the terminal; anything but a yes is a no, and another number is another amount."""
    typed = input(f"{request} — run it? [y/N/amount] ").strip().lower()
    if typed.isdigit():
        return ApprovalDecision(approved=True, override_args={**request.args, "amount": int(typed)})
    return ApprovalDecision(approved=typed == "y", note=None if typed in {"y", "n", ""} else typed)


script = ScriptedModel(
    [
        [function_call("pay", {"to": "Ann", "amount": 5}, call_id="call-1")],
        [assistant_message("That is all.")],
    ]
)
approvals = Approvals(Policy({"pay": "required"}), approval_callback=ask)
agent = approvals.guard(Agent(name="clerk", model=script, tools=[pay]))

if __name__ == "__main__":
    result = Runner.run_sync(agent, "Pay Ann what I owe her.")
    for item in result.to_input_list():
        if item.get("type") == "function_call_output":
            print("tool:", item.get("output"))
    print("agent:", result.final_output)
