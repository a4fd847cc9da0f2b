"""Scopes: which calls one remembered decision covers, and which never."""

from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalMemory,
    ApprovalRequest,
    Policy,
    ToolCall,
    Verdict,
)
from sayso.core.model import Approved, Pending
from sayso.errors import CanonicalError
from sayso.policy import scopes
from sayso.testing import ScriptedChannel

ASKS = Verdict(approval="required", reason="r")


def keys(args: dict[str, Any], payload: dict[str, Any] | None = None, tool: str = "pay") -> tuple[str, ...]:
    verdict = Verdict(approval="required", reason="r", payload=payload)
    return scopes.keys(ToolCall(tool=tool, args=args), verdict)


@pytest.mark.proves("R4", "R55")
def test_the_narrow_key_is_of_the_tool_and_all_arguments_in_any_order() -> None:
    assert keys({"a": 1, "b": [2, {"x": 1, "y": 2}]}) == keys({"b": [2, {"y": 2, "x": 1}], "a": 1})
    assert keys({"a": 1})[0] != keys({"a": 2})[0]
    assert keys({"a": 1})[0] != keys({"a": 1}, tool="read")[0]
    assert keys({"a": 1})[0] != keys({"a": 1, "b": None})[0]


@pytest.mark.proves("R5", "H4")
@pytest.mark.parametrize(("left", "right"), [(1, True), (1, "1"), (1, 1.0), (Path("a"), "a"), (b"a", "a"), ((1,), [1])])
def test_arguments_of_different_types_never_share_a_key(left: object, right: object) -> None:
    assert keys({"a": left})[0] != keys({"a": right})[0]


@pytest.mark.proves("R24")
def test_calls_of_one_payload_share_a_key_whatever_their_other_arguments() -> None:
    first = keys({"path": "a", "content": "x"}, {"path": "a"})
    assert first == keys({"path": "a", "content": "y"}, {"path": "a"})
    assert first[0] != keys({"path": "a", "content": "x"}, {"path": "b"})[0]
    assert first[0] != keys({"path": "a", "content": "x"})[0]
    assert keys({"a": 1}, {})[0] != keys({"a": 1})[0]


@pytest.mark.proves("H9")
def test_only_this_exact_call_is_offered_unless_the_rule_allows_the_whole_tool() -> None:
    call = ToolCall(tool="rm", args={"path": "a"})
    narrow = scopes.offered(call, ASKS)
    assert [each.kind for each in narrow] == ["call"]
    broad = scopes.offered(call, Verdict(approval="required", reason="r", scope="tool"))
    assert [each.kind for each in broad] == ["call", "tool"]
    assert broad[0] == narrow[0]
    other = scopes.offered(
        ToolCall(tool="rm", args={"path": "b"}), Verdict(approval="required", reason="r", scope="tool")
    )
    assert (other[0].key != broad[0].key, other[1].key == broad[1].key) == (True, True)


@pytest.mark.proves("H9")
def test_nothing_is_offered_where_the_rule_forbids_remembering() -> None:
    verdict = Verdict(approval="required", reason="r", remember=False, scope="tool")
    assert scopes.offered(ToolCall(tool="rm"), verdict) == ()


@pytest.mark.proves("H9")
def test_every_offered_scope_is_found_again_by_the_keys_of_the_same_call() -> None:
    verdict = Verdict(approval="required", reason="r", scope="tool", payload={"path": "a"})
    call = ToolCall(tool="write", args={"path": "a", "content": "x"}, schema_hash="s")
    assert [each.key for each in scopes.offered(call, verdict)] == list(scopes.keys(call, verdict))


def test_a_label_tells_a_person_what_the_scope_covers() -> None:
    call = ToolCall(tool="write", args={"path": "a"})
    verdict = Verdict(approval="required", reason="r", scope="tool", payload={"path": "a", "mode": 1})
    assert [each.label for each in scopes.offered(call, verdict)] == [
        "calls of write with path='a', mode=1",
        "every call of write, whatever its arguments",
    ]
    assert scopes.offered(call, ASKS)[0].label == "this exact call of write"


