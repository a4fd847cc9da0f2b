"""The program as a process: exit codes, pipes, signals, terminals and what is not installed."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.children import bounded

PROGRAM = [sys.executable, "-m", "sayso"]
SCRIPT = [str(Path(sys.executable).with_name("sayso"))]
POLICY = """\
default: required
shell:
  rules:
    - {pattern: git status, approval: none}
    - {pattern: rm, approval: blocked, note: use trash}
"""


@pytest.fixture(autouse=True)
def policy(folder: Path) -> Path:
    path = folder / "sayso.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def run(*command: str, given: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **settings}
    )


@pytest.mark.parametrize("program", [PROGRAM, SCRIPT], ids=["module", "script"])
def test_the_exit_code_is_0_1_or_2(program: list[str], policy: Path) -> None:
    assert run(*program, "check").returncode == 0
    assert run(*program, "explain", "--shell", "rm x").returncode == 0  # an explanation, whatever it explains
    assert run(*program, "explain", "-", given="x\n").returncode == 1
    assert run(*program, "explain").returncode == 2
    assert run(*program, "bogus").returncode == 2
    policy.write_text("default: x", encoding="utf-8")
    wrong = run(*program, "check")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)


def test_a_warning_of_the_policy_is_told_once(policy: Path) -> None:
    policy.write_text("default: none\nshell: {rules: [{pattern: python, approval: none}]}\n", encoding="utf-8")
    assert run(*PROGRAM, "check").stderr.count("runs whatever code") == 1
    assert run(*PROGRAM, "explain", "--tool", "x").stderr == ""


def test_a_file_of_old_words_is_no_error_even_where_warnings_are() -> None:
    Path("sayso.yaml").write_text("default: none\npre_approved: [x]\n", encoding="utf-8")
    done = run(sys.executable, "-W", "error", "-m", "sayso", "explain", "--tool", "x")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_click_one_sentence_names_the_extra() -> None:
    script = "import sys; sys.modules['click'] = None\nfrom sayso.__main__ import main; main()"
    done = run(sys.executable, "-c", script)
    assert done.returncode == 1
    assert done.stderr == "sayso: the command line needs click; install it with `pip install 'sayso[cli]'`\n"


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("uvicorn", ("serve",), "server"),
        ("fastapi", ("serve",), "server"),
        ("httpx2", ("pending", "--store", "https://hub.example"), "remote"),
        ("asyncpg", ("pending", "--store", "postgresql://db.example/sayso"), "postgres"),
    ],
)
def test_what_is_not_installed_is_named_in_one_sentence(missing: str, arguments: tuple[str, ...], extra: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None\nfrom sayso.__main__ import main; main()"
    done = run(sys.executable, "-c", script, *arguments)
    assert (done.returncode, done.stderr.count("\n"), f"sayso[{extra}]" in done.stderr) == (1, 1, True), done.stderr


@pytest.mark.parametrize(
    "address",
    [
        "postgresq://u:sEcRet@h/db",
        "postgresql//u:sEcRet@h/db",
        "postgresql+asyncpg://u:sE@cRet@h/db",
        "pg://h?password=sEcRet",
        "jdbc:postgresql://h/db;password=sEcRet",
        "postgresq://u:sEcRet#@h",
        "postgresq://u:sEcRet",
        "host=h password=sEcRet",
    ],
)
def test_an_address_with_a_slip_shows_no_password(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (("pending", "--store", address), ("serve", "--store", address), ("doctor", "--store", address)):
        done = run(*PROGRAM, *arguments)
        assert (done.returncode, "cRet" in done.stdout + done.stderr) == (1, False), done.stderr
    monkeypatch.setenv("SAYSO_STORE", address)
    assert "postgresql://… or https://… of a hub" in run(*PROGRAM, "pending").stderr
    script = "import sys; from sayso import ApprovalController; ApprovalController(store=sys.argv[1])"
    assert "cRet" not in run(sys.executable, "-c", script, address).stderr


def test_each_answer_comes_before_the_next_call_is_sent() -> None:
    with bounded(
        subprocess.Popen([*PROGRAM, "explain", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, approval in ((b"git status", b'"none"'), (b"rm x", b'"blocked"')):
            process.stdin.write(b'{"shell": "' + line + b'"}\n')
            process.stdin.flush()
            assert approval in process.stdout.readline()
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "explain", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with bounded(process):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"tool": "x"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        _, told = process.communicate(b'{"tool": "x"}\n' * 3, timeout=30)
    assert told == b""
    assert process.returncode == 1


def test_a_closed_input_is_told_in_a_sentence() -> None:
    done = run("sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, "explain", "-")
    assert (done.returncode, "there is no input to read calls from" in done.stderr) == (2, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_is_told_in_a_sentence() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*PROGRAM, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_ctrl_c_ends_with_130_and_without_a_traceback() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "explain", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with bounded(process):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"tool": "x"}\n')
        process.stdin.flush()
        assert process.stdout.readline()  # it runs
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == b""


def test_a_terminal_that_knows_few_characters_is_no_error() -> None:
    done = run(*PROGRAM, "explain", "--shell", "echo 日本", PYTHONIOENCODING="latin-1")
    assert (done.returncode, r"echo \u65e5\u672c" in done.stdout) == (0, True)


def peak_memory(lines: int) -> int:
    """Explain so many calls, each of another tool, and return the most memory that it took, in bytes."""
    given = "".join(f'{{"tool": "tool_{number}", "args": {{"text": "{"x" * 4000}"}}}}\n' for number in range(lines))
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdin=sys.stdin, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, done.returncode)\n"
    )
    done = run(sys.executable, "-c", script, *PROGRAM, "explain", "-", given=given)
    memory, code = map(int, done.stdout.split())
    assert code == 0
    return memory


def test_memory_does_not_grow_with_the_number_of_calls() -> None:
    assert peak_memory(15_000) - peak_memory(100) < 15_000_000  # the calls alone are 60 MB


def in_a_terminal(columns: int, *arguments: str, **settings: str) -> str:
    """Run the program in a pseudo-terminal of this width and return what was on the screen."""
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover - this is the child
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.environ.pop("COLUMNS", None)
        os.environ |= {"TERM": "xterm", **settings}
        os.execv(sys.executable, [*PROGRAM, *arguments])  # noqa: S606 - our own program
    screen = b""
    while True:
        if not select.select([terminal], [], [], 60)[0]:
            os.kill(process, signal.SIGKILL)
        try:
            screen += os.read(terminal, 4096)
        except OSError:  # the terminal is gone with its process
            break
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, screen
    return screen.decode().replace("\r\n", "\n")


LINE = ("explain", "--shell", "git status && rm -rf \x1b[2J /some/long/path/to/somewhere")


@pytest.mark.parametrize("columns", [40, 80])
def test_an_explanation_fits_the_terminal_and_holds_no_codes_without_colour(columns: int) -> None:
    screen = in_a_terminal(columns, *LINE, NO_COLOR="1")
    assert "\x1b" not in screen
    assert r"\x1b[2J" in screen.replace("\n", "")
    assert max(map(len, screen.splitlines())) <= columns


def test_a_terminal_gets_colour_and_only_our_own() -> None:
    screen = in_a_terminal(80, *LINE)
    assert "\x1b[31m\x1b[1mblocked:\x1b[0m" in screen
    assert "\x1b[2J" not in screen
    assert "\x1b" not in in_a_terminal(80, *LINE, TERM="dumb")


def test_what_is_no_terminal_gets_no_colour() -> None:
    assert "\x1b" not in run(*PROGRAM, *LINE).stdout
