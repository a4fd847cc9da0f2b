"""`sayso pending`, `show`, `approve` and `deny`, on real stores and between real processes."""

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from prompt_toolkit.utils import get_cwidth
from tests.channels.terminal.asking import program
from tests.children import bounded
from tests.cli.questions import STORE, ask, in_store, sayso, stored, within
from tests.terminal import Terminal

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalPresentation,
    ApprovalRequest,
    ConversationMessage,
    Policy,
    ToolCall,
    Verdict,
    conversation,
)
from sayso.cli.main import commands
from sayso.core.model import Approved, Pending, Rule
from sayso.core.ports import Store
from sayso.policy.policy import ToolRules
from sayso.testing.samples import sample_request

PROGRAM = [sys.executable, "-m", "sayso"]
TRICK = "\x1b[2K\rfine\u202e\u200b\u2066\x07\x85\u2028"
SHOWN = r"\x1b[2K\rfine\u202e\u200b\u2066\x07\x85\u2028"


def facts(*arguments: str) -> Any:
    done = sayso(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


# --- pending -----------------------------------------------------------------------------------------


def test_pending_lists_open_requests_oldest_first_with_age_agent_and_call() -> None:
    first, second = ask({"amount": 5}, timeout=3600), ask({"amount": 9})
    done = sayso("pending")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"{first.id[-6:]}  0s old, 59m left: report > payer"
    assert lines[1].strip() == "pay(amount=5)"
    assert lines[2] == f"{second.id[-6:]}  0s old, 6d left: report > payer"
    assert [each["id"] for each in facts("pending")] == [first.id, second.id]


def test_pending_says_that_nothing_waits_and_all_shows_what_is_closed() -> None:
    request = ask()
    assert sayso("deny", request.id).exit_code == 0
    assert sayso("pending").stdout == "Nothing waits for an answer.\n"
    assert "denied: report > payer" in sayso("pending", "--all").stdout
    later = ask()
    assert [each["id"] for each in facts("pending", "--all")] == [request.id, later.id]
    assert [each["id"] for each in facts("pending", "--all", "--limit", "1")] == [later.id]


def test_a_limit_shows_the_oldest_that_wait_and_says_how_many_more_there_are() -> None:
    ids = [ask({"amount": number}).id for number in range(3)]
    assert [each["id"] for each in facts("pending", "--limit", "2")] == ids[:2]
    told = sayso("pending", "--limit", "2")
    assert (told.exit_code, told.stdout.count("report > payer")) == (0, 2)
    assert told.stderr == "1 more waits; --limit 2 shows the oldest.\n"
    assert sayso("pending", "--limit", "3").stderr == ""


@pytest.mark.parametrize("columns", ["40", "80"])
def test_every_line_fits_the_width_and_tricks_are_shown_as_codes(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    request = ask({TRICK: TRICK + "x" * 300, "text": "a\n  b " * 40}, tool="pay" + TRICK)
    for arguments in (["pending"], ["show", request.id], ["pending", "--all"], ["audit", "list"], ["doctor"]):
        lines = sayso(*arguments).stdout.split("\n")
        assert max(map(len, lines)) <= int(columns), arguments
        assert not re.search("[^\n -\u0300\u2026\u2500-\u257f]", "\n".join(lines)), arguments
        assert "\x1b" not in "".join(lines), arguments
    assert SHOWN in re.sub(r"\n *[│┆]? ?", "", sayso("show", request.id).stdout)


@pytest.mark.proves("H10")
def test_letters_of_two_columns_push_nothing_to_the_start_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    request = ask({"to": "字" * 60 + "83ee1c  2m old", "字" * 60: 1}, tool="字" * 60)
    for arguments in (["pending"], ["show", request.id]):
        assert max(map(get_cwidth, sayso(*arguments).stdout.split("\n"))) <= 80, arguments


def test_more_than_a_store_can_count_is_wrong_usage() -> None:
    ask()
    for arguments in (["pending", "--all", "--limit", "9" * 20], ["audit", "list", "--limit", "9" * 20]):
        assert sayso(*arguments).exit_code == 2, arguments


def test_a_short_id_is_the_end_that_names_no_other() -> None:
    ids = [ask().id for _ in range(40)]
    shown = [line.split()[0] for line in sayso("pending").stdout.splitlines()[::2]]
    assert all(whole.endswith(end) and len(end) < 10 for whole, end in zip(ids, shown, strict=True))
    assert [facts("show", end)["id"] for end in shown[:3]] == ids[:3]


def test_a_number_that_python_refuses_to_write_hides_no_request() -> None:
    huge, other = ask({"n": [10**5000]}), ask()
    told = sayso("pending")
    assert (told.exit_code, told.stdout.count("report > payer")) == (0, 2)
    assert facts("show", huge.id)["args"] == {"n": [hex(10**5000)]}
    assert hex(10**5000)[:50] in sayso("show", huge.id).stdout
    assert sayso("approve", other.id[:5]).exit_code == 4
    assert sayso("approve", huge.id).exit_code == 0


# --- show --------------------------------------------------------------------------------------------


def test_show_tells_everything_about_an_open_request() -> None:
    diff = "--- a\n+++ b\n-old\n+new"
    verdict = Verdict(
        approval="required",
        reason="payments are asked about",
        rule=Rule(source="sayso.yaml", key="tools.pay", line=3),
        description="Pay somebody",
        presentation=ApprovalPresentation(diff=diff),
    )

    async def work(controller: ApprovalController) -> ApprovalRequest:
        call = ToolCall(tool="pay", args={"amount": 5, "to": "ann  and  bob", "raw": b"\x00"}, agent_path=("report",))
        outcome = await controller.review(call, ToolRules(judge=lambda _: verdict))
        assert isinstance(outcome, Pending)
        return outcome.request

    request = within(work, Policy())
    shown = sayso("show", request.id[-8:]).stdout
    for words in (
        "report wants to run pay",
        request.id,
        "open: it waits for an answer",
        "Pay somebody",
        "payments are asked about",
        "sayso.yaml:3 tools.pay",
        "│ ann  and  bob",
        "│ -old",
        "│ +new",
        "call        this exact call",
    ):
        assert words in shown, (words, shown)
    told = facts("show", request.id)
    assert (told["tool"], told["args"]["amount"], told["presentation"]["diff"]) == ("pay", 5, diff)
    assert told["rule"] == {"source": "sayso.yaml", "key": "tools.pay", "line": 3}


def test_show_tells_who_answered_with_which_arguments_and_what_came_of_it() -> None:
    async def work(controller: ApprovalController) -> ApprovalRequest:
        call = ToolCall(tool="pay", args={"amount": 5})
        outcome = await controller.review(call)
        assert isinstance(outcome, Pending)
        edited = ApprovalDecision(approved=True, override_args={"amount": 4}, note="less")
        await controller.answer(outcome.request.id, edited, who="ann", channel="page")

        async def tool(args: dict[str, Any]) -> None:
            raise ValueError(args)

        with pytest.raises(ValueError, match="4"):
            await controller.run(call, tool)
        return outcome.request

    shown = sayso("show", within(work).id).stdout
    for words in ("approved and run: it failed", "ann (page) at ", "less", "as they were edited", "│ 4"):
        assert words in shown, (words, shown)


# --- approve and deny --------------------------------------------------------------------------------


def test_a_yes_runs_the_call_once_and_the_audit_names_who_and_where() -> None:
    request = ask()
    done = sayso("approve", request.id[-6:], "-m", "fine", "--who", "ann")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("Approved: pay of report > payer may run once, with exactly the arguments")
    decision = stored(request).decision
    assert decision is not None
    assert (decision.who, decision.channel, decision.note, decision.remember) == ("ann", "command line", "fine", "none")
    entries = [json.loads(line) for line in sayso("audit", "list", "--json").stdout.splitlines()]
    assert [(each["step"], each.get("who")) for each in entries] == [("asked", None), ("approved", "ann")]


def test_who_answers_is_the_login_name_unless_they_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "carla")
    request = ask()
    assert facts("deny", request.id)["request"]["decision"]["who"] == "carla"
    assert stored(request).status == "denied"


def test_what_is_remembered_holds_for_later_calls_and_answers_what_is_alike() -> None:
    request, same, other = ask(), ask(), ask({"amount": 6})
    done = sayso("approve", request.id, "--for", "30m", "--always")
    assert done.exit_code == 0, done.stderr
    assert "Remembered in every session, for another 29m: this exact call" in done.stdout
    assert f"alike: {same.id[-6:]}" in done.stdout
    assert [stored(each).status for each in (same, other)] == ["approved", "open"]
    outcome = within(lambda controller: controller.review(ToolCall(tool="pay", args={"amount": 5}, session="s2")))
    assert isinstance(outcome, Approved)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--session"], ("session", None, None)),
        (["--always"], ("always", None, None)),
        (["--uses", "3"], ("session", None, 3)),
        (["--uses", "3", "--always"], ("always", None, 3)),
        (["--scope", "call"], ("session", "call", None)),
        ([], ("none", None, None)),
    ],
)
@pytest.mark.parametrize("command", ["approve", "deny"])
def test_how_an_answer_is_remembered_is_said_and_never_guessed(
    command: str, options: list[str], expected: tuple[str, str | None, int | None]
) -> None:
    decision = facts(command, ask().id, *options)["request"]["decision"]
    assert (decision["remember"], decision["scope"], decision["uses"]) == expected


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--scope", "tool"], 1, "the scope 'tool' is not offered"),
        (["--session", "--always"], 2, "exclude each other"),
        (["--for", "soon"], 2, "the span is 'soon'"),
        (["--uses", "0"], 2, "0 is not in the range"),
        (["--uses", "9" * 30], 2, "is not in the range"),
        (["--args", "nowhere.json"], 1, "there is no such file"),
    ],
)
def test_an_answer_that_cannot_be_meant_leaves_the_request_open(options: list[str], code: int, sentence: str) -> None:
    request = ask()
    done = sayso("approve", request.id, *options)
    assert (done.exit_code, sentence in done.stderr) == (code, True), done.stderr
    assert stored(request).status == "open"


