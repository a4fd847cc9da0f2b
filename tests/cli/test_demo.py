"""The demo, as people run it: without a terminal, and in a real one."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "sayso", "demo"]


def test_without_a_terminal_nobody_can_be_asked_so_what_would_be_asked_is_refused() -> None:
    done = subprocess.run(DEMO, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60)
    assert "Nobody can be asked" in done.stdout
    assert done.stdout.count("This does not run, and nobody is asked.") == 5
    assert "The chain is whole: 13 entries" in done.stdout
    files = done.stdout.split("really there:")[1]
    assert "orders/today.csv" in files
    assert "scratch/sum.txt" in files
    assert "output" not in files
    assert "\x1b" not in done.stdout


def demo(*answers: str) -> tuple[str, int]:
    """Run the demo, and answer each question with a key, or with a key, a colon and a note."""
    terminal = Terminal(DEMO, columns=100)
    for answer in answers:
        key, _, note = answer.partition(":")
        terminal.press(key)
        if note:
            terminal.press(f"{note}\r", at="Why not?")
    return terminal.end()


@pytest.mark.proves("R39", "R71")
def test_in_a_terminal_every_answer_is_honoured_and_only_what_was_approved_is_there_at_the_end() -> None:
    screen, code = demo("y", "y", "y", "m:ask me for the address first")
    assert code == 0
    assert screen.count("\nTry: y\n") == 3
    assert "\nTry: m, and a note" in screen
    assert "report > proofreader wants to run edit_file" in screen
    assert "-3 ordres, 120 euros" in screen
    assert "+3 orders, 120 euros" in screen
    files = screen.split("really there:")[1]
    assert "# Orders | 3 orders, 120 euros" in files
    assert "outbox.txt" not in files
    assert "ask me for the address first" in screen


def test_in_a_small_terminal_the_first_question_fits_and_a_yes_counts_at_once() -> None:
    terminal = Terminal(DEMO, columns=80, rows=24)
    terminal.press("y")
    terminal.wait_for("wants to run worker_call")
    terminal.press("\x03")
    assert "Not all of it" not in terminal.end()[0]


def test_a_no_to_the_inner_worker_leaves_the_outer_one_at_work() -> None:
    screen, code = demo("y", "y", "m:leave it", "y")
    assert code == 0
    files = screen.split("really there:")[1]
    assert "3 ordres" in files
    assert "To everyone@example.com: The report is ready." in files


def test_without_the_framework_one_sentence_names_the_extra_that_is_missing() -> None:
    script = "import sys; sys.modules['pydantic_ai'] = None; from sayso.cli.main import run; run()"
    command = [sys.executable, "-c", script, "demo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: PydanticAI is not installed; run `pip install sayso[pydantic-ai]`\n"


def test_a_wheel_has_the_files_of_the_demo_and_all_that_is_no_python(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(tmp_path)]
    name = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout.strip()
    with zipfile.ZipFile(tmp_path / name) as wheel:
        packed = set(wheel.namelist())
    source = ROOT / "src"
    wanted = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()}
    assert {each for each in wanted if "__pycache__" not in each} <= packed
