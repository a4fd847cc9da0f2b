"""A model that follows a script: its turns, its branches, and what is said about a script with mistakes."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent, AgentRunResultEvent, BinaryContent, FunctionToolCallEvent, ToolReturn
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDenied

from sayso.errors import ConfigurationError, PolicyError
from sayso.tools.scripted import scripted_model

SCRIPT = """\
turns:
  - call: write_file
    args: {path: /notes/a.txt, content: "You said {{prompt}}", lines: [1, "{{prompt}}"]}
  - if_result: refused
    say: Then not.
  - calls:
      - {call: read_file, args: {path: /notes/a.txt}}
      - {call: list_files}
  - say: "Done: {{prompt}}"
"""


class Files:
    """Tools that say what they did."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.refuse = refuse
        self.ran: list[tuple[str, Any]] = []

    def write_file(self, path: str, content: str, lines: list[Any]) -> str:
        self.ran.append(("write_file", (path, content, lines)))
        return "this was refused by a person" if self.refuse else "written"

    def read_file(self, path: str) -> str:
        self.ran.append(("read_file", path))
        return "text"

    def list_files(self) -> list[str]:
        self.ran.append(("list_files", None))
        return ["a.txt"]


def agent(model: Model, files: Files | None = None) -> Agent[None, str]:
    files = files or Files()
    return Agent(model, tools=[files.write_file, files.read_file, files.list_files])


def file(folder: Path, text: str = SCRIPT) -> Path:
    path = folder / "demo.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def calls(messages: Sequence[ModelMessage]) -> list[list[str]]:
    """The names of what each answer of the model called."""
    answers = [message for message in messages if isinstance(message, ModelResponse)]
    return [[part.tool_name for part in each.parts if isinstance(part, ToolCallPart)] for each in answers]


pytestmark = pytest.mark.anyio


async def test_a_script_is_followed_turn_by_turn(tmp_path: Path) -> None:
    files = Files()
    result = await agent(scripted_model(file(tmp_path)), files).run("hello")
    assert result.output == "Done: hello"
    assert files.ran[0] == ("write_file", ("/notes/a.txt", "You said hello", [1, "hello"]))
    assert calls(result.all_messages()) == [["write_file"], ["read_file", "list_files"], []]


async def test_a_turn_with_a_condition_speaks_only_if_a_result_has_its_text(tmp_path: Path) -> None:
    files = Files(refuse=True)
    assert (await agent(scripted_model(str(file(tmp_path))), files).run("hello")).output == "Then not."
    assert [name for name, _ in files.ran] == ["write_file"]


async def test_only_the_results_of_the_calls_just_made_count() -> None:
    """A turn that was left out stays left out, and results from further up do not bring others back."""
    turns = [
        {"call": "list_files"},
        {"if_result": "text", "call": "list_files"},
        {"call": "read_file", "args": {"path": "x"}},
        {"if_result": "a.txt", "say": "wrong"},
        {"if_result": "text", "call": "list_files"},
        {"say": "right"},
    ]
    files = Files()
    assert (await agent(scripted_model(turns), files).run("x")).output == "right"
    assert [name for name, _ in files.ran] == ["list_files", "read_file", "list_files"]


async def test_what_a_tool_complains_about_is_a_result_too() -> None:
    def fail() -> str:
        raise ModelRetry("the printer is on fire")

    turns = [{"call": "fail"}, {"if_result": "on fire", "say": "I saw it"}, {"say": "I saw nothing"}]
    assert (await Agent(scripted_model(turns), tools=[fail]).run("x")).output == "I saw it"


async def test_a_prompt_starts_the_script_from_the_top(tmp_path: Path) -> None:
    one = agent(scripted_model(file(tmp_path)))
    first = await one.run("one")
    second = await one.run("two", message_history=first.all_messages())
    assert (first.output, second.output) == ("Done: one", "Done: two")
    assert len(calls(second.new_messages())) == 3


async def test_a_prompt_of_several_pieces_is_put_together_from_its_texts() -> None:
    model = scripted_model([{"say": "<{{prompt}}>"}])
    pixel = BinaryContent(b"x", media_type="image/png")
    assert (await Agent(model).run(["one", pixel, "two"])).output == "<one\ntwo>"
    assert (await Agent(model, instructions="x").run()).output == "<>"


async def test_what_a_tool_attaches_is_no_new_prompt() -> None:
    def attach() -> ToolReturn:
        return ToolReturn("attached", content=["look at this", BinaryContent(b"x", media_type="image/png")])

    turns = [{"call": "attach"}, {"call": "attach"}, {"say": "seen: {{prompt}}"}]
    result = await Agent(scripted_model(turns), tools=[attach]).run("hello")
    assert result.output == "seen: hello"
    assert calls(result.all_messages()) == [["attach"], ["attach"], []]


