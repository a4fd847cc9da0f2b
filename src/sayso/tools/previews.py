"""What a change to a file looks like to whoever has to approve it: a diff, or a summary of what has none."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable
from pathlib import PurePosixPath

from sayso.model import ApprovalPresentation

_MOST_LINES = 4000  # of either side; comparing more takes long, and nobody would read it
_MOST_BYTES = 200_000
_SHOWN_BYTES = 2000
_NO_NEWLINE = "\\ No newline at end of file\n"


def fingerprint(*facts: str | bytes) -> str:
    """Return one text that stands for these facts, and for no others."""
    digest = hashlib.sha256()
    for fact in facts:
        data = fact.encode(errors="surrogatepass") if isinstance(fact, str) else fact
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def change(path: str, old: bytes | None, new: bytes | None) -> ApprovalPresentation:
    """Return how to show that a file gets another content; None is a file that is not there."""
    before, after = _lines(old), _lines(new)
    title = f"{'Create' if old is None else 'Delete' if new is None else 'Change'} {path}"
    if before is None or after is None:
        words = [f"before: {summary(old)}", f"after: {summary(new)}"]
        return ApprovalPresentation(title=title, content="\n".join(words), content_type="text/plain")
    names = ("/dev/null" if old is None else f"a{path}", "/dev/null" if new is None else f"b{path}")
    diff = "".join(_marked(difflib.unified_diff(before, after, *names)))
    return ApprovalPresentation(title=title, diff=diff or None, content_type="text/x-diff", language=_language(path))


def content(path: str, data: bytes) -> ApprovalPresentation:
    """Return how to show a file that is read."""
    text = None if len(data) > _SHOWN_BYTES else _text(data)
    return ApprovalPresentation(
        title=f"Read {path}",
        content=summary(data) if text is None else text,
        content_type="text/plain",
        language=None if text is None else _language(path),
    )


def summary(data: bytes | None) -> str:
    """Tell the size and the hash of a content, which is enough to know it again."""
    if data is None:
        return "nothing"
    kind = "text" if _text(data) is not None else "binary"
    return f"{len(data):,} bytes of {kind}, sha256 {hashlib.sha256(data).hexdigest()}"


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _lines(data: bytes | None) -> list[str] | None:
    """Return the lines of a content, or None if it is too long for a diff or no text."""
    text = "" if data is None else _text(data) if len(data) <= _MOST_BYTES else None
    # Only at line feeds: other marks for the end of a line would not be seen.
    lines = None if text is None else [f"{line}\n" for line in text.split("\n")]
    if lines is not None:
        last = lines.pop()
        lines += [] if last == "\n" else [last.removesuffix("\n")]
    return lines if lines is not None and len(lines) <= _MOST_LINES else None


def _marked(diff: Iterable[str]) -> Iterable[str]:
    for line in diff:
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _language(path: str) -> str | None:
    return PurePosixPath(path).suffix.removeprefix(".") or None
