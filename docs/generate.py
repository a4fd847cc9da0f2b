"""Draws the states of a request in architecture.md from the table in `sayso.decide`; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

from sayso.decide import TRANSITIONS
from sayso.model import ApprovalRequest, Result, Status

PAGE = Path(__file__).with_name("architecture.md")
BEGIN = "<!-- states: written by docs/generate.py -->\n"
END = "<!-- end of states -->\n"


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


def generated(page: str) -> str:
    """Return the page with the diagram between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE.name} has lost a marker: put back {BEGIN.strip()!r} and {END.strip()!r}")
    return before + begin + diagram() + end + after


def main(arguments: list[str]) -> None:
    """Write the page, or say that it is out of date."""
    if arguments not in ([], ["--check"]):
        sys.exit("usage: python docs/generate.py [--check]")
    page = PAGE.read_text(encoding="utf-8")
    wanted = generated(page)
    if page == wanted:
        return
    if arguments:
        sys.exit(f"docs/{PAGE.name} is out of date: run `python3 dev.py docs`")
    PAGE.write_text(wanted, encoding="utf-8")
    print(f"· docs/{PAGE.name} is written anew")


if __name__ == "__main__":
    main(sys.argv[1:])
