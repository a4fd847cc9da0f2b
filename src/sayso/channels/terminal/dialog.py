"""One question before a person, and what each key does with it: on the prompt and on the full screen alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

from sayso.channels.display.blocks import as_json
from sayso.channels.display.phrases import JUDGED_LATER
from sayso.channels.display.remember_choices import Terms
from sayso.channels.display.request_lines import Line, cut, shown
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal import editor_pager
from sayso.channels.terminal.keys import ENTER, Choice
from sayso.channels.terminal.question import Question
from sayso.channels.terminal.rule_excerpt import ruling
from sayso.core.canonical import freeze, parse_args, thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.errors import ApprovalBlocked

T = TypeVar("T")
Answer = ApprovalDecision | Literal["left"]  # left to others, who may answer elsewhere
Action = Callable[[], Awaitable[Answer | None]]
WORDS = {
    "y": "allow once",
    "a": "allow for…",
    "e": "edit",
    "n": "deny",
    "m": "deny, with a note",
    "v": "view all",
    "r": "the rule",
    "o": "the others…",
    "l": "leave it",
    "q": "quit",
}
_LONGEST_PROBLEM = 300  # it may quote a whole argument


class Stage(Protocol):
    """Where a question is put to a person: the lines at the end of a terminal, or a part of the whole screen."""

    @property
    def width(self) -> int:
        """How many columns there are."""
        ...

    how_to_see_all: str

    @property
    def seen_all(self) -> bool:
        """Whether everything about the request that was shown last was before the person's eyes."""
        ...

    def show(self, request: ApprovalRequest, *, whole: bool) -> None:
        """Show a request; unless it has to be whole, long values may be folded."""
        ...

    def tell(self, lines: Iterable[Line]) -> None:
        """Show something below."""
        ...

    def say(self, sentence: str) -> None:
        """Say something that needs no place of its own; every character of it is made visible."""
        ...

    def count_as_seen(self) -> None:
        """Take note that the person has seen all of it in another way."""
        ...

    async def key(self, choice: Choice) -> str:
        """Wait for a key; raises `Closed` or `Interrupted`."""
        ...

    async def typed(self, words: str) -> str:
        """Wait for a line that the person types; raises `Closed` or `Interrupted`."""
        ...

    async def outside(self, work: Callable[[int], T]) -> T:
        """Do something in a thread that has the terminal meanwhile; it gets the number of the open screen."""
        ...


