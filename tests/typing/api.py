"""What users write, checked by mypy and pyright and never run."""

from collections.abc import Callable
from typing import Any, assert_type

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalMemory,
    ApprovalRequest,
    Policy,
    ToolCall,
    Verdict,
    guard,
    requires_approval,
)
from sayso.core.model import Approved, Denied, Pending


@requires_approval
def send(to: str, *, times: int = 1) -> bool:
    return bool(to) and times > 0


@requires_approval(description="Send it later")
async def send_later(to: str) -> int:
    return len(to)


def ask(request: ApprovalRequest) -> ApprovalDecision:
    return ApprovalDecision(approved=request.tool_name == "send")


async def ask_async(request: ApprovalRequest) -> ApprovalDecision:
    return ask(request)


def double(number: int) -> int:
    return number * 2


async def main() -> None:
    controller = ApprovalController(
        mode="interactive", approval_callback=ask, policy=Policy({"send": "required"}), memory=ApprovalMemory()
    )
    ApprovalController(approval_callback=ask_async, store="sayso.db", timeout=30)
    assert_type(send("ann", times=2), bool)
    assert_type(await send_later("ann"), int)
    assert_type(guard(double, controller)(2), int)
    assert_type(guard(double, controller, on_denied="return")(2), int | str)
    assert_type(await guard(send_later, controller, on_denied="return")("ann"), int | str)
    outcome = await controller.review(ToolCall(tool="send", args={"to": "ann"}))
    assert_type(outcome, Approved | Denied | Pending)
    assert_type(controller.policy.judge(ToolCall(tool="send")), Verdict)
    callback: Callable[[ApprovalRequest], ApprovalDecision] = controller.approval_callback
    assert_type(callback(ApprovalRequest(tool_name="send", payload={})), ApprovalDecision)

    async def tool(args: dict[str, Any]) -> str:
        return str(args)

    assert_type(await controller.run(ToolCall(tool="send"), tool), str)
