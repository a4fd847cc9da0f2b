"""File tools do exactly what was judged and shown, in the place that was judged, or nothing."""

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from tests.people import YES

from sayso import ApprovalBlocked, ApprovalController, ApprovalDecision, ApprovalDenied, ApprovalRequest, Policy, guard
from sayso.core.audit import entries
from sayso.core.model import AuditEntry
from sayso.errors import ConfigurationError, ToolError
from sayso.tools.files import Attachment, FileTools, Limits

Answer = Callable[[ApprovalRequest], ApprovalDecision]


class Desk:
    """A folder with zones, the tools for it, and somebody who answers."""

    def __init__(self, base: Path) -> None:
        self.base = base
        for name in ("docs", "scratch", "output", "secret", "outside"):
            (base / name).mkdir()
        self.policy = Policy.from_dict(
            {
                "default": "blocked",
                "sandbox": {
                    "zones": {
                        "docs": {"root": "docs", "mode": "ro"},
                        "scratch": {"root": "scratch", "approval": "none", "trash": False},
                        "output": {"root": "output"},
                        "secret": {"root": "secret", "read_approval": True, "mode": "ro"},
                    }
                },
            },
            base=base,
        )
        self.seen: list[ApprovalRequest] = []
        self.answer: Answer = lambda _: YES
        self.controller = ApprovalController(policy=self.policy, approval_callback=self._asked)
        self.files = FileTools(self.policy, limits=Limits(read_bytes=1000, write_bytes=500_000, names=50))
        tools: list[Callable[..., Any]] = [*self.files.functions, self.files.attach]
        self.tools = {tool.__name__: tool for tool in tools}

    def _asked(self, request: ApprovalRequest) -> ApprovalDecision:
        self.seen.append(request)
        return self.answer(request)

    def use(self, tool: str, *args: object, **named: object) -> Any:
        with self.controller.activated():
            return self.tools[tool](*args, **named)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.files.close()


def test_a_tool_keeps_its_name_in_a_subclass_that_wraps_its_method(desk: Desk) -> None:
    """The zones judge a tool by its name: under another one, the default would."""
    wrote: list[str] = []

    class Logged(FileTools):
        pass

    def logging(self: FileTools, path: str, text: str) -> str:
        wrote.append(path)
        return FileTools.write_file(self, path, text)

    Logged.write_file = logging  # type: ignore[method-assign]
    lax = Policy.from_dict(
        {"default": "none", "sandbox": {"zones": {"docs": {"root": "docs", "mode": "ro"}}}}, base=desk.base
    )
    with Logged(lax) as files, ApprovalController(policy=lax, mode="auto_deny").activated():
        tool = files.functions[1]
        with pytest.raises(ApprovalBlocked):
            tool("/docs/a.txt", "new")
    assert wrote == []


def test_a_file_is_written_read_edited_listed_and_deleted_inside_its_zone(desk: Desk) -> None:
    assert desk.use("write_file", "/scratch/a/b.txt", "one\ntwo\nthree\n") == "created /scratch/a/b.txt: 14 bytes"
    assert desk.use("read_file", "/scratch/a/b.txt") == "one\ntwo\nthree\n"
    assert desk.use("read_file", "/scratch/a/b.txt", first_line=2, lines=1) == "two\n"
    assert desk.use("edit_file", "/scratch/a/b.txt", "two", "2") == "changed /scratch/a/b.txt: 12 bytes"
    assert desk.use("list_files", "/scratch") == "a/"
    assert desk.use("list_files", "/scratch/a") == "b.txt"
    assert desk.use("delete_file", "/scratch/a/b.txt") == "deleted /scratch/a/b.txt"
    assert desk.use("list_files", "/scratch/a") == "the folder is empty"
    assert desk.seen == []


@pytest.mark.proves("R35", "R53")
def test_a_write_is_shown_as_a_diff_before_it_happens(desk: Desk) -> None:
    (desk.base / "output/a.txt").write_text("one\ntwo\n")

    def answer(_: ApprovalRequest) -> ApprovalDecision:
        assert (desk.base / "output/a.txt").read_text() == "one\ntwo\n"
        return YES

    desk.answer = answer
    desk.use("write_file", "/output/a.txt", "one\n2\n")
    assert (desk.base / "output/a.txt").read_text() == "one\n2\n"
    shown = desk.seen[0].presentation
    assert shown is not None
    assert shown.diff == "--- a/output/a.txt\n+++ b/output/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert desk.seen[0].description == "Write /output/a.txt"