def test_a_request_made_by_hand_has_the_keys_of_its_call() -> None:
    call = ToolCall(tool="write", args={"path": "a", "content": "x"}, schema_hash="s")
    verdict = Verdict(approval="required", reason="r", payload={"path": "a"})
    request = ApprovalRequest(tool_name="write", args=call.args, payload=verdict.payload, schema_hash="s")
    assert scopes.request_keys(request) == scopes.keys(call, verdict)
    plain = ApprovalRequest(tool_name="write", args=call.args, schema_hash="s")
    assert scopes.request_keys(plain) == scopes.keys(call, ASKS)


@pytest.mark.proves("R5", "H4")
def test_what_cannot_be_canonicalised_has_no_key_but_that_of_its_tool() -> None:
    assert len(keys({"a": object()})) == len(keys({"a": 1}, {"a": object()})) == 1
    assert keys({"a": object()})[0] == keys({"a": 1})[-1]


@pytest.mark.proves("H9")
def test_exact_arguments_and_the_same_facts_as_a_payload_are_two_keys() -> None:
    assert keys({"path": "a"})[0] != keys({"path": "a", "content": "evil"}, {"path": "a"})[0]


class Rude:
    """An object of somebody else's, whose code must not be run."""

    def __repr__(self) -> str:
        raise RuntimeError("who called my code?")


@pytest.mark.proves("R5", "H5")
def test_a_payload_that_cannot_be_canonicalised_is_refused_before_it_is_put_into_words() -> None:
    with pytest.raises(CanonicalError, match=r"args\.a is a .*Rude"):
        scopes.call_scope("t", {}, {"a": Rude()})


@pytest.mark.proves("H9")
@settings(deadline=None)
@given(
    tool=st.text(max_size=70),
    other=st.text(max_size=70),
    args=st.dictionaries(st.text("ab", max_size=2), st.integers()),
)
def test_the_key_of_a_whole_tool_is_never_the_key_of_a_call(tool: str, other: str, args: dict[str, int]) -> None:
    assert scopes.tool_key(tool) != scopes.call_key(other, args)
    assert (scopes.tool_key(tool) == scopes.tool_key(other)) == (tool == other)


# What the policy file offers: the prefix of a command, and the folder of a file.

SHELL: dict[str, Any] = {
    "default": "required",
    "rules": [{"pattern": "git status", "approval": "none"}, {"pattern": "git push --force", "approval": "blocked"}],
}
REMEMBERED_PREFIX = ApprovalDecision(approved=True, remember="session", scope="prefix")
REMEMBERED_FOLDER = ApprovalDecision(approved=True, remember="session", scope="folder")


def policy_of(base: Path | None = None, **sections: Any) -> Policy:
    return Policy.from_dict({"default": "required", "shell": SHELL, **sections}, base=base)


def line(command: str, tool: str = "shell", **others: Any) -> ToolCall:
    return ToolCall(tool=tool, args={"command": command, **others})


def offers(policy: Policy, call: ToolCall) -> list[str]:
    """The kinds of scope that a person may choose from."""
    return [scope.kind for scope in scopes.offered(call, policy.judge(call))]


@pytest.mark.proves("H9")
@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("poetry self show plugins", "poetry self show"),
        ("dotnet workload list x", "dotnet workload list"),
        ("git commit", "git commit"),
        ("git commit -m 'a b' file", "git commit"),
        ("git commit -m x > /dev/null 2>&1", "git commit"),
        ("gh pr create --title x", "gh pr create"),
        ("pip install x", "pip install"),
        ("pytest -x tests", "pytest"),
        ("ruff check src", "ruff check"),
        ("npm install x", "npm install"),
        ("cargo test", "cargo test"),
        ("docker service ls", "docker service ls"),
        ("docker context use x", "docker context use"),
        ("docker buildx build .", "docker buildx build"),
        ("kubectl delete pod x", "kubectl delete"),
        ("gh repo clone x", "gh repo clone"),
    ],
)
def test_one_plain_command_may_be_remembered_by_its_program_and_sub_command(command: str, prefix: str) -> None:
    scope = policy_of().judge(line(command)).scopes[0]
    assert scope.kind == "prefix"
    assert scope.label.startswith(f"every command beginning with `{prefix}`")
    assert offers(policy_of(), line(command)) == ["call", "prefix"]


@pytest.mark.proves("H9")
def test_the_label_of_a_prefix_tells_what_else_a_yes_would_let_run() -> None:
    assert "such as `git commit -a`" in policy_of().judge(line("git commit -m x")).scopes[0].label
    assert "such as `git push origin main`" in policy_of().judge(line("git push")).scopes[0].label


