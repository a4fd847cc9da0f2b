"""Runs the Python in README.md and docs as tests, and keeps slow tests for those who ask for them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

from sayso import load_policy

VOCABULARY = "llama-index-core-*/llama_index/core/_static/tiktoken_cache"
for folder in Path(__file__).parent.joinpath(".tools").glob(VOCABULARY):
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))  # else AdalFlow downloads it; `dev.py test` puts it there
# CrewAI talks to its makers, and keeps what crews said in the user's home; each process of the tests has a place apart.
CREWAI_HOME = TemporaryDirectory(prefix="sayso-crewai-")
os.environ["CREWAI_STORAGE_DIR"] = CREWAI_HOME.name
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_DISABLE_VERSION_CHECK="true", CREWAI_TRACING_ENABLED="false")

# What nest_asyncio changes, which AdalFlow applies to the whole process; taken down before it can.
LOOP = asyncio.SelectorEventLoop
POLICY = type(asyncio.get_event_loop_policy())  # pyright: ignore[reportDeprecated] - what nest_asyncio changes
PATCHED = [
    (asyncio, ("Task", "Future", "run", "get_event_loop", "_nest_patched")),
    (asyncio.tasks, ("Task", "_CTask")),
    (asyncio.futures, ("Future", "_CFuture")),
    (asyncio.events, ("get_event_loop", "_get_event_loop")),
    (LOOP, ("run_forever", "run_until_complete", "_run_once", "_check_running", "_check_runnung", "_nest_patched")),
    (POLICY, ("get_event_loop",)),
]
ORIGINALS = [(owner, name, vars(owner).get(name)) for owner, names in PATCHED for name in names]

MAIN = sys.modules["__main__"]  # in whose place Streamlit leaves the last app; processes of later tests would run it

# Frameworks with an environment of their own, where `dev.py adapters` runs their tests and their page: the extra, the
# folder of the tests, and a module.
FRAMEWORKS = (
    ("agent-framework", "agent_framework", "agent_framework"),
    ("claude-agent", "claude_agent", "claude_agent_sdk"),
    ("crewai", "crewai", "crewai"),
    ("google-adk", "google_adk", "google.adk.agents"),
    ("langchain", "langchain", "langchain.agents"),
    ("openai-agents", "openai_agents", "agents"),
    ("strands", "strands", "strands"),
)


def is_installed(module: str) -> bool:
    """Whether a module can be imported here."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


MISSING = [(extra, folder) for extra, folder, module in FRAMEWORKS if not is_installed(module)]
collect_ignore = [f"tests/adapters/{folder}" for _, folder in MISSING]

FOLDER = "__folder__"
HOME = "__home__"
RAN = "__ran__"


def enter_own_folder(namespace: dict[str, Any]) -> None:
    """Give a document a working directory of its own, so that it may write files, and nothing from an earlier time."""
    namespace.clear()
    namespace[RAN] = set()
    namespace[FOLDER] = TemporaryDirectory(prefix="sayso-docs-")
    namespace[HOME] = Path.cwd()
    os.chdir(namespace[FOLDER].name)


def leave_own_folder(namespace: dict[str, Any]) -> None:
    """Go back and remove what the document wrote."""
    os.chdir(namespace[HOME])
    namespace[FOLDER].cleanup()


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start: a shell's `&` ignores it, and that outlives fork and exec."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Run what comes before an example in its document, if another process of the tests has that."""
    if not isinstance(item, SybilItem):
        return
    ran = item.example.namespace[RAN]
    for each in item.example.document.examples():
        if each.start < item.example.start and each.start not in ran:
            ran.add(each.start)
            each.evaluate()
    ran.add(item.example.start)


def load_yaml(example: Example) -> None:
    """Load a policy that a document shows; the Python behind it finds it as `policy`. Or a file of notices."""
    if example.parsed.startswith("# notices.yaml\n"):
        load_notices(example.parsed)
        return
    Path("sayso.yaml").write_text(example.parsed, encoding="utf-8")
    for name in ("scratch", "output", "documents"):
        Path(name).mkdir(exist_ok=True)
    example.namespace["policy"] = load_policy("sayso.yaml")


def load_notices(text: str) -> None:
    """Read a file of notices, whose secrets are in the environment."""
    from sayso.server.notices.settings_file import read_notices  # noqa: PLC0415 - older environments lack its extra

    Path("notices.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOB_CHAT", "json://127.0.0.1:1/")
        patch.setenv("CI_SECRET", "whsec_c2VjcmV0")
        read_notices(Path("notices.yaml"))


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("yaml", load_yaml)],
    patterns=["README.md", "docs/**/*.md", "docs/*.md"],
    excludes=["docs/_build/**", *(f"docs/{extra}.md" for extra, _ in MISSING)],
    setup=enter_own_folder,
    teardown=leave_own_folder,
).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slow` and `--clients`."""
    parser.addoption("--slow", action="store_true", help="also run the tests that are marked slow")
    parser.addoption("--clients", action="store_true", help="run those of real coding agents; dev.py fetches them")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests of coding agents, programs of hundreds of megabytes, unless they were asked for."""
    is_left_out = collection_path == Path(__file__).parent / "tests" / "clients" and not config.getoption("--clients")
    return True if is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, visibly, unless they were asked for."""
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: runs with --slow"))


LOOP_BEFORE: pytest.StashKey[Any] = pytest.StashKey()


def current_loop() -> Any:  # noqa: ANN401 - or None
    """Return the loop that asyncio's policy has for this thread; asking asyncio for it would make one."""
    policy: Any = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated] - as above
    return policy._local._loop  # noqa: SLF001


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the loop that was there before the test: that of the browser lives on."""
    item.stash[LOOP_BEFORE] = current_loop()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Give asyncio and the main module back as they were, and close the loop that AdalFlow left open."""
    yield
    sys.modules["__main__"] = MAIN
    if not vars(asyncio).get("_nest_patched"):
        return
    left, before = current_loop(), item.stash[LOOP_BEFORE]
    if left is not None and left is not before and not left.is_running():
        left.close()
        asyncio.set_event_loop(None)
    for owner, name, original in ORIGINALS:
        if original is not None:
            setattr(owner, name, original)
        elif name in vars(owner):
            delattr(owner, name)
