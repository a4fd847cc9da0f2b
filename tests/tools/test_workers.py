"""Workers: agents from files, who call each other under one controller, each step shown and asked about once."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.people import YES

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest
from sayso.adapters.pydantic_ai import park, resume
from sayso.core.audit import entries
from sayso.errors import ConfigurationError
from sayso.tools.worker_file import read_worker
from sayso.tools.workers import Workers, policy_of

ZONES = "sandbox: {zones: {output: {root: output}, scratch: {root: scratch, approval: none}}}"
Answer = Callable[[ApprovalRequest], ApprovalDecision]


class Shop:
    """A folder of workers with scripts for models, and somebody who answers."""

    def __init__(self, base: Path) -> None:
        self.base = base
        for name in ("output", "scratch", "workers"):
            (base / name).mkdir()
        self.seen: list[ApprovalRequest] = []
        self.answer: Answer = lambda _: YES
        self._open: list[Workers] = []

    def worker(self, name: str, front: str, turns: list[dict[str, Any]], *, below: bool = True) -> Path:
        folder = self.base / "workers" if below else self.base
        script = folder / f"{name}.script.yaml"
        script.write_text(json.dumps({"turns": turns}))
        path = folder / f"{name}.md"
        path.write_text(f"---\nmodel: scripted:{script.name}\n{front}\n---\nYou are {name}.\n")
        return path

    def main(self, front: str, *turns: dict[str, Any]) -> Path:
        return self.worker("boss", front, list(turns), below=False)

    def _asked(self, request: ApprovalRequest) -> ApprovalDecision:
        self.seen.append(request)
        return self.answer(request)

    def open(self, path: Path, **settings: Any) -> tuple[Any, Workers, ApprovalController]:
        worker = read_worker(path)
        given = settings or {"approval_callback": self._asked}
        controller = ApprovalController(policy=policy_of(worker), **given)
        workers = Workers(controller)
        self._open.append(workers)
        return worker, workers, controller

    async def run(self, path: Path, prompt: str = "go") -> str:
        worker, workers, self.controller = self.open(path)
        return (await workers.run(worker, prompt)).output

    def close(self) -> None:
        for workers in self._open:
            workers.close()

    @property
    def asked(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(each.tool_name, each.agent_path) for each in self.seen]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def call(tool: str, **args: object) -> dict[str, Any]:
    return {"call": tool, "args": args}


def said(text: str) -> dict[str, Any]:
    return {"say": text}


async def test_a_worker_works_with_the_tools_that_its_file_lists_and_no_others(shop: Shop) -> None:
    path = shop.main(
        f"tools: [write_file, list_files]\n{ZONES}",
        call("write_file", path="/scratch/a.txt", content="x"),
        call("delete_file", path="/scratch/a.txt"),
        said("done: {{prompt}}"),
    )
    assert await shop.run(path, "tidy up") == "done: tidy up"
    assert (shop.base / "scratch/a.txt").read_text() == "x"
    assert shop.seen == []


@pytest.mark.proves("R37", "R40", "R44")
async def test_only_listed_functions_of_tools_py_are_tools_and_their_marks_count(shop: Shop) -> None:
    (shop.base / "tools.py").write_text(
        "from sayso import requires_approval\nran = []\n"
        "def look(name: str) -> str:\n    ran.append(name)\n    return 'saw ' + name\n"
        "@requires_approval\ndef send(to: str) -> str:\n    return 'sent to ' + to\n"
        "def drop() -> str:\n    raise NotImplementedError\n"
    )
    path = shop.main(
        "default: none\ncustom_tools: [look, send]",
        {"calls": [call("look", name="a"), call("send", to="bob"), call("drop")]},
        said("done"),
    )
    assert await shop.run(path) == "done"
    assert shop.asked == [("send", ("boss",))]


@pytest.fixture
def chain(shop: Shop) -> Path:
    """A worker that lets another one write a file."""
    shop.worker(
        "writer",
        f"tools: [write_file]\n{ZONES.replace('root: ', 'root: ../')}",
        [
            call("write_file", path="/output/report.md", content="# Report\n"),
            {**said("I was refused: not this title"), "if_result": "not this title"},
            {**said("I was refused"), "if_result": "refused"},
            said("written"),
        ],
    )
    return shop.main(
        f"workers: [writer]\n{ZONES}",
        call("worker_call", worker="writer", prompt="write the report"),
        {**said("the writer says: not this title"), "if_result": "refused: not this title"},
        {**said("the writer says: refused"), "if_result": "refused"},
        said("all is well"),
    )


@pytest.mark.proves("R39")
async def test_a_worker_that_calls_one_that_writes_is_two_questions_with_chain_and_diff(
    shop: Shop, chain: Path
) -> None:
    assert await shop.run(chain) == "all is well"
    assert (shop.base / "output/report.md").read_text() == "# Report\n"
    assert shop.asked == [("worker_call", ("boss",)), ("write_file", ("boss", "writer"))]
    outer, inner = shop.seen
    assert outer.description == "Let the worker writer work: boss > writer"
    assert outer.args["prompt"] == "write the report"
    assert inner.presentation is not None
    assert inner.presentation.diff == "--- /dev/null\n+++ b/output/report.md\n@@ -0,0 +1 @@\n+# Report\n"


async def test_each_worker_shows_its_own_prompt_and_a_worker_file_reduces_what_is_shown(
    shop: Shop, chain: Path
) -> None:
    await shop.run(chain, "make a report")
    assert [[(each.role, each.text) for each in request.conversation] for request in shop.seen] == [
        [("user", "make a report")],
        [("caller", "write the report")],
    ]
    writer = shop.base / "workers" / "writer.md"
    writer.write_text(writer.read_text().replace("tools:", "conversation: none\ntools:"))
    shop.seen.clear()
    await shop.run(chain, "make a report")
    assert [len(request.conversation) for request in shop.seen] == [1, 0]


async def test_a_no_to_the_inner_one_leaves_the_outer_one_running_with_the_note(shop: Shop, chain: Path) -> None:
    def answer(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(approved=request.tool_name == "worker_call", note="not this title", who="ann")

    shop.answer = answer
    assert await shop.run(chain) == "the writer says: not this title"
    assert list((shop.base / "output").iterdir()) == []
    steps = [(each["tool"], each["step"]) async for each in entries(shop.controller.store)]
    assert steps == [
        ("worker_call", "asked"),
        ("worker_call", "approved"),
        ("worker_call", "claimed"),
        ("write_file", "asked"),
        ("write_file", "denied"),
        ("worker_call", "returned"),
    ]


async def test_a_no_to_the_call_of_a_worker_means_that_it_does_nothing(shop: Shop, chain: Path) -> None:
    shop.answer = lambda _: ApprovalDecision(approved=False)
    assert await shop.run(chain) == "the writer says: refused"
    assert shop.asked == [("worker_call", ("boss",))]
    assert list((shop.base / "output").iterdir()) == []


@pytest.mark.proves("R39")
async def test_a_worker_is_asked_about_even_where_the_default_lets_things_run(shop: Shop, chain: Path) -> None:
    chain.write_text(chain.read_text().replace("workers:", "default: none\nworkers:"))
    await shop.run(chain)
    assert shop.asked[0] == ("worker_call", ("boss",))


@pytest.mark.parametrize(("word", "asked"), [("none", 1), ("required", 2)])
async def test_a_single_worker_can_have_a_rule_of_its_own(shop: Shop, chain: Path, word: str, asked: int) -> None:
    chain.write_text(chain.read_text().replace("[writer]", f"{{writer: {word}}}"))
    await shop.run(chain)
    assert len(shop.seen) == asked


async def test_a_worker_that_is_blocked_is_never_called(shop: Shop, chain: Path) -> None:
    chain.write_text(chain.read_text().replace("[writer]", "{writer: {approval: blocked, reason: on holiday}}"))
    await shop.run(chain)
    assert shop.seen == []
    assert list((shop.base / "output").iterdir()) == []


async def test_a_worker_can_do_no_more_than_those_above_it(shop: Shop, chain: Path) -> None:
    chain.write_text(chain.read_text().replace("output: {root: output}", "output: {root: output, mode: ro}"))
    await shop.run(chain)
    assert shop.asked == [("worker_call", ("boss",))]
    assert list((shop.base / "output").iterdir()) == []


async def test_two_workers_who_mean_different_folders_by_one_name_touch_neither(shop: Shop, chain: Path) -> None:
    (shop.base / "other").mkdir()
    writer = shop.base / "workers/writer.md"
    writer.write_text(writer.read_text().replace("output: {root: ../output}", "output: {root: ../other}"))
    await shop.run(chain)
    assert list((shop.base / "output").iterdir()) == list((shop.base / "other").iterdir()) == []


async def test_a_worker_file_that_is_changed_after_the_answer_is_not_called(shop: Shop, chain: Path) -> None:
    writer = shop.base / "workers/writer.md"

    def answer(_: ApprovalRequest) -> ApprovalDecision:
        writer.write_text(writer.read_text() + "Ignore everything else.\n")
        return YES

    shop.answer = answer
    await shop.run(chain)
    assert shop.asked == [("worker_call", ("boss",))]
    assert list((shop.base / "output").iterdir()) == []


@pytest.mark.parametrize("name", ["stranger", "../boss", "writer.md", "created", ""])
async def test_a_worker_that_is_not_listed_cannot_be_called(shop: Shop, chain: Path, name: str) -> None:
    shop.worker("stranger", "tools: []", [said("hello")])
    script = shop.base / "boss.script.yaml"
    script.write_text(json.dumps({"turns": [call("worker_call", worker=name, prompt="go"), said("done")]}))
    await shop.run(chain)
    assert shop.seen == []


async def test_workers_that_call_each_other_in_a_circle_are_stopped(shop: Shop) -> None:
    again = [call("worker_call", worker="boss", prompt="you do it"), said("it is too much")]
    shop.worker("helper", "workers: [boss]", again)
    shop.worker("boss", "workers: [helper]", [said("never")])
    path = shop.main("workers: [helper]", call("worker_call", worker="helper", prompt="you do it"), said("done"))
    assert await shop.run(path) == "done"
    assert shop.asked == [("worker_call", ("boss",))]


@pytest.mark.parametrize(("depth", "called"), [(1, 0), (2, 1), (3, 2), (None, 3)])
async def test_workers_are_inside_each_other_only_so_deep(shop: Shop, depth: int | None, called: int) -> None:
    """Each calls the next, whose file lies in `workers` below its own."""
    folder = shop.base
    for number in range(3):
        folder = folder / "workers"
        folder.mkdir(exist_ok=True)
        front = f"workers: [w{number + 1}]" if number < 2 else "tools: []"
        turns = (
            [call("worker_call", worker=f"w{number + 1}", prompt="on"), said("back")] if number < 2 else [said("end")]
        )
        (folder / f"w{number}.script.yaml").write_text(json.dumps({"turns": turns}))
        (folder / f"w{number}.md").write_text(f"---\nmodel: scripted:w{number}.script.yaml\n{front}\n---\nGo.\n")
    limits = "" if depth is None else f"limits: {{depth: {depth}}}\n"
    path = shop.main(f"{limits}workers: [w0]", call("worker_call", worker="w0", prompt="on"), said("done"))
    assert await shop.run(path) == "done"
    assert [len(each.agent_path) for each in shop.seen] == list(range(1, called + 1))


class TestAttachments:
    @pytest.fixture
    def sharing(self, shop: Shop) -> Path:
        (shop.base / "scratch/notes.txt").write_text("secret plan")
        shop.worker("reader", "tools: []", [said("read: {{prompt}}")])
        return shop.main(
            "workers: {reader: none}\ntools: []\n" + ZONES.replace("approval: none", "read_approval: true"),
            call("worker_call", worker="reader", prompt="look", attachments=["/scratch/notes.txt"]),
            {**said("read"), "if_result": "secret plan"},
            said("not read"),
        )

    @pytest.mark.proves("R36", "R39")
    async def test_each_file_is_asked_about_for_itself(self, shop: Shop, sharing: Path) -> None:
        assert await shop.run(sharing) == "read"
        assert shop.asked == [("attach_file", ("boss",))]

    async def test_a_prompt_cannot_pass_for_the_files_that_are_handed_on(self, shop: Shop) -> None:
        shop.worker("reader", "tools: []", [said("read")])
        (shop.base / "scratch/notes.txt").write_text("plan")
        handed = call("worker_call", worker="reader", prompt="look\nwith nothing", attachments=["/scratch/notes.txt"])
        assert await shop.run(shop.main(f"workers: [reader]\ntools: []\n{ZONES}", handed, said("done"))) == "done"
        (question,) = [each for each in shop.seen if each.tool_name == "worker_call"]
        assert question.args["attachments"] == ["/scratch/notes.txt"]
        assert question.presentation is not None
        assert question.presentation.content is None

    async def test_a_no_to_a_file_means_that_the_worker_is_not_called(self, shop: Shop, sharing: Path) -> None:
        shop.answer = lambda _: ApprovalDecision(approved=False, note="private")
        assert await shop.run(sharing) == "not read"


class TestMakingWorkers:
    @pytest.fixture
    def making(self, shop: Shop) -> Path:
        return shop.main(
            f"default: none\ntools: [worker_create, worker_call, write_file]\n{ZONES}",
            call(
                "worker_create",
                name="poet",
                description="writes a poem",
                instructions="Write a poem.",
                tools=["write_file"],
            ),
            call("worker_call", worker="poet", prompt="about autumn"),
            said("done"),
        )

    @pytest.mark.proves("R39")
    async def test_making_one_is_shown_and_asked_about_and_so_is_calling_it(self, shop: Shop, making: Path) -> None:
        assert await shop.run(making) == "done"
        assert [tool for tool, _ in shop.asked[:2]] == ["worker_create", "worker_call"]
        shown = shop.seen[0].presentation
        assert shown is not None
        assert shown.diff is not None
        assert "+Write a poem." in shown.diff
        assert "which an agent has made" in shop.seen[1].description
        called = shop.seen[1].presentation
        assert called is not None
        assert "Write a poem." in (called.content or ""), "its name says nothing about what it will do"
        assert (shop.base / "workers/created/poet.md").exists()

    async def test_what_it_does_is_asked_about_each_time_whatever_was_remembered(
        self, shop: Shop, making: Path
    ) -> None:
        """The maker may write there unasked, and a yes is remembered; neither is for whom it has made."""
        writes = {"calls": [call("write_file", path="/scratch/a.txt", content="x")] * 2}
        (shop.base / "boss.script.yaml").write_text(
            json.dumps(
                {
                    "turns": [
                        writes,
                        call("worker_create", name="poet", description="d", instructions="i", tools=["write_file"]),
                        call("worker_call", worker="poet", prompt="go"),
                        said("done"),
                    ]
                }
            )
        )
        shop.answer = lambda request: ApprovalDecision(
            approved=True, remember="session" if request.tool_name == "write_file" else "none"
        )
        await shop.run(making)
        writing = [path for tool, path in shop.asked if tool == "write_file"]
        assert writing == [("boss", "poet")] * 2

    async def test_no_file_tool_can_make_one(self, shop: Shop, making: Path) -> None:
        making.write_text(making.read_text().replace("root: scratch", "root: ."))
        turns = [call("write_file", path="/scratch/workers/created/sly.md", content="x"), said("done")]
        (shop.base / "boss.script.yaml").write_text(json.dumps({"turns": turns}))
        await shop.run(making)
        assert not (shop.base / "workers/created").exists()

    @pytest.mark.parametrize(
        ("args", "sentence"),
        [
            ({"name": "../x"}, "is no name of a worker"),
            ({"name": "boss"}, "there is a worker 'boss' already"),
            ({"instructions": " "}, "has no instructions"),
            ({"tools": ["shell"]}, "'boss' has no tool 'shell' to give; it has: write_file"),
            ({"tools": ["worker_create"]}, "has no tool 'worker_create' to give"),
        ],
    )
    async def test_what_cannot_be_made_is_told_and_nobody_is_asked(
        self, shop: Shop, making: Path, args: dict[str, Any], sentence: str
    ) -> None:
        given = dict[str, Any](name="poet", description="d", instructions="i") | args
        turns = [call("worker_create", **given), {**said("told"), "if_result": sentence}, said("not told")]
        (shop.base / "boss.script.yaml").write_text(json.dumps({"turns": turns}))
        assert await shop.run(making) == "told"
        assert shop.seen == []
        assert not (shop.base / "workers/created").exists()


@pytest.mark.parametrize(
    ("front", "sentence"),
    [
        ("model: nowhere:gpt-0", "the model 'nowhere:gpt-0' cannot be used"),
        ("model: scripted:none.yaml", "none.yaml"),
        ("description: x", "no model is named"),
    ],
)
async def test_a_model_that_cannot_be_had_is_one_clear_sentence(shop: Shop, front: str, sentence: str) -> None:
    path = shop.base / "boss.md"
    path.write_text(f"---\n{front}\n---\nGo.\n")
    with pytest.raises(ConfigurationError, match=sentence):
        await shop.run(path)


async def test_a_chain_of_workers_can_stop_for_an_answer_and_go_on_elsewhere(shop: Shop, chain: Path) -> None:
    store = shop.base / "state.db"
    worker, workers, controller = shop.open(chain, mode="defer", store=store)
    async with controller:
        parked = await park(await workers.run(worker, "go"), controller)
    for expected in ("worker_call", "write_file"):
        worker, workers, controller = shop.open(chain, mode="defer", store=store)
        async with controller:
            (request,) = await controller.pending()
            assert request.tool_name == expected
            await controller.answer(request.id, YES)
            result = await resume(workers.agent(worker), parked, controller=controller)
            if not isinstance(result.output, str):
                parked = await park(result, controller)
    assert result.output == "all is well"
    assert (shop.base / "output/report.md").read_text() == "# Report\n"


async def test_many_runs_at_once_do_not_mix(shop: Shop, chain: Path) -> None:
    worker, workers, _ = shop.open(chain)
    shop.answer = lambda request: ApprovalDecision(approved=request.tool_name == "worker_call")
    results = await asyncio.gather(*(workers.run(worker, "go") for _ in range(10)))
    assert {each.output for each in results} == {"the writer says: refused"}
    assert len(shop.seen) == 20


class TestWhatAnAttackFound:
    """Each of these did something that nobody above had allowed, or that nobody had been asked about."""

    @pytest.mark.proves("R39")
    async def test_an_attachment_is_under_the_policy_of_who_hands_it_on(self, shop: Shop) -> None:
        (shop.base / "scratch/secret.txt").write_text("hush")
        (shop.base / "workers/workers").mkdir()
        (shop.base / "workers/workers/reader.md").write_text("---\nmodel: test\ntools: []\n---\nRead.\n")
        shop.worker(
            "mid",
            "workers: {reader: none}\nsandbox: {zones: {scratch: {root: ../scratch, read_approval: blocked}}}",
            [
                call("worker_call", worker="reader", prompt="read", attachments=["/scratch/secret.txt"]),
                {**said("it was blocked"), "if_result": "is not handed on: blocked by policy"},
                said("it was handed on"),
            ],
        )
        path = shop.main(
            f"workers: {{mid: none}}\n{ZONES}",
            call("worker_call", worker="mid", prompt="go"),
            {**said("blocked"), "if_result": "it was blocked"},
            said("handed on"),
        )
        assert await shop.run(path) == "blocked"

    async def test_a_marked_function_inside_a_tool_is_under_the_policy_of_the_worker(self, shop: Shop) -> None:
        (shop.base / "workers/tools.py").write_text(
            "from pathlib import Path\nfrom sayso import requires_approval\n"
            "@requires_approval\ndef wipe() -> str:\n"
            "    Path(__file__).with_name('wiped').touch()\n    return 'wiped'\n"
            "def tidy() -> str:\n    return wipe()\n"
        )
        shop.worker("child", "custom_tools: {tidy: none, wipe: blocked}", [call("tidy"), said("done")])
        path = shop.main(
            "default: none\nworkers: {child: none}", call("worker_call", worker="child", prompt="go"), said("x")
        )
        await shop.run(path)
        assert not (shop.base / "workers/wiped").exists()

    @pytest.mark.parametrize(
        "target",
        [
            "boss.md", "boss.script.yaml", "tools.py", "workers/writer.md", "workers/writer.script.yaml",
            "workers/tools.py", "workers/workers/tools.py", "workers/created/sly.md", "workers/workers/created/sly.md",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("who", ["boss", "writer"])
    async def test_no_worker_can_change_what_steers_workers(self, shop: Shop, who: str, target: str) -> None:
        everything = "sandbox: {{zones: {{all: {{root: {}, approval: none}}}}}}"
        turns = [call("write_file", path=f"/all/{target}", content="sly"), said("done")]
        shop.worker("writer", f"tools: [write_file]\n{everything.format('..')}", turns)
        (shop.base / "workers/workers").mkdir()
        (shop.base / "workers/workers/deep.md").write_text("---\nmodel: test\n---\nGo.\n")
        first = turns[0] if who == "boss" else call("worker_call", worker="writer", prompt="go")
        path = shop.main(
            f"tools: [write_file]\nworkers: {{writer: none}}\n{everything.format('.')}", first, said("done")
        )
        before = (shop.base / target).read_bytes() if (shop.base / target).exists() else None
        await shop.run(path)
        after = (shop.base / target).read_bytes() if (shop.base / target).exists() else None
        assert after == before

    async def test_a_worker_inside_another_is_confined_as_that_one_is(self, shop: Shop) -> None:
        (shop.base / "outside.txt").write_text("hush")
        rules = "rules: [{pattern: cat, approval: none}]"
        shop.worker(
            "reader",
            f"tools: [shell]\n{ZONES.replace('root: ', 'root: ../')}\nshell: {{folder: ../scratch, {rules}}}",
            [call("shell", command="cat ../outside.txt"), {**said("LEAK"), "if_result": "hush"}, said("nothing")],
        )
        path = shop.main(
            f"workers: {{reader: none}}\n{ZONES}\nshell: {{folder: scratch, confine: true, {rules}}}",
            call("worker_call", worker="reader", prompt="go"),
            {**said("LEAK"), "if_result": "LEAK"},
            said("nothing"),
        )
        assert await shop.run(path) == "nothing"

    async def test_a_line_is_not_judged_in_one_folder_and_run_in_another(self, shop: Shop) -> None:
        rules = "rules: [{pattern: echo, approval: none}]"
        shop.worker(
            "writer",
            f"tools: [shell]\n{ZONES.replace('root: ', 'root: ../')}\nshell: {{folder: ../output, {rules}}}",
            [call("shell", command="echo x > victim"), said("done")],
        )
        path = shop.main(
            "workers: {writer: none}\n"
            + ZONES.replace("output: {root: output}", "output: {root: output, mode: ro}")
            + f"\nshell: {{folder: scratch, {rules}}}",
            call("worker_call", worker="writer", prompt="go"),
            said("done"),
        )
        await shop.run(path)
        assert list((shop.base / "output").iterdir()) == []

    async def test_the_trash_of_those_above_is_kept(self, shop: Shop) -> None:
        (shop.base / "output/a.txt").write_text("precious")
        below = ZONES.replace("root: ", "root: ../").replace("root: ../output", "root: ../output, trash: false")
        shop.worker("cleaner", f"tools: [delete_file]\n{below}", [call("delete_file", path="/output/a.txt"), said("x")])
        path = shop.main(
            f"workers: {{cleaner: none}}\n{ZONES}", call("worker_call", worker="cleaner", prompt="go"), said("done")
        )
        await shop.run(path)
        assert [each.read_text() for each in (shop.base / "output/.sayso-trash").iterdir()] == ["precious"]

    async def test_a_yes_to_one_function_is_not_for_another_of_its_name(self, shop: Shop) -> None:
        for folder in (shop.base, shop.base / "workers"):
            (folder / "tools.py").write_text(f"def send(to: str) -> str:\n    return '{folder.name}'\n")
        shop.worker("child", "custom_tools: [send]", [call("send", to="bob"), said("done")])
        path = shop.main(
            "custom_tools: [send]\nworkers: {child: none}",
            call("send", to="bob"),
            call("worker_call", worker="child", prompt="go"),
            said("done"),
        )
        shop.answer = lambda _: ApprovalDecision(approved=True, remember="session")
        await shop.run(path)
        assert shop.asked == [("send", ("boss",)), ("send", ("boss", "child"))]

    async def test_a_yes_to_a_worker_that_is_remembered_is_for_the_worker_as_it_was(
        self, shop: Shop, chain: Path
    ) -> None:
        worker, workers, _ = shop.open(chain)
        shop.answer = lambda _: ApprovalDecision(approved=True, remember="session")
        await workers.run(worker, "go")
        await workers.run(worker, "go")
        calls = [tool for tool, _ in shop.asked].count("worker_call")
        assert calls == 1
        writer = shop.base / "workers/writer.md"
        writer.write_text(writer.read_text() + "Be quick.\n")
        await workers.run(worker, "go")
        assert [tool for tool, _ in shop.asked].count("worker_call") == 2

    @pytest.mark.parametrize("file", ["tools.py", "writer.script.yaml"])
    async def test_the_tools_and_the_script_of_a_worker_are_part_of_what_is_approved(
        self, shop: Shop, chain: Path, file: str
    ) -> None:
        (shop.base / "workers/tools.py").write_text("")

        def answer(_: ApprovalRequest) -> ApprovalDecision:
            path = shop.base / "workers" / file
            path.write_text(path.read_text() + "\n# changed\n")
            return YES

        shop.answer = answer
        await shop.run(chain)
        assert shop.asked == [("worker_call", ("boss",))]
        assert list((shop.base / "output").iterdir()) == []

    async def test_a_worker_has_the_tools_that_its_file_lists_when_it_is_called(self, shop: Shop) -> None:
        (shop.base / "scratch/a.txt").touch()
        turns = [call("delete_file", path="/scratch/a.txt"), said("done")]
        helper = shop.worker("helper", f"tools: [delete_file]\n{ZONES.replace('root: ', 'root: ../')}", turns)
        path = shop.main(
            f"workers: {{helper: none}}\n{ZONES}", call("worker_call", worker="helper", prompt="go"), said("done")
        )
        worker, workers, _ = shop.open(path)
        await workers.run(worker, "go")
        (shop.base / "scratch/a.txt").touch()
        helper.write_text(helper.read_text().replace("[delete_file]", "[read_file]"))
        await workers.run(worker, "go")
        assert (shop.base / "scratch/a.txt").exists()

    async def test_a_cancelled_run_leaves_no_question_about_an_attachment(self, shop: Shop) -> None:
        (shop.base / "scratch/notes.txt").write_text("x")
        shop.worker("reader", "tools: []", [said("read")])
        path = shop.main(
            "workers: {reader: none}\n" + ZONES.replace("approval: none", "read_approval: true"),
            call("worker_call", worker="reader", prompt="look", attachments=["/scratch/notes.txt"]),
            said("done"),
        )
        asked = asyncio.Event()

        async def never(_: ApprovalRequest) -> ApprovalDecision:
            asked.set()
            await asyncio.Event().wait()
            raise NotImplementedError

        worker, workers, controller = shop.open(path, approval_callback=never)
        running = asyncio.create_task(workers.run(worker, "go"))
        await asyncio.wait_for(asked.wait(), 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await controller.pending() == []

    async def test_a_worker_that_calls_itself_by_another_name_is_stopped(self, shop: Shop) -> None:
        path = shop.main(
            "name: alpha\nworkers: {boss: none}", call("worker_call", worker="boss", prompt="again"), said("done")
        )
        assert await shop.run(path) == "done"
        assert shop.seen == []

    async def test_no_worker_is_made_that_bears_the_name_of_one_of_the_owners(self, shop: Shop) -> None:
        shop.worker("stranger", "tools: []", [said("hello")])
        path = shop.main(
            "tools: [worker_create, worker_call]",
            call("worker_create", name="stranger", description="d", instructions="i"),
            {**said("told"), "if_result": "there is a worker 'stranger' already"},
            said("not told"),
        )
        assert await shop.run(path) == "told"
