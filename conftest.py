"""Runs the Python in README.md and docs as tests, and keeps slow tests for those who ask for them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

from sayso import load_policy

VOCABULARY = "llama-index-core-*/llama_index/core/_static/tiktoken_cache"
for folder in Path(__file__).parent.joinpath(".tools").glob(VOCABULARY):
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))  # else AdalFlow downloads it; `dev.py test` puts it there

FOLDER = "__folder__"
HOME = "__home__"


def enter_own_folder(namespace: dict[str, Any]) -> None:
    """Give a document a working directory of its own, so that it may write files."""
    namespace[FOLDER] = TemporaryDirectory(prefix="sayso-docs-")
    namespace[HOME] = Path.cwd()
    os.chdir(namespace[FOLDER].name)


def leave_own_folder(namespace: dict[str, Any]) -> None:
    """Go back and remove what the document wrote."""
    os.chdir(namespace[HOME])
    namespace[FOLDER].cleanup()


def load_yaml(example: Example) -> None:
    """Load a policy that a document shows; the Python behind it finds it as `policy`."""
    Path("sayso.yaml").write_text(example.parsed, encoding="utf-8")
    for name in ("scratch", "output", "documents"):
        Path(name).mkdir(exist_ok=True)
    example.namespace["policy"] = load_policy("sayso.yaml")


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("yaml", load_yaml)],
    patterns=["README.md", "docs/**/*.md", "docs/*.md"],
    excludes=["docs/_build/**"],
    setup=enter_own_folder,
    teardown=leave_own_folder,
).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slow`."""
    parser.addoption("--slow", action="store_true", help="also run the tests that are marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, visibly, unless they were asked for."""
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: runs with --slow"))