async def test_a_script_that_is_over_says_so() -> None:
    """An agent that takes no text asks again; the script does not start over."""
    one = Agent(scripted_model([{"say": "done"}]), tools=[Files().list_files], output_type=str)
    rejected: list[str] = []

    @one.output_validator
    def never_done(text: str) -> str:
        rejected.append(text)
        if text == "done":
            raise ModelRetry("go on")
        return text

    assert never_done is not None
    assert (await one.run("x")).output == "The script is over: it has no turn for this."
    assert rejected == ["done", "The script is over: it has no turn for this."]


async def test_runs_beside_each_other_each_follow_the_whole_script(tmp_path: Path) -> None:
    one = agent(scripted_model(file(tmp_path)))
    outputs: dict[int, str] = {}

    async def run(number: int) -> None:
        outputs[number] = (await one.run(str(number))).output

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(run, number)
    assert outputs == {number: f"Done: {number}" for number in range(5)}


async def test_a_run_inside_another_one_follows_the_script_of_its_own() -> None:
    """The same model object, in the tool of an agent that it drives itself."""
    model = scripted_model([{"call": "ask", "args": {"about": "{{prompt}}!"}}, {"say": "end of {{prompt}}"}])
    inner = Agent(model, tools=[Files().list_files])
    depth: list[str] = []

    async def ask(about: str) -> str:
        depth.append(about)
        return (await outer.run(about)).output if len(depth) < 3 else (await inner.run("innermost")).output

    outer = Agent(model, tools=[ask])
    assert (await outer.run("a")).output == "end of a"
    assert depth == ["a!", "a!!", "a!!!"]


async def test_a_resumed_run_goes_on_where_it_stopped() -> None:
    ran: list[str] = []

    def pay(to: str) -> str:
        ran.append(to)
        return f"paid {to}"

    def look() -> str:
        return "looked"

    def paying(model: Model) -> Agent[None, str | DeferredToolRequests]:
        one = Agent(model, output_type=[str, DeferredToolRequests], tools=[look])
        one.tool_plain(requires_approval=True)(pay)
        return one

    turns = [
        {"calls": [{"call": "look"}, {"call": "pay", "args": {"to": "Bob"}}]},
        {"if_result": "No, not Bob", "call": "pay", "args": {"to": "Eve"}},
        {"say": "done"},
    ]
    stopped = await paying(scripted_model(turns)).run("pay")
    assert isinstance(stopped.output, DeferredToolRequests)
    (bob,) = stopped.output.approvals
    denied = DeferredToolResults(approvals={bob.tool_call_id: ToolDenied("No, not Bob")})
    again = await paying(scripted_model(turns)).run(
        message_history=stopped.all_messages(), deferred_tool_results=denied
    )
    assert isinstance(again.output, DeferredToolRequests)
    (eve,) = again.output.approvals
    assert eve.args == {"to": "Eve"}
    granted = DeferredToolResults(approvals={eve.tool_call_id: True})
    last = await paying(scripted_model(turns)).run(message_history=again.all_messages(), deferred_tool_results=granted)
    assert (last.output, ran) == ("done", ["Eve"])


async def test_what_a_tool_attaches_in_a_resumed_run_is_no_new_prompt() -> None:
    def attach() -> ToolReturn:
        return ToolReturn("attached", content=["look at this"])

    turns = [{"call": "attach"}, {"say": "seen: {{prompt}}"}]
    one = Agent(scripted_model(turns), output_type=[str, DeferredToolRequests])
    one.tool_plain(requires_approval=True)(attach)
    stopped = await one.run("hello")
    assert isinstance(stopped.output, DeferredToolRequests)
    granted = DeferredToolResults(approvals={each.tool_call_id: True for each in stopped.output.approvals})
    last = await one.run(message_history=stopped.all_messages(), deferred_tool_results=granted)
    assert last.output == "seen: hello"


async def test_every_call_has_an_id_of_its_own(tmp_path: Path) -> None:
    one = agent(scripted_model(file(tmp_path)))
    messages = [*(await one.run("a")).all_messages(), *(await one.run("a")).all_messages()]
    ids = [part.tool_call_id for each in messages for part in each.parts if isinstance(part, ToolCallPart)]
    assert len(set(ids)) == len(ids) == 6


async def test_a_stream_tells_the_same_in_pieces(tmp_path: Path) -> None:
    files = Files()
    one = agent(scripted_model(file(tmp_path)), files)
    called: list[str] = []
    pieces: list[str] = []
    output = None
    async with one.run_stream_events("hello  there\n") as events:
        async for event in events:
            if isinstance(event, FunctionToolCallEvent):
                called.append(event.part.tool_name)
            elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                pieces.append(event.part.content)
            elif isinstance(event, PartDeltaEvent):
                pieces.append(getattr(event.delta, "content_delta", ""))
            elif isinstance(event, AgentRunResultEvent):
                output = event.result.output
    assert called == ["write_file", "read_file", "list_files"]
    assert "".join(pieces) == output == "Done: hello  there\n"
    assert len(pieces) > 1
    assert files.ran[0] == ("write_file", ("/notes/a.txt", "You said hello  there\n", [1, "hello  there\n"]))


