"""The example in examples/ does what it says, from a terminal that answers and from one that is gone."""

from tests.adapters.example_run import answers, run_example


@answers
def test_the_agent_pays_only_what_was_agreed_to(typed: str, told: str) -> None:
    assert told in run_example("openai_agents_agent.py", typed)