@pytest.mark.proves("H9")
@pytest.mark.parametrize(("words", "neighbour"), scopes.NEIGHBOURS.items())
async def test_the_command_that_a_label_tells_of_is_covered_by_the_prefix(words: str, neighbour: str) -> None:
    (scope,) = policy_of().judge(line(neighbour)).scopes
    assert scope == scopes.prefix_scope("shell", words.split())
    label = policy_of().judge(line("kubectl delete pod x")).scopes[0].label
    assert "such as `kubectl delete namespace prod`" in label


@pytest.mark.proves("H9", "H13")
@pytest.mark.parametrize(
    "command",
    [
        # Several parts of which one is not ordinary, too many to read, or not provable.
        "git commit; rm x", "git commit | tee x", "git commit &\nrm x", "git commit $(ls)", "cd x && git commit",
        "git add x && git commit > log", "X=1 git add x; git commit", "git add x && sudo git commit",
        "git add x; git commit; git push; git pull; git tag x", "git add * && git commit",
        "git commit $x", "git commit *", "git commit ~/x", "(git commit)", "for i in 1; do git commit; done",
        "git commit <<x\nx", "if true; then git commit; fi", "git commit\r",
        # Redirections, assignments.
        "git commit > log", "git commit >> log", "X=1 git commit", "X=1",
        # Options with which the program runs others, or that come before the sub-command.
        "git -c core.editor=x commit", "git -C .. commit", "git --exec-path=x commit", "git",
        # Programs that run whatever they are given, or whose deeds cannot be undone.
        "python3 x.py", "node -e 1", "bash -c 'git commit'", "sh x.sh", "awk x", "eval git commit", "vim x",
        "sudo git commit", "env git commit", "xargs git commit", "nice git commit", "timeout 5 git commit",
        "find . -exec rm {} +", "find . -exec rm {} ';'", "find . -ok x", "find . -name x",
        "npx x", "ssh host git commit", "npm run build", "npm exec x",
        "rm x", "rmdir x", "dd if=x", "chmod +x x", "curl x", "wget x", "kill 1", "mkfs x", "tee x", "cd x",
        "export PATH=x", "./run.sh", "/usr/bin/git commit",
        # Sub-commands that run, set up or install whatever is named behind them.
        "npm set x=y", "npm c set x y", "npm config set x y", "npm rum build", "npm urn build", "npm init evil",
        "npm create evil", "npm x evil", "npm exe evil", "yarn create evil", "yarn dlx evil", "yarn build",
        "pnpm build", "cargo r", "cargo run", "cargo rustc -- -C linker=x", "cargo myalias", "podman unshare x",
        "docker service", "docker plugin install x", "docker stack", "docker swarm", "helm template x",
        "helm plugin install x", "terraform init", "gh repo clone x -- --config=a", "aws configure set x y",
        "dotnet fsi x", "brew sh", "brew ruby x", "brew irb", "git hook run x", "git send-email x", "git daemon",
        "pyright", "pyright src", "ruff", "ruff check --fix", "kubectl get -f x", "git tag v1", "git branch x",
    ],
)  # fmt: skip
def test_a_prefix_is_not_offered_for(command: str) -> None:
    verdict = policy_of().judge(line(command))
    assert verdict.approval == "required"
    assert offers(policy_of(), line(command)) == ["call"]


@pytest.mark.proves("H9")
def test_a_prefix_is_not_offered_beside_other_arguments_nor_for_what_runs_or_is_blocked() -> None:
    assert offers(policy_of(), line("git commit", cwd="/x")) == ["call"]
    assert policy_of().judge(line("git status")).scopes == ()
    assert policy_of().judge(line("git push --force")).scopes == ()


@pytest.mark.proves("H9")
@pytest.mark.parametrize("name", ["shell", "sh*", "*"])
def test_nothing_is_offered_where_an_entry_for_the_shell_forbids_remembering(name: str) -> None:
    assert offers(policy_of(tools={name: {"remember": False}}), line("git commit")) == []
    assert offers(policy_of(remember=False), line("git commit")) == []


@pytest.mark.proves("H9")
def test_a_prefix_is_not_offered_where_the_entry_for_the_shell_asks_about_what_its_rules_let_run() -> None:
    assert offers(policy_of(tools={"shell": "required"}), line("git status")) == ["call"]


