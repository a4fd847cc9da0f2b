"""The house rules that a reviewer would otherwise repeat, read off the syntax of the source and the tests."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src" / "sayso"

EMPTY_NAMES = {"utils", "helpers", "common", "misc", "base", "manager"}
FILE_WARNING, FILE_LIMIT = 300, 400
ROOT_LIMIT, FOLDER_LIMIT = 14, 20
FUNCTION_LIMIT = 50
DUPLICATE_LIMIT = 40

# A first line with one of these hides its subject.
VAGUE_WORDS = {"who", "whoever", "nobody", "somebody", "told", "those"}

# Module names that occur more than once, and why.
MODULES_TWICE: dict[str, str] = {
    "audit": "`cli/operators/audit` is named as its command; `core/audit` is the chain",
    "follower": "the same part of two stores: follows what others change",
    "policy": "the room, and in it the module of its class `Policy`",
    "remembered": "`cli/operators/remembered` is named as its command; `engine/remembered` is the memory",
    "runs": "`cli/operators/runs` is named as its command; `server/routes/runs` as its path",
    "schema": "the same part of two stores: tables and migrations",
    "serve": "`cli/serve` is named as its command; `server/serve` runs uvicorn",
    "shell": "`sayso.tools.shell` is a public path; `policy/shell` judges what it runs",
    "store": "the same part of each store: the class that implements the port",
    "writer": "the same part of two stores: writes in groups",
}

# Class names that occur more than once, and why.
CLASSES_TWICE: dict[str, str] = {
    "Approvals": "each framework has one: what a user puts into an agent, and the only name to learn",
}

# What users import; a name moves only with a note in the changelog.
PUBLIC_PATHS = [
    "sayso.ApprovalController", "sayso.errors.ApprovalError", "sayso.testing.StoreContract",
    "sayso.streamlit.show_approval_requests", "sayso.adapters.pydantic_ai.Approvals",
    "sayso.adapters.adalflow.PermissionManager", "sayso.adapters.kit.Gate",
    "sayso.tools.files.FileTools", "sayso.tools.shell.ShellTool", "sayso.tools.workers.Workers",
    "sayso.tools.worker_file.read_worker", "sayso.tools.custom.load_tools",
    "sayso.tools.scripted.scripted_model", "sayso.stores.memory.MemoryStore", "sayso.stores.sqlite.SqliteStore",
    "sayso.stores.postgres.PostgresStore", "sayso.stores.remote.RemoteStore",
    "sayso.channels.terminal.TerminalChannel", "sayso.channels.notify.Message",
    "sayso.channels.callback.CallbackChannel",
    "sayso.server.app.create_app", "sayso.server.hub.Hub",
]  # fmt: skip

# The only places that may catch every exception: (module, function) and the reason. Anywhere else a broad
# handler could turn an error into a silent "yes". One that raises again what it caught needs no place here.
BROAD_HANDLERS: dict[tuple[str, str], str] = {
    ("sayso.core.audit", "encode"): "a step that cannot be described must still be told, and must stop nobody",
    ("sayso.engine.journal", "brief_error"): "the words of a tool's error are the tool's code",
    ("sayso.adapters.mcp.relay", "Relay.answer"): "a call that cannot be decided about is refused, and its client told",
    ("sayso.adapters.claude_agent.agent_hooks", "Approvals._before"): "the SDK runs a call whose hook says nothing",
    ("sayso.adapters.claude_agent.agent_hooks", "Approvals._after"): "the call has run: its hook must not fail",
    ("sayso.__main__", "_run_as_hook"): "a coding agent runs the call of a hook that fails in any other way",
    ("sayso.cli.gateways.hook_gateway", "hook"): "whatever is wrong with a call, its client has to read a refusal",
    (
        "sayso.adapters.pydantic_ai.toolset",
        "_validator_problem",
    ): "a validator is the host's code; its error refuses the edit",
    (
        "sayso.adapters.pydantic_ai.resume_loop",
        "_try_resume",
    ): "a model and a tool are other people's code; one run that fails holds up no other",
    (
        "sayso.adapters.crewai.tool_hooks",
        "before_tool",
    ): "CrewAI runs a tool though a hook raises; whatever is wrong here refuses the call",
    ("sayso.adapters.parameters", "type_hints"): "annotations are the host's code, and may name what is not there",
    (
        "sayso.engine.asking",
        "Announcer._run_channel",
    ): "a channel is other people's code; its error withdraws the question",
    (
        "sayso.engine.asking",
        "messages_before",
    ): "a history is other people's code; its error leaves the messages out, and nothing rests on them",
    ("sayso.channels.callback", "_run_and_deliver"): "what the host's function raises is handed to who waits for it",
    ("sayso.engine.journal", "Journal._call_hooks"): "a hook is the host's code and no part of the decision",
    ("sayso.policy.judges", "call_rule"): "a rule is the host's code; its error blocks the call",
    ("sayso.stores.sqlite.store", "SqliteStore._listen"): "an ear that dies would hear of nothing any more",
    ("sayso.tools.custom", "_execute"): "a worker's tools.py is its owner's code; its error is told with its line",
    (
        "sayso.tools.custom",
        "_errors_as_tool_errors",
    ): "a function of a worker is its owner's code; its error is told to the model",
    (
        "sayso.stores.postgres.lookup",
        "Lookup._answers",
    ): "whoever asked is told, and the next are served",
    ("sayso.stores.postgres.writer", "PostgresWriter._persist"): "whoever waits for the group is told what went wrong",
    ("sayso.stores.postgres.batch", "run_jobs"): "a job that fails is told to who waits for it, and to nobody else",
    ("sayso.stores.sqlite.writer", "SqliteWriter._try"): "whoever waits for the group is told what went wrong",
}

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function or method, and where it is."""

    file: Path
    name: str
    node: FUNCTION

    @property
    def place(self) -> str:
        return f"{place(self.file, self.node)} {self.name}"


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def place(file: Path, node: ast.AST) -> str:
    return f"{file.relative_to(TESTS.parent)}:{getattr(node, 'lineno', 1)}"


