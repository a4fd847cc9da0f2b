"""Several questions at once: all that wait here on one line each, and one answer for those that are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sayso.channels.keys import Choice
from sayso.channels.question import Question
from sayso.channels.sheet import Answer, Stage
from sayso.channels.showing import Line, cut, shown
from sayso.channels.visible import visible
from sayso.channels.words import named
from sayso.model import ApprovalDecision

_DONE = {"y": "Allowed once:", "n": "Denied:", "l": "Left to others:"}


async def answer_together(question: Question, waiting: Sequence[Question], stage: Stage) -> Answer | None:
    """Offer one answer for several, each of which gets it as its own; None to go back to the one question."""
    alike = [each for each in waiting if _kind(each) == _kind(question)]
    stage.tell(_listed(question, waiting, stage.width))
    whole = [each for each in alike if _show(each, stage)]
    offer = f"[y] allow these {len(whole)} alike once  " if whole else ""
    words = f"{offer}[n] deny all {len(waiting)}  [l] leave all  [b] back"
    key = await stage.key(Choice(keys="ynlb" if whole else "nlb", words=lambda: words))
    if key == "b":
        return None
    chosen = whole if key == "y" else waiting
    given = [each for each in chosen if each is question or each.settle(_answer(key, each))]
    stage.say(f"{_DONE[key]} {', '.join(str(each.number) for each in given)}.")
    if key == "l":
        return "left"
    return _answer(key, question) if question in given else None


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
        who = " > ".join(each.request.agent_path)
        text = visible(f"{who}: {each.request}" if who else str(each.request))
        yield [("class:who" if each is question else "", cut(f"{each.number:>4} {mark} {text}", width))]


def _show(question: Question, stage: Stage) -> bool:
    """Show one of those that are alike; false if it is too long for that, so that no yes can include it."""
    found = shown(question.request, stage.width)
    if found.whole:
        stage.tell([[], [("class:status", f"{question.number}:")], *found.lines])
    else:
        stage.say(f"Number {question.number}, {named(question.request)}, is too long for this; it stays out of a yes.")
    return found.whole
