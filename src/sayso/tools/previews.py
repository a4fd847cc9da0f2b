"""Previews for approvers: the diff of a file change, or size and hash where a diff is not possible.

Tests: tests/tools/test_files.py
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from sayso.core.model import ApprovalPresentation

_MOST_LINES = 4000  # of either side; more is unreadable
_MOST_BYTES = 200_000
_MOST_COMPARED = 250_000  # pairs of lines; the time to compare can grow with the cube of a side
_AROUND = 3  # lines before and after a change
_SHOWN_BYTES = 2000
_NO_NEWLINE = "\\ No newline at end of file\n"


def fingerprint(*facts: str | bytes) -> str:
    """Return the fingerprint of these facts; each is length-prefixed, so that their boundaries count."""
    digest = hashlib.sha256()
    for fact in facts:
        data = fact.encode(errors="surrogatepass") if isinstance(fact, str) else fact
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def change(path: str, old: bytes | None, new: bytes | None) -> ApprovalPresentation:
    """Return the presentation of a change of content; None is a missing file."""
    before, after = _lines(old), _lines(new)
    title = f"{'Create' if old is None else 'Delete' if new is None else 'Change'} {line(path)}"
    if before is None or after is None:
        words = [f"before: {summary(old)}", f"after: {summary(new)}"]
        return ApprovalPresentation(title=title, content="\n".join(words), content_type="text/plain")
    names = ("/dev/null" if old is None else f"a{line(path)}", "/dev/null" if new is None else f"b{line(path)}")
    diff = "".join(_marked(_diff(before, after, names)))
    return ApprovalPresentation(title=title, diff=diff or None, content_type="text/x-diff", language=_language(path))


def content(path: str, data: bytes) -> ApprovalPresentation:
    """Return the presentation of a file that is read."""
    text = None if len(data) > _SHOWN_BYTES else _decode_text(data)
    return ApprovalPresentation(
        title=f"Read {line(path)}",
        content=summary(data) if text is None else text,
        content_type="text/plain",
        language=None if text is None else _language(path),
    )


def summary(data: bytes | None) -> str:
    """Return size and hash of a content, which identify it."""
    if data is None:
        return "nothing"
    kind = "text" if _decode_text(data) is not None else "binary"
    return f"{len(data):,} bytes of {kind}, sha256 {hashlib.sha256(data).hexdigest()}"


def line(text: str) -> str:
    """Return a text as one line: line breaks and invisible characters are escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; only a line feed ends one, other breaks would be invisible."""
    found = [f"{each}\n" for each in text.split("\n")]
    last = found.pop().removesuffix("\n")
    return [*found, last] if last else found


def _decode_text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _lines(data: bytes | None) -> list[str] | None:
    """Return the lines of a content, or None if it is too long for a diff or not text."""
    text = "" if data is None else _decode_text(data) if len(data) <= _MOST_BYTES else None
    found = None if text is None else lines(text)
    return found if found is not None and len(found) <= _MOST_LINES else None


def _diff(before: list[str], after: list[str], names: tuple[str, str]) -> Iterator[str]:
    """Yield a unified diff; where that would take too long, one hunk between the common head and tail."""
    head = _common_length(zip(before, after, strict=False))
    tail = _common_length(zip(reversed(before[head:]), reversed(after[head:]), strict=False))
    old, new = len(before) - head - tail, len(after) - head - tail
    if old * new <= _MOST_COMPARED:
        yield from difflib.unified_diff(before, after, *names, n=_AROUND)
        return
    first, last = max(head - _AROUND, 0), min(tail, _AROUND)
    yield f"--- {names[0]}\n"
    yield f"+++ {names[1]}\n"
    around = head - first + last
    yield f"@@ -{first + 1},{old + around} +{first + 1},{new + around} @@\n"
    yield from (f" {each}" for each in before[first:head])
    yield from (f"-{each}" for each in before[head : head + old])
    yield from (f"+{each}" for each in after[head : head + new])
    yield from (f" {each}" for each in before[head + old : head + old + last])


def _common_length(pairs: Iterable[tuple[str, str]]) -> int:
    count = 0
    for left, right in pairs:
        if left != right:
            break
        count += 1
    return count


def _marked(diff: Iterable[str]) -> Iterator[str]:
    for each in diff:
        yield each if each.endswith("\n") else f"{each}\n{_NO_NEWLINE}"


def _language(path: str) -> str | None:
    language = PurePosixPath(path).suffix.removeprefix(".") or None
    return "sh" if language == "bash" else language  # `bash` says that the rules have judged these lines
