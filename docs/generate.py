"""Writes what the docs take from the source; `--check` only compares.

In architecture.md the state diagram of a request, from the table in `sayso.core.decide`; in how-to.md and page.md the
answer keys, from `sayso.channels.display.answer_keys`; and map.md, a listing of all modules with their first lines.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from sayso.channels.display.answer_keys import ANSWER_KEYS
from sayso.core.decide import TRANSITIONS
from sayso.core.model import ApprovalRequest, Result, Status

FOLDER = Path(__file__).parent
SOURCE = Path(__file__).resolve().parents[1] / "src" / "sayso"
MAP_HEAD = """# Map of the modules

Every module of `src/sayso` with the first line of its docstring. `docs/generate.py` writes this page from the source.
"""


def diagram() -> str:
    """Return the diagram as a fence of Mermaid."""
    lines = ["stateDiagram-v2", "    [*] --> open", *arrows(), *ends(), *notes()]
    return "\n".join(["```mermaid", *lines, "```", ""])


def arrows() -> list[str]:
    """Return one line per transition."""
    return [f"    {before} --> {after}" for before, others in TRANSITIONS.items() for after in sorted(others)]


def ends() -> list[str]:
    """Return one line per state that nothing leaves."""
    return [f"    {state} --> [*]" for state, others in TRANSITIONS.items() if not others]


def notes() -> list[str]:
    """Return what a used request is shown as, before and after its result is known."""
    used: Status = "used"
    results: list[Result | None] = [None, *get_args(Result)]
    shown = [ApprovalRequest(tool_name="", status=used, result=result).state for result in results]
    return [f"    note right of {used}", *(f"        shown as: {text}" for text in shown), "    end note"]


def answer_keys() -> str:
    """Return the table of answer keys."""
    rows = [f"| `{each.key}` | {each.label} | {each.meaning} |" for each in ANSWER_KEYS]
    return "\n".join(["| key | answer | |", "|---|---|---|", *rows, ""])


def with_part(name: str, part: str, text: str) -> str:
    """Return a page with a text between the markers of a part."""
    first, last = f"<!-- {part}: written by docs/generate.py -->\n", f"<!-- end of {part} -->\n"
    before, begin, rest = FOLDER.joinpath(name).read_text(encoding="utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        sys.exit(f"{name} has lost a marker: put back {first.strip()!r} and {last.strip()!r}")
    return before + begin + text + end + after


def module_map() -> str:
    """Return map.md: one table for each folder."""
    folders = sorted({file.parent for file in SOURCE.rglob("*.py")})
    return MAP_HEAD + "".join(folder_table(folder) for folder in folders)


def folder_table(folder: Path) -> str:
    """Return the heading of a folder, what it is for, and a row for each of its modules."""
    rows = [f"| `{file.stem}` | {first_line(file)} |" for file in sorted(folder.glob("[!_]*.py"))]
    name = f"sayso/{folder.relative_to(SOURCE)}".removesuffix("/.")
    head = [f"## {name}", "", first_line(folder / "__init__.py"), ""]
    return "\n".join(["", *head, *(["| module | what it holds |", "|---|---|", *rows, ""] if rows else [])])


def first_line(file: Path) -> str:
    """Return the first line of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


def outdated() -> Iterator[tuple[Path, str]]:
    """Each page that differs from what it should be, and that."""
    pages = {
        "architecture.md": with_part("architecture.md", "states", diagram()),
        "how-to.md": with_part("how-to.md", "keys", answer_keys()),
        "page.md": with_part("page.md", "keys", answer_keys()),
        "map.md": module_map(),
    }
    for page, wanted in ((FOLDER / name, wanted) for name, wanted in pages.items()):
        if not page.exists() or page.read_text(encoding="utf-8") != wanted:
            yield page, wanted


def main(arguments: list[str]) -> None:
    """Write the pages, or say that one is out of date."""
    if arguments not in ([], ["--check"]):
        sys.exit("usage: python docs/generate.py [--check]")
    for page, wanted in outdated():
        if arguments:
            sys.exit(f"docs/{page.name} is out of date: run `python3 dev.py docs`")
        page.write_text(wanted, encoding="utf-8")
        print(f"· docs/{page.name} is written anew")


if __name__ == "__main__":
    main(sys.argv[1:])
