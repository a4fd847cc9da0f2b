"""What may stand in a policy file: every mistake is told in a sentence, with its place, and editors get a schema."""

import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from sayso import Policy, ToolCall, Verdict, load_policy
from sayso.config.yaml_toml import read_yaml
from sayso.errors import ConfigurationError, PolicyError
from sayso.policy.file_schema import policy_file_schema
from sayso.policy.vocabulary import APPROVALS


class Bad(NamedTuple):
    """A file with a `¶` before each mistake, what is said about the first, and whether its mere shape is wrong."""

    text: str
    says: str
    shape: bool = True


def shaped(text: str, says: str) -> Bad:
    return Bad(f"default: none\n{text}", says)


def meant(text: str, says: str) -> Bad:
    return Bad(f"default: none\n{text}", says, shape=False)


BAD = (
    # The file as a whole.
    Bad("¶tools: {a: none}", "the file has no `default`, which must be said: use one of 'none'"),
    Bad("¶default: nun", "default is 'nun'; use one of"),
    shaped(
        "shell: {rules: [{pattern: git log, approval: none, ¶options: since}]}",
        "shell.rules[0].options is 'since'; use 'any', or a list",
    ),
    Bad("¶default: requird", "did you mean 'required'?"),
    Bad("¶default:", "default is empty; use one of"),
    Bad("¶default: false", "default is False; use one of"),
    Bad("¶default: [none]", "default is a list; use one of"),
    Bad("¶default: {approval: none}", "default is a mapping; use one of"),
    shaped("¶version: 2", "version is 2; use 1"),
    shaped("¶version: '1'", "version is '1'; use a whole number"),
    shaped("¶version: 1.5", "version is 1.5; use a whole number"),
    shaped("¶version: true", "version is True; use a whole number"),
    shaped("¶tolls: {}", "the file has the unknown key 'tolls'; did you mean 'tools'?"),
    shaped("¶zzz: 1", "the file has the unknown key 'zzz'; known: version, default, tools"),
    shaped("¶" + "x" * 300 + ": 1", f"the file has the unknown key '{'x' * 59}…; known: version"),
    shaped("¶audit: sometimes", "audit is 'sometimes'; use one of 'queued', 'strict'"),
    shaped("¶remember: forever", "remember is 'forever'; use true or false or a mapping"),
    shaped("remember: {¶max: forever}", "remember.max is 'forever'; use a positive number of seconds or text such as"),
    shaped("remember: {¶min: 1d}", "remember has the unknown key 'min'; known: max"),
    # Tools.
    shaped("¶tools: [a]", "tools is a list; use a mapping"),
    shaped("¶tools:", "tools is empty; use a mapping"),
    shaped("¶tools: none", "tools is 'none'; use a mapping"),
    shaped("tools: {¶a: nun}", "tools.a is 'nun'; use one of"),
    shaped("tools: {¶a: true}", "tools.a is True; use one of"),
    shaped("tools: {¶a: [none]}", "tools.a is a list; use one of"),
    shaped("tools: {a: {¶aproval: none}}", "tools.a has the unknown key 'aproval'; did you mean 'approval'?"),
    shaped("tools: {a: {¶approval: yes}}", "tools.a.approval is 'yes'; use one of"),
    shaped("tools: {a: {¶approval: {write: none}}}", "tools.a.approval is a mapping; use one of"),
    shaped("tools: {a: {¶approval: }}", "tools.a.approval is empty; use one of"),
    shaped("tools: {a: {¶pre_approved: 'true'}}", "tools.a.pre_approved is 'true'; use true or false"),
    shaped("tools: {a: {¶preApproved: 1}}", "tools.a.preApproved is 1; use true or false"),
    shaped("tools: {a: {¶blocked: none}}", "tools.a.blocked is 'none'; use true or false"),
    shaped("tools: {a: {¶needs_approval: my.function}}", "tools.a.needs_approval is 'my.function'; use true or false"),
    shaped("tools: {a: {¶reason: 5}}", "tools.a.reason is 5; use a text"),
    shaped("tools: {a: {¶reason: ''}}", "tools.a.reason is empty; use a text"),
    shaped("tools: {a: {¶expires: soon}}", "tools.a.expires is 'soon'; use a positive number of seconds or text"),
    shaped("tools: {a: {¶expires: 0}}", "tools.a.expires is 0; use a positive number"),
    shaped("tools: {a: {¶expires: -5}}", "tools.a.expires is -5; use a positive number"),
    shaped("tools: {a: {¶expires: 10w}}", "tools.a.expires is '10w'; use a positive number"),
    shaped("tools: {a: {¶expires: true}}", "tools.a.expires is True; use a positive number"),
    shaped("tools: {a: {¶expires: " + "9" * 400 + "}}", "tools.a.expires is a number of very many digits; use"),
    shaped("tools: {a: {¶approvers: 2}}", "tools.a.approvers is 2; use a mapping"),
    shaped("tools: {a: {approvers: {¶count: 0}}}", "tools.a.approvers.count is 0; use a whole number from 1 to 100"),
    shaped("tools: {a: {approvers: {¶count: two}}}", "tools.a.approvers.count is 'two'; use a whole number"),
    shaped("tools: {a: {approvers: {¶roles: ops}}}", "tools.a.approvers has the unknown key 'roles'; did you mean"),
    shaped("tools: {a: {¶remember: session}}", "tools.a.remember is 'session'; use true or false"),
    shaped("tools: {a: {¶scope: folder}}", "tools.a.scope is 'folder'; use one of 'call', 'tool'"),
    shaped("tools: {a: {¶kind: sql}}", "tools.a.kind is 'sql'; use one of 'shell', 'path'"),
    shaped("sandbox: {zones: {}}\ntools: {a: {kind: path, ¶operation: move}}", "tools.a.operation is 'move'; use one"),
    shaped("sandbox: {zones: {}}\ntools: {a: {kind: path, ¶paths: local}}", "tools.a.paths is 'local'; use one of"),
    shaped("tools: {a: {¶when: args.x}}", "tools.a.when is 'args.x'; use a mapping"),
    shaped("tools: {a: {when: {¶args.x: [1]}}}", "tools.a.when.args.x is a list; use a single value or a mapping"),
    shaped("tools: {a: {when: {¶args.x: }}}", "tools.a.when.args.x is empty; use a single value or a mapping"),
    shaped("tools: {a: {when: {args.x: {¶gtt: 1}}}}", "has the unknown key 'gtt'; did you mean 'gt'?"),
    shaped("tool_configs: {¶a: nun}", "tool_configs.a is 'nun'; use one of"),
    shaped("custom_tools: {¶a: nun}", "custom_tools.a is 'nun'; use one of"),
    shaped("custom_tools: [a, ¶5]", "custom_tools[1] is 5; use a text"),
    shaped("¶custom_tools: a", "custom_tools is 'a'; use a list or a mapping"),
    shaped("¶pre_approved: a", "pre_approved is 'a'; use a list"),
    shaped("pre_approved: [a, ¶{}]", "pre_approved[1] is a mapping; use a text"),
    meant("tools: {a: {¶approval: none, pre_approved: false}}", "tools.a contradicts itself: approval means 'none'"),
    meant("tools: {a: {¶approval: required, needs_approval: false}}", "tools.a contradicts itself"),
    meant("tools: {¶a: {pre_approved: true, preApproved: true}}", "says the same thing in two spellings; keep one"),
    meant("tools: {a: {approval: once_per_session, ¶remember: false}}", "asked once per session but not to be rem"),
    meant("tools: {a: {¶when: {}}}", "tools.a.when is empty; name an argument as `args.amount`, or leave `when` out"),
    meant("tools: {a: {¶when: {amount: 5}}}", "tools.a.when names 'amount'; name an argument as `args.amount`"),
    meant("tools: {a: {¶when: {args: 5}}}", "tools.a.when names 'args'; name an argument"),
    meant("tools: {a: {¶when: {args.x.: 5}}}", "tools.a.when names 'args.x.'; name an argument"),
    meant("tools: {a: {¶when: {'args[0]': 5}}}", "tools.a.when names 'args[0]'; name an argument"),
    meant("tools: {a: {¶when: {args.x: {in: 5}}}}", "tools.a.when.args.x.in is 5; use a list of values"),
    meant("tools: {a: {¶when: {args.x: {in: []}}}}", "tools.a.when.args.x.in is a list; use a list of values"),
    meant("tools: {a: {¶when: {args.x: {exists: 'yes'}}}}", "exists is 'yes'; use true or false"),
    meant("tools: {a: {¶when: {args.x: {starts_with: 5}}}}", "starts_with is 5; use a text"),
    meant("tools: {a: {¶when: {args.x: {glob: true}}}}", "glob is True; use a text"),
    meant("tools: {a: {¶when: {args.x: {gt: true}}}}", "gt is True; use a number or a text"),
    meant("tools: {a: {¶when: {args.x: {gt: [1]}}}}", "gt is a list; use a number or a text"),
    meant("tools: {a: {¶when: {args.x: {eq: [1]}}}}", "eq is a list; compare with one value, or use `in` with a list"),
    meant("tools: {a: {¶when: {args.x: {}}, approval: none}}", "tools.a.when is empty; name an argument"),
    meant("tools: {a: {¶description: 'Pay {amount}'}}", "has the hole {amount}; name an argument as `{args.amount}`"),
    meant("tools: {a: {¶description: 'Pay {}'}}", "has the hole {}; name an argument"),
    meant("tools: {a: {¶description: 'Pay {args.x!r}'}}", "has the hole {args.x!r}; name an argument"),
    meant(
        "tools: {a: {approval: none, ¶approvers: {count: 2}}}", "tools.a is 'none', so nobody is asked; say 'required'"
    ),
    meant(
        "tools: {a: {blocked: true, ¶approvers: {role: ops}}}", "is 'blocked', so nobody is asked; say 'required', or"
    ),
    meant("tools: {'a*': {approval: blocked, ¶approvers: {}}}", "is 'blocked', so nobody is asked; say 'required', or"),
    meant("tools: {¶'[': none}", "tools.[ has a `[` that is never closed, so it matches no tool; close it, or write"),
    meant("tools: {¶'a[b': none}", "has a `[` that is never closed"),
    meant("tools: {¶'a[]': none}", "has a `[` that is never closed"),
    meant("tools: {¶'a[!]': none}", "has a `[` that is never closed"),
    meant("tools: {¶'a[z-a]': none}", "has '[z-a]', which matches no character; write a range upwards"),
    meant("tools: {¶a: {argument: cmd}}", "tools.a has `argument` without `kind`; say `kind: shell` or `kind: path`"),
    meant("tools: {¶a: {operation: read}}", "tools.a has `operation` without `kind`"),
    meant("shell: {}\ntools: {a: {¶kind: shell, operation: read}}", "`operation` and `paths` mean nothing; leave"),
    meant("tools: {a: {¶kind: shell}}", "tools.a.kind is 'shell', but the file has no `shell`"),
    meant("tools: {a: {¶kind: path}}", "tools.a.kind is 'path', but the file has no `sandbox`"),
    meant("shell: {}\ntools: {shell: {¶scope: tool}}", "tools.shell.scope cannot be 'tool': a yes to one command"),
    meant("shell: {}\ntools: {a: {kind: shell, ¶scope: tool}}", "tools.a.scope cannot be 'tool'"),
    meant("sandbox: {zones: {}}\ntools: {write_file: {¶scope: tool}}", "tools.write_file.scope cannot be 'tool'"),
    meant("tools: {a: none}\n¶tool_configs: {b: none}", "tool_configs and `tools` are two names for one thing"),
    meant("tools: {a: none}\ncustom_tools: {¶a: none}", "custom_tools.a is also in tools.a; keep one of them"),
    # Zones.
    shaped("¶sandbox: scratch", "sandbox is 'scratch'; use a mapping"),
    shaped("sandbox: {¶zone: {}}", "sandbox has the unknown key 'zone'; did you mean 'zones'?"),
    shaped("sandbox: {¶zones: scratch}", "sandbox.zones is 'scratch'; use a mapping or a list"),
    shaped("sandbox: {zones: [¶scratch]}", "sandbox.zones[0] is 'scratch'; use a mapping"),
    shaped("sandbox: {zones: [¶{mode: rw}]}", "sandbox.zones[0] has no `name`, which must be said: use a text"),
    shaped("sandbox: {zones: {¶scratch: rw}}", "sandbox.zones.scratch is 'rw'; use a mapping"),
    shaped("sandbox: {zones: {scratch: {¶mode: w}}}", "sandbox.zones.scratch.mode is 'w'; use one of 'ro', 'rw'"),
    shaped("sandbox: {zones: {scratch: {¶root: 5}}}", "sandbox.zones.scratch.root is 5; use a text"),
    shaped("sandbox: {zones: {scratch: {¶root: ''}}}", "sandbox.zones.scratch.root is empty; use a text"),
    shaped("sandbox: {zones: {scratch: {¶name: scratch}}}", "has the unknown key 'name'"),
    shaped("sandbox: {zones: {scratch: {approval: {¶list: none}}}}", "has the unknown key 'list'; known: read, write"),
    shaped("sandbox: {zones: {scratch: {approval: {¶write: true}}}}", "approval.write is True; use one of"),
    shaped(
        "sandbox: {zones: {scratch: {¶approval: permit}}}", "sandbox.zones.scratch.approval is 'permit'; use one of"
    ),
    shaped("sandbox: {paths: {scratch: {¶write_approval: 1}}}", "write_approval is 1; use one of"),
    shaped("sandbox: {¶paths: [scratch]}", "sandbox.paths is a list; use a mapping"),
    meant("sandbox: {zones: {¶nowhere: {}}}", "which cannot be used: No such file or directory; make the folder"),
    meant("sandbox: {zones: {a: {¶root: ./file}}}", "which cannot be used: Not a directory; make the folder"),
    meant('sandbox: {zones: {a: {¶root: "x\\0y"}}}', "which cannot be used: the path has a NUL character in it"),
    meant("sandbox: {zones: {¶'..': {root: .}}}", "has the name '..'; use a name that can stand between two slashes"),
    meant("sandbox: {zones: [¶{name: a/b, root: .}]}", "has the name 'a/b'; use a name that can stand between"),
    meant(
        "¶sandbox: {zones: [{name: scratch}, {name: scratch, root: .}]}", "two zones are called 'scratch'; rename one"
    ),
    meant("¶sandbox: {zones: {scratch: {}}, paths: {scratch: {}}}", "two zones are called 'scratch'; rename one"),
    meant(
        "sandbox: {paths: {¶scratch: {approval: {write: none}, write_approval: false}}}",
        "says the same thing twice; keep `approval` or `write_approval`",
    ),
    # Shell.
    shaped("¶shell: blocked", "shell is 'blocked'; use a mapping"),
    shaped("shell: {¶default: none}", "shell.default is 'none'; use one of 'required', 'blocked', 'ask', 'deny'"),
    shaped("shell: {¶default: {allowed: false}}", "shell.default is a mapping; use one of"),
    shaped("shell: {¶rules: {git: none}}", "shell.rules is a mapping; use a list"),
    shaped("shell: {rules: [¶git status]}", "shell.rules[0] is 'git status'; use a mapping"),
    shaped("shell: {rules: [¶{approval: none}]}", "shell.rules[0] has no `pattern`, which must be said: use a text"),
    shaped("shell: {rules: [{¶pattern: '', approval: none}]}", "shell.rules[0].pattern is empty; use a text"),
    shaped("shell: {rules: [{¶pattern: [git], approval: none}]}", "shell.rules[0].pattern is a list; use a text"),
    shaped("shell: {rules: [{pattern: git, ¶action: none}]}", "shell.rules[0] has the unknown key 'action'"),
    shaped("shell: {rules: [{pattern: git log, approval: none, ¶match: git log}]}", "match is 'git log'; use a list"),
    shaped(
        "shell: {rules: [{pattern: ls, approval: none, operand_expansion: [¶brace]}]}",
        "operand_expansion[0] is 'brace'; use one of 'glob', 'tilde'",
    ),
    shaped("¶shell_default: allow", "shell_default is 'allow'; use one of"),
    shaped("shell_default: {¶allow: true}", "shell_default has the unknown key 'allow'; did you mean 'allowed'?"),
    shaped("shell_rules: [{pattern: git, ¶allowed: no}]", "shell_rules[0].allowed is 'no'; use true or false"),
    meant('shell: {rules: [{¶pattern: "git \'status", approval: none}]}', "use plain words, such as 'git status'"),
    meant("shell: {rules: [{¶pattern: rm *, approval: blocked}]}", "is 'rm *'; leave the * out: a pattern matches"),
    meant("shell: {rules: [{¶pattern: git status; rm, approval: none}]}", "use plain words"),
    meant("shell: {rules: [{¶pattern: git status | cat, approval: none}]}", "use plain words"),
    meant("shell: {rules: [{¶pattern: git status &, approval: none}]}", "use plain words"),
    meant("shell: {rules: [{¶pattern: A=1 git, approval: none}]}", "use plain words"),
    meant("shell: {rules: [{¶pattern: cat > x, approval: none}]}", "use plain words"),
    meant("shell: {rules: [{¶pattern: echo $HOME, approval: none}]}", "use plain words"),
    meant("shell: {rules: [{¶pattern: '   ', approval: none}]}", "use plain words"),
    meant("shell: {rules: [{¶pattern: " + "a " * 31 + ", approval: none}]}", "use plain words"),
    meant("shell: {rules: [¶{pattern: git status}]}", "has to say `approval`, or `allowed` and `approval_required`"),
    meant("shell_rules: [¶{pattern: git, approval: none, allowed: true}]", "has to say `approval`, or `allowed` and"),
    meant(
        "shell: {rules: [{pattern: git log, approval: none, match: [¶git status]}]}",
        "shell.rules[0] does not match 'git status', and should",
    ),
    meant(
        "shell_rules: [{pattern: git log, approval: none, not_match: [¶ls && git log]}]",
        "shell_rules[0] matches 'ls && git log', and should not",
    ),
    meant("¶shell: {default: ask}\nshell_rules: []", "are two names for one thing; keep one of them"),
    meant("¶shell_default: {allowed: true, approval_required: false}", "lets every command run; only rules can do"),
    meant("shell: {inert_assignments: [TZ, ¶PATH]}", "inert_assignments[1] is 'PATH', which can change what runs"),
    meant("shell: {inert_assignments: [¶LD_PRELOAD]}", "is 'LD_PRELOAD', which can change what runs"),
    meant("shell: {inert_assignments: [¶GIT_SSH_COMMAND]}", "is 'GIT_SSH_COMMAND', which can change what runs"),
    meant("shell: {inert_assignments: [¶'P*']}", "is 'P*', which can change what runs"),
    meant("shell: {inert_assignments: [¶'*']}", "is '*', which can change what runs"),
    meant("shell: {trusted_dirs: [/usr/bin, ¶.]}", "trusted_dirs[1] is '.'; use an absolute path"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a policy file would find what it names."""
    for name in ("scratch", "output", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    return tmp_path


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the text without its marks, and the place of each."""
    before, *pieces = text.split("¶")
    places: list[tuple[int, int]] = []
    for piece in pieces:
        places.append((before.count("\n") + 1, len(before) - before.rfind("\n")))
        before += piece
    return before, places


def mistakes_of(folder: Path, text: str) -> PolicyError:
    file = folder / "sayso.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    return caught.value


def data_of(text: str) -> dict[str, Any]:
    return read_yaml(text.encode(), "sayso.yaml").data


@pytest.mark.proves("R46", "H5")
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.text.partition("\n")[2] or bad.text)
def test_a_mistake_is_told_in_one_sentence_with_its_file_line_and_column(folder: Path, bad: Bad) -> None:
    text, places = marked(bad.text)
    error = mistakes_of(folder, text)
    (mistake,) = error.mistakes
    assert (mistake.source, mistake.line, mistake.column) == (str(folder / "sayso.yaml"), *places[0])
    assert bad.says in mistake.message
    assert str(error) == f"{folder / 'sayso.yaml'}:{mistake.line}:{mistake.column}: {mistake.message}"
    assert "\n" not in mistake.message
    assert len(mistake.message) < 400


@pytest.mark.proves("H5")
def test_the_table_of_mistakes_is_long_and_says_nothing_twice() -> None:
    assert len(BAD) >= 60
    assert len({bad.text for bad in BAD}) == len(BAD)


@pytest.mark.proves("H5")
def test_all_mistakes_of_shape_are_told_at_once() -> None:
    text, places = marked(
        textwrap.dedent("""\
        ¶tolls: {}
        tools:
          ¶a: nun
          b: {¶aproval: none, ¶expires: soon}
        shell:
          rules:
            - ¶{approval: none}
            - {pattern: git, ¶approval: maybe}
        sandbox: {zones: {scratch: {root: /, ¶mode: w}}}
        """)
    )
    with pytest.raises(PolicyError) as caught:
        Policy.from_dict(data_of(text), places=dict(read_yaml(text.encode(), "s").marks).get)
    found = [(mistake.line, mistake.column) for mistake in caught.value.mistakes]
    assert found == [(1, 1), *places]
    assert "has no `default`" in caught.value.mistakes[1].message


@pytest.mark.proves("H5")
def test_all_mistakes_of_meaning_are_told_at_once(folder: Path) -> None:
    text, places = marked(
        textwrap.dedent("""\
        default: none
        tools:
          a: {¶approval: none, pre_approved: false}
          b: {¶when: {amount: 5}}
          c: {¶kind: shell}
          d: {kind: path, ¶scope: tool}
        sandbox:
          zones: {¶nowhere: {}, ¶neither: {}}
        """)
    )
    error = mistakes_of(folder, text)
    assert sorted((mistake.line, mistake.column) for mistake in error.mistakes) == places
    assert len(str(error).splitlines()) == len(places)


@pytest.mark.proves("H5")
def test_mistakes_of_shape_and_of_meaning_are_told_together_each_at_its_place(folder: Path) -> None:
    text, places = marked(
        textwrap.dedent("""\
        default: none
        ¶tolls: none
        tools:
          a: {approvers: {¶count: 0}, ¶when: {amount: 5}, ¶description: 'Pay {amount}'}
          ¶b: perhaps
          c: {¶when: {args.x: {in: 5}}}
          d: {approval: none, ¶approvers: {count: 2}}
          ¶"[": none
        sandbox:
          zones: {a: {¶root: nowhere, ¶mode: w}, ¶neither: {}}
        shell:
          trusted_dirs: [¶5, ¶bin]
          rules:
            - {¶pattern: git *, approval: none}
            - ¶{approval: none}
            - {pattern: git log, ¶approval: perhaps, match: [¶git status]}
            - {¶pattern: rm && ls, approval: none}
        """)
    )
    error = mistakes_of(folder, text)
    assert [(mistake.line, mistake.column) for mistake in error.mistakes] == places
    assert len({mistake.message for mistake in error.mistakes}) == len(places)


@pytest.mark.parametrize(
    "text",
    [
        "shell: 5\ntools: {a: {kind: shell}}",
        "sandbox: 5\ntools: {a: {kind: path}}",
        "sandbox: {zones: {a: {root: 5}}}\ntools: {a: {kind: path}}",
        "tools: {a: {kind: sql, argument: cmd}}",
        "shell: {confine: 'yes', network: true}",
        "shell: {rules: [{pattern: git log, approval: perhaps}]}",
        "shell_default: {allowed: 'no', approval_required: false}",
        "tools: {a: {approvers: {escalate: {role: 5, after: 10m}, role: ops}}}",
    ],
)
def test_what_follows_from_a_mistake_of_shape_is_not_told_as_another_one(folder: Path, text: str) -> None:
    assert len(mistakes_of(folder, f"default: none\n{text}").mistakes) == 1


SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 200) | st.sampled_from(["", "none", "required", "git *", "a", "["])
)
KEYS = st.sampled_from(
    ["default", "tools", "tool_configs", "custom_tools", "pre_approved", "sandbox", "zones", "paths", "shell", "rules",
     "shell_default", "shell_rules", "pattern", "approval", "approvers", "count", "when", "args.x", "kind", "argument",
     "match", "root", "mode", "name", "trusted_dirs", "readable", "confine", "network", "remember", "max", "[", "*"]
)  # fmt: skip


