"""Draft of edited arguments: in the user's editor as JSON or, for one long text, as the text itself.

Tests: tests/channels/terminal/test_editing.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sayso.channels.display.blocks import editable_json
from sayso.channels.display.request_lines import Line, count_lines, format_name, hanging_indent
from sayso.channels.terminal.editor_pager import run_editor
from sayso.core.canonical import parse_args, thaw
from sayso.policy.shell.lexer import hidden_character

_LONG = 60  # characters; a text of one line that is longer is offered by itself
_MOST_TEXTS = 8  # with the JSON, one digit each


class EditDraft:
    """The arguments of one request as JSON, kept from one start of the editor to the next, valid or not."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Begin with the agent's arguments; raises `ValueError` if they are not plain data."""
        self._given = editable_json(args)
        self.json = self._given

    @property
    def is_changed(self) -> bool:
        """Whether the draft differs from what it began with."""
        return self.json != self._given

    def texts(self) -> dict[str, str]:
        """Return the arguments that can be edited as they are: long texts in which every character is visible."""
        try:
            args = parse_args(self.json)
        except ValueError:
            return {}
        found = {name: value for name, value in args.items() if isinstance(value, str) and _is_editable_text(value)}
        return dict(list(found.items())[:_MOST_TEXTS])

    def edit_all(self, screen: int) -> None:
        """Edit all arguments as JSON."""
        self.json = run_editor(self.json, screen, "arguments.json")

    def edit_text(self, name: str, screen: int) -> None:
        """Edit one text exactly as it is; only a final line end that the editor needs is added and taken off again."""
        args = thaw(parse_args(self.json))
        added = "" if args[name].endswith("\n") else "\n"
        edited = run_editor(args[name] + added, screen, "text.txt").removesuffix(added)
        self.json = editable_json({**args, name: edited})


def draft_choices(texts: Mapping[str, str], width: int) -> Iterator[Line]:
    """Yield the parts of a draft that the editor can open, by number: each text, and all arguments."""
    yield []
    yield [("class:heading", "edit")]
    for number, (name, text) in enumerate(texts.items(), 1):
        size = count_lines(text) if "\n" in text else f"{len(text):,} characters"
        about = f"{format_name(name)}, a text of {size}"
        yield from hanging_indent(("class:keys", f"  [{number}] "), about, width)
    yield from hanging_indent(("class:keys", f"  [{len(texts) + 1}] "), "all arguments, as JSON", width)


def _is_editable_text(text: str) -> bool:
    is_long = "\n" in text or len(text) > _LONG
    return is_long and all(hidden_character(line.replace("\t", " ")) is None for line in text.split("\n"))
