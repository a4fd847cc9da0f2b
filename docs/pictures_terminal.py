"""A shell in a real pseudo-terminal, and what is on its screen as an SVG."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from pathlib import Path

import pyte
from pyte.screens import Char

COLUMNS = 80
_SECONDS = 60.0  # to wait for a text, before it is said that it never came
_PROMPT = "$"

_CELL, _ROW, _SIZE = 8.4, 19, 14  # in pixels: a column, a row, and the letters
_EDGE, _BAR = 16, 30  # around the text, and for the bar of the window
_INK, _PAPER, FRAME = "#1f2328", "#ffffff", "#d0d7de"
# The names that pyte gives to the eight old colours, as they read well on white.
_NAMED = {
    "black": _INK, "red": "#c00000", "green": "#007a00", "brown": "#8a5a00",
    "blue": "#0550ae", "magenta": "#8250df", "cyan": "#007a7a", "white": "#6e7781",
}  # fmt: skip
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


class Terminal:
    """A shell in a terminal of this size; `screen` is what is on it now."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *, rows: int) -> None:
        """Start it, and wait for its prompt."""
        self._process, self._end = pty.fork()
        if self._process == 0:
            os.chdir(folder)
            os.execve("/bin/sh", ["sh"], dict(settings))  # noqa: S606 - the shell of the scene
        self._screen = pyte.Screen(COLUMNS, rows)
        self._stream = pyte.ByteStream(self._screen)
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
        self.wait_for_prompt()

    @property
    def screen(self) -> str:
        """The rows that a person sees, as text."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def type(self, line: str) -> None:
        """Type a line, and wait until it is on the screen."""
        self.press(f"{line}\r")
        self.wait_for(line)

    def run(self, line: str) -> None:
        """Type a line, and wait until it is done."""
        self.type(line)
        self.wait_for_prompt()

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._end, keys.encode())

    def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen."""
        deadline = time.monotonic() + _SECONDS
        while text not in self.screen:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} is not on the screen:\n{self.screen}")
            self._read()

    def wait_for_prompt(self) -> None:
        """Wait until the shell takes the next line."""
        deadline = time.monotonic() + _SECONDS
        while self.screen.rpartition("\n")[2] != _PROMPT:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the prompt has not come back:\n{self.screen}")
            self._read()

    def _read(self) -> None:
        if select.select([self._end], [], [], 0.5)[0]:
            self._stream.feed(os.read(self._end, 65536))

    def picture(self, title: str) -> str:
        """Return what is on the screen as an SVG, down to the last row that is not empty or a waiting prompt."""
        count = len(self.screen.removesuffix(f"\n{_PROMPT}").split("\n"))
        rows = [[self._screen.buffer[row][column] for column in range(COLUMNS)] for row in range(count)]
        return svg(rows, title)

    def end(self) -> None:
        """End the shell and what runs in it."""
        os.killpg(os.tcgetpgrp(self._end), signal.SIGKILL)
        os.kill(self._process, signal.SIGKILL)
        os.close(self._end)
        os.waitpid(self._process, 0)


def svg(rows: list[list[Char]], title: str) -> str:
    """Draw a window with these rows; the width of each text is said, so that columns stand with any font."""
    width, height = round(COLUMNS * _CELL + 2 * _EDGE), len(rows) * _ROW + _BAR + _EDGE + _EDGE // 2
    dots = "".join(f'<circle cx="{18 + 16 * at}" cy="{_BAR / 2:g}" r="5" fill="{FRAME}"/>' for at in range(3))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"',
            f' viewBox="0 0 {width} {height}" font-family="{_FONT}" font-size="{_SIZE}" fill="{_INK}">',
            f"<title>{escape(title)}</title>",
            f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="{_PAPER}" stroke="{FRAME}"/>',
            f'<path d="M1 {_BAR}.5H{width - 1}" stroke="{FRAME}"/>{dots}',
            *(drawn for row, chars in enumerate(rows) for drawn in _drawn(row, chars)),
            "</svg>\n",
        ]
    )


def _drawn(row: int, chars: list[Char]) -> Iterator[str]:
    """Yield a row: what looks alike together, but apart where there is more than one blank, which SVG would lose."""
    top, column = _BAR + _EDGE // 2 + row * _ROW, 0
    for style, group in groupby(chars, lambda char: char._replace(data="")):
        text = "".join(char.data for char in group)
        if style.reverse:
            place = f'x="{_left(column)}" y="{top}" width="{len(text) * _CELL:.1f}" height="{_ROW}"'
            yield f'<rect {place} fill="{_colour(style.fg)}"/>'
        for words in re.finditer(r"\S+(?: \S+)*", text):
            place = f'x="{_left(column + words.start())}" y="{top + _SIZE}" textLength="{len(words[0]) * _CELL:.1f}"'
            yield f"<text {place}{_look(style)}>{escape(words[0], quote=False)}</text>"
        column += len(text)


def _left(column: int) -> str:
    return f"{_EDGE + column * _CELL:.1f}"


def _look(style: Char) -> str:
    colour = _PAPER if style.reverse else _colour(style.fg)
    return "".join(
        attribute
        for attribute, wanted in (
            (f' fill="{colour}"', colour != _INK),
            (' font-weight="bold"', style.bold),
            (' font-style="italic"', style.italics),
            (' text-decoration="underline"', style.underscore),
        )
        if wanted
    )


def _colour(name: str) -> str:
    """Return a colour of the terminal as SVG has it."""
    if name == "default":
        return _INK
    return _NAMED.get(name.removeprefix("bright"), f"#{name}")
