"""Pages that tell of the code, held against it: every module is in the map, and every signature is as it is said."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sayso"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAP = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    """The text between a heading and the next one."""
    _, found, rest = ARCHITECTURE.partition(f"\n{heading}\n")
    assert found, f"docs/architecture.md has no {heading!r}"
    return re.split(r"\n##+ ", rest)[0]


def spoken(text: str) -> list[str]:
    """The names that stand in code, in order; a folder is one too."""
    return re.findall(r"`(\w+)/?`", text)


FOLDERS = sorted({str(file.parent.relative_to(SOURCE)) for file in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_is_in_the_map_with_its_first_line(folder: str) -> None:
    _, found, rest = MAP.partition(f"\n## {f'sayso/{folder}'.removesuffix('/.')}\n")
    assert found, f"docs/map.md has no {folder!r}: run `python3 dev.py docs`"
    rows = dict(re.findall(r"\| `(\w+)` \| (.+) \|", rest.partition("\n## ")[0]))
    assert rows.keys() == {file.stem for file in SOURCE.joinpath(folder).glob("[!_]*.py")}
    for name, first in rows.items():
        text = SOURCE.joinpath(folder, f"{name}.py").read_text(encoding="utf-8")
        assert text.startswith(f'"""{first}'.replace("\\|", "|")), (
            "docs/map.md is out of date: run `python3 dev.py docs`"
        )


def test_the_architecture_has_the_layers_of_the_import_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"sayso\.(\w+)", layer) for layer in contracts[0]["layers"]]
    place = {module: at for at, layer in enumerate(layers) for module in layer}
    rows = [row.split("|")[1] for row in section("## The layers").splitlines() if row.startswith("| `")]
    told = [module for row in rows for module in spoken(row)]
    assert sorted(told) == sorted(place), "each layer is told of once"
    assert told == sorted(told, key=place.__getitem__), "from top to bottom, as in pyproject.toml"
    core = next(each for each in contracts if each["type"] == "forbidden")
    kept_apart = [*core["source_modules"], *core["forbidden_modules"]]
    sentence = next(part for part in section("## The layers").split("\n\n") if "may not import" in part)
    assert spoken(sentence) == [name.removeprefix("sayso.") for name in kept_apart]


def test_no_page_has_both_sides_of_a_merge() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    marker = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
    assert [page.name for page in pages if marker.search(page.read_text(encoding="utf-8"))] == []


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


@pytest.mark.parametrize("record", DECISIONS, ids=lambda record: record.stem)
def test_every_decision_has_its_three_headings_and_a_row_in_the_index(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    number, _, title = text.partition("\n")[0].removeprefix("# ").partition(". ")
    index = record.with_name("index.md").read_text(encoding="utf-8")
    assert f"| [{number}]({record.name}) | {title} |" in index, "add a row to docs/decisions/index.md"


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(record.name[:4]) for record in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_every_module_that_the_glossary_names_is_there() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ") and row.endswith("` |")]
    assert len(rows) > 50
    named = {name for row in rows for name in re.findall(r"`([\w/]+)`", row[-1])}
    missing = sorted(name for name in named if not [*SOURCE.glob(f"{name}.py"), *SOURCE.glob(f"{name}/__init__.py")])
    assert not missing, f"docs/glossary.md names modules that are not there: {missing}"


def shown() -> list[tuple[str, list[str]]]:
    """What the reference shows with arguments or fields, and the names of these; `…` stands for the others."""
    found = re.findall(r"`(?:\w+\.)*(\w+)\(([^`]*)\)`", REFERENCE)
    return [(name, re.findall(r"(?:^|, )(\w+|…)", inside)) for name, inside in found]


def records(names: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Each record in the source that has one of these names, and its fields in order."""
    wanted = re.compile(rf"^class (?:{'|'.join(names)})\b", re.MULTILINE)
    texts = (file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    for node in (node for text in texts if wanted.search(text) for node in ast.parse(text).body):
        if isinstance(node, ast.ClassDef) and node.name in names:
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            fields = [ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)]
            if fields and "__init__" not in methods:
                yield node.name, fields


def test_every_record_has_the_fields_that_the_reference_says() -> None:
    there = [*records({name for name, _ in shown()})]
    said = [(name, fields) for name, fields in shown() if name in dict(there)]
    cut = [(name, [*fields[: len(of) - 1], "…"]) for name, of in said for other, fields in there if other == name]
    untrue = [f"{name}({', '.join(fields)})" for name, fields in said if (name, fields) not in [*there, *cut]]
    assert not untrue, f"docs/reference.md says what is not in the source: {untrue}"
    assert {"Health", "Pruned", "ToolCall", "ToolRules"} <= dict(said).keys()


def test_the_readme_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", readme, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} == set(extras)
