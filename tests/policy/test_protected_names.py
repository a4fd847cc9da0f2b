"""Names that no tool changes, or none unasked: by the zones, which judge every path."""

from pathlib import Path

import pytest

from sayso.core.model import Approval, Rule
from sayso.core.realpath import may_exist, resolve
from sayso.policy.protected_names import protected_among
from sayso.policy.zones import Zone, Zones

REPOSITORY = {
    *("HEAD", "config", "config.worktree", "commondir", "gitdir", "hooks/pre-commit", "hooks/new", "objects/info/x"),
    *("refs/heads/main", "info/attributes", "modules/a/config", "worktrees/a/gitdir", "packed-refs", "index"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(resolve(str(tmp_path)))


def written(root: Path, name: str) -> Approval:
    """The approval of a write in a zone where everything runs, which has to be that of a deletion as well."""
    rule = Rule(source="sayso.yaml", key="zones.w")
    judge = Zones([Zone(name="w", root=str(root), write="none", delete="none", rule=rule)], resolve=resolve)
    verdict = judge.judge(f"/w/{name}", "write")
    assert judge.judge(f"/w/{name}", "delete").approval == verdict.approval
    assert judge.judge_real(f"{root}/{name}", "write").approval == verdict.approval
    assert judge.judge(f"/w/{name}", "read").approval == "none"
    return verdict.approval


@pytest.mark.parametrize(
    "name",
    [
        ".tool-versions", ".mise/config.toml", "mise.toml", ".mise.production.toml", "mise/config.toml", "WARP.md",
        ".openhands/microagents/repo.md", ".kilocode/rules/a.md", ".factory/droids/a.md", ".replit", "replit.md",
        "rust-toolchain", "rust-toolchain.toml", ".yarn/releases/yarn.cjs", ".pnp.cjs", ".pnpmfile.mjs",
        "lefthook.yaml", ".lefthook-local.yml", ".mvn/jvm.config", "gradle/wrapper/gradle-wrapper.properties",
        ".bundle/config", ".my.cnf", ".duckdbrc", ".latexmkrc", ".docker/cli-plugins/docker-x", ".config/gh/config.yml",
        "uv.toml", ".gitconfig.shared", "tools/gitconfig", "dev.gitconfig", ".lfsconfig", ".subversion/config",
        ".sl/config", ".local/bin/ls", ".terraformrc", "pip.conf", "NuGet.Config", ".valgrindrc", ".proverc", "HEAD",
        "deep/er/HEAD", ".rustup/settings.toml", ".config/go/env", ".aws/cli/alias", ".ackrc", ".ctags.d/x.ctags",
        ".aria2/aria2.conf", ".tigrc", ".sentryclirc", ".myclirc", ".bazeliskrc", ".config/bat/config",
        ".local/share/helm/plugins/x/plugin.yaml", ".local/share/gh/extensions/gh-x/gh-x",
    ],
)  # fmt: skip
def test_a_file_that_programs_obey_by_default_is_never_changed(root: Path, name: str) -> None:
    for spelling in (name, name.upper(), name.swapcase(), f"folder/{name}", f"{name} ", f"{name}."):
        assert written(root, spelling) == "blocked"


@pytest.mark.parametrize(
    "name",
    [
        "hooks/pre-commit", "scripts/commit-msg", "POST-INDEX-CHANGE", "node_modules/eslint/index.js", ".venv/bin/ruff",
        "venv/bin/python", "lib/python3.12/site-packages/a.py", "pyvenv.cfg", ".python-version", "a/pyproject.toml",
        ".terraform/providers/x", ".tox/py/bin/pytest", "ruff.toml", "pkg/.ruff.toml", ".bazelversion",
        ".terraform-version",
    ],
)  # fmt: skip
def test_a_file_that_programs_may_obey_is_changed_only_if_a_person_says_so(root: Path, name: str) -> None:
    assert written(root, name) == "required"


@pytest.mark.parametrize(
    "name",
    [
        "package.json", "Makefile", "conftest.py", ".gitignore", "Dockerfile", ".env", "config", "objects/x", "refs/x",
        "hooks/useThing.ts", "src/hooks/index.ts", "index", "info/x", "description", "logs/x.log", "src/head/meta.html",
        "Head.tsx", "HEAD.md", "docs/pre-commit/index.md", "pre-commit.md", "docs/gitconfig.md", "src/gitconfig.go",
        "mise.md", "promise.toml", "docs/lefthook.md", ".kube/deploy.yaml", ".rspec", "ansible.cfg", "modules/net/x.tf",
        "config/app.yml", "src/local/a.py", "docs/ruff.toml.md",
    ],
)  # fmt: skip
def test_what_ordinary_work_writes_is_as_the_zone_says(root: Path, name: str) -> None:
    assert written(root, name) == "none"


def test_a_zone_below_a_folder_of_installed_programs_is_as_it_says(root: Path) -> None:
    inside = root / "venv" / "node_modules" / "project"
    inside.mkdir(parents=True)
    assert written(inside, "a.txt") == "none"


@pytest.mark.parametrize("name", sorted(REPOSITORY))
@pytest.mark.parametrize("folder", ["", "bare.git/", "a/b/"])
def test_a_folder_with_a_head_is_protected_as_a_repository_is(root: Path, folder: str, name: str) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "HEAD").write_text("ref: refs/heads/main\n")
    for spelling in (name, name.upper(), name.title()):
        assert written(root, f"{folder}{spelling}") == "blocked"


def test_a_head_that_is_a_broken_link_makes_a_repository_too(root: Path) -> None:
    (root / "HEAD").symlink_to("refs/heads/main")
    assert written(root, "config") == "blocked"


def test_a_folder_of_which_nobody_can_say_whether_it_has_a_head_counts_as_a_repository() -> None:
    assert may_exist(f"/{'x' * 300}/HEAD")
    assert not may_exist("/nowhere/HEAD")


def test_a_work_tree_in_the_folder_of_a_bare_repository_stays_writable(root: Path) -> None:
    (root / "HEAD").touch()
    (root / "main").mkdir()
    for name in ("main/src/a.py", "main/config", "main/hooks/a.ts", "notes.md"):
        assert written(root, name) == "none"


def test_of_all_names_in_a_folder_those_are_protected_that_a_tool_may_not_change() -> None:
    names = ["a.py", "config", "hooks/", "main/", ".git/", "head/"]
    assert protected_among("/x", names) == [".git/"]
    assert protected_among("/x", [*names, "HEAD"]) == ["config", "hooks/", ".git/", "HEAD"]
    assert protected_among("/.config", ["git/", "app/"]) == ["git/"]
