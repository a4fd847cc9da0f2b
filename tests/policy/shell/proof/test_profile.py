"""Profiles of programs: every file is well formed, and lines that people write come out as they should."""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from types import ModuleType

import pytest

from sayso import Policy
from sayso.core.model import ToolCall
from sayso.errors import ConfigurationError
from sayso.policy.shell.proof.catalogue import compiled_profile, find_command, profile_files, read_profile
from sayso.policy.shell.proof.languages import LANGUAGES
from sayso.policy.shell.proof.profile import (
    CommandData,
    CommandProfile,
    ProfileData,
    ProfileError,
    compile_command,
    compile_obeys,
    parse_profile,
)

FOLDER = Path(str(resources.files("sayso.policy.shell") / "profiles"))
FOLDERS = sorted(FOLDER.iterdir())
FILES = sorted(FOLDER.glob("*/*.toml"))
LINES = [
    importlib.import_module(f"tests.policy.shell.proof.{file.stem}")
    for file in sorted(Path(__file__).parent.glob("lines_*.py"))
]


def commands(data: CommandData) -> list[CommandData]:
    return [data, *(each for sub in data.commands.values() for each in commands(sub))]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_profiles_are_well_formed_and_say_where_they_are_known_from(folder: Path) -> None:
    for file in folder.glob("*.toml"):
        check(file)


def check(file: Path) -> None:
    data = parse_profile(file.read_text(encoding="utf-8"))
    assert len(data.source) > len("x(1)")
    assert set(data.programs) <= set(profile_files()), "the first line has to name the programs, in one line"
    compile_command(data)
    for each in commands(data):
        assert each.language is None or each.language in LANGUAGES
        assert all(why == why.strip() and not why.endswith(".") for why in each.asks.values())


def subcommands(data: CommandData) -> set[str]:
    return {name.strip() for names in data.commands for name in names.split(",")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_commands_that_obey_a_file_are_described(folder: Path) -> None:
    for file in folder.glob("*.toml"):
        data = parse_profile(file.read_text(encoding="utf-8"))
        for obeyed, _, path in compile_obeys(data):
            assert not obeyed.startswith(("/", ".."))
            assert not data.commands or not path or path[0] in subcommands(data) or path[0].startswith("-"), (
                file,
                path,
            )


def test_a_file_that_no_command_obeys_is_a_mistake() -> None:
    with pytest.raises(ProfileError, match="Makefile"):
        list(compile_obeys(ProfileData(programs=["x"], source="x(1)", obeys={"Makefile": "build,"})))


def test_a_program_has_one_profile_only() -> None:
    named = [name for file in FILES for name in parse_profile(file.read_text(encoding="utf-8")).programs]
    assert sorted(named) == sorted(set(named))
    assert len(named) >= 150


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_option_is_both_harmless_and_one_that_asks(folder: Path) -> None:
    for file in folder.glob("*.toml"):
        for each in commands(parse_profile(file.read_text(encoding="utf-8"))):
            harmless = set(re.findall(r"-[^\s,=?#]+", f"{each.harmless} {each.everywhere}"))
            assert not harmless & {name for spec in each.asks for name in re.findall(r"-[^\s,=?#]+", spec)}, file


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
    assert find_command("node_modules/.bin/eslint") is find_command("eslint")
    assert find_command("./gradlew") is find_command("gradle")
    assert find_command("./sort") is find_command("no-such-program") is None
    assert read_profile(profile_files()["sort"]).programs[0] == "sort"


def reasons(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each line behind its rule, and the reason why it asks, if it does."""
    for rule, line in pairs:
        shell = {"default": "required", "rules": [{"pattern": rule, "approval": "none"}]}
        verdict = Policy.from_dict({"default": "required", "shell": shell}).judge(
            ToolCall(tool="shell", args={"command": line})
        )
        yield line, "" if verdict.approval == "none" else verdict.reason


@pytest.mark.proves("R49")
@pytest.mark.parametrize("family", LINES, ids=lambda each: each.__name__.rpartition("_")[2])
def test_everyday_lines_of_allowed_programs_run(family: ModuleType) -> None:
    assert not {line: reason for line, reason in reasons(family.HARMLESS) if reason}


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize("family", LINES, ids=lambda each: each.__name__.rpartition("_")[2])
def test_lines_that_do_more_than_their_rule_says_ask_and_name_the_cure(family: ModuleType) -> None:
    assert not {line: reason for line, reason in reasons(family.ASKS) if "would allow it" not in reason}


LONG = ("a", "/", "a/", "a:", "x.", "http://a", "a@", "1,", "max(", "u=r,", " ", "-", "=(", "0", "u+", "%0")


@pytest.mark.proves("H13")
def test_no_pattern_of_a_profile_hangs_at_a_long_word() -> None:
    patterns = {each for file in FILES for each in patterns_of(compile_command(parse_profile(file.read_text())))}
    words = [f"{(before + unit * 800)[:800]}\n" for before in ("", "./", "select ", "http://") for unit in LONG]
    assert len(patterns) > 300
    for pattern in patterns:
        for word in words:
            pattern.fullmatch(word)  # it ends: one that tries every way to split the word would not


def patterns_of(command: CommandProfile) -> Iterator[re.Pattern[str]]:
    shapes = [command.operands, *(option.values for option in command.options.values())]
    yield from (each for each in shapes if each is not None)
    yield from (each for sub in command.commands.values() for each in patterns_of(sub))


@pytest.mark.parametrize("text", ["harmless = 3", 'programs = ["x"]\nsource = "y"\noperands = "odd"', "\udcff"])
def test_a_malformed_file_is_named_in_the_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "frob.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigurationError, match=r"the profile frob\.toml is malformed: "):
        compiled_profile(file)


FIRST_IN_THREADS = """
import sys, threading
from sayso.policy.shell.proof.catalogue import find_command

sys.setswitchinterval(1e-6)
start = threading.Barrier(8)
found = []

def look(name):
    start.wait()
    found.append(find_command(name))

threads = [threading.Thread(target=look, args=(name,)) for name in "git npm pip uv cargo docker gh hg".split()]
for each in threads: each.start()
for each in threads: each.join()
print(len(found))
"""


def test_several_threads_may_be_the_first_to_read_profiles() -> None:
    for _ in range(5):  # without the lock, one process in six ended with a segmentation fault
        ended = subprocess.run([sys.executable, "-c", FIRST_IN_THREADS], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, "8\n")
