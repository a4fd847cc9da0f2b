"""A policy that counts its evaluations, for tests of all adapters."""

from sayso import Policy, ToolCall, Verdict
from sayso.policy.policy import ToolRules


class Counting(Policy):
    """A policy that counts how often it is asked, by name, about a call that has arguments."""

    asked = 0

    def judge_by_name(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Verdict | None:
        self.asked += bool(call.args)  # not where only the name of a tool is looked up
        return super().judge_by_name(call, tool_rules)
