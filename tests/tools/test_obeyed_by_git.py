"""No file that nobody was asked about makes an allowed `git status` start a program: with the real git."""

import asyncio
import itertools
import os
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.people import NO, YES

from sayso import ApprovalBlocked, ApprovalController, ApprovalDenied, Policy
from sayso.core.realpath import resolve
from sayso.errors import ToolError
from sayso.tools.exec import confine
from sayso.tools.files import FileTools
from sayso.tools.shell import ShellTool

GIT_STATUS = {"pattern": "git status", "approval": "none"}
HEAD = "ref: refs/heads/main\n"


class Lab:
    """A zone in which everything is written unasked, a rule that lets `git status` run, and a canary."""

    def __init__(self, base: Path) -> None:
        self.root, self.canary, self.home = base / "w", base / "pwned", base / "home"
        self.root.mkdir()
        self.home.mkdir()

    @property
    def config(self) -> str:
        started = f"touch {self.canary}; false"
        keys = "repositoryformatversion = 0\n\tbare = false\n\tworktree = ."
        return f'[core]\n\t{keys}\n\tfsmonitor = "{started}"\n\thooksPath = hk\n[alias]\n\tx = "!{started}"\n'

    @property
    def hook(self) -> str:
        return f"#!/bin/sh\ntouch {self.canary}\n"

    def policy(self, folder: str = "w", **shell: Any) -> Policy:
        (self.root.parent / folder).mkdir(parents=True, exist_ok=True)
        return Policy.from_dict(
            {
                "default": "blocked",
                "sandbox": {"zones": {"w": {"root": "w", "approval": "none"}}},
                "shell": {"folder": folder, "default": "required", "rules": [GIT_STATUS], **shell},
            },
            base=self.root.parent,
        )

    def write(self, files: Mapping[str, str], folder: str = "w") -> int:
        """Write what can be written unasked, in this order; return the number of files."""
        policy, count = self.policy(folder), 0
        controller = ApprovalController(policy=policy, approval_callback=lambda _: NO)
        with FileTools(policy) as tools, controller.activated():
            write_file = next(tool for tool in tools.functions if tool.__name__ == "write_file")
            for name, content in files.items():
                try:
                    write_file(f"/{folder}/{name}", content)
                except (ApprovalBlocked, ApprovalDenied, ToolError):
                    continue
                count += 1
        return count

    def status(self, folder: str = "w", **shell: Any) -> str:
        policy = self.policy(folder, **shell)
        controller = ApprovalController(policy=policy, approval_callback=lambda _: NO)
        with ShellTool(policy) as tool, controller.activated():
            return asyncio.run(tool.functions[0]("git status"))

    def git(self, *words: str, folder: str = "w") -> None:
        """Run git as the owner would, outside sayso."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        place = self.root.parent / folder
        subprocess.run(["git", *words], cwd=place, env=environment, capture_output=True, check=False)  # noqa: S607

    def started(self) -> bool:
        ran = self.canary.exists()
        self.canary.unlink(missing_ok=True)
        return ran


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab(Path(resolve(str(tmp_path))))
    monkeypatch.setenv("HOME", str(lab.home))
    return lab


def bare(config: str) -> dict[str, str]:
    return {"HEAD": HEAD, "objects/x": "", "refs/x": "", "config": config}


def put(root: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def test_a_folder_that_looks_like_a_bare_repository_is_none_for_a_line(lab: Lab) -> None:
    put(lab.root, bare(lab.config))
    lab.git("status")
    assert lab.started()  # so it does work, for a git that was not told
    assert "cannot use bare repository" in lab.status()
    assert "cannot use bare repository" in lab.status("w/objects")
    assert not lab.started()


def test_a_confined_line_does_not_take_it_for_one_either(lab: Lab) -> None:
    if confine.unavailable_reason() is not None:
        pytest.fail(f"bubblewrap has to work for the tests: {confine.unavailable_reason()}")
    put(lab.root, bare(lab.config.replace(str(lab.canary), "pwned")))
    assert "cannot use bare repository" in lab.status(confine=True)
    assert not (lab.root / "pwned").exists()


def test_the_file_system_monitor_of_a_repository_or_its_submodule_is_not_started(lab: Lab) -> None:
    for folder in ("w", "w/sub"):
        (lab.root.parent / folder).mkdir(exist_ok=True)
        lab.git("init", "-q", folder=folder)
        lab.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a", folder=folder)
    lab.git("add", "sub")
    for folder in ("w", "w/sub"):
        lab.git("config", "core.fsmonitor", f"touch {lab.canary}; false", folder=folder)
    lab.git("status")
    assert lab.started()
    assert "exit code 0" in lab.status()
    assert not lab.started()


def test_hooks_of_the_owners_repository_run(lab: Lab) -> None:
    lab.git("init", "-q")
    put(lab.root, {"a": "a"})
    lab.git("add", "a")
    os.utime(lab.root / "a", (1, 1))  # so that `git status` writes the index
    put(lab.root, {".git/hooks/post-index-change": lab.hook})
    (lab.root / ".git/hooks/post-index-change").chmod(0o755)
    lab.status()
    assert lab.started()


def test_a_hook_of_a_path_that_the_owner_configured_is_not_changed_unasked(lab: Lab) -> None:
    lab.git("init", "-q")
    lab.git("config", "core.hooksPath", "hk")
    put(lab.root, {"a": "a", "hk/post-index-change": "#!/bin/sh\n"})
    (lab.root / "hk/post-index-change").chmod(0o755)
    lab.git("add", "a")
    os.utime(lab.root / "a", (1, 1))
    assert lab.write({"hk/post-index-change": lab.hook}) == 0
    lab.status()
    assert not lab.started()


def spellings(name: str) -> list[str]:
    return [name, name.upper(), name.title(), name.swapcase(), f"{name}.", f"{name} ", f"./{name}", f"x/../{name}"]


def attacks(lab: Lab, rolls: random.Random) -> Iterator[dict[str, str]]:
    """Yield files that make a repository, or would with another spelling, each set in an order of its own."""
    sets = [
        bare(lab.config),
        {**bare(lab.config), "hk/post-index-change": lab.hook, "hooks/post-index-change": lab.hook},
        {"HEAD": HEAD, "commondir": "c", "c/config": lab.config, "c/objects/x": "", "c/refs/x": "", "gitdir": ".git"},
        {f".git/{name}": content for name, content in bare(lab.config).items()},
        {f"sub/.git/{name}": content for name, content in bare(lab.config).items()},
        {".git": "gitdir: store\n", **{f"store/{name}": content for name, content in bare(lab.config).items()}},
        {".gitconfig": lab.config, ".config/git/config": lab.config, ".gitmodules": "", **bare(lab.config)},
    ]
    for files in sets:
        yield from map(dict, itertools.islice(itertools.permutations(files.items()), 2))
        for _ in range(6):
            order = rolls.sample(list(files.items()), len(files))
            spelt = [(rolls.choice(spellings(name)), content) for name, content in order]
            yield dict([*spelt, *order])


@pytest.mark.parametrize("inside", [False, True])
def test_no_order_of_writes_that_nobody_was_asked_about_makes_git_start_a_program(lab: Lab, *, inside: bool) -> None:
    if inside:
        lab.git("init", "-q")
        lab.git("config", "core.hooksPath", "hk")
    rolls = random.Random(23)  # noqa: S311 - the same orders each time
    for at, files in enumerate(attacks(lab, rolls)):
        folder = f"w/f{at}"
        assert lab.write(files, folder) < len(files)  # what makes it a repository was not written
        lab.status(folder)
        for place in (folder, f"{folder}/objects", f"{folder}/sub"):  # and as the owner would run it
            if (lab.root.parent / place).is_dir():
                lab.git("status", folder=place)
        assert not lab.started(), list(files)


def test_the_files_of_a_bare_repository_that_is_there_are_not_changed(lab: Lab) -> None:
    lab.git("init", "-q", "--bare", "own.git")
    before = (lab.root / "own.git" / "config").read_text()
    written = lab.write({f"own.git/{name}": text for name, text in bare(lab.config).items()})
    assert (written, (lab.root / "own.git" / "config").read_text()) == (0, before)


def test_a_confined_line_changes_nothing_of_a_bare_repository_that_is_there(lab: Lab) -> None:
    for folder in ("own.git", ".config/git"):
        (lab.root / folder).mkdir(parents=True)
    lab.git("init", "-q", "--bare", folder="w/own.git")
    (lab.root / "own.git" / "main").mkdir()
    (lab.root / ".config" / "git" / "config").touch()
    line = "for f in own.git/config own.git/hooks/x .config/git/config own.git/main/a b; do echo x >> $f; done"
    policy = lab.policy(confine=True)
    controller = ApprovalController(policy=policy, approval_callback=lambda _: YES)
    with ShellTool(policy) as tool, controller.activated():
        done = asyncio.run(tool.functions[0](line))
    assert done.count("Read-only file system") == 3, done
    assert (lab.root / "own.git" / "main" / "a").read_text() == (lab.root / "b").read_text() == "x\n"