class Sheet:
    """A question and its keys."""

    def __init__(
        self,
        question: Question,
        stage: Stage,
        *,
        waiting: Callable[[], Sequence[ApprovalRequest]],
        more: Mapping[str, Action] | None = None,
        without: str = "",
    ) -> None:
        """Take the question, its stage, all that wait with it, what further keys do, and which keys there are not."""
        self._question = question
        self._stage = stage
        self._waiting = waiting
        self._draft: str | None = None  # what the person wrote in their editor
        self._actions: dict[str, Action] = {
            "y": self._allow,
            "a": self._allow_for,
            "e": self._edit,
            "n": self._deny,
            "m": self._deny_with_note,
            "v": self._view,
            "r": self._rule,
            **(more or {}),
        }
        for key in without:
            del self._actions[key]

    async def ask(self) -> Answer:
        """Show the question and follow keys until there is an answer.

        Raises:
            Closed: it was answered elsewhere, has expired or was withdrawn.
            Interrupted: the person pressed Ctrl-C.
        """
        self._stage.show(self._question.request, whole=False)
        choice = Choice(keys="".join(self._actions), words=self._words, at_rest=True)
        while True:
            answer = await self._actions[await self._stage.key(choice)]()
            if answer is not None:
                return answer

    def _words(self) -> str:
        unneeded = {"o"} if len(self._waiting()) == 1 else set[str]()
        keys = [key for key in self._actions if key not in {*unneeded, ENTER}]
        return "  ".join(f"[{key}] {words}" for key, words in WORDS.items() if key in keys)

    async def _allow(self) -> Answer | None:
        return self._question.yes() if self._has_seen_all() else None

    def _has_seen_all(self) -> bool:
        """Whether a yes would be one to all of it; else say how to see it."""
        if not self._stage.seen_all:
            self._stage.say(f"Not all of it was on the screen yet: {self._stage.how_to_see_all}.")
        return self._stage.seen_all

    async def _deny(self) -> Answer:
        return self._question.no()

    async def _deny_with_note(self) -> Answer:
        return self._question.no((await self._stage.typed("Why not? ")).strip() or None)

    async def _rule(self) -> None:
        at_home = self._question.hearing is not None
        self._stage.tell(ruling(self._question.request, self._stage.width, at_home=at_home))

    async def _view(self) -> None:
        await self._page(self._question.request)

    async def _page(self, request: ApprovalRequest) -> None:
        """Open everything in the person's pager or, if that is not to be, show it here."""
        problem = await paged(self._stage, shown(request, self._stage.width, whole=True).lines)
        if problem is None:
            self._stage.count_as_seen()
            return
        self._stage.show(request, whole=True)
        self._stage.say(problem)

    async def _allow_for(self) -> Answer | None:
        """Offer what the request offers to let stand, for how long and how often."""
        scopes = self._question.request.scopes
        if not scopes:
            self._stage.say("The rule lets no answer stand for later calls.")
        if not scopes or not self._has_seen_all():
            return None
        terms = Terms(self._question.request, self._waiting)
        self._stage.tell(terms.lines(self._stage.width))
        choice = Choice(
            keys="".join(map(str, range(1, len(scopes) + 1))) + "b",
            words=terms.words,
            turns={"t": terms.next_lifetime, "u": terms.next_uses},
        )
        while (key := await self._stage.key(choice)) != "b":
            standing = terms.standing(scopes[int(key) - 1])
            if standing.problem is None:
                return standing.decision(who=self._question.who, channel=self._question.channel)
            self._stage.say(f"{standing.problem}; press u until it says any number.")
        return None

    # --- Other arguments -----------------------------------------------------------------------------

    async def _edit(self) -> Answer | None:
        """Let the arguments be changed in the person's editor, show what would run then, and ask once more."""
        other = False  # something else than the request is before the person
        while await self._edited():
            found = await self._tried(self._draft or "")
            if isinstance(found, str):
                self._stage.say(found)
                key = await self._stage.key(Choice(keys="eb", words=lambda: "[e] edit again  [b] back"))
            elif (key := await self._offered(found)) == "y":
                return self._question.yes(args=found.args)
            other = other or not isinstance(found, str)
            if key == "b":
                break
        if other:
            self._stage.show(self._question.request, whole=False)
        return None

    async def _edited(self) -> bool:
        """Let the draft, or else the arguments, be edited; what the person wrote is kept, whatever it is."""
        try:
            given = as_json(self._question.request.args)
            draft = given if self._draft is None else self._draft
            self._draft = await self._stage.outside(lambda screen: editor_pager.edit(draft, screen))
        except (OSError, ValueError) as problem:
            self._stage.say(f"Nothing was changed: {problem}.")
            return False
        if self._draft == given:
            self._stage.say("Nothing was changed.")
        return self._draft != given

    async def _tried(self, text: str) -> ApprovalRequest | str:
        """Return the request as it would be with these arguments, or why they cannot be."""
        from sayso.channels.edit_schema import misfit  # noqa: PLC0415 - slow to load, and rarely needed

        request = self._question.request
        try:
            args = thaw(freeze(parse_args(text)))
        except ValueError as error:
            return f"This cannot be read: {error}."
        problem = await asyncio.to_thread(misfit, args, request.parameters)
        if problem is not None:
            return f"This does not fit the tool: {cut(problem, _LONGEST_PROBLEM)}."
        if self._question.hearing is None:
            return msgspec.structs.replace(request, args=args, presentation=None)
        try:
            return await self._question.while_open(self._question.hearing.edited(args))
        except ApprovalBlocked as blocked:
            return f"This must not run: {blocked.reason}."
        except ValueError as error:
            return f"This cannot run: {error}."

    async def _offered(self, changed: ApprovalRequest) -> str:
        self._stage.show(changed, whole=False)
        if self._question.hearing is None:
            self._stage.say(JUDGED_LATER)
        words = "[y] allow once, with these arguments  [e] edit again  [v] view all  [b] back"
        while (key := await self._stage.key(Choice(keys="yevb", words=lambda: words))) in {"y", "v"}:
            if key == "v":
                await self._page(changed)
            elif self._has_seen_all():
                break
        return key


async def paged(stage: Stage, lines: Sequence[Line]) -> str | None:
    """Open lines in the person's pager; say why they have to be shown here, if they have to."""
    problem = await stage.outside(lambda screen: editor_pager.page(lines, screen))
    return None if problem is None else f"Shown here, because {problem}."


def told(answer: Answer) -> str:
    """Say what was answered, for whoever reads the screen later."""
    if answer == "left":
        return "Left to others."
    if not answer.approved:
        return visible(f"Denied: {answer.note}" if answer.note else "Denied.")
    edited = "" if answer.override_args is None else ", with other arguments"
    return f"Allowed once{edited}." if answer.remember == "none" else "Allowed, and remembered."