def test_a_new_file_and_one_without_a_last_newline_are_told_apart_in_the_diff(desk: Desk) -> None:
    desk.use("write_file", "/output/new.md", "text")
    shown = desk.seen[0].presentation
    assert shown is not None
    assert shown.diff == ("--- /dev/null\n+++ b/output/new.md\n@@ -0,0 +1 @@\n+text\n\\ No newline at end of file\n")
    assert (shown.title, shown.language) == ("Create /output/new.md", "md")


@pytest.mark.parametrize("content", ["x\n" * 5000, "y" * 300_000])
def test_what_is_too_long_for_a_diff_is_shown_by_size_and_hash(desk: Desk, content: str) -> None:
    desk.use("write_file", "/output/long.txt", content)
    shown = desk.seen[0].presentation
    assert shown is not None
    assert shown.diff is None
    assert shown.content is not None
    assert f"after: {len(content):,} bytes of text, sha256 " in shown.content


def test_a_binary_file_is_shown_by_size_and_hash(desk: Desk) -> None:
    (desk.base / "output/a.bin").write_bytes(b"\xff\x00")
    desk.use("delete_file", "/output/a.bin")
    shown = desk.seen[0].presentation
    assert shown is not None
    assert shown.content is not None
    assert "before: 2 bytes of binary, sha256 " in shown.content


def test_what_is_deleted_can_be_had_back_from_the_trash_which_no_tool_can_touch(desk: Desk) -> None:
    (desk.base / "output/a.txt").write_text("precious")
    said = desk.use("delete_file", "/output/a.txt")
    assert not (desk.base / "output/a.txt").exists()
    kept = desk.base / said.rpartition(" /")[2]
    assert kept.read_text() == "precious"
    assert desk.use("list_files", "/output") == "the folder is empty"
    for tool, more in (("read_file", {}), ("write_file", {"content": ""}), ("delete_file", {})):
        with pytest.raises(ApprovalBlocked, match="only people look into"):
            desk.use(tool, f"/{kept.relative_to(desk.base)}", **more)
    assert kept.read_text() == "precious"


def test_a_zone_can_do_without_trash(desk: Desk) -> None:
    (desk.base / "scratch/a.txt").write_text("x")
    desk.use("delete_file", "/scratch/a.txt")
    assert list((desk.base / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "content"),
    [("/docs/a", "x"), ("/nowhere/a", "x"), ("/scratch/../outside/a", "x"), ("/scratch/.git/hooks/a", "x")],
)
def test_what_the_policy_blocks_is_not_written(desk: Desk, path: str, content: str) -> None:
    with pytest.raises(ApprovalBlocked):
        desk.use("write_file", path, content)
    assert [each for each in desk.base.rglob("*") if each.is_file()] == []


@pytest.mark.proves("R36")
def test_an_attachment_is_asked_about_where_reading_is(desk: Desk) -> None:
    (desk.base / "secret/plan.pdf").write_bytes(b"%PDF\xff")
    (desk.base / "docs/open.txt").write_text("open")
    assert desk.use("attach_file", "/docs/open.txt") == Attachment(
        name="open.txt", media_type="text/plain", data=b"open"
    )
    assert desk.seen == []
    assert desk.use("attach_file", "/secret/plan.pdf").media_type == "application/pdf"
    assert desk.seen[0].description == "Hand on /secret/plan.pdf as it is"
    desk.answer = lambda _: ApprovalDecision(approved=False, note="not this one")
    with pytest.raises(ApprovalDenied, match="refused"):
        desk.use("attach_file", "/secret/plan.pdf")