@pytest.mark.proves("H9")
@pytest.mark.parametrize("name", ["*", "sh*", "[rs]*"])
def test_a_yes_to_a_line_is_never_offered_for_the_whole_tool(name: str, tmp_path: Path) -> None:
    (tmp_path / "zone").mkdir()
    policy = policy_of(
        tmp_path,
        tools={name: {"approval": "required", "scope": "tool"}, "run": {"kind": "shell"}},
        sandbox={"zones": {"zone": {}}},
    )
    for call in (line("git commit"), line("rm x"), line("rm x", "run")):
        assert "tool" not in offers(policy, call)


class Asked:
    """Calls through a controller with a person who says yes, once, and has that remembered."""

    def __init__(self, policy: Policy, decision: ApprovalDecision, memory: ApprovalMemory | None = None) -> None:
        self.memory = ApprovalMemory() if memory is None else memory
        self.person = ScriptedChannel(decision)
        self.controller = ApprovalController(policy=policy, channels=[self.person], memory=self.memory)

    async def by(self, call: ToolCall) -> str:
        """Who let the call run: `answer`, `memory`, `policy`; else why it did not."""
        outcome = await self.controller.settle(call)
        return outcome.by if isinstance(outcome, Approved) else outcome.cause


@pytest.mark.proves("H9")
async def test_a_remembered_prefix_lets_the_next_such_command_run_and_nothing_else() -> None:
    asked = Asked(policy_of(tools={"run": {"kind": "shell"}}), REMEMBERED_PREFIX)
    assert await asked.by(line("git commit -m one")) == "answer"
    for same in ("git commit", "git commit -m two", "'git' commit -a -q", "git commit -m x 2> /dev/null"):
        assert await asked.by(line(same)) == "memory", same
    others = (
        "git commit --amend",
        "git push", "git", "git commitx", "git commit-tree x", "git commit && ls", "git commit > x", "A=1 git commit",
        "sudo git commit", "git -C .. commit", "git commit $(ls)", "/x/git commit", "git commit; rm x", "ls",
    )  # fmt: skip
    for other in others:
        assert await asked.by(line(other)) == "refused", other
    assert await asked.by(line("git commit", cwd="/elsewhere")) == "refused"
    assert await asked.by(line("git commit", "run")) == "refused"
    assert await asked.by(line("git push --force")) == "blocked"
    assert len(asked.person.asked) == 1 + len(others) + 2


@pytest.mark.proves("H9")
async def test_a_remembered_prefix_does_not_reach_another_session() -> None:
    asked = Asked(policy_of(), REMEMBERED_PREFIX)
    await asked.by(line("git commit"))
    other = ToolCall(tool="shell", args={"command": "git commit"}, session="other")
    assert await asked.by(other) == "refused"


@pytest.mark.proves("H9", "H1")
@pytest.mark.parametrize(
    ("sections", "fate"),
    [
        ({"shell": {"rules": [{"pattern": "git commit", "approval": "blocked"}]}}, "blocked"),
        ({"shell": {"default": "blocked"}}, "blocked"),
        ({"tools": {"shell": "blocked"}}, "blocked"),
        ({"tools": {"shell": {"remember": False}}}, "refused"),
        ({"remember": False}, "refused"),
        (
            {"tools": {"shell": "required"}, "shell": {"rules": [{"pattern": "git commit", "approval": "none"}]}},
            "refused",
        ),
        ({"shell": {"rules": [{"pattern": "git commit", "approval": "none"}]}}, "policy"),
        ({}, "memory"),
    ],
)
async def test_a_remembered_prefix_dies_when_the_rules_tighten(sections: dict[str, Any], fate: str) -> None:
    asked = Asked(policy_of(), REMEMBERED_PREFIX)
    await asked.by(line("git commit"))
    later = Asked(policy_of(**sections), ApprovalDecision(approved=False), asked.memory)
    assert await later.by(line("git commit -m x")) == fate


@pytest.mark.proves("H9")
async def test_a_remembered_no_to_a_prefix_is_a_no_to_all_that_begin_so() -> None:
    asked = Asked(policy_of(), ApprovalDecision(approved=False, remember="session", scope="prefix"))
    for command in ("git commit", "git commit -m x"):
        assert await asked.by(line(command)) == "refused"
    assert len(asked.person.asked) == 1


@pytest.mark.proves("H9")
async def test_a_scope_that_was_not_offered_is_not_remembered() -> None:
    asked = Asked(policy_of(), REMEMBERED_PREFIX)
    with fail_after(5):
        fate = await asked.by(line("git commit && rm x"))
    assert fate != "answer"
    assert list(asked.memory.list()) == []


