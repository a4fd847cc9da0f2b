"""Runs $EDITOR and $PAGER of the user, which own the terminal until they end.

Tests: tests/channels/terminal/test_editing.py
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sayso.channels.display.request_lines import Line
from sayso.channels.terminal.colours import ansi_text, plain_text


def run_editor(text: str, screen: int, name: str) -> str:
    """Return a text as edited in the user's editor, in a file of this name; no line end is converted.

    Raises:
        OSError: the file cannot be written or read.
        ValueError: the editor cannot be run or ended with an error, or its file is not text.
    """
    given = ((variable, shlex.split(os.environ.get(variable, ""))) for variable in ("VISUAL", "EDITOR"))
    variable, editor = next((each for each in given if each[1]), ("EDITOR", ["vi"]))
    with tempfile.TemporaryDirectory(prefix="sayso-") as folder:
        file = Path(folder, name)
        file.write_bytes(text.encode())
        try:
            done = subprocess.run([*editor, str(file)], check=False, stdout=screen, stderr=screen)  # noqa: S603 - the person's own
        except OSError as error:
            why = "was not found" if isinstance(error, FileNotFoundError) else f"cannot be run ({error.strerror})"
            raise ValueError(f"the editor {editor[0]!r} {why}; set ${variable} to another one") from None
        if done.returncode != 0:
            raise ValueError(f"{editor[0]!r} ended with an error")
        return file.read_bytes().decode()


def run_pager(lines: Sequence[Line], screen: int) -> str | None:
    """Show lines in the user's pager; return why that failed, if it did."""
    return page_text(plain_text(lines), ansi_text(lines), screen)


def page_text(plain: str, coloured: str, screen: int) -> str | None:
    """Show a text in the user's pager, coloured if that can; return why it failed, if it did."""
    try:
        command = _pager()
    except ValueError as error:
        return f"PAGER cannot be read ({error})"
    if not command:
        return "there is no pager"
    colours = Path(command[0]).name == "less" and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    try:
        done = subprocess.run(  # noqa: S603 - the person's own
            [*command, "-R"] if colours else command,
            input=(coloured if colours else plain).encode(),
            stdout=screen,
            stderr=screen,
            env={**os.environ, "LESSSECURE": "1"},  # it displays untrusted text, and must not start programs
            check=False,
        )
    except OSError as error:
        return f"{command[0]!r} cannot be run ({error.strerror})"
    return f"{command[0]!r} ended with an error" if done.returncode != 0 else None


def _pager() -> list[str]:
    given = shlex.split(os.environ.get("PAGER", ""))
    return given or [found for found in map(shutil.which, ("less", "more")) if found][:1]
