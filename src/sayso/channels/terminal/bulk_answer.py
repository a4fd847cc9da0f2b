"""Several questions at once: all that wait here on one line each, and one answer for those that are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sayso.channels.display.phrases import named
from sayso.channels.display.request_lines import Line, asker, cut, shown
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.dialog import Answer, paged
from sayso.channels.terminal.keys import Choice
from sayso.channels.terminal.prompt import Prompt
from sayso.channels.terminal.question import Question
from sayso.core.model import ApprovalDecision

_DONE = {"y": "Allowed once:", "n": "Denied:", "l": "Left to others:"}


async def answer_together(question: Question, waiting: Sequence[Question], stage: Prompt) -> Answer | None:
    """Offer one answer for several, each of which gets it as its own; None to go back to the one question."""
    listed = list(_listed(question, waiting, stage.width))
    stage.tell(listed)
    alike = [each for each in waiting if _kind(each) == _kind(question)]
    whole = {each: lines for each in alike if (lines := _whole(each, stage))}
    key = await _key(whole, waiting, stage)
    if key == "b":
        return None
    chosen = whole if key == "y" else waiting
    given = [each for each in chosen if each is question or each.settle(_answer(key, each))]
    stage.say(f"{_DONE[key]} {', '.join(str(each.number) for each in given)}.")
    if key == "l":
        return "left"
    return _answer(key, question) if question in given else None


async def _key(whole: dict[Question, list[Line]], waiting: Sequence[Question], stage: Prompt) -> str:
    """Show those to which a yes would go, and return the answer; a yes only if all of them were on the screen."""
    lines, before = [line for each in whole.values() for line in each], stage.printed
    stage.tell(lines)
    offer = f"[y] allow these {len(whole)} alike once  [v] view them  " if whole else ""
    words = f"{offer}[n] deny all {len(waiting)}  [l] leave all  [b] back"
    choice = Choice(keys="yvnlb" if whole else "nlb", words=lambda: words)
    seen = False
    while (key := await stage.key(choice)) == "v" or (
        key == "y" and not seen and not stage.has_room(len(lines), before)
    ):
        if key == "y":
            stage.say(f"Not all of them were on the screen yet: {stage.how_to_see_all}.")
            continue
        seen, problem = True, await paged(stage, lines)
        if problem is not None:
            stage.tell(lines)
            stage.say(problem)
    return key


def _kind(question: Question) -> tuple[object, ...]:
    request = question.request
    return (request.tool_name, request.agent_path, request.rule)


def _answer(key: str, question: Question) -> ApprovalDecision | None:
    return {"y": question.yes(), "n": question.no()}.get(key)


def _listed(question: Question, waiting: Sequence[Question], width: int) -> Iterator[Line]:
    yield []
    yield [("class:heading", f"{len(waiting)} wait here; = is alike: the same agent, tool and rule")]
    for each in waiting:
        mark = "=" if _kind(each) == _kind(question) else " "
        who = asker(each.request)
        text = visible(f"{who}: {each.request}" if who else str(each.request))
        yield [("class:who" if each is question else "", cut(f"{each.number:>4} {mark} {text}", width))]


def _whole(question: Question, stage: Prompt) -> list[Line]:
    """Return all lines of one that is alike; none, and say why, if no yes can include it."""
    found = shown(question.request, stage.width)
    if not question.can_be_allowed:
        stage.say(f"Number {question.number}, {named(question.request)}, needs people whom only a hub knows.")
    elif not found.whole:
        stage.say(f"Number {question.number}, {named(question.request)}, is too long for this; it stays out of a yes.")
    else:
        return [[], [("class:status", f"{question.number}:")], *found.lines]
    return []