def test_an_answer_whose_rule_allows_no_memory_is_not_taken_as_if_it_were_for_once() -> None:
    request = ask(
        policy=Policy.from_dict({"default": "none", "tools": {"pay": {"approval": "required", "remember": False}}})
    )
    done = sayso("approve", request.id, "--always")
    assert (done.exit_code, "the rule that asks does not allow it" in done.stderr) == (1, True)
    assert stored(request).status == "open"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("edited.json", '{"amount": 4, "to": "ann"}'),
        ("edited.yaml", "amount: 4\nto: ann\n"),
        ("-", '{"amount": 4, "to": "ann"}'),
        ("-", "amount: 4\nto: ann\n"),
    ],
)
def test_edited_arguments_come_from_json_yaml_or_the_input_and_are_what_runs(name: str, content: str) -> None:
    if name != "-":
        Path(name).write_text(content, encoding="utf-8")
    request = ask()
    done = sayso("approve", request.id, "--args", name, given=content if name == "-" else "")
    assert done.exit_code == 0, done.stderr
    assert "judge them again where the call runs" in done.stdout.replace("\n", " ")
    outcome = within(lambda controller: controller.review(request.call()))
    assert isinstance(outcome, Approved)
    assert outcome.args == {"amount": 4, "to": "ann"}


