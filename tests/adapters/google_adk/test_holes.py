"""What Google ADK lets through by itself, and what becomes of it behind `Approvals`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.runners import Runner
from google.adk.tools import AgentTool, FunctionTool
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Toolbox
from tests.adapters.google_adk.driver import ScriptedModel, agent_of, database, new_folder
from tests.adapters.google_adk.people import (
    NO_TO_ALL,
    PAY,
    answer,
    confirm,
    go,
    person,
    resumed,
    running,
    told,
)

from sayso import ApprovalController, Policy
from sayso.adapters.google_adk import Approvals
from sayso.errors import ConfigurationError


def bare(tools: Toolbox, folder: Path, responses: list[Response] = PAY, *, asks: Any = True) -> Runner:
    """Return a runner without sayso whose tool asks by ADK's own mark."""
    return running(folder, responses, [FunctionTool(tools.pay(), require_confirmation=asks)])


def guarded(tools: Toolbox, folder: Path, controller: ApprovalController, responses: list[Response] = PAY) -> Runner:
    """Return a runner behind `Approvals`."""
    return running(folder, responses, [tools.pay()], Approvals(controller))


def copy_of(folder: Path, before: str = "", after: str = "") -> Path:
    """Return a copy of a session, perhaps changed."""
    copy = new_folder()
    database(copy).write_bytes(database(folder).read_bytes().replace(before.encode(), after.encode()))
    return copy


async def test_adks_own_confirmation_answered_in_a_copy_runs_twice() -> None:
    tools, folder = Toolbox(), new_folder()
    await go(bare(tools, folder))
    for each in (copy_of(folder), folder):
        await confirm(bare(tools, each, PAY[1:]))
    assert tools.amounts == [5, 5]


async def test_a_confirmation_behind_approvals_answered_in_a_copy_runs_once() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")
    await go(guarded(tools, folder, controller))
    copy = copy_of(folder)
    await answer(controller, YES)
    for each in (copy, folder):
        await resumed(guarded(tools, each, controller, PAY[1:]), controller)
    assert tools.amounts == [5]


TO_BOB: list[Response] = [[Call("pay", {"amount": 5, "to": "bob"})], "done"]


async def test_adk_runs_other_arguments_than_were_confirmed() -> None:
    tools, folder = Toolbox(), new_folder()
    await go(bare(tools, folder, TO_BOB))
    await confirm(bare(tools, copy_of(folder, '"bob"', '"eve"'), PAY[1:]))
    assert tools.ran == [("pay", {"amount": 5, "to": "eve"})]


async def test_other_arguments_than_were_approved_do_not_run_behind_approvals() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")
    await go(guarded(tools, folder, controller, TO_BOB))
    await answer(controller, YES)
    await resumed(guarded(tools, copy_of(folder, '"bob"', '"eve"'), controller, PAY[1:]), controller)
    assert tools.ran == []


async def test_a_refused_call_runs_in_adk_when_its_predicate_says_no_more() -> None:
    tools, folder, asks = Toolbox(), new_folder(), [True]

    def predicate(amount: int, to: str = "bob") -> bool:
        return asks[0]

    await go(bare(tools, folder, asks=predicate))
    asks[0] = False
    await confirm(bare(tools, folder, PAY[1:], asks=predicate), NO_TO_ALL)
    assert tools.amounts == [5]


@pytest.mark.parametrize("native", [True, False])
async def test_a_refusal_stands_behind_approvals_though_nothing_asks_any_more(*, native: bool) -> None:
    tools, folder, asks = Toolbox(), new_folder(), [True]
    marked = FunctionTool(tools.pay(), require_confirmation=lambda amount, to="bob": asks[0])
    policy = Policy(default="none")
    controller = ApprovalController(mode="defer", policy=policy)
    await go(running(folder, PAY, [marked], Approvals(controller)))
    await answer(controller, NO)
    asks[0] = False
    runner = running(folder, PAY[1:], [marked], Approvals(controller))
    assert await (confirm(runner) if native else resumed(runner, controller)) == "done"
    assert tools.ran == []
    assert "too much" in await told(runner)


