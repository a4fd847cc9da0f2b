"""The pictures of the docs: each shows what the program shows now, is in a page, and is small."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
PICTURES = [file for file in sorted(FOLDER.iterdir()) if file.suffix != ".json"]
LINK = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")


def links() -> list[tuple[Path, str]]:
    """The file and the words for those who cannot see it, of every picture in a page."""
    pages = [ROOT / "README.md", *sorted(ROOT.joinpath("docs").glob("*.md"))]
    return [
        (page.parent / target, words)
        for page in pages
        for words, target in LINK.findall(page.read_text(encoding="utf-8"))
    ]


def test_every_picture_shows_what_the_program_shows_now() -> None:
    command = [sys.executable, str(ROOT / "docs" / "pictures.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_picture_is_in_a_page_and_told_in_words() -> None:
    shown = dict(links())
    assert shown.keys() == set(PICTURES)
    assert all(len(words.split()) > 5 for words in shown.values()), shown


def test_no_picture_is_large() -> None:
    large = [file.name for file in PICTURES if file.stat().st_size > 100_000]
    assert not large