@pytest.mark.parametrize(
    "content", ["", "[1]", "5", '{"a": 1, "a": 2}', "a: 1\na: 2\n", '{"a": NaN}', "{", "a: [", "\xff", "a: .nan\n"]
)
def test_edited_arguments_that_could_mean_two_things_are_refused(content: str) -> None:
    Path("edited").write_bytes(content.encode("latin-1"))
    request = ask()
    done = sayso("approve", request.id, "--args", "edited")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1), done.stderr
    assert stored(request).status == "open"


def test_a_pattern_that_would_take_years_is_not_tried_on_edited_arguments() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "pattern": "^(a+)+$"}}}
    request = in_store(lambda store: store.open(replace(sample_request(), parameters=json.dumps(schema))))
    done = sayso("approve", request.id, "--args", "-", given=json.dumps({"to": "a" * 60 + "!"}))
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("second", ["approve", "deny"])
def test_the_second_answer_is_not_taken_and_hears_who_was_first(second: str) -> None:
    request = ask()
    assert sayso("deny", request.id, "--who", "ann", "-m", "not\ntoday").exit_code == 0
    done = sayso(second, request.id, "--who", "bob")
    assert (done.exit_code, done.stdout) == (5, "")
    assert "was already denied by ann (command line) at 20" in done.stderr
    assert r"not\ntoday" in done.stderr
    assert done.stderr.count("\n") == 1
    told = json.loads(sayso(second, request.id, "--json").stdout)
    assert (told["taken"], told["request"]["decision"]["who"]) == (False, "ann")