def functions(file: Path) -> Iterator[Function]:
    def inside(node: ast.AST, prefix: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTION):
                yield Function(file=file, name=f"{prefix}{child.name}", node=child)
            named = isinstance(child, FUNCTION | ast.ClassDef)
            yield from inside(child, f"{prefix}{child.name}." if named else prefix)

    yield from inside(tree(file), "")


def all_functions(folder: Path) -> Iterator[Function]:
    return (function for file in files(folder) for function in functions(file))


@cache
def code_lines(file: Path) -> frozenset[int]:
    """The numbers of the lines that hold code: no blank lines, comments or docstrings."""
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
    spoken = {line for token in tokens if token.type not in silent for line in range(token.start[0], token.end[0] + 1)}
    return frozenset(spoken - docstring_lines(tree(file)))


def docstring_lines(module: ast.Module) -> set[int]:
    owners = (node for node in ast.walk(module) if isinstance(node, FUNCTION | ast.ClassDef | ast.Module))
    docstrings = (owner.body[0] for owner in owners if ast.get_docstring(owner, clean=False) is not None)
    return {line for node in docstrings for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def length(function: Function) -> int:
    last = function.node.end_lineno or function.node.lineno
    return len(code_lines(function.file) & set(range(function.node.lineno, last + 1)))


def calls_of(name: str, folder: Path) -> Iterator[str]:
    for file in files(folder):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Call) and last_name(node.func) == name:
                yield place(file, node)


def last_name(expression: ast.expr | None) -> str | None:
    """`sleep` for both `sleep` and `time.sleep`."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def caught_names(handler: ast.ExceptHandler) -> set[str | None]:
    """The exceptions that a handler catches; a bare `except:` catches `BaseException`."""
    match handler.type:
        case None:
            return {"BaseException"}
        case ast.Tuple(elts=types):
            return {last_name(each) for each in types}
        case single:
            return {last_name(single)}


def handlers(body: Iterable[ast.AST], function: str) -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Every exception handler with the name of the function round it; at the top of a module, `<module>`."""
    for node in body:
        if isinstance(node, ast.ExceptHandler):
            yield function, node
        named = isinstance(node, FUNCTION | ast.ClassDef)
        inner = f"{function}.{node.name}".removeprefix("<module>.") if named else function
        yield from handlers(ast.iter_child_nodes(node), inner)


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the handler only tidies up: it ends by raising what it caught."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def broad_handlers() -> Iterator[tuple[tuple[str, str], str]]:
    """Each handler that catches everything and keeps it: its (module, function), and its place."""
    for file in files(SOURCE):
        module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for function, handler in handlers([tree(file)], "<module>"):
            if caught_names(handler) & {"Exception", "BaseException"} and not passes_on(handler):
                yield (module, function), place(file, handler)