class TestWhatWasApprovedIsWhatRuns:
    """Somebody changes one thing between the answer and the call; each is refused."""

    @pytest.fixture
    def meanwhile(self, desk: Desk) -> Callable[[Callable[[], object]], None]:
        def do(change: Callable[[], object]) -> None:
            def answer(_: ApprovalRequest) -> ApprovalDecision:
                change()
                return YES

            desk.answer = answer

        return do

    @pytest.mark.proves("H2")
    @pytest.mark.parametrize(
        ("tool", "more"),
        [("write_file", ["new"]), ("edit_file", ["old", "new"]), ("delete_file", [])],
        ids=["write", "edit", "delete"],
    )
    def test_another_content_is_refused(
        self, desk: Desk, meanwhile: Callable[[Callable[[], object]], None], tool: str, more: list[str]
    ) -> None:
        file = desk.base / "output/a.txt"
        file.write_text("old")
        meanwhile(lambda: file.write_text("old, and changed by somebody"))
        with pytest.raises(ApprovalDenied, match="not what was asked about"):
            desk.use(tool, "/output/a.txt", *more)
        assert file.read_text() == "old, and changed by somebody"

    def test_a_file_that_has_come_into_being_is_not_overwritten(
        self, desk: Desk, meanwhile: Callable[[Callable[[], object]], None]
    ) -> None:
        file = desk.base / "output/a.txt"
        meanwhile(lambda: file.write_text("somebody's"))
        with pytest.raises(ApprovalDenied):
            desk.use("write_file", "/output/a.txt", "mine")
        assert file.read_text() == "somebody's"

    def test_a_file_that_is_gone_is_not_made_anew(
        self, desk: Desk, meanwhile: Callable[[Callable[[], object]], None]
    ) -> None:
        file = desk.base / "output/a.txt"
        file.write_text("old")
        meanwhile(file.unlink)
        with pytest.raises(ApprovalDenied):
            desk.use("write_file", "/output/a.txt", "mine")
        assert not file.exists()

    def test_another_target_of_a_link_is_refused(
        self, desk: Desk, meanwhile: Callable[[Callable[[], object]], None]
    ) -> None:
        output = desk.base / "output"
        for name in ("one", "two"):
            (output / name).mkdir()
            (output / name / "a.txt").write_text("same")
        (output / "here").symlink_to("one")

        def bend() -> None:
            (output / "here").unlink()
            (output / "here").symlink_to("two")

        meanwhile(bend)
        with pytest.raises(ApprovalDenied):
            desk.use("write_file", "/output/here/a.txt", "new")
        assert {(output / name / "a.txt").read_text() for name in ("one", "two")} == {"same"}

    def test_what_changes_after_everything_else_was_checked_is_refused_too(self, desk: Desk) -> None:
        file = desk.base / "output/a.txt"
        file.write_text("old")

        def change(entry: AuditEntry) -> None:
            if entry.step == "claimed":
                file.write_text("changed by somebody")

        desk.controller = ApprovalController(policy=desk.policy, approval_callback=lambda _: YES, hooks=[change])
        with pytest.raises(ToolError, match="changed after it was approved"):
            desk.use("write_file", "/output/a.txt", "new")
        assert file.read_text() == "changed by somebody"

    def test_a_link_inside_its_zone_is_shown_with_where_it_leads(self, desk: Desk) -> None:
        (desk.base / "output/real").mkdir()
        (desk.base / "output/here").symlink_to("real")
        desk.use("write_file", "/output/here/a.txt", "new")
        assert desk.seen[0].description == f"Write /output/here/a.txt, which is {desk.base}/output/real/a.txt"
        assert (desk.base / "output/real/a.txt").read_text() == "new"


class Swapper:
    """A second thread that puts a link to elsewhere in the place of a folder, and the folder back, all the time."""

    def __init__(self, folder: Path, elsewhere: Path) -> None:
        self.times = 0
        self._folder, self._elsewhere, self._aside = folder, elsewhere, folder.with_name("aside")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._swap)

    def _swap(self) -> None:
        while not self._stop.is_set():
            self._folder.rename(self._aside)
            # While it is away, a tool may make the folder anew.
            self._put(lambda: self._folder.symlink_to(self._elsewhere))
            self._folder.unlink()
            self._put(lambda: self._aside.rename(self._folder))
            self.times += 1

    def _put(self, put: Callable[[], object]) -> None:
        while True:
            try:
                put()
            except OSError:
                shutil.rmtree(self._folder, ignore_errors=True)
            else:
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.proves("H3")
def test_a_folder_that_is_swapped_for_a_link_all_the_time_never_leads_outside(desk: Desk) -> None:
    """Whatever the moment, a call takes effect inside its zone or not at all."""
    box, outside = desk.base / "scratch/box", desk.base / "outside"
    box.mkdir()
    (box / "a.txt").write_text("inside")
    (outside / "a.txt").write_text("OUTSIDE")
    calls = (
        ("read_file", ["/scratch/box/a.txt"]),
        ("write_file", ["/scratch/box/a.txt", "inside"]),
        ("write_file", ["/scratch/box/new.txt", "inside"]),
        ("delete_file", ["/scratch/box/new.txt"]),
        ("list_files", ["/scratch/box"]),
    )
    said: dict[str, set[str]] = {tool: set() for tool, _ in calls}
    with Swapper(box, outside) as swapper:
        while swapper.times < 3000 or not all(said.values()):
            for tool, args in calls:
                with contextlib.suppress(ToolError, ApprovalBlocked):
                    said[tool].add(desk.use(tool, *args))
    assert said["read_file"] == {"inside"}
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"a.txt": "OUTSIDE"}