# Lines of several commands: one grant for each that asks.


@pytest.mark.proves("H9")
async def test_a_line_of_several_commands_is_remembered_as_one_grant_for_each_that_asks() -> None:
    asked = Asked(policy_of(), REMEMBERED_PREFIX)
    both = line("git status && git add x && git commit -m x 2> /dev/null")
    scope = policy_of().judge(both).scopes[0]
    assert "`git add`" in scope.label
    assert "; and every command beginning with `git commit`" in scope.label
    assert "git status" not in scope.label
    assert await asked.by(both) == "answer"
    assert [each.scope.label for each in asked.memory.list()] == [part.label for part in scope.parts]
    for same in ("git commit", "git add y", "git commit; git add z", "git status | git commit -F -"):
        assert await asked.by(line(same)) == "memory", same
    for other in ("git add x && git push", "git commit && ls", "cd x; git add y; git commit", "git add x > y"):
        assert await asked.by(line(other)) == "refused", other
    assert await asked.by(line("git add x && git push --force")) == "blocked"


@pytest.mark.proves("H9")
async def test_a_line_runs_by_memory_only_if_every_command_that_asks_was_remembered() -> None:
    asked = Asked(policy_of(), REMEMBERED_PREFIX)
    await asked.by(line("git add x"))
    assert await asked.by(line("git add x && git commit")) == "refused"
    again = Asked(policy_of(), REMEMBERED_PREFIX, asked.memory)
    await again.by(line("git commit"))
    assert await again.by(line("git add x && git commit")) == "memory"
    asked.memory.revoke(asked.memory.list()[0].id)
    assert await again.by(line("git add x && git commit")) == "refused"


@pytest.mark.proves("H9", "H1")
async def test_a_remembered_no_to_one_command_is_a_no_to_every_line_with_it() -> None:
    memory = ApprovalMemory()
    await Asked(policy_of(), REMEMBERED_PREFIX, memory).by(line("git add x"))
    never = ApprovalDecision(approved=False, remember="session", scope="prefix")
    await Asked(policy_of(), never, memory).by(line("git commit"))
    later = Asked(policy_of(), ApprovalDecision(approved=True), memory)
    for command in ("git add x && git commit", "git commit && git add x"):
        assert await later.by(line(command)) == "refused"
    assert later.person.asked == []


@pytest.mark.proves("H9")
async def test_counted_yeses_do_not_add_up_to_a_yes_to_a_line() -> None:
    counted = ApprovalDecision(approved=True, remember="session", scope="prefix", uses=2)
    memory = ApprovalMemory()
    for command in ("git add x", "git commit"):
        assert await Asked(policy_of(), counted, memory).by(line(command)) == "answer"
    assert await Asked(policy_of(), counted, memory).by(line("git add x")) == "memory"
    person = Asked(policy_of(), ApprovalDecision(approved=False), memory)
    assert await person.by(line("git add x && git commit")) == "refused"
    assert len(person.person.asked) == 1


@pytest.mark.proves("H9")
async def test_a_line_of_several_commands_cannot_be_remembered_for_a_number_of_uses() -> None:
    controller = ApprovalController(policy=policy_of(), mode="defer")
    pending = await controller.review(line("git add x && git commit"))
    assert isinstance(pending, Pending)
    with pytest.raises(ValueError, match="cannot be remembered for a number of uses"):
        await controller.answer(
            pending.request.id, ApprovalDecision(approved=True, remember="session", scope="prefix", uses=2)
        )


@pytest.mark.proves("H9", "H6")
async def test_the_grants_of_a_line_are_kept_in_the_store_with_its_answer(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'state.db'}"
    first = ApprovalController(policy=policy_of(), store=store, channels=[ScriptedChannel(REMEMBERED_PREFIX)])
    await first.settle(line("git add x && git commit"))
    await first.aclose()
    second = ApprovalController(policy=policy_of(), store=store, channels=[ScriptedChannel()], session=first.session)
    outcome = await second.settle(replace(line("git commit"), session=first.session))
    assert isinstance(outcome, Approved)
    assert outcome.by == "memory"
    await second.aclose()


# Folders.