@pytest.mark.parametrize("how", ["expired", "withdrawn"])
def test_a_request_that_is_over_takes_no_answer(how: str) -> None:
    request = ask(timeout=1e-6) if how == "expired" else ask()
    if how == "withdrawn":
        within(lambda controller: controller.withdraw(request.id, "the run has ended"))
    done = sayso("approve", request.id)
    assert (done.exit_code, f"the request is {how}" in done.stderr) == (6, True), done.stderr
    assert stored(request).status == how


def test_what_was_withdrawn_is_nobodys_answer() -> None:
    request = ask()
    within(lambda controller: controller.withdraw(request.id, "the run has ended"))
    shown = sayso("show", request.id).stdout
    assert "\nWithdrawn\n" in shown
    assert "  because     the run has ended" in shown
    assert "Answer" not in shown.replace("An answer", "")
    assert "somebody" not in shown


# --- ids ---------------------------------------------------------------------------------------------


def test_an_ambiguous_id_answers_nothing_and_lists_the_candidates() -> None:
    first, second = ask({"amount": 5}), ask({"amount": 9})
    assert first.id[:5] == second.id[:5], "ids begin with the time"
    for part in (first.id[:5], first.id[:4].upper()):
        done = sayso("approve", part)
        assert (done.exit_code, done.stdout) == (4, "")
        assert f"{first.id[-6:]}  open: pay(amount=5)" in done.stderr
        assert f"{second.id[-6:]}  open: pay(amount=9)" in done.stderr
    assert {stored(each).status for each in (first, second)} == {"open"}


def open_as(*ids: str) -> None:
    """Open requests with these ids, as chance might have given them."""

    async def work(store: Store) -> None:
        for at, name in enumerate(ids):
            await store.open(
                ApprovalRequest(id=name, tool_name="pay", tool_call_id=name, session="s", asked_at=float(at))
            )

    in_store(work)


def test_an_end_of_one_id_that_is_the_start_of_another_names_neither() -> None:
    open_as("a" * 28 + "beef", "beef" + "c" * 28)
    assert sayso("approve", "beef").exit_code == 4
    assert sayso("approve", "abeef").exit_code == 0


def test_what_is_listed_as_an_id_always_names_that_one_request() -> None:
    ids = ["345678" + "c" * 26, "a" * 24 + "12345678", "b" * 24 + "02345678", "d" * 26 + "345670", "e" * 26 + "cccccc"]
    open_as(*ids)
    shown = [line.split()[0] for line in sayso("pending").stdout.splitlines()[::2]]
    assert shown == ["ccccccc", "12345678", "02345678", "345670", "ecccccc"]
    assert [facts("show", end)["id"] for end in shown] == ids
    candidates = sayso("show", "345678").stderr.splitlines()[1:]
    assert sorted(each.split()[0] for each in candidates) == sorted(ids[:3])


@pytest.mark.parametrize("part", ["beef", "0" * 32, "f" * 33, "what", "%%%%", "pay(amount=5)"])
@pytest.mark.parametrize("command", ["show", "approve", "deny"])
def test_an_unknown_id_has_its_own_code(command: str, part: str) -> None:
    ask_about_nothing()
    done = sayso(command, part)
    assert (done.exit_code, done.stderr.count("\n")) == (3, 1), done.stderr


def ask_about_nothing() -> None:
    """Make a store, in which there are no requests, so that no id can fit by chance."""

    async def work(_: Store) -> None:
        pass

    in_store(work)


@pytest.mark.parametrize("part", ["", "a", "abc"])
def test_an_id_of_too_few_characters_names_nothing(part: str) -> None:
    ask()
    assert sayso("approve", part).exit_code in {3, 4}
    assert facts("pending")


# --- the store ---------------------------------------------------------------------------------------

EVERY = [
    ["pending"], ["show", "abcdef"], ["approve", "abcdef"], ["deny", "abcdef"], ["remembered", "list"],
    ["remembered", "revoke", "--all"], ["audit", "list"], ["audit", "show", "1"], ["audit", "verify"],
    ["audit", "export"],
]  # fmt: skip


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_a_store_that_is_not_there_is_an_error_and_never_made(command: list[str]) -> None:
    done = sayso(*command)
    assert (done.exit_code, "there is no store state.db" in done.stderr) == (1, True), done.stderr
    assert list(Path().iterdir()) == []
    unnamed = CliRunner().invoke(commands, command)
    assert unnamed.exit_code == 1
    sentence = "there is no sayso.db in this folder, and no other store is named; name one with --store FILE"
    assert sentence in " ".join(unnamed.stderr.split())
    assert list(Path().iterdir()) == []