async def test_a_mark_that_is_true_but_not_true_itself_asks_in_half_of_adk_and_always_here() -> None:
    class Marked(FunctionTool):
        async def check_require_confirmation(self, args: Any, tool_context: Any) -> Any:
            return "yes"

        async def run_async(self, *, args: Any, tool_context: Any) -> Any:
            return self.func(**args)

    tools = Toolbox()
    await go(running(new_folder(), PAY, [Marked(tools.pay())]))
    assert tools.amounts == [5]
    tools, (controller, asked) = Toolbox(), person(NO, Policy(default="none"))
    await go(running(new_folder(), PAY, [Marked(tools.pay())], Approvals(controller)))
    assert (tools.ran, len(asked)) == ([], 1)


NESTED: list[Response] = [[Call("helper", {"request": "pay"}, "o1")], "done"]


async def test_an_agent_without_the_plugins_of_the_app_runs_in_adk_and_is_refused_here() -> None:
    def helper(tools: Toolbox) -> AgentTool:
        return AgentTool(agent_of(ScriptedModel(PAY), [tools.pay()], name="helper"), include_plugins=False)

    tools = Toolbox()
    await go(running(new_folder(), NESTED, [helper(tools)]))
    assert tools.amounts == [5]
    tools, (controller, asked) = Toolbox(), person(policy=Policy(default="none"))
    with pytest.raises(ConfigurationError, match="'helper' runs without the plugins"):
        await go(running(new_folder(), NESTED, [helper(tools)], Approvals(controller)))
    assert (tools.ran, asked) == ([], [])


CODE = "```python\nopen({!r}, 'w').write('x')\n```"


async def test_code_of_the_model_runs_unseen_in_adk_and_not_here_unless_the_policy_allows_it(tmp_path: Path) -> None:
    async def run(name: str, *plugins: Any) -> bool:
        script: list[Response] = [CODE.format(str(tmp_path / name)), "done"]
        await go(running(new_folder(), script, [], *plugins, code_executor=UnsafeLocalCodeExecutor()))
        return (tmp_path / name).exists()

    asking = ApprovalController(approval_callback=lambda _: YES)
    assert await run("bare")
    with pytest.raises(RuntimeError, match="code_execution: none") as raised:
        await run("guarded", Approvals(asking))
    assert isinstance(raised.value.__cause__, ConfigurationError)
    assert not (tmp_path / "guarded").exists()
    assert await run("allowed", Approvals(Policy({"code_execution": "none"})))


async def test_two_calls_with_one_id_run_on_one_answer_at_most() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    same: list[Response] = [[Call("pay", {"amount": 1}, "same"), Call("pay", {"amount": 9000}, "same")], "done"]
    folder = new_folder()
    with contextlib.suppress(Exception):
        await go(guarded(tools, folder, controller, same))
    shown = [each.args["amount"] for each in await controller.pending()]
    await answer(controller, YES)
    with contextlib.suppress(Exception):
        await resumed(guarded(tools, folder, controller, same[1:]), controller)
    assert len(tools.amounts) == len(set(tools.amounts))
    assert set(tools.amounts) <= set(shown)


@pytest.mark.parametrize("place", ["before_tool_callback", "before_model_callback", "after_model_callback"])
async def test_a_callback_that_raises_ends_the_run(place: str) -> None:
    def broken(**_: Any) -> None:
        raise OSError("no idea")

    tools, (controller, _) = Toolbox(), person()
    settings: dict[str, Any] = {place: broken}
    with pytest.raises(OSError, match="no idea"):
        await go(running(new_folder(), PAY, [tools.pay()], Approvals(controller), **settings))
    assert tools.ran == []


def test_wrong_settings_get_one_sentence() -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Approvals(on_denied="ignore"), "on_denied is 'ignore'"),  # type: ignore[arg-type]
        (lambda: Approvals(answered_by="ann"), "answered_by is 'ann'"),  # type: ignore[arg-type]
        (lambda: Approvals("sayso.yaml"), "policy"),  # type: ignore[arg-type]
    ]
    for build, sentence in wrong:
        with pytest.raises(ConfigurationError, match=sentence):
            build()
