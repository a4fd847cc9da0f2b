"""`sayso check` warns of a rule that runs unasked what an agent writes unasked, and of no other."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sayso.cli.main import commands
from sayso.policy.shell.obeyed_files import obeyed_files

POLICY = """\
default: blocked
tools: {tools}
sandbox:
  zones:
    work: {{root: project, approval: {{write: {write}}}}}
shell:
  folder: {place}
  rules:
    - {{pattern: git status, approval: none}}
    - {{pattern: {pattern}, approval: {approval}}}
"""


def warnings(folder: Path, **words: str) -> list[str]:
    """What `sayso check` says of a file in which everything is unasked, unless words say otherwise."""
    (folder / "project" / "sub").mkdir(parents=True, exist_ok=True)
    given = {
        "default": "blocked",
        "tools": "{}",
        "write": "none",
        "place": "project",
        "approval": "none",
        "pattern": "make test",
    }
    (folder / "sayso.yaml").write_text(POLICY.format(**(given | words)))
    done = CliRunner().invoke(commands, ["check", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {each["kind"] for each in found} <= {"warning"}
    assert all(each["line"] == 10 for each in found)
    return [each["message"] for each in found]


def test_the_warning_names_the_file_the_zone_and_the_cure(folder: Path) -> None:
    (sentence,) = warnings(folder)
    assert sentence == (
        "shell.rules[1]: `make test` runs what 'Makefile' says, and the zone 'work' lets agents write that unasked; "
        "set `approval: {write: required}` for the zone, or `approval: required` for this rule"
    )


@pytest.mark.parametrize(
    "words",
    [
        {"write": "required"},
        {"write": "blocked"},
        {"approval": "required"},
        {"approval": "blocked"},
        {"tools": "{shell: required}"},
        {"tools": "{write_file: required, edit_file: required}"},
        {"pattern": "make --version"},
        {"pattern": "ls"},
        {"pattern": "ruff check"},
        {"pattern": "npm ls"},
        {"pattern": "go build"},
        {"pattern": "/usr/local/bin/deploy"},
        {"pattern": "lefthook run"},
    ],
)
def test_where_one_of_both_asks_or_the_program_obeys_no_file_there_is_no_warning(
    folder: Path, words: dict[str, str]
) -> None:
    assert warnings(folder, **words) == []


def test_a_file_that_only_one_file_tool_writes_unasked_is_warned_of(folder: Path) -> None:
    assert len(warnings(folder, tools="{write_file: required}")) == 1


def test_lines_that_run_in_a_folder_of_the_zone_obey_the_files_there(folder: Path) -> None:
    assert len(warnings(folder, place="project/sub")) == 1


@pytest.mark.parametrize(
    ("pattern", "warned"), [("pytest", True), ("go test", True), ("cargo test", True), ("make test", False)]
)
def test_a_zone_below_the_folder_of_lines_counts_where_a_program_looks_for_files_there(
    folder: Path, pattern: str, *, warned: bool
) -> None:
    assert bool(warnings(folder, pattern=pattern, place=".")) == warned


def test_a_program_that_is_warned_of_by_its_name_alone_is_warned_of_once(folder: Path) -> None:
    assert warnings(folder, pattern="make") == ["shell.rules[1]: 'make' runs other programs; name what it may run"]


@pytest.mark.parametrize(
    ("pattern", "file"),
    [
        ("make test", "Makefile"),
        ("npm test", "package.json"),
        ("npm", "package.json"),
        ("yarn lint", "package.json"),
        ("pytest -q", "conftest.py"),
        ("python -m pytest", "conftest.py"),
        ("uv run pytest", "conftest.py"),
        ("uv run", "setup.py"),
        ("npx eslint", "eslint.config.js"),
        ("cargo test", "build.rs"),
        ("./gradlew test", "gradlew"),
        ("gradle test", "build.gradle"),
        ("python3.12 tools/build.py", "tools/build.py"),
        ("python3 -m json.tool", "json.py"),
        ("bash run.sh", "run.sh"),
        (". env.sh", "env.sh"),
        ("scripts/check", "scripts/check"),
        ("docker compose up", "compose.yaml"),
        ("terraform plan", "main.tf"),
        ("git commit", None),
        ("python3 -c", None),
        ("sqlite3 app.db", None),
        ("cargo tree", None),
        ("pytest --help", None),
        ("../outside/run.sh", None),
        ("npm --silent run lint", "package.json"),
        ("npm ls", None),
        ("npm update", "package.json"),
        ("yarn why", "package.json"),
        ("python -u tools/build.py", "tools/build.py"),
        ("node --test a.js", "a.js"),
        ("tsx a.ts", "a.ts"),
        ("docker buildx bake", "Dockerfile"),
        ("podman build", "Dockerfile"),
        ("docker ps", None),
        ("terraform fmt", None),
        ("terraform -chdir=x plan", "main.tf"),
        ("flake8", ".flake8"),
        ("coverage report", ".coveragerc"),
        ("python -m coverage html", ".coveragerc"),
        ("golangci-lint run", ".golangci.yml"),
        ("go tool stringer", "**/main.go"),
        ("prisma validate", "prisma.config.ts"),
        ("composer validate", "composer.json"),
        ("wrangler deploy", "wrangler.toml"),
        ("brew bundle", "Brewfile"),
        ("brew list", None),
        ("lein test", "project.clj"),
        ("psalm", "psalm.xml"),
        ("swc src", ".swcrc"),
        ("storybook build", ".storybook/main.js"),
        ("uv pip compile", "setup.py"),
        ("uv pip list", None),
        ("python -m build", "setup.py"),
        ("ansible-inventory --list", "ansible.cfg"),
        ("shellcheck", None),
        ("npm version patch", "package.json"),
        ("npm help", None),
        ("make help", "Makefile"),
        ("node --test", "**/main.test.js"),
        ("node --check", None),
        ("dotnet --info", None),
        ("ruff check", None),
    ],
)
def test_the_file_that_a_command_obeys(pattern: str, file: str | None) -> None:
    assert next(obeyed_files(tuple(pattern.split())), None) == file