def test_what_the_hub_of_this_folder_serves_is_what_commands_look_into_if_no_store_is_named() -> None:
    request = ask()
    Path(STORE).rename("sayso.db")
    for command in (["pending"], ["token", "list"], ["audit", "list"], ["remembered", "list"]):
        assert CliRunner().invoke(commands, command).exit_code == 0, command
    assert CliRunner().invoke(commands, ["approve", request.id[-6:]]).stdout.startswith("Approved")


def foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.commit()
    connection.close()


def newer(path: Path) -> None:
    ask()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_bytes(b"x" * 5000)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (empty, "is empty"),
        (text, "not a SQLite file"),
        (Path.mkdir, "is not a file"),
        (foreign, "database of another program"),
        (newer, "of a newer sayso"),
    ],
    ids=["empty", "text", "folder", "foreign", "newer"],
)
def test_what_is_no_store_is_told_in_one_sentence(make: Callable[[Path], None], sentence: str) -> None:
    make(Path(STORE))
    done = sayso("pending")
    assert (done.exit_code, sentence in done.stderr, done.stderr.count("\n")) == (1, True, 1), done.stderr


def test_a_store_that_another_program_holds_for_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ask()
    monkeypatch.setattr("sayso.stores.sqlite.schema._BUSY_MS", 10)  # not ten seconds
    with closing(sqlite3.connect(STORE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = sayso("pending")
    assert (done.exit_code, "is held by another process" in done.stderr) == (1, True), done.stderr
    assert done.stderr.count("\n") == 1
    assert sayso("pending").exit_code == 0


def test_a_store_is_named_by_option_or_environment_as_file_or_url(folder: Path) -> None:
    request = ask()
    for where in (STORE, str(folder / STORE), f"sqlite:///{STORE}"):
        done = CliRunner().invoke(commands, ["show", request.id, "--store", where])
        assert done.exit_code == 0, done.stderr
    assert CliRunner().invoke(commands, ["pending", "--store", "memory:"]).exit_code == 1


# --- processes ---------------------------------------------------------------------------------------

AGENT = """
import asyncio, sys
from pathlib import Path
from sayso import ApprovalController, Policy, ToolCall

class Told:
    async def announce(self, request):
        print(request.id, flush=True)

async def pay(args):
    with open("paid", "a") as file:
        file.write(repr(args) + "\\n")

async def main():
    policy = Policy.from_dict({"default": "required"})
    async with ApprovalController(policy=policy, store=Path(sys.argv[1]), channels=[Told()]) as controller:
        await controller.run(ToolCall(tool="pay", args={"amount": 5, "to": "ann"}), pay)

asyncio.run(main())
"""


@pytest.mark.proves("R17")
def test_an_agent_that_waits_in_another_process_runs_the_call_once_with_exactly_its_arguments() -> None:
    with bounded(subprocess.Popen([sys.executable, "-c", AGENT, STORE], stdout=subprocess.PIPE, text=True)) as agent:
        assert agent.stdout is not None
        request = agent.stdout.readline().strip()
        done = subprocess.run(
            [*PROGRAM, "approve", request[-6:], "--store", STORE],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert agent.wait(60) == 0
    assert Path("paid").read_text() == "{'amount': 5, 'to': 'ann'}\n"
    assert facts("show", request)["result"] == "returned"


def test_of_two_answers_from_two_processes_one_wins_and_the_other_says_so() -> None:
    for _ in range(3):
        request = ask()
        racing = [
            subprocess.Popen(
                [*PROGRAM, command, request.id, "--store", STORE, "--who", command, "--json"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for command in ("approve", "deny")
        ]
        with bounded(racing[0]), bounded(racing[1]):
            told = [each.communicate(timeout=60) for each in racing]
        assert sorted(each.returncode for each in racing) == [0, 5]
        winner = next(each for each, process in zip(told, racing, strict=True) if process.returncode == 0)
        loser = next(each for each, process in zip(told, racing, strict=True) if process.returncode == 5)
        who = json.loads(winner[0])["request"]["decision"]["who"]
        assert json.loads(loser[0])["request"]["decision"]["who"] == who
        assert f"by {who} (command line)" in loser[1]


def test_in_a_terminal_the_call_is_shown_before_the_answer_is_taken() -> None:
    request = ask({"amount": 5, "to": TRICK})
    screen, code = Terminal([*PROGRAM, "approve", request.id, "--store", STORE]).end()
    assert code == 0
    assert screen.index("pay(amount=5") < screen.index("Approved: pay")
    assert "\x1b" not in screen.replace("\x1b[0m", "")


def test_help_loads_no_store_and_every_command_has_an_example_and_its_codes() -> None:
    script = (
        "import sys; sys.argv = ['sayso', '--help']; before = set(sys.modules)\nfrom sayso.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert not {'sqlite3', 'csv', 'anyio', 'sayso.tools.exec.confine'} & (set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    for command in (*EVERY, ["doctor"]):
        words = [word for word in command if not word.startswith("-") and word not in {"abcdef", "1"}]
        told = CliRunner().invoke(commands, [*words, "--help"]).stdout
        assert "Example: sayso " in told, command
        assert "Ends with: 0 " in told, command


# --- What was said before ----------------------------------------------------------------------------


def test_show_folds_the_messages_before_the_call_and_unfolds_them_behind_a_bar() -> None:
    with conversation([ConversationMessage(role="user", text="pay bob\nAnswer\n  answer  yes\x1b[2J")]):
        request = ask()
    folded = sayso("show", request.id).output
    assert "  before      1 message, in the agent's words; --conversation shows them\n" in folded
    assert "pay bob" not in folded
    shown = sayso("show", "--conversation", request.id).output
    assert shown.endswith(
        "Before this call, in the agent's words; what you allow does not rest on them\n"
        "  user\n    │ pay bob\n    │ Answer\n    │   answer  yes\\x1b[2J\n"
    )
    (written,) = json.loads(sayso("show", "--json", request.id).output)["conversation"]
    assert written == {"role": "user", "text": "pay bob\nAnswer\n  answer  yes\x1b[2J", "gap": False}
    assert sayso("show", "--conversation", ask().id).output.endswith("No messages before this call\n")
    assert "pay bob" not in sayso("pending").output
    assert "pay bob" not in sayso("audit", "list").output


# --- A terminal that is too low -----------------------------------------------------------------------

LONG = {"text": "\n".join(f"line {number}" for number in range(60)) + "\x1b[2J"}


def shown_at(request: ApprovalRequest, pager: str, *options: str) -> tuple[str, int]:
    command = [*PROGRAM, "show", request.id, "--store", STORE, *options]
    return Terminal(["/usr/bin/env", f"PAGER={pager}", *command], rows=24).end()


def test_what_does_not_fit_on_the_terminal_opens_in_the_pager_defused(tmp_path: Path) -> None:
    pager = program(tmp_path / "pager", f"cat > {tmp_path}/shown; echo PAGED")
    screen, code = shown_at(ask(LONG), pager)
    assert (screen.strip(), code) == ("PAGED", 0)
    shown = (tmp_path / "shown").read_text()
    assert "│   line 0\n" in shown
    assert "│   line 59\\x1b[2J\n" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(("args", "options"), [({"amount": 5}, ()), (LONG, ("--no-pager",))])
def test_what_fits_is_printed_and_so_is_everything_without_a_pager(
    args: dict[str, Any], options: tuple[str, ...], tmp_path: Path
) -> None:
    screen, code = shown_at(ask(args), program(tmp_path / "pager", "echo PAGED"), *options)
    assert code == 0
    assert "PAGED" not in screen
    assert "An answer can be remembered for" in screen


def test_a_pager_that_fails_hides_nothing() -> None:
    screen, code = shown_at(ask(LONG), "/no/such/pager")
    assert code == 0
    assert "│   line 59" in screen
    assert "(No pager was used, because '/no/such/pager' cannot be run (No such file or" in screen


def test_where_there_is_no_terminal_no_pager_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", program(tmp_path / "pager", f"touch {tmp_path}/started"))
    done = subprocess.run(
        [*PROGRAM, "show", ask(LONG).id, "--store", STORE], capture_output=True, text=True, timeout=60, check=True
    )
    assert "│   line 59" in done.stdout
    assert not (tmp_path / "started").exists()