@pytest.mark.proves("H5")
@settings(deadline=None, max_examples=400)
@given(
    data=st.dictionaries(
        KEYS,
        st.recursive(
            SCALARS,
            lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=4),
            max_leaves=12,
        ),
        max_size=6,
    )
)
def test_data_of_any_shape_is_a_whole_policy_or_a_list_of_mistakes(data: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            policy = Policy.from_dict(data, base="/")
        except PolicyError:
            return
    assert policy.default.approval == APPROVALS[data["default"]]


@pytest.mark.proves("H5")
def test_a_relative_root_needs_a_folder_that_it_is_relative_to(folder: Path) -> None:
    data: dict[str, Any] = {"default": "none", "sandbox": {"zones": {"scratch": {"root": "./scratch"}}}}
    with pytest.raises(PolicyError, match="which is relative to nothing; pass `base=` or use an absolute path"):
        Policy.from_dict(data)
    data["sandbox"]["zones"]["scratch"]["root"] = str(folder / "scratch")
    Policy.from_dict(data)


@pytest.mark.parametrize("data", [None, [], "default: none", 5, ()])
def test_what_is_no_mapping_is_no_policy(data: Any) -> None:
    with pytest.raises(PolicyError, match=r"the file is .*; use a mapping"):
        Policy.from_dict(data)


@pytest.mark.parametrize("key", [1, None, True, 2.5, ("a",)])
@pytest.mark.parametrize("section", [(), ("tools",), ("tools", "a"), ("sandbox", "zones"), ("shell",)])
def test_a_key_that_is_no_text_is_told(section: tuple[str, ...], key: object) -> None:
    data: dict[Any, Any] = {key: "none"}
    for name in reversed(section):
        data = {name: data}
    with pytest.raises(PolicyError, match=r"has the (unknown )?key"):
        Policy.from_dict({"default": "none"} | data)


@pytest.mark.parametrize(
    "data",
    [
        {"default": 10**5000},
        {"default": "none", "version": -(10**5000)},
        {"default": "none", 10**5000: 1},
        {"default": "none", "tools": {10**5000: "none"}},
        {"default": "none", "tools": {"a": {"expires": 10**5000}}},
        {"default": "none", "tools": {"a": {"expires": -(10**5000)}}},
        {"default": "none", "tools": {"a": {"expires": float("nan")}}},
        {"default": "none", "tools": {"a": {"expires": float("inf")}}},
        {"default": "none", "tools": {"a": {"when": {"args.x": {"in": 10**5000}}}}},
        {"default": "none", "tools": {"a": {"when": {"args.x": {"glob": 10**5000}}}}},
        {"default": "none", "remember": {"max": 10**400}},
        {"default": "none", "tools": {"a": {"approval": "x" * 100_000}}},
        {"default": "none", "sandbox": {"zones": {"a": {"root": "/\ud800"}}}},
    ],
    ids=range(13),
)
def test_values_that_python_itself_trips_over_are_mistakes_like_any_other(data: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.from_dict(data)
    assert len(str(caught.value)) < 400


# What people write by hand.


def test_a_rule_of_a_file_is_named_by_its_file_its_line_and_its_key(folder: Path) -> None:
    file = folder / "sayso.yaml"
    file.write_text("default: none\ntools:\n  a: required\nshell:\n  rules:\n    - {pattern: ls, approval: none}\n")
    assert [str(rule) for rule in load_policy(file).rules] == [
        f"{file}:3 tools.a",
        f"{file}:6 shell.rules[0]",
        f"{file}:1 default",
    ]


# The schema.

GOOD = (
    "default: none",
    "default: preApproved",
    "{version: 1, default: once_per_session, audit: strict, remember: false}",
    "{default: ask, remember: {max: 30d}, audit: queued}",
    "{default: deny, remember: {max: 3600}, tools: {a: none, 'b_*': {}, c: }}",
    "{default: none, tools: {a: {approval: required, expires: 10m, approvers: {count: 2, role: ops}}}}",
    "{default: none, tools: {a: {when: {args.x: 5, args.y: {gt: 1, in: [a, 1, true]}}, description: 'x {args.x}'}}}",
    "{default: none, tools: {a: {preApproved: true}, b: {blocked: true, blockReason: no}, c: {needsApproval: false}}}",
    "{default: none, tool_configs: {a: {approval: none, scope: tool, remember: true, reason: r}}}",
    "{default: none, custom_tools: [a, b]}",
    "{default: none, custom_tools: {a: {approval: required}, b: none, c: {}, d: }}",
    "{default: none, pre_approved: [a, b]}",
    "{default: none, sandbox: {zones: {scratch: {mode: ro, approval: none}, output: {approval: {delete: blocked}}}}}",
    "{default: none, sandbox: {zones: [{name: scratch, mode: rw, approval: {write: preApproved, delete: ask}}]}}",
    "{default: none, sandbox: {paths: {output: {root: ./output, write_approval: true, delete_approval: blocked}}}}",
    "{default: none, shell: {default: ask, rules: [{pattern: git status, approval: none, note: n, expires: 5m}]}}",
    "{default: none, shell: {trusted_dirs: [/usr/bin], inert_assignments: [TZ, 'LC_*']}}",
    "{default: none, shell_default: {allowed: false}, shell_rules: [{pattern: ls, allowed: true}]}",
    "{default: none, shell_default: blocked}",
    "{default: none, shell: {rules: [{pattern: ls, approval: none, match: [ls -l], operand_expansion: [glob]}]}}",
    "{default: none, shell: {}, tools: {run: {kind: shell, argument: cmd}}}",
    "{default: none, sandbox: {zones: {}}, tools: {a: {kind: path, operation: list, paths: real, argument: file}}}",
)


Fits = Callable[[object], bool]


@pytest.fixture(scope="module")
def fits() -> Fits:
    """Whether data fits the schema, which is one of draft 7 itself."""
    Draft7Validator.check_schema(policy_file_schema())
    validator: Any = Draft7Validator(policy_file_schema())
    return validator.is_valid


@pytest.mark.parametrize("text", GOOD)
def test_a_good_file_loads_and_fits_the_schema(folder: Path, fits: Fits, text: str) -> None:
    data = data_of(text)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        Policy.from_dict(data, base=folder)
    assert fits(data)


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.shape], ids=lambda bad: bad.text)
def test_a_file_of_the_wrong_shape_does_not_fit_the_schema(fits: Fits, bad: Bad) -> None:
    assert not fits(data_of(bad.text.replace("¶", "")))


