"""Asking the person at the terminal about one call; whatever is not clearly a yes is a no."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from sayso.canonical import thaw
from sayso.cli.screen import bold, place, say, visible, width, wrapped
from sayso.model import ApprovalDecision, ApprovalRequest

_KEYS = "y yes, once · s yes, and the same for this session · n no; you may add a note · Enter no"
_LONGEST = 2000  # characters of a value; of a longer one, the middle is left out
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def ask(request: ApprovalRequest) -> ApprovalDecision:
    """Show what is to run, and read the answer."""
    for line in _shown(request):
        say(line, err=True)
    click.echo("Run it? ", nl=False, err=True)
    try:
        answer = input()
    except (EOFError, UnicodeDecodeError):
        answer = ""
    return _decision(answer)


def _decision(answer: str) -> ApprovalDecision:
    key, _, note = answer.strip().partition(" ")
    match key.lower(), note.strip():
        case (("y" | "yes"), ""):
            return ApprovalDecision(approved=True, who="you", channel="terminal")
        case ("s", ""):
            return ApprovalDecision(approved=True, remember="session", who="you", channel="terminal")
        case (("n" | "no"), note):
            return ApprovalDecision(approved=False, note=note or None, who="you", channel="terminal")
        case _:
            note = "no answer" if not answer.strip() else "that was none of the keys"
            return ApprovalDecision(approved=False, note=note, who="you", channel="terminal")


def _shown(request: ApprovalRequest) -> Iterator[str]:
    yield ""
    yield bold(visible(f"{' > '.join(request.agent_path) or 'An agent'} wants to run {request.tool_name}"))
    yield from wrapped(request.description, indent=2, head=" ")
    yield from wrapped(request.reason, indent=11, head="  because")
    if request.rule is not None:
        yield from wrapped(place(request.rule), indent=11, head="  by")
    for name, value in thaw(request.args).items():
        yield from _value(name, value)
    yield from _presented(request)
    yield click.style("─" * width(), dim=True)
    yield from wrapped(_KEYS)


def _value(name: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - any argument
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[:half]} … {len(text) - _LONGEST:,} characters are left out here … {text[-half:]}"
    lines = text.split("\n")
    head = click.style(f"  {visible(name)}:", bold=True)
    if len(lines) == 1:
        yield from wrapped(text, head=head, indent=len(name) + 4)
        return
    yield head
    yield from (f"    {visible(line)}" for line in lines)


def _presented(request: ApprovalRequest) -> Iterator[str]:
    """Yield how the tool itself would show it: a diff in colour, or a text."""
    shown = request.presentation
    if shown is None:
        return
    for line in (shown.diff or shown.content or "").split("\n"):
        colour = _COLOURS.get(line[:1]) if shown.diff else None
        yield click.style(f"  {visible(line)}", fg=colour)