def listed(offences: Iterable[str]) -> str:
    return "".join(f"\n  {offence}" for offence in offences)


def test_there_is_source_to_check() -> None:
    assert files(SOURCE), f"no Python files under {SOURCE}: the rules below would pass for nothing"


def test_every_module_is_named_for_what_it_holds() -> None:
    offences = [place(file, tree(file)) for file in files(SOURCE) if {file.stem, file.parent.name} & EMPTY_NAMES]
    assert not offences, f"name a module for what it holds, not {sorted(EMPTY_NAMES)}:{listed(offences)}"


def entries(folder: Path) -> list[str]:
    """What a stranger sees in a folder: modules, folders and data, without what every package has."""
    return sorted(each.name for each in folder.iterdir() if not each.name.startswith("__") and each.name != "py.typed")


def test_the_root_has_few_doors() -> None:
    found = entries(SOURCE)
    assert len(found) <= ROOT_LIMIT, f"a stranger reads the root first; put modules into rooms: {found}"
    assert [name for name in found if name.endswith(".py")] == ["errors.py", "streamlit.py"]


def test_no_folder_is_too_full_to_take_in() -> None:
    folders = {file.parent for file in files(SOURCE)} - {SOURCE}
    offences = [f"{folder.relative_to(SOURCE)} has {len(entries(folder))}" for folder in sorted(folders)]
    offences = [each for each in offences if int(each.rpartition(" ")[2]) > FOLDER_LIMIT]
    assert not offences, f"split folders of more than {FOLDER_LIMIT} entries:{listed(offences)}"


def test_no_module_name_occurs_twice() -> None:
    places: defaultdict[str, set[str]] = defaultdict(set)
    for file in files(SOURCE):
        path = file.parent if file.stem == "__init__" else file
        if path != SOURCE:
            places[path.stem].add(str(path.relative_to(SOURCE)))
    twice = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    offences = [f"{name}: {', '.join(found)}" for name, found in twice.items() if name not in MODULES_TWICE]
    assert not offences, f"one word, one thing; rename one, or list it in MODULES_TWICE:{listed(offences)}"
    assert not MODULES_TWICE.keys() - twice.keys(), "remove from MODULES_TWICE what occurs once"


def test_no_class_name_occurs_twice() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file in files(SOURCE):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(place(file, node))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    offences = [f"{name}: {', '.join(found)}" for name, found in twice.items() if name not in CLASSES_TWICE]
    assert not offences, f"one word, one thing; rename one, or list it in CLASSES_TWICE:{listed(offences)}"
    assert not CLASSES_TWICE.keys() - twice.keys(), "remove from CLASSES_TWICE what occurs once"


def docstring(file: Path) -> str:
    return ast.get_docstring(tree(file)) or ""


def named_tests(file: Path) -> list[Path]:
    """The test files in the lines of a module's docstring that begin with `Tests:`."""
    lines = re.findall(r"^Tests:(.*)$", docstring(file), re.MULTILINE)
    return [TESTS.parent / name for line in lines for name in re.findall(r"tests/[\w/]+\.py", line)]


def is_tested(file: Path) -> bool:
    """Whether a module has a test: of its name, in a folder of its name, or named in its docstring."""
    module = file.parent if file.stem == "__init__" else file.with_suffix("")
    mirrored = TESTS / module.relative_to(SOURCE)
    own = mirrored.with_name(f"test_{mirrored.name}.py").is_file() or any(mirrored.rglob("test_*.py"))
    named = named_tests(file)
    return all(each.is_file() for each in named) and (own or bool(named))


def test_every_module_has_a_test_or_names_one() -> None:
    holds_code = [file for file in files(SOURCE) if code_lines(file)]
    offences = [place(file, tree(file)) for file in holds_code if not is_tested(file)]
    assert not offences, f"end the docstring with a line `Tests: tests/….py` that names a file:{listed(offences)}"


def test_the_first_line_of_a_module_has_a_subject() -> None:
    first = {file: docstring(file).partition("\n")[0] for file in files(SOURCE)}
    offences = [
        f"{place(file, tree(file))} {line}"
        for file, line in first.items()
        if not line or VAGUE_WORDS & set(re.findall(r"\w+", line.lower()))
    ]
    assert not offences, f"name the thing by its noun, without {sorted(VAGUE_WORDS)}:{listed(offences)}"


