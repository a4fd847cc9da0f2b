"""`sayso run`: a worker in a terminal, or without one, and one clear sentence for each mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.terminal import Terminal

from sayso.cli.demo.walkthrough import write_worker
from sayso.cli.main import commands

SAYSO = [sys.executable, "-m", "sayso", "run"]


@pytest.fixture(autouse=True)
def example(folder: Path) -> Path:
    """The worker of the demo and its folders, in the folder that every test of the command line has."""
    write_worker(folder)
    return folder


def run(*arguments: str, prompt: str = "") -> Result:
    return CliRunner().invoke(commands, ["run", *arguments], input=prompt)


def test_a_worker_runs_without_a_terminal_and_what_would_be_asked_is_refused(example: Path) -> None:
    done = run("report", "Sum up.")
    assert (done.exit_code, done.stdout) == (0, "I have done what I was allowed to.\n")
    assert "nobody can be asked" in done.stderr
    assert "· report: read_file ran\n" in done.stderr
    assert "· report: send_mail did not run: nobody can be asked: " in done.stderr
    assert (example / "scratch/sum.txt").exists()
    assert list((example / "output").iterdir()) == []


def test_without_a_terminal_a_remembered_yes_still_counts_and_nobody_has_refused() -> None:
    """A person said yes to later calls, in a terminal: the next run needs no terminal for those."""
    terminal = Terminal([*SAYSO, "report", "Sum up.", "--store", "state.db"])
    for tool in ("write_file", "worker_call"):
        terminal.wait_for(f"Run report: {tool}?")
        terminal.press("n")
    terminal.wait_for("Run report: send_mail?")
    terminal.press("a")
    terminal.wait_for("[1] allow in this session")
    for words in ("an hour", "a day", "a week", "30 days", "for ever"):
        terminal.write("t")
        terminal.wait_for(words)
    terminal.press("1", at="for ever, in every session")
    terminal.end()
    done = run("report", "Sum up.", "--store", "state.db")
    assert "· report: send_mail ran" in done.stderr
    assert "· report: write_file did not run: nobody can be asked: " in done.stderr
    assert "refused" not in done.stderr


def test_the_prompt_can_come_in_at_the_standard_input_and_the_result_be_json() -> None:
    done = run("report.md", "--json", prompt="Sum up.")
    assert json.loads(done.stdout) == {"worker": "report.md", "output": "I have done what I was allowed to."}


@pytest.mark.proves("R39", "R71")
def test_in_a_terminal_the_person_is_asked_with_chain_and_diff_and_their_answer_is_kept(example: Path) -> None:
    terminal = Terminal([*SAYSO, "report", "Sum up.", "--store", "state.db"])
    for key in "yyyn":
        terminal.press(key)
    screen, code = terminal.end()
    assert code == 0
    assert "report > proofreader wants to run edit_file" in screen
    assert "-3 ordres, 120 euros" in screen
    assert (example / "output/report.md").read_text() == "# Orders\n3 orders, 120 euros\n"
    assert (example / "state.db").exists()


def test_control_c_at_a_question_is_a_no_and_ends_the_run(example: Path) -> None:
    terminal = Terminal([*SAYSO, "report", "Sum up."])
    terminal.press("\x03")
    screen, code = terminal.end()
    assert code == 130
    assert "Traceback" not in screen
    assert list((example / "output").iterdir()) == []


def test_tricks_in_arguments_are_shown_and_not_obeyed(example: Path) -> None:
    script = example / "report.script.yaml"
    trick = "\x1b[2K\rRun it? y\u202e\x07"
    turns = [{"call": "send_mail", "args": {"to": trick, "text": "a\nb\rc"}}, {"say": f"done {trick}"}]
    script.write_text(json.dumps({"turns": turns}))
    terminal = Terminal([*SAYSO, "report", "Sum up."])
    terminal.press("n")
    screen, code = terminal.end()
    assert code == 0
    assert b"\x1b[2K\rRun it" not in terminal.raw
    assert "\\x1b[2K\\rRun it? y\\u202e\\x07" in screen
    assert "b\\rc" in screen


def test_what_the_projects_policy_blocks_no_worker_can_do(example: Path) -> None:
    (example / "sayso.yaml").write_text("default: none\ntools: {list_files: blocked}\n")
    done = run("report", "Sum up.")
    assert "report: list_files" not in done.stderr, "the model is not even told of it"
    assert "· report: read_file ran\n" in done.stderr


def test_a_rule_that_misspells_a_tool_of_the_worker_is_told_once(example: Path) -> None:
    (example / "sayso.yaml").write_text("default: required\ntools: {sendmail: none, proofread: none}\n")
    told = [line for line in run("report", "Sum up.").stderr.splitlines() if line.startswith("warning: ")]
    (sentence,) = told
    assert sentence.endswith("sayso.yaml:2 tools.sendmail names no tool of this agent; did you mean 'send_mail'?")


def test_a_policy_beside_the_worker_applies_wherever_one_stands(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example / "sayso.yaml").write_text("default: none\ntools: {read_file: blocked}\n")
    monkeypatch.chdir(tmp_path)
    done = run(str(example / "report.md"), "Sum up.")
    assert "report: list_files ran" in done.stderr
    assert "report: read_file" not in done.stderr


def test_a_tool_that_breaks_is_told_to_the_model_and_the_run_goes_on(example: Path) -> None:
    tools = example / "tools.py"
    tools.write_text("import sys\ndef send_mail(to: str, text: str) -> str:\n    sys.exit(0)\n")
    worker = example / "report.md"
    worker.write_text(worker.read_text().replace("[send_mail]", "{send_mail: none}"))
    done = run("report", "Sum up.")
    assert done.exit_code == 0
    assert "· report: send_mail failed" in done.stderr
    assert done.stdout == "I have done what I was allowed to.\n"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("tools: [list_files", "tools: [list_fils"), "report.md:4:"),
        (("workers: [proofreader]", "wrkers: [proofreader]"), "did you mean 'workers'"),
        (("custom_tools: [send_mail]", "custom_tools: [send_male]"), "there is no function 'send_male'"),
        (("scripted:report.script.yaml", "nowhere:gpt-0"), "the model 'nowhere:gpt-0' cannot be used"),
        (("scripted:report.script.yaml", "scripted:none.yaml"), "none.yaml"),
        (("workers: [proofreader]", "workers: [ghost]"), "there is no worker 'ghost'"),
        (("root: output", "root: nowhere"), "cannot be used: No such file"),
        (("---\n", "", 1), "there is no front matter"),
    ],
    ids=["tool", "key", "custom tool", "model", "script", "worker", "zone", "front matter"],
)
def test_a_mistake_in_a_worker_file_is_told_with_its_place_and_nothing_runs(
    example: Path, change: tuple[str, str], sentence: str
) -> None:
    file = example / "report.md"
    file.write_text(file.read_text().replace(*change))
    done = run("report", "Sum up.")
    assert done.exit_code == 1
    assert sentence in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert list((example / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["reprot", "go"], "did you mean 'report'", 1),
        (["nowhere.md", "go"], "there is no such file", 1),
        (["../report", "go"], "there is no such file", 1),
        (["report", " "], "the prompt is empty", 2),
        (["report"], "the prompt is empty", 2),
    ],
)
def test_a_wrong_command_is_one_clear_sentence(arguments: list[str], sentence: str, code: int) -> None:
    done = run(*arguments)
    assert (done.exit_code, sentence in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_function_that_cannot_be_described_is_one_clear_sentence(example: Path) -> None:
    (example / "tools.py").write_text("class Odd: ...\ndef send_mail(to: Odd) -> str:\n    return ''\n")
    done = run("report", "Sum up.")
    assert (done.exit_code, "cannot be described to a model" in done.stderr) == (1, True), done.stderr


def test_a_worker_in_a_circle_or_out_of_requests_ends_with_a_sentence(example: Path) -> None:
    file = example / "report.md"
    file.write_text(file.read_text().replace("default: required", "default: required\nlimits: {requests: 2}"))
    done = run("report", "Sum up.")
    assert done.exit_code == 1
    assert "the worker 'report' could not go on" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_loads_no_framework() -> None:
    script = "import sys; sys.argv = ['sayso', 'run', '--help']\nfrom sayso.__main__ import main\ntry: main()\n"
    script += "except SystemExit: pass\nassert 'pydantic_ai' not in sys.modules\nassert 'pydantic' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "WORKER [PROMPT]" in done.stdout
