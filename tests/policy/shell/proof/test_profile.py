"""Profiles of programs: every file is well formed, and lines that people write come out as they should."""

import importlib
import re
from importlib import resources
from pathlib import Path

import pytest

from sayso import Policy
from sayso.core.model import ToolCall
from sayso.policy.shell.proof.catalogue import find_command, profile_files, read_profile
from sayso.policy.shell.proof.languages import LANGUAGES
from sayso.policy.shell.proof.profile import CommandData, ProfileError, compile_command, parse_profile

FOLDER = Path(str(resources.files("sayso.policy.shell") / "profiles"))
FILES = sorted(FOLDER.glob("*/*.toml"))
LINES = [
    importlib.import_module(f"tests.policy.shell.proof.{file.stem}")
    for file in sorted(Path(__file__).parent.glob("lines_*.py"))
]


def commands(data: CommandData) -> list[CommandData]:
    return [data, *(each for sub in data.commands.values() for each in commands(sub))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_profile_is_well_formed_and_says_where_it_is_known_from(file: Path) -> None:
    data = parse_profile(file.read_text(encoding="utf-8"))
    assert len(data.source) > len("x(1)")
    assert set(data.programs) <= set(profile_files()), "the first line has to name the programs, in one line"
    compile_command(data)
    for each in commands(data):
        assert each.language is None or each.language in LANGUAGES
        assert all(why == why.strip() and not why.endswith(".") for why in each.asks.values())


def test_a_program_has_one_profile_only() -> None:
    named = [name for file in FILES for name in parse_profile(file.read_text(encoding="utf-8")).programs]
    assert sorted(named) == sorted(set(named))
    assert len(named) >= 150


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_option_is_both_harmless_and_one_that_asks(file: Path) -> None:
    for each in commands(parse_profile(file.read_text(encoding="utf-8"))):
        harmless = set(re.findall(r"-[^\s,=?#]+", f"{each.harmless} {each.everywhere}"))
        assert not harmless & {name for spec in each.asks for name in re.findall(r"-[^\s,=?#]+", spec)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('programs = ["x"]', "source"),
        ('programs = ["x"]\nsource = "man"\nharmles = "-x"', "harmles"),
        ("programs = [", "Unclosed|Invalid|Expected"),
    ],
)
def test_a_malformed_profile_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ProfileError, match=sentence):
        parse_profile(text)


@pytest.mark.parametrize(
    "wrong", [{"harmless": "x"}, {"harmless": "--x=="}, {"operands": "plan"}, {"operands": "/(/"}, {"asks": {"y": "z"}}]
)
def test_a_word_that_is_no_option_and_a_shape_that_is_none_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ProfileError):
        compile_command(CommandData(**wrong))  # pyright: ignore[reportArgumentType] - malformed on purpose


def test_a_program_is_found_by_its_name_with_a_version_or_a_folder() -> None:
    assert find_command("python3.11") is find_command("/usr/bin/python3.11")
    assert find_command("python3.11") is not None
    assert find_command("no-such-program") is None
    assert read_profile(profile_files()["sort"]).programs[0] == "sort"


def judged(rule: str, line: str) -> str:
    shell = {"default": "required", "rules": [{"pattern": rule, "approval": "none"}]}
    verdict = Policy.from_dict({"default": "required", "shell": shell}).judge(
        ToolCall(tool="shell", args={"command": line})
    )
    return "none" if verdict.approval == "none" else verdict.reason


@pytest.mark.proves("R49")
@pytest.mark.parametrize(("rule", "line"), [pair for each in LINES for pair in each.HARMLESS])
def test_an_everyday_line_of_an_allowed_program_runs(rule: str, line: str) -> None:
    assert judged(rule, line) == "none"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(("rule", "line"), [pair for each in LINES for pair in each.ASKS])
def test_a_line_that_does_more_than_its_rule_says_asks_and_names_the_cure(rule: str, line: str) -> None:
    reason = judged(rule, line)
    assert reason != "none"
    assert "would allow it" in reason