def test_imports_keep_to_the_contracts() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.fail("import-linter is missing: run the tests by `python3 dev.py test`")
    ran = subprocess.run(
        [program, "--no-logo"], cwd=TESTS.parent, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("path", PUBLIC_PATHS)
def test_a_public_import_path_stays(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name) is not None


def test_no_file_is_longer_than_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    long = {file: len(code_lines(file)) for file in files(SOURCE) if len(code_lines(file)) > FILE_WARNING}
    offences = [f"{place(file, tree(file))} {size} code lines" for file, size in long.items()]
    with capsys.disabled():
        print("".join(f"\nthink about splitting {offence}" for offence in offences))
    offences = [each for each, size in zip(offences, long.values(), strict=True) if size > FILE_LIMIT]
    assert not offences, f"split files over {FILE_LIMIT} code lines by purpose:{listed(offences)}"


def test_no_function_is_longer_than_the_limit() -> None:
    offences = [
        f"{function.place} {length(function)} code lines"
        for function in all_functions(SOURCE)
        if length(function) > FUNCTION_LIMIT
    ]
    assert not offences, f"split functions over {FUNCTION_LIMIT} code lines:{listed(offences)}"


def test_no_two_functions_have_the_same_body() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for function in all_functions(SOURCE):
        documented = ast.get_docstring(function.node) is not None
        body = ast.Module(body=function.node.body[documented:], type_ignores=[])
        if sum(1 for _ in ast.walk(body)) > DUPLICATE_LIMIT:
            places[ast.dump(body)].append(function.place)
    offences = [" = ".join(same) for same in places.values() if len(same) > 1]
    assert not offences, f"keep one of each pair and call it from both places:{listed(offences)}"


def test_the_source_never_asks_hasattr() -> None:
    offences = list(calls_of("hasattr", SOURCE))
    assert not offences, f"use isinstance or a protocol; a wrapper can answer hasattr wrongly:{listed(offences)}"


def test_no_class_forwards_attributes_that_it_does_not_name() -> None:
    offences = [
        f"{place(file, node)} {node.name}"
        for file in files(SOURCE)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef) and each.name in {"__getattr__", "__getattribute__"}
    ]
    assert not offences, f"delegate each method by name, so that nothing passes a guard unseen:{listed(offences)}"


def test_every_exception_is_caught_only_at_a_named_boundary() -> None:
    offences = [f"{spot} in {boundary}" for boundary, spot in broad_handlers() if boundary not in BROAD_HANDLERS]
    assert not offences, f"catch what you expect, or list the boundary in BROAD_HANDLERS:{listed(offences)}"


def test_every_named_boundary_still_catches_everything() -> None:
    unused = BROAD_HANDLERS.keys() - {boundary for boundary, _ in broad_handlers()}
    assert not unused, f"remove from BROAD_HANDLERS what catches nothing broad any more: {sorted(unused)}"


def test_sub_packages_export_nothing() -> None:
    # What the design names, too long for one module.
    frameworks = (
        "adalflow",
        "agent_framework",
        "claude_agent",
        "crewai",
        "google_adk",
        "langchain",
        "openai_agents",
        "pydantic_ai",
        "strands",
    )
    adapters = (f"adapters/{name}" for name in (*frameworks, "kit"))
    names = (*adapters, "channels/terminal", "testing")
    doors = {SOURCE / name / "__init__.py" for name in (*names, "stores/sqlite", "stores/postgres", "stores/remote")}
    offences = [
        place(file, node)
        for file in {*SOURCE.rglob("*/__init__.py")} - doors
        for node in tree(file).body[ast.get_docstring(tree(file)) is not None :]
    ]
    assert not offences, f"a sub-package holds only a docstring; public names are listed in sayso:{listed(offences)}"


def test_no_test_sleeps() -> None:
    offences = list(calls_of("sleep", TESTS))
    assert not offences, f"wait for an event inside fail_after instead of sleeping:{listed(offences)}"


@pytest.mark.parametrize("module", ["unittest", "mock", "pytest_mock"])
def test_no_test_uses_a_mock(module: str) -> None:
    offences = [place(file, node) for file in files(TESTS) for node in ast.walk(tree(file)) if module in imported(node)]
    assert not offences, f"use the real thing or a double from sayso.testing:{listed(offences)}"


def imported(node: ast.AST) -> set[str]:
    """The top-level names of the packages that a statement imports."""
    match node:
        case ast.Import(names=names):
            return {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(module=str(module)):
            return {module.partition(".")[0]}
        case _:
            return set()
