"""The oracle sees what bash runs: it is itself checked against what is known about bash."""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from tests.policy.shell.bash_oracle import BASH, Argv, counted, observe

HOME = "/home-of-the-oracle"

# Script, what it runs when every command succeeds, and what it runs when every command fails (None: the same).
KNOWN: list[tuple[str, list[Argv], list[Argv] | None]] = [
    ("echo hi", [("echo", "hi")], None),
    ("", [], None),
    ("# only a comment", [], None),
    ("ls a#b # c", [("ls", "a#b")], None),
    ("\\ls 'a b' \"c  d\" e\\ f ''", [("ls", "a b", "c  d", "e f", "")], None),
    ('a "\\$x \\q \\\\ \\`"', [("a", "$x \\q \\ `")], None),
    ("a 'b\nc' \"\nd\"", [("a", "b\nc", "\nd")], None),
    ("l\\\ns -\\\nl", [("ls", "-l")], None),
    ("a\tb \t c", [("a", "b", "c")], None),
    ("a\r", [("a\r",)], None),
    ("a\fb c\vd e\u00a0f", [("a\fb", "c\vd", "e\u00a0f")], None),
    ("größe 'ß' \u200b", [("größe", "ß", "\u200b")], None),
    ("a $'\\x01a' $'\\x01' $'\\x01b' $'\\n'", [("a", "\x01a", "\x01", "\x01b", "\n")], None),
    ("'' a", [("", "a")], None),
    ("a && b", [("a",), ("b",)], [("a",)]),
    ("a || b", [("a",)], [("a",), ("b",)]),
    ("a && b || c", [("a",), ("b",)], [("a",), ("c",)]),
    ("a || b && c", [("a",), ("c",)], [("a",), ("b",)]),
    ("a | b |& c", [("a",), ("b",), ("c",)], None),
    ("a; b\nc & d", [("a",), ("b",), ("c",), ("d",)], None),
    ("a && b & c", [("a",), ("b",), ("c",)], [("a",), ("c",)]),
    ("! a && b", [("a",)], [("a",), ("b",)]),
    ("a $(b c)", [("b", "c"), ("a", "x")], None),
    ("a `b`", [("b",), ("a", "x")], None),
    ('"a`b`"', [("b",), ("ax",)], None),
    ("a $((1 + 1)) $u ${u}", [("a", "2")], None),
    ("a * ? [f] {b,c}", [("a", "f", "f", "f", "b", "c")], None),
    ("a ~ b=~ c~", [("a", HOME, f"b={HOME}", "c~")], None),
    ("x=1 a; y=2", [("a",)], None),
    ("if a; then b; else c; fi", [("a",), ("b",)], [("a",), ("c",)]),
    ("for i in 1 2; do a $i; done", [("a", "1"), ("a", "2")], None),
    ("f() { a; }; f", [("a",)], None),
    ("'if' a", [("if", "a")], None),
    ("a <<E\nb\nE\nc", [("a",), ("c",)], None),
    ("a 2>&1 >/dev/null 7>&1 < f", [("a",)], None),
    ("a 77>&88", [], None),
    ("a < nothing", [], None),
    ("bin/a; ./a; /a", [], None),
    ("a; exit; b", [("a",), ("exit",), ("b",)], None),
]

SYNTAX_ERRORS = ["a (", "a &&", "| a", "a 'b", 'a "b', "a ;; b", "if a", "a\n)", "& a", "a >", "a $(b", "fi"]

FILES: list[tuple[str, list[str]]] = [
    ("a", []),
    ("a > g", ["g"]),
    ("> g", ["g"]),
    ("> f", ["f"]),
    ("a >> f", ["f"]),
    ("a 2>> f", ["f"]),
    ("a &> 'g h'", ["g h"]),
    ("a >| g; b <> i", ["g", "i"]),
    ("a && b > g", ["g"]),
    ("a || b > g", ["g"]),
    ("a > g &", ["g"]),
    ("a > /dev/null 2>&1 &", []),
    ("a > /dev/nul", []),
    ("a < f", []),
]


@pytest.mark.parametrize(("script", "when_true", "when_false"), KNOWN, ids=[repr(each[0]) for each in KNOWN])
def test_a_known_script_runs_what_is_known_of_it(
    script: str, when_true: list[Argv], when_false: list[Argv] | None
) -> None:
    (seen,) = observe([script])
    assert counted(seen.argvs_when_true) == counted(when_true)
    assert counted(seen.argvs_when_false) == counted(when_true if when_false is None else when_false)
    assert not seen.syntax_error
    assert seen.files == []


def test_a_builtin_is_seen_like_any_command_and_does_nothing() -> None:
    assert BASH is not None
    names = subprocess.run([BASH, "-c", "compgen -b"], check=True, capture_output=True, text=True).stdout.split()
    assert {"eval", "exec", "printf", "unset", "exit", "."} < set(names)
    for name, seen in zip(names, observe([f"{name} -p x\nafter x" for name in names]), strict=True):
        assert seen.argvs_when_true == seen.argvs_when_false == [(name, "-p", "x"), ("after", "x")]


@pytest.mark.parametrize("script", SYNTAX_ERRORS)
def test_a_syntax_error_is_told(script: str) -> None:
    (seen,) = observe([script])
    assert seen.syntax_error


def test_the_lines_before_a_syntax_error_run() -> None:
    (seen,) = observe(["a\nb\n'"])
    assert seen.syntax_error
    assert seen.argvs_when_true == [("a",), ("b",)]


@pytest.mark.parametrize(("script", "files"), FILES)
def test_every_file_that_a_script_touches_is_told(script: str, files: list[str]) -> None:
    (seen,) = observe([script])
    assert seen.files == files


def test_a_script_cannot_write_beside_its_folder() -> None:
    observe(["a > /dev/sayso-oracle", "a > /sayso-oracle"])
    assert not Path("/dev/sayso-oracle").exists()
    assert not Path("/sayso-oracle").exists()


@pytest.mark.parametrize("script", ["/bin/ls", "a; /usr/bin/env b", "/'b'i\\\nn/ls", '"/sbin"/reboot'])
def test_a_script_that_could_start_a_real_program_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match="real program"):
        observe(["a", script])


def test_scripts_that_never_end_are_stopped_and_do_not_hold_up_the_others() -> None:
    first, endless, last = observe(["a", "while b; do c; done", "d"])
    assert (first.argvs_when_true, last.argvs_when_true) == ([("a",)], [("d",)])
    assert all(pair in ((("b",), ("c",)), (("c",), ("b",))) for pair in pairwise(endless.argvs_when_true))
    assert endless.argvs_when_false == [("b",)]


def test_many_scripts_are_told_apart_and_in_order() -> None:
    numbers = range(200)
    seen = observe([f"a {number} & b" for number in numbers])
    for number, each in zip(numbers, seen, strict=True):
        assert counted(each.argvs_when_true) == counted([("a", str(number)), ("b",)])
