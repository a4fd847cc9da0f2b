"""Bulk answer: all waiting requests on one line each, and one decision for the similar ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sayso.channels.display.phrases import request_title
from sayso.channels.display.request_lines import Line, asker, request_lines, truncate
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.dialog import Answer, show_in_pager
from sayso.channels.terminal.keys import Choice
from sayso.channels.terminal.prompt import Prompt
from sayso.channels.terminal.question import Question
from sayso.core.model import ApprovalDecision

_DONE = {"y": "Allowed once:", "n": "Denied:", "l": "Left to others:"}


async def answer_in_bulk(question: Question, waiting: Sequence[Question], view: Prompt) -> Answer | None:
    """Offer one decision for several requests, recorded for each separately; None returns to the single question."""
    listed = list(_list_lines(question, waiting, view.width))
    view.show_lines(listed)
    alike = [each for each in waiting if _group_key(each) == _group_key(question)]
    whole = {each: lines for each in alike if (lines := _full_lines(each, view))}
    key = await _read_bulk_key(whole, waiting, view)
    if key == "b":
        return None
    chosen = whole if key == "y" else waiting
    given = [each for each in chosen if each is question or each.settle(_decision_for_key(key, each))]
    view.show_message(f"{_DONE[key]} {', '.join(str(each.number) for each in given)}.")
    if key == "l":
        return "left"
    return _decision_for_key(key, question) if question in given else None


async def _read_bulk_key(whole: dict[Question, list[Line]], waiting: Sequence[Question], view: Prompt) -> str:
    """Show the requests that a yes would cover, and return the answer; a yes only if all were on the screen."""
    lines, before = [line for each in whole.values() for line in each], view.rows_printed_by_others
    view.show_lines(lines)
    refused_yes = in_pager = False

    def seen_all() -> bool:
        return in_pager or view.fits_on_screen(len(lines), before)

    def hint() -> str:
        unseen = f"Not all of this is on the screen: {view.how_to_see_all}."
        return unseen if refused_yes and not seen_all() else ""

    words = _legend(list(whole), len(waiting))
    choice = Choice(keys="yvnlb" if whole else "nlb", legend=lambda: words, hint=hint)
    while (key := await view.read_key(choice)) == "v" or (key == "y" and not seen_all()):
        refused_yes = key == "y"
        if refused_yes:
            continue
        in_pager, problem = True, await show_in_pager(view, lines)
        if problem is not None:
            view.show_lines(lines)
            view.show_message(problem)
    return key


def _legend(whole: Sequence[Question], waiting: int) -> str:
    which = f"number {whole[0].number}" if len(whole) == 1 else f"these {len(whole)} alike"
    view = "view it" if len(whole) == 1 else "view them"
    offer = f"[y] allow {which} once  [v] {view}  " if whole else ""
    deny, leave = ("deny it", "leave it") if waiting == 1 else (f"deny all {waiting}", "leave all")
    return f"{offer}[n] {deny}  [l] {leave}  [b] back"


def _group_key(question: Question) -> tuple[object, ...]:
    request = question.request
    return (request.tool_name, request.agent_path, request.rule)


def _decision_for_key(key: str, question: Question) -> ApprovalDecision | None:
    return {"y": question.yes(), "n": question.no()}.get(key)


def _list_lines(question: Question, waiting: Sequence[Question], width: int) -> Iterator[Line]:
    yield []
    yield [
        ("class:heading", f"{len(waiting)} wait for an answer; those with = are alike: the same agent, tool and rule")
    ]
    for each in waiting:
        mark = "=" if _group_key(each) == _group_key(question) else " "
        who = asker(each.request)
        text = visible(f"{who}: {each.request}" if who else str(each.request))
        yield [("class:who" if each is question else "", truncate(f"{each.number:>4} {mark} {text}", width))]


def _full_lines(question: Question, view: Prompt) -> list[Line]:
    """Return all lines of a similar request; empty, with a message why, if a yes cannot include it."""
    found = request_lines(question.request, view.width)
    which = f"Number {question.number}, {request_title(question.request)}"
    if not question.can_be_allowed:
        view.show_message(f"{which}, needs a yes of people whom only a hub can identify.")
    elif not found.whole:
        view.show_message(f"{which}, is too long to be shown here, so a yes does not include it.")
    else:
        return [[], [("class:status", f"{question.number}:")], *found.lines]
    return []