@pytest.mark.parametrize("bad", [bad for bad in BAD if not bad.shape], ids=lambda bad: bad.text)
def test_a_mistake_of_meaning_is_no_matter_of_the_schema(fits: Fits, bad: Bad) -> None:
    assert fits(data_of(bad.text.replace("¶", "")))


def test_every_part_of_the_schema_says_what_it_is_for() -> None:
    def silent(part: Any, path: str) -> list[str]:
        found = [] if "description" in part or "anyOf" in part else [path]
        for name, each in part.get("properties", {}).items():
            found += silent(each, f"{path}.{name}")
        return found

    assert silent(policy_file_schema(), "") == []


# Whatever it is given.

WORDS = st.sampled_from((
    "default", "tools", "shell", "rules", "pattern", "approval", "none", "required", "blocked", "sandbox",
    "zones", "name", "root", "mode", "rw", "when", "args.x", "gt", "in", "kind", "path", "scope", "tool",
    "remember", "max", "approvers", "count", "git_*", "custom_tools", "pre_approved", "match", "/etc", ".", "./",
    "10m", "{args.x}", "shell_default", "allowed", "description", "operation", "argument",
))  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS | st.binary(max_size=3)
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | LEAVES, inner, max_size=4),
    max_leaves=30,
)
SECTIONS = {
    "tools": st.dictionaries(st.text(max_size=3), st.dictionaries(WORDS, ANY, max_size=3) | ANY, max_size=3),
    "shell": st.fixed_dictionaries({}, optional={"default": ANY, "rules": st.lists(ANY, max_size=3)}) | ANY,
    "sandbox": st.fixed_dictionaries({}, optional={"zones": ANY, "paths": ANY}) | ANY,
    "remember": ANY,
    "custom_tools": ANY,
    "pre_approved": ANY,
    "shell_rules": ANY,
    "shell_default": ANY,
}


