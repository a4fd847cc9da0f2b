"""The people whom tests ask."""

from typing import Any

from sayso import ApprovalDecision, ApprovalRequest

YES = ApprovalDecision(approved=True)
NO = ApprovalDecision(approved=False)


class Person:
    """Gives these answers, the last one for ever, and keeps what they were asked."""

    def __init__(self, *answers: ApprovalDecision) -> None:
        self.asked: list[ApprovalRequest] = []
        self._answers = list(answers) or [YES]

    def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @property
    def saw(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that they were asked about."""
        return [(request.tool_name, dict(request.args)) for request in self.asked]


def nobody(request: ApprovalRequest) -> ApprovalDecision:
    """May not be asked."""
    raise NotImplementedError(f"nobody may be asked about {request}")
