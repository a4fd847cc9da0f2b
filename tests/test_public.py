"""The public surface: a reviewed list of names, and an import that costs next to nothing."""

import json
import subprocess
import sys

import pytest

import sayso

PUBLIC = [
    "ApprovalBlocked",
    "ApprovalController",
    "ApprovalDecision",
    "ApprovalDenied",
    "ApprovalError",
    "ApprovalMemory",
    "ApprovalPending",
    "ApprovalPresentation",
    "ApprovalRequest",
    "ApprovalTimeout",
    "Approved",
    "AuditEntry",
    "BlockedError",
    "Channel",
    "ConversationMessage",
    "Denied",
    "Pending",
    "Policy",
    "Preview",
    "Store",
    "ToolCall",
    "Verdict",
    "conversation",
    "guard",
    "load_policy",
    "requires_approval",
    "resume",
]


def test_the_public_names_are_the_reviewed_ones_and_all_of_them_load() -> None:
    assert sayso.__all__ == PUBLIC
    assert dir(sayso) == PUBLIC
    assert all(getattr(sayso, name) is not None for name in PUBLIC)


def test_a_name_that_is_not_public_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Manager'"):
        sayso.Manager  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnusedExpression]


def _loaded_by(statement: str) -> set[str]:
    script = (
        f"import sys, json; before = set(sys.modules)\n{statement}\nprint(json.dumps(list(set(sys.modules) - before)))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    return {name.split(".")[0] for name in json.loads(output.stdout)}


HEAVY = {
    "pydantic", "pydantic_core", "pydantic_ai", "adalflow", "fastapi", "starlette", "uvicorn", "asyncpg", "httpx",
    "rich", "prompt_toolkit", "click", "ruamel", "pytest", "hypothesis", "streamlit",
}  # fmt: skip


@pytest.mark.proves("R21")
def test_importing_sayso_loads_nothing_but_the_package_itself() -> None:
    loaded = _loaded_by("import sayso")
    assert "sayso" in loaded
    assert not loaded & (HEAVY | {"msgspec", "anyio", "asyncio", "sqlite3"})


@pytest.mark.proves("R21")
def test_the_whole_core_runs_without_a_framework_pydantic_or_a_server() -> None:
    statement = """
from sayso import ApprovalController, requires_approval
with ApprovalController(mode="approve_all").activated():
    assert requires_approval(lambda: 5)() == 5
"""
    loaded = _loaded_by(statement)
    assert {"msgspec", "asyncio"} <= loaded
    assert not loaded & HEAVY