def test_a_file_with_several_names_is_read_only_where_reading_is_asked_about(desk: Desk) -> None:
    (desk.base / "outside/password").write_text("hush")
    os.link(desk.base / "outside/password", desk.base / "docs/innocent.txt")
    os.link(desk.base / "outside/password", desk.base / "secret/innocent.txt")
    os.link(desk.base / "outside/password", desk.base / "scratch/innocent.txt")
    for tool in ("read_file", "attach_file"):
        with pytest.raises(ToolError, match=r"'/docs/innocent.txt' has 4 names \(hard links\)"):
            desk.use(tool, "/docs/innocent.txt")
    assert desk.use("read_file", "/secret/innocent.txt") == "hush"
    with pytest.raises(ToolError, match="hard links"):
        desk.use("write_file", "/scratch/innocent.txt", "x")
    assert (desk.base / "outside/password").read_text() == "hush"


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (os.mkfifo, "a pipe or a socket, and only regular files are read"),
        (Path.mkdir, "is a folder"),
        (partial(Path.write_bytes, data=b"ok \xff"), r"is not UTF-8 text \(byte 3 is 0xff\)"),
        (partial(Path.write_bytes, data=b"x" * 1001), "has 1001 bytes, and 1000 is the most that is read"),
        (sparse, "is the most that is read"),
        (str, "is not there"),
    ],
    ids=["pipe", "folder", "not text", "too long", "sparse", "missing"],
)
def test_what_is_no_text_file_is_one_clear_sentence(desk: Desk, make: Callable[[Path], object], sentence: str) -> None:
    make(desk.base / "docs/odd")
    with pytest.raises(ToolError, match=sentence) as raised:
        desk.use("read_file", "/docs/odd")
    assert "'/docs/odd'" in str(raised.value)


@pytest.mark.parametrize(("old", "problem"), [("x", "is not in the file"), ("a", "2 times"), ("", "is empty")])
def test_a_passage_has_to_be_there_exactly_once_before_anybody_is_asked(desk: Desk, old: str, problem: str) -> None:
    (desk.base / "output/a.txt").write_text("a b a")
    with pytest.raises(ToolError, match=problem):
        desk.use("edit_file", "/output/a.txt", old, "y")
    assert desk.seen == []


def test_too_many_names_are_refused(desk: Desk) -> None:
    for number in range(51):
        (desk.base / "docs" / str(number)).touch()
    with pytest.raises(ToolError, match="more than 50 names"):
        desk.use("list_files", "/docs")


def test_the_bare_functions_do_nothing_without_a_controller(desk: Desk) -> None:
    with pytest.raises(ConfigurationError, match="only behind a controller"):
        desk.files.write_file("/scratch/a.txt", "x")
    with pytest.raises(ConfigurationError, match="no controller is in context"):
        desk.tools["write_file"]("/scratch/a.txt", "x")
    assert list((desk.base / "scratch").iterdir()) == []


def test_what_was_decided_about_one_call_is_no_say_so_for_another(desk: Desk) -> None:
    def sly(path: str) -> str:
        return desk.files.write_file(path, "sly")

    with pytest.raises(ConfigurationError, match="only behind a controller"):
        guard(sly, ApprovalController(mode="approve_all"))("/scratch/b.txt")
    assert not (desk.base / "scratch/b.txt").exists()


def test_a_policy_that_has_not_judged_the_place_lets_nothing_happen(desk: Desk) -> None:
    controller = ApprovalController(policy=Policy({}, default="none"), mode="auto_deny")
    with controller.activated(), pytest.raises(ToolError, match="nobody has judged this of it"):
        desk.tools["write_file"]("/scratch/a.txt", "x")
    with pytest.raises(ConfigurationError, match="no `sandbox`"):
        FileTools(Policy({}))
    with pytest.raises(ConfigurationError, match=r"^'sayso.yaml' is not a Policy; pass load_policy\('sayso.yaml'\)$"):
        FileTools("sayso.yaml")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_the_audit_tells_what_was_written_and_what_failed(desk: Desk) -> None:
    await asyncio.to_thread(desk.use, "write_file", "/scratch/a.txt", "x")
    with pytest.raises(ToolError):
        await asyncio.to_thread(desk.use, "read_file", "/scratch/none.txt")
    steps = [(each["tool"], each["step"]) async for each in entries(desk.controller.store)]
    assert steps == [
        ("write_file", "allowed"),
        ("write_file", "returned"),
        ("read_file", "allowed"),
        ("read_file", "raised"),
    ]
