"""Runs the tests of every release of `pydantic-ai-blocking-approval`: against its own code, then against sayso.

    python3 dev.py suites            compare with the table in the documentation
    python3 dev.py suites --write    write that table anew

The tests are in the library's source distributions, which dev.py fetches; sayso stands in for the library through the
module in `shim`, which lists what it adapts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

HERE = Path(__file__).resolve().parent
SHIM = HERE / "shim"
PAGE = HERE.parents[1] / "docs" / "migrate-from-blocking-approval.md"
START, END = "<!-- suites: written by dev.py suites --write -->\n", "<!-- end of suites -->"
HEADING = (
    "| release | tests that pass with its own code | with sayso | what the others are about |\n|---|---|---|---|\n"
)

# A part of a test's name, and why it fails here; the page says more about each.
REASONS = {
    "TestShellApprovalToolset": "approval by a subclass of `ApprovalToolset`",
    "strict_mode": "words of the strict mode",
    "interactive_mode_without_callback": "nobody to ask",
    "interactive_no_callback": "nobody to ask",
    "request_approval_without_callback": "nobody to ask",
    "sync_with_async_callback": "class of an error",
    "callback_exception_propagates": "a callback that raises",
    "bool_callback_raises": "a callback that returns `True`",
}


class Result(NamedTuple):
    """The tests of one release that passed, with the library's code and with sayso."""

    release: str
    own: frozenset[str]
    sayso: frozenset[str]

    @property
    def row(self) -> str:
        """Its row in the table."""
        counts = Counter(reason_of(test) for test in self.own - self.sayso)
        reasons = " · ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))
        return f"| {self.release} | {len(self.own)} | {len(self.sayso)} | {reasons} |\n"


def reason_of(test: str) -> str:
    """Return why a test fails with sayso."""
    return next((reason for part, reason in REASONS.items() if part in test), f"unknown: {test}")


def main(folder: Path, *, write: bool) -> str | None:
    """Run all releases in the folder; return what is wrong, if anything is."""
    results = [run_release(archive) for archive in sorted(folder.glob("*.tar.gz"))]
    table = HEADING + "".join(result.row for result in results)
    print(table, end="", flush=True)
    unknown = [test for result in results for test in result.own - result.sayso if "unknown" in reason_of(test)]
    if unknown:
        return f"These tests fail with sayso, and nobody knows why: {', '.join(sorted(set(unknown)))}."
    page = PAGE.read_text()
    if write:
        PAGE.write_text(with_table(page, table))
        return None
    return problem_with(table_of(page), table)


def run_release(archive: Path) -> Result:
    """Run the tests of one release with both."""
    release = archive.name.removesuffix(".tar.gz").rpartition("-")[2]
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as packed:
        packed.extractall(scratch, filter="data")
        (root,) = Path(scratch).iterdir()
        return Result(release, passed(root, root / "src"), passed(root, SHIM))


def passed(root: Path, library: Path) -> frozenset[str]:
    """Return the tests that pass where `library` holds the module that they import."""
    report = root / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "tests"]
    # The tests' own process: both are called by the same name, and neither is installed.
    subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(library)}, check=False, capture_output=True)
    cases = ET.parse(report).iter("testcase")  # noqa: S314 - pytest has just written it
    return frozenset(f"{each.get('classname')}::{each.get('name')}" for each in cases if not len(each))


def table_of(page: str) -> str:
    """Return the table in the page."""
    return page.partition(START)[2].partition(END)[0]


def with_table(page: str, table: str) -> str:
    """Return the page with another table."""
    return page.replace(START + table_of(page) + END, START + table + END)


def problem_with(committed: str, table: str) -> str | None:
    """Return how the table in the page differs from what was found, or None."""
    before, now = sayso_counts(committed), sayso_counts(table)
    fewer = [release for release, count in before.items() if now.get(release, 0) < count]
    if fewer:
        return f"Fewer tests pass with sayso than {PAGE.name} says, of {', '.join(fewer)}: mend what has changed."
    if committed != table:
        return f"The table in {PAGE.name} is not true any more: run `python3 dev.py suites --write`, and look at it."
    return None


def sayso_counts(table: str) -> dict[str, int]:
    """Return the number of tests that pass with sayso, by release."""
    return {row[1]: int(row[2]) for row in re.finditer(r"^\| ([\d.]+) \| \d+ \| (\d+) \|", table, flags=re.MULTILINE)}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), write="--write" in sys.argv[2:]))