@pytest.mark.proves("H5")
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(data=ANY | st.fixed_dictionaries({"default": WORDS | ANY}, optional=SECTIONS))
def test_whatever_data_it_is_given_it_becomes_a_policy_or_a_configuration_error(data: Any) -> None:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        try:
            policy = Policy.from_dict(data, base="/nowhere")
        except ConfigurationError:
            return
    assert isinstance(policy.judge(ToolCall(tool="shell", args={"command": "ls"})), Verdict)


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "text",
    [
        "default: !!python/object/apply:os.system ['touch {evil}']",
        "default: none\ntools: !!python/object/new:os.mkdir ['{evil}']",
        "default: &a none\ntools: {{x: *a}}",
        "<<: {{default: none}}",
        "default: !!binary bm9uZQ==",
    ],
)
def test_a_file_never_runs_code(folder: Path, text: str) -> None:
    evil, file = folder / "evil", folder / "sayso.yaml"
    file.write_text(text.format(evil=evil), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"sayso\.yaml:[12]:"):
        load_policy(file)
    assert not evil.exists()


# What may be right, but is probably not meant.


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "tools: {a: {approval: none, ¶expires: 5m}}",
            "tools.a is 'none', so nobody is asked and `expires` means nothing",
        ),
        (
            "tools: {a: {approval: none, ¶scope: tool}}",
            "tools.a is 'none', so nobody is asked and `scope` means nothing",
        ),
        (
            "tools: {a: {blocked: true, ¶remember: false}}",
            "is 'blocked', so nobody is asked and `remember` means nothing",
        ),
        (
            "tools: {'a*': {approval: deny, ¶expires: 5m}}",
            "is 'blocked', so nobody is asked and `expires` means nothing",
        ),
        ("tools: {¶'*': none}", "tools.* is about every tool, so `default: required` never decides; say 'none' there"),
        ("tools: {¶'**': {approval: deny}}", "is about every tool, so `default: required` never decides"),
        (
            "shell: {rules: [¶{pattern: ls, approval: none, expires: 5m}]}",
            "shell.rules[0] is 'none', so nobody is asked and `expires` means nothing",
        ),
        ("tools: {¶pay: none, 'p*': blocked}", "tools.pay is 'none' and never decides: tools.p* blocks it"),
        (
            "shell: {rules: [¶{pattern: git push, approval: none}, {pattern: git push, approval: blocked}]}",
            "shell.rules[0] (`git push`) is 'none' and never decides: shell.rules[1] (`git push`) is 'blocked'",
        ),
        (
            "shell: {rules: [{pattern: cargo, approval: required}, ¶{pattern: cargo test, approval: none}]}",
            "shell.rules[1] (`cargo test`) is 'none' and never decides: shell.rules[0] (`cargo`) is 'required'",
        ),
    ],
)
def test_a_part_that_means_nothing_is_warned_of_at_its_place(folder: Path, text: str, warning: str) -> None:
    text, [place] = marked(f"default: required\n{text}")
    file = folder / "sayso.yaml"
    file.write_text(text, encoding="utf-8")
    (found,) = load_policy(file).warnings
    assert found.startswith(f"{file}:{place[0]}:{place[1]}: ")
    assert warning in found


