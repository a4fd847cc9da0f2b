"""Dialog about one request: the action of each key, on the prompt and on the full screen.

Tests: tests/channels/terminal/test_editing.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from sayso.channels.display.answer_keys import ANSWER_KEYS
from sayso.channels.display.conversation_lines import conversation_lines
from sayso.channels.display.phrases import JUDGED_LATER
from sayso.channels.display.remember_choices import RememberChoices
from sayso.channels.display.request_lines import Line, edited_names, request_lines, truncate
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.edit_draft import EditDraft, draft_choices
from sayso.channels.terminal.editor_pager import run_pager
from sayso.channels.terminal.keys import ENTER, Choice
from sayso.channels.terminal.question import Question
from sayso.channels.terminal.rule_excerpt import rule_lines
from sayso.core.canonical import freeze, parse_args, thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.errors import ApprovalBlocked, StoreError

T = TypeVar("T")
Answer = ApprovalDecision | Literal["left"]  # left to other approvers
Action = Callable[[], Awaitable[Answer | None]]
KEY_LABELS = {
    **{each.key: each.label for each in ANSWER_KEYS},
    "r": "the rule",
    "o": "the others…",
    "l": "leave it",
    "q": "quit",
}
_LONGEST_PROBLEM = 300  # it may quote a whole argument
_EDIT_LEGEND = (
    f"[y] {KEY_LABELS['y']}, with these arguments  [e] edit again  [n] {KEY_LABELS['n']}  [m] {KEY_LABELS['m']}  "
    f"[v] {KEY_LABELS['v']}  [b] back"
)


class QuestionView(Protocol):
    """Protocol of the view that displays a question: the end of a terminal, or a pane of the full screen."""

    @property
    def width(self) -> int:
        """Width in columns."""
        ...

    how_to_see_all: str

    @property
    def seen_all(self) -> bool:
        """Whether all lines of the request that was shown last were visible on the screen."""
        ...

    def show_request(self, request: ApprovalRequest, *, whole: bool, original: Mapping[str, Any] | None = None) -> None:
        """Show a request; unless `whole`, long values may be folded, and what differs from `original` is marked."""
        ...

    def show_lines(self, lines: Iterable[Line]) -> None:
        """Show lines below the request."""
        ...

    def show_message(self, sentence: str) -> None:
        """Show a sanitised message."""
        ...

    def count_as_seen(self) -> None:
        """Mark the request as viewed in full, because a pager showed it."""
        ...

    async def read_key(self, choice: Choice) -> str:
        """Wait for a key; raises `Closed` or `Interrupted`."""
        ...

    async def read_line(self, words: str) -> str:
        """Wait for a typed line; raises `Closed` or `Interrupted`."""
        ...

    async def run_in_terminal(self, work: Callable[[int], T]) -> T:
        """Run a function in a thread while it owns the terminal; its argument is the file descriptor of the screen."""
        ...


class QuestionDialog:
    """Key dispatch for one question, until there is an answer."""

    def __init__(
        self,
        question: Question,
        view: QuestionView,
        *,
        waiting: Callable[[], Sequence[ApprovalRequest]],
        extra_actions: Mapping[str, Action] | None = None,
        disabled_keys: str = "",
    ) -> None:
        self._question = question
        self._view = view
        self._waiting = waiting
        self._draft: EditDraft | None = None
        self._refused_yes = False  # the last key was a yes to what was not all on the screen
        self._actions: dict[str, Action] = {
            "y": self._allow,
            "a": self._allow_for,
            "e": self._edit,
            "n": self._deny,
            "m": self._deny_with_note,
            "v": self._view_all,
            **({"c": self._show_conversation} if question.request.conversation else {}),
            "r": self._show_rule,
            **(extra_actions or {}),
        }
        for key in disabled_keys:
            del self._actions[key]

    async def ask(self) -> Answer:
        """Show the question and handle keys until there is an answer.

        Raises:
            Closed: the request was answered elsewhere, has expired or was withdrawn.
            Interrupted: the person pressed Ctrl-C.
        """
        self._view.show_request(self._question.request, whole=False)
        choice = Choice(keys="".join(self._actions), legend=self._legend, hint=self._hint, is_idle=True)
        while True:
            key = await self._view.read_key(choice)
            self._refused_yes = False
            answer = await self._actions[key]()
            if answer is not None:
                return answer

    def _legend(self) -> str:
        unneeded = {"o"} if len(self._waiting()) == 1 else set[str]()
        keys = [key for key in self._actions if key not in {*unneeded, ENTER}]
        return "  ".join(f"[{key}] {words}" for key, words in KEY_LABELS.items() if key in keys)

    async def _allow(self) -> Answer | None:
        return self._question.yes() if self._has_seen_all() else None

    def _has_seen_all(self) -> bool:
        """Whether the whole request was on the screen; if not, a hint says how to view it."""
        self._refused_yes = not self._view.seen_all
        return self._view.seen_all

    def _hint(self) -> str:
        if not self._refused_yes or self._view.seen_all:
            return ""
        return f"Not all of it is on the screen: {self._view.how_to_see_all}."

    async def _deny(self) -> ApprovalDecision:
        return self._question.no()

    async def _deny_with_note(self) -> ApprovalDecision:
        return self._question.no((await self._view.read_line("Why not? ")).strip() or None)

    async def _show_rule(self) -> None:
        is_local = self._question.handle is not None
        self._view.show_lines(rule_lines(self._question.request, self._view.width, is_local=is_local))

    async def _view_all(self) -> None:
        await self._page_request(self._question.request)

    async def _show_conversation(self) -> None:
        """Open the messages before the call in the user's pager; nothing of the request counts as seen by that."""
        lines = conversation_lines(self._question.request, self._view.width)
        problem = await show_in_pager(self._view, lines)
        if problem is not None:
            self._view.show_lines(lines)
            self._view.show_message(problem)

    async def _page_request(self, request: ApprovalRequest, original: Mapping[str, Any] | None = None) -> None:
        """Open the whole request in the user's pager or, if that fails, show it here."""
        needs = self._question.needs
        found = request_lines(request, self._view.width, whole=True, original=original, needs=needs)
        problem = await show_in_pager(self._view, found.lines)
        if problem is None:
            self._view.count_as_seen()
            return
        self._view.show_request(request, whole=True, original=original)
        self._view.show_message(problem)

    async def _allow_for(self) -> Answer | None:
        """Offer the scopes, lifetimes and uses of a remembered approval."""
        scopes = self._question.request.scopes
        if not scopes:
            self._view.show_message("The rule does not let an answer be remembered.")
        if not scopes or not self._has_seen_all():
            return None
        choices = RememberChoices(self._question.request, await self._others())
        self._view.show_lines(choices.lines(self._view.width))
        choice = Choice(
            keys="".join(map(str, range(1, len(scopes) + 1))) + "b",
            legend=choices.legend,
            toggles={"t": choices.next_lifetime, "u": choices.next_uses},
        )
        while (key := await self._view.read_key(choice)) != "b":
            approval = choices.approval_for(scopes[int(key) - 1])
            if approval.problem is None:
                others = (await self._others())()
                self._question.also_answers = [each.id for each in approval.also_covers(others)]
                return approval.decision(who=self._question.who, channel=self._question.channel)
            self._view.show_message(f"{approval.problem}: press u until it says 'any number of times'.")
        return None

    async def _others(self) -> Callable[[], Sequence[ApprovalRequest]]:
        """Return a function for the open requests: those of the store now, or those that the full screen follows."""
        handle = self._question.handle
        if handle is None:
            return self._waiting
        try:
            found = await self._question.while_open(handle.pending())
        except StoreError as problem:
            self._view.show_message(f"What else an answer would answer is not known: {problem}.")
            found = []
        return lambda: found

    # --- Edited arguments ----------------------------------------------------------------------------

    async def _edit(self) -> Answer | None:
        """Open the arguments in the user's editor, preview the edited call, and confirm."""
        shows_edit = False  # the screen shows an edit in place of the request
        while (draft := await self._edit_draft()) is not None:
            found = await self._preview_edit(draft.json)
            if isinstance(found, str):
                self._view.show_message(found)
                next_step = await self._view.read_key(Choice(keys="eb", legend=lambda: "[e] edit again  [b] back"))
            else:
                shows_edit, next_step = True, await self._confirm_edit(found)
            if isinstance(next_step, ApprovalDecision):
                return next_step
            if next_step == "b":
                break
        if shows_edit:
            self._view.show_request(self._question.request, whole=False)
        return None

    async def _edit_draft(self) -> EditDraft | None:
        """Open the draft, or a text of it, in the editor; return it, or None if there is nothing to review."""
        try:
            draft = self._draft = self._draft or EditDraft(self._question.request.args)
            work = await self._choose_part(draft)
            if work is None:
                return None
            await self._view.run_in_terminal(work)
        except (OSError, ValueError) as problem:
            self._view.show_message(f"Nothing was changed: {problem}.")
            return None
        if not draft.is_changed:
            self._view.show_message("Nothing was changed.")
        return draft if draft.is_changed else None

    async def _choose_part(self, draft: EditDraft) -> Callable[[int], None] | None:
        """Return what to open in the editor: all arguments or, if it has long texts, perhaps one of those."""
        texts = draft.texts()
        if not texts:
            return draft.edit_all
        self._view.show_lines(draft_choices(texts, self._view.width))
        numbers = "".join(map(str, range(1, len(texts) + 2)))
        key = await self._view.read_key(Choice(keys=f"{numbers}b", legend=lambda: f"[1-{numbers[-1]}] edit  [b] back"))
        if key == "b":
            return None
        name = dict(zip(numbers, texts, strict=False)).get(key)
        return draft.edit_all if name is None else lambda screen: draft.edit_text(name, screen)

    async def _preview_edit(self, text: str) -> ApprovalRequest | str:
        """Return the request with the edited arguments, or why they are refused."""
        from sayso.channels.edit_schema import schema_violation  # noqa: PLC0415 - slow to load, and rarely needed

        request = self._question.request
        try:
            args = thaw(freeze(parse_args(text)))
        except ValueError as error:
            return f"This cannot be read: {error}."
        if not edited_names(thaw(request.args), args):
            return "Nothing was changed."
        problem = await asyncio.to_thread(schema_violation, args, request.parameters)
        if problem is not None:
            return f"This does not fit the tool: {truncate(problem, _LONGEST_PROBLEM)}."
        if self._question.handle is None:  # then what the tool says and shows is about the other arguments
            return msgspec.structs.replace(
                request, args=args, description="", described_by="default", presentation=None
            )
        try:
            return await self._question.while_open(self._question.handle.preview_edit(args))
        except ApprovalBlocked as blocked:
            return f"{blocked.reason[:1].upper()}{blocked.reason[1:]}."
        except ValueError as error:
            return f"This cannot run: {error}."

    async def _confirm_edit(self, changed: ApprovalRequest) -> ApprovalDecision | str:
        """Show an edit; return the answer, or the key for another edit (e) or for the way back (b)."""
        original = self._question.request.args
        self._view.show_request(changed, whole=False, original=original)
        if self._question.handle is None:
            self._view.show_message(JUDGED_LATER)
        choice = Choice(keys="yenmvb", legend=lambda: _EDIT_LEGEND, hint=self._hint)
        while (key := await self._view.read_key(choice)) in {"y", "v"}:
            self._refused_yes = False
            if key == "v":
                await self._page_request(changed, original)
            elif self._has_seen_all():
                return self._question.yes(args=changed.args)
        if key == "n":
            return await self._deny()
        return await self._deny_with_note() if key == "m" else key


async def show_in_pager(view: QuestionView, lines: Sequence[Line]) -> str | None:
    """Open lines in the user's pager; return why that failed, if it did."""
    problem = await view.run_in_terminal(lambda screen: run_pager(lines, screen))
    return None if problem is None else f"Shown here, because {problem}."


def answer_text(answer: Answer, *, also: int = 0) -> str:
    """Return the answer in words, for the scrollback; `also` other requests get the same."""
    if answer == "left":
        return "Left to others."
    if not answer.approved:
        return visible(f"Denied: {answer.note}" if answer.note else "Denied.")
    edited = "" if answer.override_args is None else ", with the arguments as you edited them"
    if answer.remember == "none":
        return f"Allowed once{edited}."
    more = f" The same answer goes to {also} more open request{'' if also == 1 else 's'}." if also else ""
    return f"Allowed, and remembered.{more}"
