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

# A part of a failure, and what that is about; the page says more about each. Only the first goes by the test's name.
REASONS = {
    "TestShellApprovalToolset::": "approval by a subclass of `ApprovalToolset`",
    "assert 'Strict mode' in": "words of the strict mode",
    "mode 'interactive' has nobody to ask": "nobody to ask",
    "ConfigurationError: the approval callback is async": "class of an error",
    "DID NOT RAISE": "a callback that raises",
    "the approval callback returned True instead": "a callback that returns `True`",
}


class Result(NamedTuple):
    """The tests of one release, with the library's code and with sayso: by name, its failure or nothing."""

    release: str
    own: dict[str, str]
    sayso: dict[str, str]

    @property
    def reasons(self) -> dict[str, str | None]:
        """Why tests that pass with the library's code fail with sayso; None where that is unknown."""
        broken = {test: failure for test, failure in self.sayso.items() if failure and not self.own.get(test)}
        return {test: reason_of(f"{test}\n{failure}") for test, failure in broken.items()}

    @property
    def row(self) -> str:
        """Its row in the table."""
        own, sayso = (sum(not failure for failure in found.values()) for found in (self.own, self.sayso))
        counts = sorted(Counter(str(reason) for reason in self.reasons.values()).items())
        return f"| {self.release} | {own} | {sayso} | {' · '.join(f'{reason} {count}' for reason, count in counts)} |\n"


def reason_of(failure: str) -> str | None:
    """Return what a failure is about, if it is one of those that the page lists."""
    return next((reason for part, reason in REASONS.items() if part in failure), None)


def main(folder: Path, *, write: bool) -> str | None:
    """Run all releases in the folder; return what is wrong, if anything is."""
    results = [run_release(archive) for archive in sorted(folder.glob("*.tar.gz"))]
    table = HEADING + "".join(result.row for result in results)
    print(table, end="", flush=True)
    unknown = [test for result in results for test, reason in result.reasons.items() if reason is None]
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
        return Result(release, outcomes(root, root / "src"), outcomes(root, SHIM))


def outcomes(root: Path, library: Path) -> dict[str, str]:
    """Return the failure of each test, or nothing, where `library` holds the module that they import."""
    report = root / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "tests"]
    # The tests' own process: both are called by the same name, and neither is installed.
    subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(library)}, check=False, capture_output=True)
    cases = ET.parse(report).iter("testcase")  # noqa: S314 - pytest has just written it
    return {f"{each.get('classname')}::{each.get('name')}": _failure(each) for each in cases}


def _failure(case: ET.Element) -> str:
    """Return what pytest reports of a test that failed; nothing of one that passed."""
    bad = [part for part in case if part.tag in {"failure", "error"}]
    return "\n".join([part.get("message", "") + (part.text or "") for part in bad])


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