@pytest.mark.parametrize(
    "text",
    [
        "tools: {pay: none, 'q*': blocked}",
        "tools: {pay: blocked, 'p*': blocked}",
        "tools: {pay: none, 'p*': {approval: blocked, when: {args.amount: {gt: 5}}}}",
        "shell: {rules: [{pattern: rm, approval: none}, {pattern: rm -rf, approval: blocked}]}",
        "shell: {rules: [{pattern: ls, approval: blocked}, {pattern: lsof, approval: none}]}",
    ],
)
def test_a_rule_that_decides_somewhere_is_not_warned_of(text: str) -> None:
    assert Policy.from_dict(data_of(f"default: required\n{text}")).warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "tools: {a: {approval: required, expires: 5m, approvers: {count: 2}}}",
        "tools: {a: {approval: once_per_session, scope: tool}}",
        "tools: {a: {approval: none, remember: true}}",
        "tools: {a: {approval: none, expires: 5m, when: {args.x: 1}}}",  # asks where nobody can say
        "shell: {default: ask}\ntools: {shell: {approval: none, expires: 5m, approvers: {count: 2}}}",
        "tools: {write_file: {approval: none, approvers: {count: 2}}}",  # another file may have the zones
        "shell: {default: ask}\ntools: {Bash: {kind: shell, approval: none, approvers: {count: 2}}}",
        "shell: {default: ask}\ntools: {Bash: {kind: shell}, 'B*': {approval: none, approvers: {count: 2}}}",
        "tools: {'*': {expires: 5m}}",
        "tools: {'*': {approval: none, when: {args.x: 1}}}",
        "tools: {'*': {approval: ask, expires: 5m}}",
        "tools: {'a*': none}",
        "tools: {'file[write]': none, 'a[!b]': none, 'a[]b]': none, 'a[[]b': none}",
    ],
)
def test_what_has_a_meaning_is_not_warned_of(text: str) -> None:
    assert Policy.from_dict(data_of(f"default: required\n{text}")).warnings == ()


def test_a_glob_that_matches_nothing_is_refused_in_python_too() -> None:
    with pytest.raises(ConfigurationError, match="never closed, so it matches no tool"):
        Policy({"pay[": "blocked"})
    with pytest.raises(ConfigurationError, match=r"tools\.pay is 'none', so nobody is asked"):
        Policy({"pay": {"approval": "none", "approvers": {"count": 2}}})
