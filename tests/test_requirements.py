"""Every requirement that the core has to meet is proved by a test that names it."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent

# What the core, the policy file, the hub, Streamlit and the adapters for PydanticAI and AdalFlow promise.
CORE = {
    *(f"R{number}" for number in range(1, 77)),
    *(f"H{number}" for number in range(1, 18)),
}


def proved(file: Path) -> Iterator[str]:
    """Yield every id in a `@pytest.mark.proves(…)` of a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def test_every_requirement_of_the_core_is_named_by_a_test() -> None:
    named = {each for file in TESTS.rglob("test_*.py") for each in proved(file)}
    missing = sorted(CORE - named)
    assert not missing, f"no test proves {', '.join(missing)}"
