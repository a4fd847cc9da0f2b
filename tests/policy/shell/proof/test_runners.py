"""Commands that run others by their name: the inner one is found, and a rule that leaves it open is warned of."""

import pytest

from sayso import Policy
from sayso.policy.shell.proof.runners import innermost_named


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("uv run --frozen pytest -q", "pytest -q"),
        ("python -m pytest -q", "pytest -q"),
        ("python3 -u -mpytest -q", "pytest -q"),
        ("uv run python -m pytest", "pytest"),
        ("docker exec -it app ls -la", "ls -la"),
        ("npx eslint src", "eslint src"),
        ("git log", "git log"),
        ("frob run x", "frob run x"),
    ],
)
def test_the_command_behind_runners(line: str, inner: str) -> None:
    assert " ".join(innermost_named(tuple(line.split()))) == inner


@pytest.mark.parametrize("pattern", ["uv run", "docker exec", "docker exec app", "kubectl exec", "npx", "poetry run"])
def test_a_rule_that_ends_before_the_program_it_runs_is_warned_of(pattern: str) -> None:
    rules = [{"pattern": pattern, "approval": "none"}, {"pattern": f"{pattern} a b c", "approval": "none"}]
    policy = Policy.from_dict({"default": "required", "shell": {"default": "required", "rules": rules}})
    (warning,) = policy.warnings
    assert "shell.rules[0]" in warning
    assert "name what it may run" in warning