def test_a_model_is_named_after_its_script(tmp_path: Path) -> None:
    assert scripted_model(file(tmp_path)).model_name == "scripted:demo.yaml"
    assert scripted_model([{"say": "x"}]).model_name == "scripted:turns"


async def test_what_happens_to_the_turns_later_does_not_change_the_model() -> None:
    files = Files()
    turns: list[dict[str, Any]] = [{"call": "read_file", "args": {"path": "a"}}, {"say": "x"}]
    model = scripted_model(turns)
    turns[0]["args"]["path"] = "b"
    turns.clear()
    assert (await agent(model, files).run("x")).output == "x"
    assert files.ran == [("read_file", "a")]


# --- Mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "demo.yaml: this file is empty; write `turns:` and a list below it"),
        ("- say: x", "demo.yaml:1:1: this file does not hold a mapping; start a script with the line `turns:`"),
        ("turns: [{say: x}]\nturn: []", "demo.yaml:2:1: the file has the unknown key 'turn'; did you mean 'turns'?"),
        ("{}", "demo.yaml:1:1: the file has no `turns`, which must be said: use a list"),
        ("turns: x", "demo.yaml:1:1: turns is 'x'; use a list"),
        ("turns: []", "demo.yaml:1:1: the last turn has to be a `say` without `if_result`; add one"),
        ("turns:\n  - call: x", "demo.yaml:2:5: the last turn has to be a `say` without `if_result`"),
        ("turns:\n  - {say: x, if_result: y}", "demo.yaml:2:5: the last turn has to be a `say` without `if_result`"),
        ("turns:\n  - say: x\n  - say: y", "demo.yaml:2:5: turns[0] ends the run, so that no turn below it is reached"),
        ("turns:\n  - {say: x, call: y}", "demo.yaml:2:5: turns[0] has to have one of `say`, `call` and `calls`"),
        ("turns:\n  - {if_result: x}\n  - say: x", "demo.yaml:2:5: turns[0] has to have one of"),
        ("turns:\n  - say:", "demo.yaml:2:5: turns[0].say is empty; use a text"),
        ("turns:\n  - say: 5", "demo.yaml:2:5: turns[0].say is 5; use a text"),
        ("turns:\n  - say: x\n    args: {}", "demo.yaml:3:5: turns[0].args belong to no `call`"),
        ("turns:\n  - {call: x, args: [1]}\n  - say: x", "demo.yaml:2:15: turns[0].args is a list; use a mapping"),
        ("turns:\n  - cal: x\n  - say: x", "demo.yaml:2:5: turns[0] has the unknown key 'cal'; did you mean 'call'?"),
        ("turns:\n  - calls: []\n  - say: x", "demo.yaml:2:5: turns[0].calls is empty; name at least one `call`"),
        ("turns:\n  - calls: [{args: {}}]\n  - say: x", "demo.yaml:2:13: turns[0].calls[0] has no `call`"),
        ("turns:\n  - say: x\n    say: y", "demo.yaml:3:5: the key 'say' is on lines 2 and 3; keep one of them"),
        ("turns:\n  - say: &a x", "demo.yaml:2:10: '&a' is an anchor"),
    ],
)
def test_a_mistake_in_a_script_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        scripted_model(file(tmp_path, text))
    assert isinstance(caught.value, ConfigurationError)
    assert str(caught.value.mistakes[0]).replace(f"{tmp_path}/", "").startswith(expected)
    assert len(caught.value.mistakes) == 1


def test_all_mistakes_of_a_script_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        scripted_model(file(tmp_path, "turns:\n  - cal: x\n  - say: 5\n"))
    assert [each.line for each in caught.value.mistakes] == [2, 3]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([], "script: the last turn has to be a `say`"),
        (["x"], "script: turns[0] is 'x'; use a mapping"),
        (
            [{"call": "x", "args": {"a": object()}}, {"say": "x"}],
            "script: turns[0] has arguments that are no plain data",
        ),
        (
            [{"call": "x", "args": {"a": float("nan")}}, {"say": "x"}],
            "script: turns[0] has arguments that are no plain",
        ),
    ],
)
def test_a_mistake_in_turns_that_are_passed_is_told(turns: Any, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        scripted_model(turns)
    assert str(caught.value).startswith(expected)


def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="there is no such file; write it, or name another one"):
        scripted_model(tmp_path / "none.yaml")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PolicyError, match="it is a pipe, socket or device, no regular file"):
        scripted_model(tmp_path / "pipe")


def test_without_pydantic_ai_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None\nimport sayso.tools.scripted"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "ImportError: PydanticAI is not installed; run `pip install sayso[pydantic-ai]`" in done.stderr