@pytest.fixture
def zoned(tmp_path: Path) -> Policy:
    """A zone that asks about everything, and another that lets run."""
    for folder in ("zone/a/b", "zone/c", "other/a"):
        (tmp_path / folder).mkdir(parents=True)
    return policy_of(
        tmp_path,
        tools={"save": {"kind": "path", "argument": "to"}, "raw": {"kind": "path", "paths": "real"}},
        sandbox={"zones": {"zone": {"approval": "required"}, "other": {}}},
    )


def on(tool: str, path: str, argument: str = "path", **others: Any) -> ToolCall:
    return ToolCall(tool=tool, args={argument: path, **others})


@pytest.mark.proves("H9")
@pytest.mark.parametrize("tool", ["write_file", "edit_file", "read_file"])
def test_the_folder_of_a_file_is_offered_for_reading_and_writing(zoned: Policy, tool: str) -> None:
    call = on(tool, "/zone/a/x")
    assert offers(zoned, call) == ["call", "folder"]
    assert "of a file directly in /zone/a, whatever its content" in zoned.judge(call).scopes[0].label


@pytest.mark.proves("H9")
def test_a_folder_is_not_offered_for_deleting_for_the_root_of_a_zone_nor_for_real_paths(
    zoned: Policy, tmp_path: Path
) -> None:
    assert offers(zoned, on("delete_file", "/zone/a/x")) == ["call"]
    assert offers(zoned, on("write_file", "/zone/x")) == ["call"]
    assert offers(zoned, on("raw", str(tmp_path / "zone" / "a" / "x"))) == ["call"]


@pytest.mark.proves("H9")
async def test_a_remembered_folder_reaches_the_files_directly_in_it_and_nothing_else(zoned: Policy) -> None:
    asked = Asked(zoned, REMEMBERED_FOLDER)
    assert await asked.by(on("write_file", "/zone/a/x", content="1")) == "answer"
    assert await asked.by(on("write_file", "/zone/a/y", content="2")) == "memory"
    assert await asked.by(on("write_file", "/zone/c/../a/z")) == "memory"
    others = [
        on("write_file", "/zone/a/b/x"),
        on("write_file", "/zone/c/x"),
        on("write_file", "/zone/x"),
        on("write_file", "/other/a/x"),
        on("edit_file", "/zone/a/x"),
        on("read_file", "/zone/a/x"),
        on("delete_file", "/zone/a/x"),
        on("save", "/zone/a/x", "to"),
    ]
    assert [await asked.by(call) for call in others] == ["refused"] * len(others)
    assert await asked.by(on("write_file", "/zone/a/.bashrc")) == "blocked"
    assert await asked.by(on("write_file", "/zone/a/../../x")) == "blocked"


@pytest.mark.proves("H9")
async def test_a_remembered_folder_is_the_real_one_and_not_what_a_link_says_later(
    zoned: Policy, tmp_path: Path
) -> None:
    link = tmp_path / "zone" / "link"
    link.symlink_to("a")
    asked = Asked(zoned, REMEMBERED_FOLDER)
    assert await asked.by(on("write_file", "/zone/link/x")) == "answer"
    assert await asked.by(on("write_file", "/zone/a/y")) == "memory"
    link.unlink()
    link.symlink_to("c")
    assert await asked.by(on("write_file", "/zone/link/x", content="2")) == "refused"


@pytest.mark.proves("H9")
async def test_a_remembered_folder_dies_when_its_zone_becomes_read_only(zoned: Policy, tmp_path: Path) -> None:
    asked = Asked(zoned, REMEMBERED_FOLDER)
    await asked.by(on("write_file", "/zone/a/x"))
    later = Asked(policy_of(tmp_path, sandbox={"zones": {"zone": {"mode": "ro"}}}), REMEMBERED_FOLDER, asked.memory)
    assert await later.by(on("write_file", "/zone/a/y")) == "blocked"


@pytest.mark.proves("H9")
async def test_a_remembered_folder_does_not_reach_through_a_link_in_it(zoned: Policy, tmp_path: Path) -> None:
    (tmp_path / "zone" / "c" / "secret").touch()
    (tmp_path / "zone" / "a" / "link").symlink_to("../c/secret")
    asked = Asked(zoned, REMEMBERED_FOLDER)
    await asked.by(on("write_file", "/zone/a/x"))
    assert await asked.by(on("write_file", "/zone/a/link")) == "refused"


