"""The way in for synchronous callers, with a real Ctrl-C and a real fork."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.children import bounded

from sayso.engine import blocking
from sayso.stores.sqlite import SqliteStore

ASKS_FOR_EVER = """
import sys, threading
from sayso import ApprovalController, ApprovalRequest

def ask(request):
    print("asked", flush=True)
    threading.Event().wait()

controller = ApprovalController(approval_callback=ask, store=sys.argv[1])
try:
    controller.request_approval_sync(ApprovalRequest(tool_name="t"))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.proves("H7")
async def test_ctrl_c_in_a_synchronous_caller_withdraws_its_question_and_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKS_FOR_EVER, str(tmp_path / "sayso.db")]
    with bounded(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(20) == 0
    store = SqliteStore(tmp_path / "sayso.db")
    assert await store.pending() == []
    (line,) = [line for _, line, _ in await store.audit() if b"withdrawn" in line]
    assert b"the run that asked has ended" in line
    await store.aclose()


def test_the_tests_hear_ctrl_c_where_they_are_started_in_the_background() -> None:
    """A shell without job control has what it starts there ignore Ctrl-C, and all that comes of it."""
    this = f"{__file__}::test_ctrl_c_in_a_synchronous_caller_withdraws_its_question_and_ends"
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "40", this]
    in_background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *tests]
    done = subprocess.run(in_background, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout


async def _where() -> tuple[str, object]:
    return threading.current_thread().name, asyncio.get_running_loop()


def test_all_synchronous_callers_share_one_loop_in_one_thread() -> None:
    first, second = blocking.run(_where), blocking.run(_where)
    assert first == second
    assert first[0] == "sayso-home"


def test_a_forked_child_gets_a_home_of_its_own() -> None:
    blocking.run(_where)
    script = (
        "import os; from sayso.engine import blocking\n"
        "async def one(): return 1\n"
        "assert blocking.run(one) == 1\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0 if blocking.run(one) == 1 else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=20, env=os.environ)


def test_what_the_coroutine_raises_the_caller_gets() -> None:
    async def fail() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        blocking.run(fail)
