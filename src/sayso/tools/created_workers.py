"""Created workers: written by an agent, stored apart from the owner's worker files, and untrusted.

Tests: tests/tools/test_workers.py
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from sayso.config.read_file import FileSpec, decode, read_bytes
from sayso.config.yaml_toml import read_yaml
from sayso.errors import ConfigurationError, ToolError
from sayso.policy import data_schema
from sayso.policy.data_schema import list_of, record, text
from sayso.tools.fs.directory import OpenDirectory

FOLDER = "workers/created"  # next to the worker that creates them; no file tool may touch it

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
_LONGEST = 100_000
_FENCE = "---\n"
_FILE_SPEC = FileSpec(
    what="a worker that an agent has made",
    missing="make it again",
    empty="make it again",
    start="make it again",
    largest=2 * _LONGEST,
)
_FRONT = record(
    "a worker that an agent has made",
    {"description": text("what it is for"), "tools": list_of("tools of its maker", text("a tool's name"))},
    required=("description", "tools"),
)


class CreatedWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that an agent has created; it has its creator's model, and a subset of its creator's tools."""

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...]


def check_worker(worker: CreatedWorker) -> None:
    """Refuse a worker that would not survive a round trip through its file."""
    if not _NAME.fullmatch(worker.name):
        raise ToolError(f"{worker.name[:60]!r} is no name of a worker; use small letters, digits, `-` and `_`")
    if len(set(worker.tools)) < len(worker.tools):
        raise ToolError(f"the worker {worker.name!r} names a tool twice; name each once")
    if not worker.instructions.strip():
        raise ToolError(f"the worker {worker.name!r} has no instructions; say what it has to do")
    if len(worker.instructions) + len(worker.description) > _LONGEST:
        raise ToolError(f"the worker {worker.name!r} is described in more than {_LONGEST} characters; shorten that")
    try:
        again = _parse_worker(worker.name, serialize_worker(worker), worker.name)
    except ConfigurationError as error:
        raise ToolError(f"the worker {worker.name!r} cannot be written down: {error}") from error
    if again != worker:
        raise ToolError(f"the worker {worker.name!r} cannot be written down; use plain text without odd characters")


def serialize_worker(worker: CreatedWorker) -> bytes:
    """Serialise a worker; the front matter is JSON, which is YAML too and needs no quoting rules."""
    front = msgspec.json.encode({"description": worker.description, "tools": worker.tools})
    return f"{_FENCE}{front.decode()}\n{_FENCE}{worker.instructions}".encode()


def save_worker(worker: CreatedWorker, folder: Path) -> None:
    """Write the file of a new worker; an existing file is never replaced."""
    data = serialize_worker(worker)
    with OpenDirectory(str(folder.resolve())) as directory:
        directory.write(f"{FOLDER}/{worker.name}.md", data, instead_of=None, most=len(data))


def find_created_worker(name: str, folder: Path) -> Path | None:
    """Return the file of the created worker of this name, if there is one."""
    path = folder / FOLDER / f"{name}.md"
    return path if _NAME.fullmatch(name) and path.is_file() else None


def read_created_worker(path: Path) -> CreatedWorker:
    """Read a created worker.

    Raises:
        ConfigurationError: the file is not as sayso has written it.
    """
    return _parse_worker(path.stem, read_bytes(path, _FILE_SPEC), str(path))


def _parse_worker(name: str, content: bytes, source: str) -> CreatedWorker:
    _, _, rest = decode(content, source, _FILE_SPEC).partition(_FENCE)
    front, fence, instructions = rest.partition(f"\n{_FENCE}")
    data = read_yaml(front.encode(), source, _FILE_SPEC).data
    problems = [each.message for each in data_schema.validate(_FRONT, data)] if fence else ["it has no front matter"]
    if problems:
        raise ConfigurationError(f"{source}: {problems[0]}")
    return CreatedWorker(
        name=name, description=data["description"], instructions=instructions, tools=tuple(data["tools"])
    )
