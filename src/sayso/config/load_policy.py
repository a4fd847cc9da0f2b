"""Policy loader: reads one named file, or discovers all that apply here and layers the nearer over the farther."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sayso.config.yaml_toml import Document, read_policy_file
from sayso.core import realpath
from sayso.errors import ConfigurationError
from sayso.policy.policy import Policy

NAMES = ("sayso.yaml", "sayso.yml")


def load_policy(path: str | os.PathLike[str] | None = None, *, extra_folder: Path | None = None) -> Policy:
    """Load the policy of a file or, without a path, of all files that apply here and in another folder.

    These are the user's own file, the project's (the nearest `sayso.yaml`, or `[tool.sayso]` in `pyproject.toml`, from
    the current folder upwards) and the one that `SAYSO_POLICY` names. Blocks add up; between `none` and `required` the
    nearer file wins.

    Raises:
        ConfigurationError: a file is invalid, with the place, or there is no file.
    """
    documents = [_read_file(each) for each in ([Path(path)] if path is not None else policy_files_here(extra_folder))]
    if not documents:
        raise ConfigurationError("there is no policy file here; run `sayso init` to write one, or name one")
    policies = [_build_policy(document, documents) for document in documents]
    nearest = policies[0]
    for each in policies[1:]:
        nearest = each.over(nearest)
    return nearest


def _read_file(path: Path) -> Document:
    document = read_policy_file(path)
    if document is None:
        raise ConfigurationError(f"{path}: this file has no [tool.sayso]; add that table, or name another file")
    return document


def policy_files_here(extra_folder: Path | None = None) -> Iterator[Path]:
    """Yield the files that apply here and in another folder, the farthest first."""
    home = _config_folder()
    own = None if home is None else _single_file([home / "sayso" / name for name in NAMES])
    if own is not None:
        yield own
    projects = [
        _project_file(folder) for folder in (Path.cwd(), *([] if extra_folder is None else [extra_folder.resolve()]))
    ]
    yield from dict.fromkeys(project for project in projects if project is not None)
    named = os.environ.get("SAYSO_POLICY")
    if named:
        yield Path(named)


def _project_file(folder: Path) -> Path | None:
    for here in (folder, *folder.parents):
        pyproject = here / "pyproject.toml"
        also = [pyproject] if _exists(pyproject) and read_policy_file(pyproject) is not None else []
        found = _single_file([*(here / name for name in NAMES), *also])
        if found is not None:
            return found
    return None


def _config_folder() -> Path | None:
    named = os.environ.get("XDG_CONFIG_HOME")
    try:
        return Path(named) if named else Path.home() / ".config"
    except RuntimeError:
        return None  # a user without a home, as in a container


def _single_file(paths: Iterable[Path]) -> Path | None:
    """Return the file that exists; two are an error, because the choice would be ambiguous."""
    found = [path for path in paths if _exists(path)]
    if len(found) > 1:
        raise ConfigurationError(f"{found[0]} and {found[1].name} beside it both hold a policy; keep one of them")
    return found[0] if found else None


def _exists(path: Path) -> bool:
    """Whether the path exists, even if it is unreadable: fail closed, unreadable rules must not be skipped."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _build_policy(document: Document, documents: Iterable[Document]) -> Policy:
    path = Path(document.source).absolute()
    return Policy.from_dict(
        document.data,
        base=path.parent,
        source=document.source,
        places=document.mark,
        protected=paths_to_protect(Path(each.source).absolute() for each in documents),
    )


def paths_to_protect(paths: Iterable[Path]) -> list[str]:
    """Return the real paths of the files and, for links, also the paths of the links."""
    found: list[str] = []
    for path in paths:
        found += [realpath.resolve(str(path)), f"{realpath.resolve(str(path.parent))}/{path.name}"]
    return list(dict.fromkeys(found))