def test_the_keys_of_prefixes_folders_tools_and_calls_are_never_the_same() -> None:
    keys = [
        scopes.prefix_scope("shell", ("git", "commit")).key,
        scopes.prefix_scope("shell", ("git commit",)).key,
        scopes.prefix_scope("shell git", ("commit",)).key,
        scopes.folder_scope("shell", "git", "/x", "commit").key,
        scopes.folder_scope("write_file", "write", "/zone/a", "/real/a").key,
        scopes.folder_scope("write_file", "read", "/zone/a", "/real/a").key,
        scopes.tool_scope("shell").key,
        scopes.call_scope("shell", {}).key,
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.proves("R47", "H9")
async def test_what_is_asked_once_per_session_is_not_widened_to_a_prefix_or_a_folder_unasked(tmp_path: Path) -> None:
    (tmp_path / "zone" / "a").mkdir(parents=True)
    rules = [{"pattern": "git commit", "approval": "once_per_session"}]
    zones = {"zone": {"approval": {"write": "once_per_session"}}}
    data = {"default": "required", "shell": {"rules": rules}, "sandbox": {"zones": zones}}
    policy = Policy.from_dict(data, base=tmp_path)
    yes = ApprovalDecision(approved=True)
    shell, files = Asked(policy, yes), Asked(policy, yes)
    assert await shell.by(line("git commit -m one")) == "answer"
    assert await shell.by(line("git commit -m one")) == "memory"
    assert await shell.by(line("git commit --amend")) == "refused"
    assert await files.by(on("write_file", "/zone/a/x")) == "answer"
    assert await files.by(on("write_file", "/zone/a/y")) == "refused"


@pytest.mark.proves("H9", "H1")
async def test_a_remembered_prefix_or_folder_does_not_answer_another_rule_that_asks(tmp_path: Path) -> None:
    tools = {
        "shell": {"approval": "required", "when": {"args.command": {"contains": "prod"}}},
        "write_file": {"approval": "required", "when": {"args.content": {"contains": "password"}}},
    }
    (tmp_path / "zone" / "sub").mkdir(parents=True, exist_ok=True)
    policy = policy_of(tmp_path, tools=tools, sandbox={"zones": {"zone": {}}})
    asked = Asked(policy, REMEMBERED_PREFIX)
    assert await asked.by(line("git push")) == "answer"
    assert await asked.by(line("git push origin staging")) == "memory"
    assert await asked.by(line("git push origin prod")) == "refused"
    files = Asked(policy, REMEMBERED_FOLDER)

    def write(name: str, content: object) -> ToolCall:
        return ToolCall(tool="write_file", args={"path": f"/zone/sub/{name}", "content": content})

    assert await files.by(write("a", "x")) == "answer"
    assert await files.by(write("b", "x")) == "memory"
    assert await files.by(write("c", "my password")) == "refused"
    assert await files.by(write("d", b"my password")) == "refused"


@pytest.mark.proves("H9", "H13")
@pytest.mark.parametrize("name", ["pyproject.toml", "PyProject.TOML"])
async def test_a_folder_that_was_remembered_does_not_hold_a_file_with_rules(name: str, tmp_path: Path) -> None:
    (tmp_path / "zone" / "sub").mkdir(parents=True)
    for word in ("required", "none"):
        policy = policy_of(tmp_path, sandbox={"zones": {"zone": {"approval": word}}})
        call = ToolCall(tool="write_file", args={"path": f"/zone/sub/{name}", "content": "[tool.sayso]"})
        assert offers(policy, call) == ["call"]
    files = Asked(policy_of(tmp_path, sandbox={"zones": {"zone": {}}}), REMEMBERED_FOLDER)
    other = ToolCall(tool="write_file", args={"path": "/zone/sub/a", "content": "x"})
    assert await files.by(other) == "answer"
    assert await files.by(call) == "refused"


@pytest.mark.proves("H9", "H1")
async def test_a_remembered_prefix_does_not_answer_a_rule_about_more_words() -> None:
    rules = [{"pattern": words, "approval": "required"} for words in ("git push", "git push origin prod")]
    sections: dict[str, Any] = {"shell": {"default": "required", "rules": rules}}
    policy = policy_of(**sections)
    asked = Asked(policy, REMEMBERED_PREFIX)
    assert offers(policy, line("git push origin prod")) == ["call"]
    assert await asked.by(line("git push origin dev")) == "answer"
    assert await asked.by(line("git push origin prod")) == "refused"
