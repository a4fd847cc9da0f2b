"""Plan of the trials: which words are tried for which command."""

from __future__ import annotations

from tests.trials.plan import ATTACKS, options_in_help, plan

from sayso.policy.shell.proof.catalogue import profile_files, read_profile
from sayso.policy.shell.proof.profile import parse_profile

HEAD = 'programs = ["frob", "frobs"]\nsource = "a program of this test"\n'


def lines(text: str, program: str = "frob") -> list[str]:
    return [" ".join(each.argv) for trials in plan(parse_profile(HEAD + text), program) for each in trials]


def test_of_several_lines_each_command_has_its_own_and_the_others_none() -> None:
    text = "[commands.\"one,two,three\"]\ntrial = '''\nfrob one {option}\nfrob two {option} x\n'''\n"
    assert [each for each in lines(text) if "--" not in each] == ["frob one", "frob two x"]


def test_of_several_lines_each_program_has_its_own() -> None:
    text = "trial = '''\nfrob {option} a\nfrobs {option} b\n'''\n"
    assert lines(text)[0] == "frob a"
    assert lines(text, "frobs")[0] == "frobs b"


def test_a_value_is_tried_in_one_word_and_apart() -> None:
    text = "harmless = '-n,--number='\ntrial = 'frob {option}'\nvalues = { '-n' = 'number' }\n"
    trials = [each for trials in plan(parse_profile(HEAD + text), "frob") for each in trials if each.value]
    assert [(each.argv[1:], each.apart[1:]) for each in trials] == [
        (("-n1",), ("-n", "1")),
        (("--number=1",), ("--number", "1")),
    ]


def test_options_that_stand_everywhere_are_tried_with_one_command() -> None:
    text = (
        "everywhere = '-q'\n[commands.one]\ntrial = 'frob one {option}'\n[commands.two]\ntrial = 'frob two {option}'\n"
    )
    assert [each for each in lines(text) if "-q" in each] == ["frob one -q"]


def test_an_attack_is_tried_only_if_the_profile_calls_it_harmless() -> None:
    text = "harmless = '--any= --none='\ntrial = 'frob {option}'\nvalues = { '--any' = 'any', '--none' = 'none' }\n"
    found = lines(text)
    assert {f"frob --any={each}" for each in ATTACKS} <= set(found)
    assert not [each for each in found if "--none" in each]


def test_of_a_language_the_samples_are_tried_that_run_unasked() -> None:
    text = 'trial = "find . {option}"\nlanguage = "find"\n[samples]\n"-name" = "x"\n"-delete" = ""\n"-print" = ""\n'
    profile = parse_profile(f'programs = ["find"]\nsource = "x"\n{text}')
    found = [" ".join(each.apart or each.argv) for trials in plan(profile, "find") for each in trials]
    assert "find . -name x" in found
    assert "find . -print" in found
    assert "find . -delete" not in found


def test_every_line_of_a_profile_has_a_place_for_the_option() -> None:
    for file in set(profile_files().values()):
        data = [read_profile(file)]
        for each in data:
            data += each.commands.values()  # type: ignore[arg-type]
            lines = (each.trial or "").strip().splitlines()
            assert all("{option}" in line.split() for line in lines), file.name


def test_a_help_text_tells_of_options() -> None:
    text = "Usage: frob\n  -a, --all       all\n  -n, --lines=N   lines\n      --color[=WHEN]\n"
    found = {each.names: each.arity for each in options_in_help(text, frozenset())}
    assert found == {("-a", "--all"): "", ("-n", "--lines"): "=", ("--color",): "?"}
