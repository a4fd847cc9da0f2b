"""Worker file: Markdown with the instructions of an agent, and YAML front matter with its tools and policy."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from sayso.config import load_policy
from sayso.config.read_file import FileSpec, Mark, decode, file_error, read_bytes
from sayso.config.yaml_toml import Document, read_yaml
from sayso.core.model import Rule, Verdict
from sayso.errors import ConfigurationError, Mistake, PolicyError
from sayso.policy.data_schema import (
    Key,
    Problem,
    any_of,
    describe_value,
    integer,
    list_of,
    mapping_of,
    null,
    one_of,
    record,
    text,
    validate,
)
from sayso.policy.entries import FILE_TOOLS
from sayso.policy.file_schema import APPROVAL, FIELDS, TOOL
from sayso.policy.policy import Policy
from sayso.policy.vocabulary import parse_approval, suggest
from sayso.tools.created_workers import FOLDER as CREATED

TOOLS = (*FILE_TOOLS, "shell", "worker_call", "worker_create")
SCRIPTED = "scripted:"  # prefix of a model's name that names a script instead
TOOLS_FILE = "tools.py"  # the module of a worker's custom tools
WORKERS_FOLDER = "workers"  # the folder next to a worker for other workers

_FENCE = "---"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NAMING = "use small letters, digits, `-` and `_`, and start with a letter or digit"
_MOST_NAMED = 20
_DEEPEST_PATH = 100  # parts; a link could make a folder its own
_SCRIPT = re.compile(rb"""^model:[ \t]*["']?scripted:([^"'#\r\n]*[^"'#\s])""", re.MULTILINE)
_FILE_SPEC = FileSpec(
    what="a worker file",
    missing="",  # the error lists the existing workers instead
    empty="write a line such as `model: openai:gpt-5`",
    start="start its front matter with a line such as `model: openai:gpt-5`",
    largest=1_000_000,
)

_CALLED = any_of(
    APPROVAL,
    record(
        "what happens to calls of this worker",
        {"approval": APPROVAL, "reason": text("why this rule is as it is")},
        required=("approval",),
    ),
    null("as for every call of a worker"),
)
_POLICY_KEYS = (
    "default",
    "custom_tools",
    "sandbox",
    "shell",
    "shell_default",
    "shell_rules",
    "remember",
    "conversation",
    "audit",
)
WORKER = record(
    "The front matter of a worker: its model, its tools, and what happens to their calls.",
    {
        "name": text("what people are shown; the file's own name if left out"),
        "description": text("what the worker is for"),
        "model": text("the name of a model, such as openai:gpt-5, or scripted:FILE"),
        "tools": any_of(
            list_of("the built-in tools that it gets", one_of("a tool", TOOLS)),
            record("the same, each with what happens to its calls", dict.fromkeys(TOOLS, TOOL)),
        ),
        "workers": any_of(
            list_of("the workers that it may call", text("a worker's name")),
            mapping_of("the same, each with what happens to such a call", _CALLED),
        ),
        "limits": record(
            "how far it may go",
            {
                "depth": integer("how many workers may be inside each other", least=1, most=10),
                "requests": integer("how often the model may be asked in a run", least=1, most=1_000_000),
            },
        ),
        **{key: FIELDS[key] for key in _POLICY_KEYS},
    },
)


class WorkerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a worker; None leaves a limit to its caller."""

    depth: int | None = None
    requests: int | None = None


class WorkerFile(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed worker file.

    `tools` are its built-in tools, and no others; `worker_rules` has the verdict about calling one of `workers`, where
    the file has a rule for it; `policy` decides about every other call.
    """

    name: str
    description: str | None
    model: str | None
    instructions: str
    tools: tuple[str, ...]
    custom_tools: tuple[str, ...]
    workers: tuple[str, ...]
    worker_rules: Mapping[str, Verdict]
    policy: Policy
    folder: Path
    path: Path
    limits: WorkerLimits
    fingerprint: str  # of the file, its tools and its script, as they were when it was read

    @property
    def script(self) -> Path | None:
        """The script file that replaces the model, if there is one."""
        return _script(self.model, self.folder)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the front matter, draft 7, which editors understand."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "sayso worker", **WORKER.schema}


def find_worker(name: str, folder: str | os.PathLike[str]) -> Path:
    """Return the file of a worker: `NAME.md` in the folder of its caller, or in `workers` below that.

    Raises:
        ConfigurationError: the name is invalid, unknown or ambiguous.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{describe_value(name)} is no name of a worker; {_NAMING}")
    places = [Path(folder) / f"{name}.md", Path(folder) / WORKERS_FOLDER / f"{name}.md"]
    found = [place for place in places if os.path.lexists(place)]
    if len(found) > 1:
        raise ConfigurationError(f"{found[0]} and {found[1]} are both the worker {name!r}; keep one of them")
    if not found:
        raise ConfigurationError(
            f"there is no worker {describe_value(name)} in {folder}; {_known_workers_hint(Path(folder), name)}"
        )
    return found[0]


def read_worker(path: str | os.PathLike[str]) -> WorkerFile:
    """Read a worker file.

    Raises:
        PolicyError: lists every mistake, with its place.
    """
    path = Path(path)
    place = path.absolute()
    if not os.path.lexists(path):
        raise file_error(str(path), f"there is no such file; {_known_workers_hint(place.parent, path.stem)}")
    content = read_bytes(path, _FILE_SPEC)
    front, instructions = _split_front_matter(decode(content, str(path), _FILE_SPEC), str(path))
    document = read_yaml(front.encode(), str(path), _FILE_SPEC)
    data = document.data
    checker = _WorkerFileChecker(document)
    checker.raise_if_any(validate(WORKER, data))  # data of the wrong shape cannot be parsed any further
    found = [*_name_problems(data, place), *_tool_problems(data), *_custom_tool_problems(data, place.parent)]
    policy = checker.read_policy(place, found)
    names = dict.fromkeys(data.get("tools") or ())
    return WorkerFile(
        name=data.get("name", place.stem),
        description=data.get("description"),
        model=data.get("model"),
        instructions=instructions,
        tools=tuple(names | dict.fromkeys(("worker_call",) if data.get("workers") else ())),
        custom_tools=policy.custom_tools or (),
        workers=tuple(dict.fromkeys(data.get("workers") or ())),
        worker_rules=dict(_rules(data, document)),
        policy=policy,
        folder=place.parent,
        path=place,
        limits=WorkerLimits(**data.get("limits", {})),
        fingerprint=_fingerprint(content, place.parent / TOOLS_FILE, _script(data.get("model"), place.parent)),
    )


# --- The text ------------------------------------------------------------------------------------------------


def _fingerprint(content: bytes, *others: Path | None) -> str:
    parts = [content, *(each.read_bytes() if each is not None and each.is_file() else b"" for each in others)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _split_front_matter(content: str, source: str) -> tuple[str, str]:
    """Return the front matter, with its first `---` so that lines are counted from the top, and the body."""
    lines = content.split("\n")
    if lines[0].rstrip() != _FENCE:
        problem = "there is no front matter; start with a line `---`, and end it with another one below its keys"
        raise file_error(source, problem, Mark(1, 1))
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == _FENCE), None)
    if end is None:
        raise file_error(source, "the front matter is not closed; put a line `---` below its last key", Mark(1, 1))
    if not any(line.partition("#")[0].strip() for line in lines[1:end]):
        raise file_error(source, f"the front matter is empty; {_FILE_SPEC.empty}", Mark(1, 1))
    body = "\n".join(lines[end + 1 :]).strip()
    if not body:
        problem = "there is no instruction below the front matter; write what the worker has to do"
        raise file_error(source, problem, Mark(end + 1, 1))
    return "\n".join((*lines[:end], "")), body


def workers_in(folder: Path) -> list[Path]:
    """Return the candidate worker files in a folder, and in `workers` below it."""
    return [file for each in (folder, folder / WORKERS_FOLDER) if each.is_dir() for file in _workers_here(each)]


def _workers_here(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix == ".md" and _NAME.fullmatch(file.stem))


def _known_workers_hint(folder: Path, name: str) -> str:
    try:
        there = list(dict.fromkeys(file.stem for file in workers_in(folder)))
    except OSError:
        there = []
    if not there:
        return "there are no workers here"
    more = ", …" if len(there) > _MOST_NAMED else ""
    return f"there are {', '.join(there[:_MOST_NAMED])}{more}{suggest(name, there)}"


# --- Semantics ----------------------------------------------------------------------------------------------


class _WorkerFileChecker:
    """Validator of a worker file: collects all mistakes, each with its place."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def raise_if_any(self, problems: Iterable[Problem], further: Iterable[Mistake] = ()) -> None:
        own = [Mistake(self._document.source, *self._place(each.key), each.message) for each in problems]
        mistakes = [*own, *further]
        if mistakes:
            raise PolicyError(sorted(mistakes, key=lambda each: (each.line or 0, each.column or 0)))

    def read_policy(self, path: Path, problems: Iterable[Problem]) -> Policy:
        """Compile the policy in a worker file; its mistakes are raised together with the problems found before."""
        data, source = self._document.data, self._document.source
        tools: Any = data.get("tools", ())
        said: dict[str, Any] = {key: data[key] for key in _POLICY_KEYS if key in data}
        said |= {"default": data.get("default", "required")}
        said |= {"tools": tools if isinstance(tools, dict) else dict.fromkeys(tools)}
        protected = _protected(data, path, source)
        try:
            policy = Policy.from_dict(said, base=path.parent, source=source, places=self._place, protected=protected)
        except PolicyError as error:
            self.raise_if_any(problems, error.mistakes)
            raise
        self.raise_if_any(problems)
        return policy

    def _place(self, key: Key) -> tuple[int, int]:
        """Return the position of a key, also of a tool in a list."""
        match key:
            case ("tools", str(name), *_) if isinstance(self._document.data["tools"], list):
                return self._document.mark(_tool_key(self._document.data, name))
            case _:
                return self._document.mark(key)


def _tool_key(data: Mapping[str, Any], name: str) -> Key:
    tools: Any = data["tools"]
    return ("tools", name if isinstance(tools, dict) else list(tools).index(name))


def _name_problems(data: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    name = data.get("name", path.stem)
    if not _NAME.fullmatch(name):
        what = "name is" if "name" in data else "name is left out, and the file's own name is"
        yield Problem(("name",), f"{what} {describe_value(name)}; {_NAMING}")
    workers = data.get("workers") or ()
    for at, each in enumerate(workers):
        if not _NAME.fullmatch(each):
            key = ("workers", at if isinstance(workers, list) else each)
            yield Problem(key, f"workers has {describe_value(each)}, which is no name of a worker; {_NAMING}")
    if data.get("model") == SCRIPTED:
        yield Problem(("model",), "model names no script; write the name of its file behind `scripted:`")


def _tool_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    tools = data.get("tools") or ()
    if "shell" in tools and not {"shell", "shell_default", "shell_rules"} & data.keys():
        yield Problem(_tool_key(data, "shell"), "tools has 'shell', but there are no rules for it; add `shell`")
    for name in tools:
        if name in FILE_TOOLS and "sandbox" not in data:
            problem = f"tools has {name!r}, but there is no folder that it may use; add a `sandbox` with zones"
            yield Problem(_tool_key(data, name), problem)


def _custom_tool_problems(data: Mapping[str, Any], folder: Path) -> Iterator[Problem]:
    custom = data.get("custom_tools") or ()
    for at, name in enumerate(custom):
        key = ("custom_tools", at if isinstance(custom, list) else name)
        if name in TOOLS:
            yield Problem(key, f"custom_tools has {name!r}, which is the name of a built-in tool; rename the function")
        elif not name.isidentifier():
            yield Problem(
                key, f"custom_tools has {describe_value(name)}, which is no name of a function; write each out"
            )
    if custom and not (folder / TOOLS_FILE).exists():
        yield Problem(("custom_tools",), f"custom_tools are functions of `{TOOLS_FILE}`, but there is none in {folder}")


def _rules(data: Mapping[str, Any], document: Document) -> Iterator[tuple[str, Verdict]]:
    workers = data.get("workers")
    if not isinstance(workers, Mapping):
        return
    for name, given in cast("Mapping[str, Any]", workers).items():
        if given is not None:
            said: Mapping[str, Any] = {"approval": given} if isinstance(given, str) else given
            approval = parse_approval(said["approval"], f"workers.{name}.approval")
            rule = Rule(source=document.source, key=f"workers.{name}", line=document.mark(("workers", name)).line)
            reason = said.get("reason") or f"{rule.key} is {approval!r}"
            yield name, Verdict(approval=approval, reason=reason, rule=rule)


# --- The files that steer agents -----------------------------------------------------------------------------


def _script(model: str | None, folder: Path) -> Path | None:
    name = (model or "").removeprefix(SCRIPTED)
    return folder / name if model and name and name != model else None


def _protected(data: Mapping[str, Any], path: Path, source: str) -> list[str]:
    """Return the real paths that no file tool may touch: the files of this worker, and of all above and below it."""
    files = [path, *([script] if (script := _script(data.get("model"), path.parent)) else [])]
    try:
        for folder in _worker_folders(path.parent):
            workers = _workers_here(folder)
            files += [*workers, *(each for worker in workers for each in _script_of(worker))]
            files += [folder / TOOLS_FILE, folder / WORKERS_FOLDER / TOOLS_FILE, folder / CREATED]
        named = [name for name in data.get("workers") or () if _NAME.fullmatch(name)]  # perhaps still to be written
        files += [path.parent / way / f"{name}.md" for name in named for way in (".", WORKERS_FOLDER)]
        return load_policy.paths_to_protect(files)
    except OSError as error:
        problem = f"nobody can say where the files of the worker or its model lead ({error.strerror or error})"
        raise file_error(source, f"{problem}; look for links and odd names") from None


def _worker_folders(folder: Path) -> Iterator[Path]:
    """Yield the folder, its descendants called `workers`, and its ancestors while the folder is called so."""
    yield folder
    above = folder
    while above.name == WORKERS_FOLDER:
        above = above.parent
        yield above
    below = folder / WORKERS_FOLDER
    while below.is_dir() and len(below.parts) < _DEEPEST_PATH:
        yield below
        below = below / WORKERS_FOLDER


def _script_of(worker: Path) -> Iterator[Path]:
    """Yield the script that a worker file names, without validating the file."""
    try:
        found = _SCRIPT.search(worker.read_bytes()[: _FILE_SPEC.largest])
    except OSError:
        return
    if found:
        yield worker.parent / os.fsdecode(found[1])
