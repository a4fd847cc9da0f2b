"""What a person saw is what runs: a yes rests on what the call would find, not only on its arguments."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.people import YES

from sayso import (
    ApprovalBlocked,
    ApprovalController,
    ApprovalDecision,
    ApprovalDenied,
    ApprovalPending,
    ApprovalPresentation,
    ApprovalRequest,
    Policy,
    Preview,
    guard,
    requires_approval,
    resume,
)
from sayso.errors import ToolError

Answer = Callable[[ApprovalRequest], ApprovalDecision]


class Note:
    """A note that a tool replaces."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.previews = 0
        path.write_text("old")

    def replace(self, text: str) -> str:
        self.path.write_text(text)
        return "replaced"

    def preview(self, text: str) -> Preview:
        self.previews += 1
        if not self.path.exists():
            raise ToolError("the note is gone")
        diff = f"-{self.path.read_text()}\n+{text}\n"
        return Preview(
            description="Replace the note", presentation=ApprovalPresentation(diff=diff), basis=self.path.read_text()
        )

    async def preview_later(self, text: str) -> Preview:
        return self.preview(text)


@pytest.fixture
def note(tmp_path: Path) -> Note:
    return Note(tmp_path / "note")


def asking(answer: Answer, **settings: object) -> ApprovalController:
    return ApprovalController(policy=Policy({"replace": "required"}), approval_callback=answer, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["preview", "preview_later"])
def test_a_preview_is_shown_before_the_call_runs(note: Note, name: str) -> None:
    seen: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        seen.append(request)
        return YES

    assert guard(note.replace, asking(answer), preview=getattr(note, name))("new") == "replaced"
    assert seen[0].description == "Replace the note"
    assert seen[0].presentation == ApprovalPresentation(diff="-old\n+new\n")


@pytest.mark.proves("H2")
def test_a_yes_does_not_hold_when_what_was_shown_has_changed(note: Note) -> None:
    def answer(_: ApprovalRequest) -> ApprovalDecision:
        note.path.write_text("changed meanwhile")
        return YES

    with pytest.raises(ApprovalDenied, match="not what was asked about") as refused:
        guard(note.replace, asking(answer), preview=note.preview)("new")
    assert refused.value.cause == "changed"
    assert note.path.read_text() == "changed meanwhile"


def test_a_yes_that_was_remembered_is_for_the_call_whatever_it_finds(note: Note) -> None:
    tool = guard(
        note.replace, asking(lambda _: ApprovalDecision(approved=True, remember="session")), preview=note.preview
    )
    tool("new")
    note.path.write_text("changed meanwhile")
    assert tool("new") == "replaced"


def test_what_would_fail_is_refused_and_nobody_is_asked(note: Note) -> None:
    def answer(_: ApprovalRequest) -> ApprovalDecision:
        raise NotImplementedError

    note.path.unlink()
    with pytest.raises(ToolError, match="the note is gone"):
        guard(note.replace, asking(answer), preview=note.preview)("new")
    assert not note.path.exists()


def test_a_preview_that_breaks_blocks_the_call(note: Note) -> None:
    def preview(text: str) -> Preview:
        raise RuntimeError(f"no idea about {text}")

    with pytest.raises(ApprovalBlocked, match="no idea about new"):
        guard(note.replace, asking(lambda _: YES), preview=preview)("new")
    assert note.path.read_text() == "old"


def test_no_preview_is_made_for_what_nobody_is_asked_about(note: Note) -> None:
    controller = ApprovalController(policy=Policy({"replace": "none"}), mode="auto_deny")
    assert guard(note.replace, controller, preview=note.preview)("new") == "replaced"
    assert note.previews == 0


def test_edited_arguments_run_on_what_is_there_now(note: Note) -> None:
    edited = ApprovalDecision(approved=True, override_args={"text": "edited"})
    assert guard(note.replace, asking(lambda _: edited), preview=note.preview)("new") == "replaced"
    assert note.path.read_text() == "edited"


@pytest.mark.parametrize("touched", [False, True])
async def test_a_yes_from_another_time_holds_only_if_nothing_has_changed(
    note: Note, tmp_path: Path, touched: bool
) -> None:
    async with asking(lambda _: YES, mode="defer", store=tmp_path / "s.db") as controller:
        tool = guard(note.replace, controller, preview=note.preview)

        async def asked(text: str) -> str:
            return tool(text)

        guarded = guard(asked, controller, name="replace", preview=note.preview)
        with pytest.raises(ApprovalPending) as pending:
            await guarded("new")
        await controller.answer(pending.value.request.id, YES)
        if touched:
            note.path.write_text("changed meanwhile")
            with pytest.raises(ApprovalDenied):
                await resume(tool, pending.value.request.id, controller=controller)
            assert note.path.read_text() == "changed meanwhile"
        else:
            assert await resume(tool, pending.value.request.id, controller=controller) == "replaced"


async def test_a_question_about_what_is_no_longer_there_is_withdrawn(note: Note, tmp_path: Path) -> None:
    async with asking(lambda _: YES, mode="defer", store=tmp_path / "s.db") as controller:

        async def replace(text: str) -> str:
            return note.replace(text)

        tool = guard(replace, controller, preview=note.preview)
        with pytest.raises(ApprovalPending) as pending:
            await tool("new")
        note.path.write_text("changed meanwhile")
        with pytest.raises(ApprovalDenied, match="not what was asked about"):
            await resume(tool, pending.value.request.id, controller=controller)
        assert await controller.pending() == []


def test_a_marked_function_can_have_a_preview(note: Note) -> None:
    seen: list[ApprovalRequest] = []

    @requires_approval(preview=note.preview)
    def replace(text: str) -> str:
        return note.replace(text)

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        seen.append(request)
        return YES

    with asking(answer).activated():
        assert replace("new") == "replaced"
    assert seen[0].description == "Replace the note"
